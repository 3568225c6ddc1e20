//! What the agent of a node may do, on a real API server with the roles and policies of the chart
//! (docs/behaviour/node-agent.md#rights).

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kit::builders::{object, pod};
use kit::fake_nodes::reported;
use kit::fake_runtime::{FakeRuntime, Pull};
use kit::{ApiServer, Shared, wait_for};
use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::product::{self, NAMESPACE, Options, Product};
use crate::support::{Site, Stored, call, direct_with, in_use, message};

const CONFIG: &str = "kruise-daemon-config";
const SECRETS: &str = "/api/v1/namespaces/kruise-daemon-config/secrets";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const META: &str = "apps.kruise.io/runtime-containers-meta";

/// The API server with what the chart installs, and the program, which is called by its address.
async fn site() -> Arc<Site> {
    static SITE: Shared<Site> = Shared::new();
    SITE.get(async || {
        let server = ApiServer::start(kit::Options::default()).await;
        let manifests = product::run(&["manifests", "--crds"]).await.success();
        server.apply_yaml(&manifests).await;
        let options = Options::default().environment("WEBHOOK_HOST", "127.0.0.1").argument("--webhooks-only");
        let mut product = Product::start(&server, options).await;
        product.wait_ready().await;
        in_use(&server).await;
        Site { server, product }
    })
    .await
}

/// A node with an agent, a Pod of an application, and the objects that are about them.
struct Node {
    name: String,
    client: Client,
    /// What its agent does at the API server.
    agent: Client,
}

impl Node {
    async fn add(name: &str) -> Self {
        let server = &site().await.server;
        let client = server.client();
        Stored::create(&client, object("v1", "Node", name)).await;
        for (pod_name, namespace) in
            [(format!("agent-{name}"), NAMESPACE), (format!("web-{name}"), "default")]
        {
            let pod = pod(&pod_name).in_namespace(namespace).on_node(name).container("main", "nginx:1.25");
            let pod = Stored::create(&client, pod.with("/spec/serviceAccountName", "kruise-daemon")).await;
            let statuses = &reported(&pod.object)["containerStatuses"];
            pod.patch_status(&json!({"phase": "Running", "containerStatuses": statuses})).await;
        }
        Stored::create(&client, object("apps.kruise.io/v1beta1", "NodeImage", name).with("/spec", json!({})))
            .await;
        let probes = object("apps.kruise.io/v1alpha1", "NodePodProbe", name).with("/spec", json!({}));
        Stored::create(&client, probes).await;
        let restart =
            object("apps.kruise.io/v1beta1", "ContainerRecreateRequest", &format!("restart-{name}"));
        let spec = json!({"podName": format!("web-{name}"), "containers": [{"name": "main"}]});
        Stored::create(&client, restart.in_namespace("default").with("/spec", spec)).await;
        let agent = as_holder(server, &token(name, None).await);
        Self { name: name.to_owned(), client, agent }
    }

    /// What an agent writes of this node: path and patch.
    fn writes(&self) -> [(String, Value); 5] {
        let name = &self.name;
        let pod = format!("/api/v1/namespaces/default/pods/web-{name}/status");
        [
            (
                format!("/apis/apps.kruise.io/v1beta1/nodeimages/{name}/status"),
                json!({"status": {"desired": 1}}),
            ),
            (
                format!("/apis/apps.kruise.io/v1alpha1/nodeimages/{name}/status"),
                json!({"status": {"desired": 2}}),
            ),
            (
                format!("/apis/apps.kruise.io/v1alpha1/nodepodprobes/{name}/status"),
                json!({"status": {"podProbeStatuses": []}}),
            ),
            (
                format!(
                    "/apis/apps.kruise.io/v1beta1/namespaces/default/containerrecreaterequests/restart-{name}/status"
                ),
                json!({"status": {"phase": "Recreating"}}),
            ),
            (pod, json!({"metadata": {"annotations": {META: name}}})),
        ]
    }

    /// An Event as the agent of this node writes it, about an object of that kind and name.
    fn event(&self, name: &str, kind: &str, about: &str) -> Value {
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
            "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Pull", "reason": "PullImageSucceed",
            "type": "Normal", "note": "n", "reportingController": "kruise-daemon-imagepuller",
            "reportingInstance": self.name, "regarding": {"apiVersion": "v1", "kind": kind, "name": about},
        })
    }

    /// Lets the NodeImage name this Secret.
    async fn names_secret(&self, namespace: &str, name: &str) {
        let tag = json!({"tag": "1", "pullPolicy": {"ttlSecondsAfterFinished": 300}});
        let secrets = json!([{"namespace": namespace, "name": name}]);
        let images = json!({"registry.example.com/a": {"pullSecrets": secrets, "tags": [tag]}});
        let path = format!("/apis/apps.kruise.io/v1beta1/nodeimages/{}", self.name);
        let (code, answer) = call(&self.client, "PATCH", &path, &json!({"spec": {"images": images}})).await;
        assert_eq!(code, 200, "{answer:#}");
    }
}

/// A token as the agent of a node has it; without a node one that is bound to no Pod.
async fn token(node: &str, audience: Option<&str>) -> String {
    let mut words = vec!["create".to_owned(), "token".to_owned(), "kruise-daemon".to_owned()];
    words.push(format!("--namespace={NAMESPACE}"));
    if !node.is_empty() {
        words.push("--bound-object-kind=Pod".to_owned());
        words.push(format!("--bound-object-name=agent-{node}"));
    }
    words.extend(audience.map(|audience| format!("--audience={audience}")));
    site().await.server.kubectl(words).await.success().trim().to_owned()
}

/// A client of the API server with a token.
fn as_holder(server: &ApiServer, token: &str) -> Client {
    let mut config = server.config();
    config.auth_info = serde_json::from_value(json!({"token": token})).unwrap();
    Client::try_from(config).unwrap()
}

/// A pull Secret in the namespace of copies.
async fn secret(name: &str, password: &str) {
    let auths = json!({"auths": {"registry.example.com": {"username": "u", "password": password}}});
    let secret = object("v1", "Secret", name).in_namespace(CONFIG);
    let secret = secret.with("/type", "kubernetes.io/dockerconfigjson");
    let secret = secret.with("/stringData", json!({".dockerconfigjson": auths.to_string()}));
    Stored::create(&site().await.server.client(), secret).await;
}

#[tokio::test]
async fn an_agent_changes_nothing_of_another_node() {
    let (own, other) = (Node::add("own").await, Node::add("other").await);
    let unbound = as_holder(&site().await.server, &token("", None).await);
    for (path, patch) in own.writes() {
        // The policies are in force a moment after they were made.
        wait_for("a token without a node to be refused", async || {
            match call(&unbound, "PATCH", &path, &patch).await {
                answer @ (403, _) if message(&answer).contains("ValidatingAdmissionPolicy") => Ok(()),
                answer => Err(answer),
            }
        })
        .await;
        let (code, answer) = call(&own.agent, "PATCH", &path, &patch).await;
        assert_eq!(code, 200, "{path}: {answer:#}");
        let refusal = call(&other.agent, "PATCH", &path, &patch).await;
        assert_eq!(refusal.0, 403, "{path}: {refusal:?}");
        assert!(message(&refusal).contains("belongs to another node"), "{path}: {refusal:?}");
    }
    let pod = "/api/v1/namespaces/default/pods/web-own/status";
    for patch in [
        json!({"metadata": {"annotations": {"example.com/a": "b"}}}),
        json!({"metadata": {"labels": {"example.com/a": "b"}}}),
        json!({"metadata": {"finalizers": ["example.com/a"]}}),
        json!({"status": {"phase": "Failed"}}),
        json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
    ] {
        let refusal = call(&own.agent, "PATCH", pod, &patch).await;
        assert_eq!(refusal.0, 403, "{patch}: {refusal:?}");
        assert!(message(&refusal).contains("nothing of a Pod but annotation"), "{patch}: {refusal:?}");
    }
    // The roles leave nothing else to be written.
    for (method, path) in [
        ("PATCH", "/apis/apps.kruise.io/v1beta1/nodeimages/own"),
        ("DELETE", "/apis/apps.kruise.io/v1beta1/nodeimages/own"),
        ("PATCH", "/api/v1/namespaces/default/pods/web-own"),
        ("DELETE", "/api/v1/namespaces/default/pods/web-own"),
        ("PATCH", "/api/v1/nodes/own/status"),
    ] {
        let refusal = call(&own.agent, method, path, &json!({})).await;
        assert_eq!(refusal.0, 403, "{method} {path}: {refusal:?}");
    }
}

#[tokio::test]
async fn an_agent_writes_events_in_its_own_name() {
    let (node, other) = (Node::add("speaking").await, Node::add("silent").await);
    let disguised = other.event("disguised", "NodeImage", "silent");
    // Roles and policies are in force a moment after they were made.
    wait_for("the policy of Events to be in force", async || {
        match call(&node.agent, "POST", &format!("{EVENTS}?dryRun=All"), &disguised).await {
            answer @ (403, _) if message(&answer).contains("ValidatingAdmissionPolicy") => Ok(()),
            answer => Err(answer),
        }
    })
    .await;
    let post = async |event: Value| call(&node.agent, "POST", EVENTS, &event).await;
    for (number, (kind, about)) in
        [("NodeImage", "speaking"), ("Pod", "web-speaking"), ("ImagePullJob", "job")].into_iter().enumerate()
    {
        let name = format!("speaking-{number}");
        let (code, answer) = post(node.event(&name, kind, about)).await;
        assert_eq!(code, 201, "{kind}: {answer:#}");
        let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}});
        let (code, answer) = call(&node.agent, "PATCH", &format!("{EVENTS}/{name}"), &series).await;
        assert_eq!(code, 200, "{kind}: {answer:#}");
        let refusal = call(&other.agent, "PATCH", &format!("{EVENTS}/{name}"), &series).await;
        assert_eq!(refusal.0, 403, "an Event of another agent: {refusal:?}");
    }
    let mut kubelet = node.event("kubelet", "Pod", "web-speaking");
    kubelet["reportingController"] = json!("kubelet");
    for event in [
        disguised,
        kubelet,
        node.event("elsewhere", "NodeImage", "silent"),
        node.event("elsewhere", "Node", "silent"),
        node.event("foreign", "Deployment", "web"),
    ] {
        let refusal = post(event.clone()).await;
        assert_eq!(refusal.0, 403, "{event}: {refusal:?}");
    }
}

#[tokio::test]
async fn an_agent_gets_the_secrets_that_its_node_image_names() {
    let (node, other) = (Node::add("pulling").await, Node::add("idle").await);
    for name in ["named", "unnamed"] {
        secret(name, "p").await;
    }
    node.names_secret(CONFIG, "named").await;
    // A Secret in another namespace is nobody's, whatever a NodeImage says.
    let elsewhere = object("v1", "Secret", "elsewhere").in_namespace("default");
    Stored::create(&node.client, elsewhere).await;
    other.names_secret("default", "elsewhere").await;

    let ours = token("pulling", Some("kutter")).await;
    let product = &site().await.product;
    let file = product.directory().join("certificates/ca-cert.pem");
    let (port, authority) = (product.port, STANDARD.encode(std::fs::read(file).unwrap()));
    let ask = async |token: &str, path: &str| {
        let user = if token.is_empty() { json!({}) } else { json!({"token": token}) };
        let client = direct_with(port, &authority, "127.0.0.1", &user).await;
        call(&client, "GET", path, &Value::Null).await
    };
    let named = format!("{SECRETS}/named");
    let (code, secret) = ask(&ours, &named).await;
    assert_eq!((code, &secret["type"]), (200, &json!("kubernetes.io/dockerconfigjson")), "{secret:#}");
    assert!(secret["data"][".dockerconfigjson"].is_string());
    for (token, path, code) in [
        (ours.clone(), format!("{SECRETS}/unnamed"), 403),
        (ours.clone(), format!("{SECRETS}/absent"), 403),
        (ours.clone(), format!("{SECRETS}/named/x"), 404),
        (ours.clone(), SECRETS.to_owned(), 404),
        (token("idle", Some("kutter")).await, named.clone(), 403),
        (token("idle", Some("kutter")).await, "/api/v1/namespaces/default/secrets/elsewhere".to_owned(), 404),
        // For the API server, for nobody's node, of nobody.
        (token("pulling", None).await, named.clone(), 401),
        (token("", Some("kutter")).await, named.clone(), 401),
        ("none".to_owned(), named.clone(), 401),
        (String::new(), named.clone(), 401),
    ] {
        let answer = ask(&token, &path).await;
        assert_eq!(answer.0, code, "{path}: {answer:?}");
    }
    // Nor does the API server take that token, or give Secrets for the usual one.
    let server = &site().await.server;
    assert_eq!(call(&as_holder(server, &ours), "GET", &named, &Value::Null).await.0, 401);
    for path in [named.as_str(), SECRETS, "/api/v1/secrets", "/api/v1/namespaces/default/secrets/elsewhere"] {
        assert_eq!(call(&node.agent, "GET", path, &Value::Null).await.0, 403, "{path}");
    }
}

/// `kutter node` with these tokens.
async fn start(node: &str, directory: &Path) -> tokio::process::Child {
    let server = &site().await.server;
    let mut kubeconfig: Value = serde_json::from_slice(&std::fs::read(server.kubeconfig()).unwrap()).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": token(node, None).await});
    std::fs::write(directory.join("kubeconfig"), kubeconfig.to_string()).unwrap();
    std::fs::write(directory.join("token"), token(node, Some("kutter")).await).unwrap();
    let file = |name: &str| directory.join(name).display().to_string();
    Command::new(product::program())
        .arg("node")
        .arg(format!("--kubeconfig={}", file("kubeconfig")))
        .arg(format!("--token-file={}", file("token")))
        .arg(format!("--socket-directory={}", directory.display()))
        .arg(format!("--addr=127.0.0.1:{}", kit::api_server::free_port()))
        .env("NODE_NAME", node)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn the_rights_of_an_agent_are_enough_for_it() {
    let node = Node::add("working").await;
    secret("working", "right").await;
    node.names_secret(CONFIG, "working").await;
    let directory = TempDir::new().unwrap();
    let runtime = FakeRuntime::start(directory.path(), |request| match request.auth.as_ref() {
        Some(auth) if auth.password == "right" => Pull::Comes,
        _ => Pull::Fails("401 Unauthorized".to_owned()),
    });
    let mut agent = start("working", directory.path()).await;
    let path = "/apis/apps.kruise.io/v1beta1/nodeimages/working";
    wait_for("the image", async || {
        let image = call(&node.client, "GET", path, &Value::Null).await.1;
        if image["status"]["succeeded"] == 1 { Ok(()) } else { Err(image["status"].clone()) }
    })
    .await;
    wait_for("the Event", async || {
        let list = call(&node.client, "GET", EVENTS, &Value::Null).await.1;
        let mut events = list["items"].as_array().unwrap().iter();
        let recorded =
            |event: &&Value| event["reason"] == "PullImageSucceed" && event["regarding"]["name"] == "working";
        events.find(recorded).map(drop).ok_or(list["items"].clone())
    })
    .await;
    assert_eq!(runtime.pulls().len(), 1);
    agent.kill().await.unwrap();
}
