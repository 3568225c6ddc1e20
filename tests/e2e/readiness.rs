//! Start, election and end of the program, and what it answers whom it serves
//! (docs/behaviour/api-and-registration.md).

use axum::http::Request;
use axum::{Router, routing};
use futures::future::join_all;
use kit::builders::{Object, pod, workload};
use kit::{ApiServer, wait_for};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use values::segment::split;

use crate::product::{self, Options, Product};
use crate::registration::{authority, get, paths};
use crate::service;
use crate::support::{Stored, call, create, direct, direct_of, in_use, pod_review, review, shared};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kruise-system/leases/kruise-manager";

/// Scenario 36.
#[tokio::test]
async fn an_unknown_gate_ends_the_program() {
    let refusal = product::run(&["serve", "--feature-gates=NoSuchGate=true"]).await.failure();
    assert!(refusal.contains("NoSuchGate"), "{refusal}");
}

/// Scenario 41.
#[tokio::test]
async fn an_old_api_server_ends_the_program() {
    let answer = json!({"major": "1", "minor": "28", "gitVersion": "v1.28.15", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
    let router = Router::new().route("/version", routing::get(async move || answer.to_string()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, router).await });
    let content = json!({"apiVersion": "v1", "kind": "Config", "current-context": "old",
        "clusters": [{"name": "old", "cluster": {"server": url}}], "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "old", "context": {"cluster": "old", "user": "nobody"}}]});
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(kubeconfig.path(), content.to_string()).unwrap();

    let server = ApiServer::existing(kubeconfig.path()).await;
    let mut product = Product::start(&server, Options::default()).await;
    assert!(!product.wait_exit().await.success());
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.path().display());
    let agent = product::run(&["node", &kubeconfig]).await.failure();
    for (output, needed) in [(product.log(), "1.29"), (agent, "1.30")] {
        let refusal = format!("error: Kubernetes v1.28.15 is too old: {needed} or newer is needed");
        assert!(output.contains(&refusal), "{output}");
    }
}

/// Scenarios 33, 34, 37 and 40, and the second half of 6.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_share_the_work_of_an_incomplete_cluster() {
    let server = product::server(kit::Options::default()).await;
    server.kubectl(["delete", "crd", "ephemeraljobs.apps.kruise.io"]).await.success();
    what_cannot_be_published_ends_the_program_in_time(&server).await;

    let gates = "AllAlpha=true,EnableExternalCerts=false,TemplateNoDefaults=false";
    let options = Options::default()
        .gates(gates)
        .argument("--leader-election-lease-duration=20s")
        .argument("--leader-election-renew-deadline=15s");
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let product = Product::start(&server, options.clone()).await;
        let endpoint = service::join(&server, &product).await;
        replicas.push((product, endpoint));
    }
    for (product, _) in &mut replicas {
        product.wait_ready().await;
    }
    in_use(&server).await;
    gates_of_a_stage_are_switched_together(&server).await;
    clone_sets_are_reconciled(&server).await;
    the_uninstall_guard_sees_workloads(&server).await;
    both_answer_and_the_lease_moves(&server, replicas).await;
}

/// Scenario 6: the time for the first publication is limited.
async fn what_cannot_be_published_ends_the_program_in_time(server: &ApiServer) {
    let options = Options::default()
        .argument("--webhook-initialize-timeout=20s")
        .environment("POD_NAMESPACE", "absent");
    let mut product = Product::start(server, options).await;
    wait_for("an answer", async || match product.readiness().await {
        Ok((500, _)) => Ok(()),
        answer => Err(answer),
    })
    .await;
    assert!(!product.wait_exit().await.success());
    assert!(product.log().contains("not initialized in time"), "{}", product.log());
}

/// Scenario 37, with [`clone_sets_are_reconciled`]: gates of stage alpha are on, those named are off.
async fn gates_of_a_stage_are_switched_together(server: &ApiServer) {
    let client = server.client();
    let namespace = server.namespace("gates").await;
    let pod = pod("web").in_namespace(&namespace).container("main", "nginx:1.25");
    let (code, pod) = create(&client, pod, "?dryRun=All").await;
    assert_eq!(code, 201, "{pod:#}");
    assert_eq!(pod["spec"]["readinessGates"], json!([{"conditionType": "KruisePodReady"}]));
    // EnableExternalCerts is off: the Secret was made.
    let secret = get(&client, &crate::registration::secret_path("kruise-webhook-certs")).await;
    assert!(secret["data"]["ca-key.pem"].is_string());
}

/// Scenario 33, and the rest of 37: the CloneSet's template got its defaults, its Pod has the short hash.
async fn clone_sets_are_reconciled(server: &ApiServer) {
    crate::cloneset::asks(server).await;
    let client = server.client();
    let namespace = server.namespace("reconciled").await;
    let set = clone_set(&namespace, "web").replicas(1);
    let set = Stored::create(&client, set).await;
    assert_eq!(set.object["spec"]["template"]["spec"]["dnsPolicy"], "ClusterFirst");
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let pod = wait_for("the CloneSet's Pod", async || {
        let list = get(&client, &path).await;
        let mut pods = list["items"].as_array().into_iter().flatten();
        let owned =
            |pod: &&Value| pod["metadata"]["ownerReferences"][0]["uid"] == set.object["metadata"]["uid"];
        pods.find(owned).cloned().ok_or_else(|| list.clone())
    })
    .await;
    let labels = &pod["metadata"]["labels"];
    let hash = labels["controller-revision-hash"].as_str().unwrap();
    assert!(!hash.is_empty() && !hash.contains('-'), "{labels}");
    assert_eq!(labels["pod-template-hash"], hash);
    wait_for("kubectl to show it", async || {
        let shown =
            server.kubectl(["get", "clonesets", "web", "--no-headers", "-n", &namespace]).await.success();
        let words: Vec<&str> = shown.split_whitespace().collect();
        if words[..3] == ["web", "1", "1"] { Ok(()) } else { Err(shown) }
    })
    .await;
    set.deleted().await;
}

fn clone_set(namespace: &str, name: &str) -> Object {
    sized("apps.kruise.io/v1beta1", "CloneSet", namespace, name)
}

fn sized(version: &str, kind: &str, namespace: &str, name: &str) -> Object {
    workload(version, kind, name)
        .in_namespace(namespace)
        .matching("app", name)
        .container("main", "nginx:1.25")
}

/// Scenario 40.
async fn the_uninstall_guard_sees_workloads(server: &ApiServer) {
    let (client, namespace) = (server.client(), server.namespace("guard").await);
    let kubeconfig = format!("--kubeconfig={}", server.kubeconfig().display());
    let allowed = async || product::run(&["finalizer", &kubeconfig]).await.success();
    let refused = async |words: &str| {
        let guard = product::run(&["finalizer", &kubeconfig]).await;
        assert_eq!(guard.status.code(), Some(1));
        let text = format!("there still exists some {words} in the cluster");
        assert!(guard.stderr.contains(&text), "{}", guard.stderr);
    };
    allowed().await;
    let mut sets = Vec::new();
    for name in ["one", "two"] {
        sets.push(Stored::create(&client, clone_set(&namespace, name)).await);
    }
    for set in sets {
        refused("clonesets").await;
        set.deleted().await;
        set.gone().await;
    }
    allowed().await;
    for (version, kind, words) in [
        ("v1alpha1", "DaemonSet", "advanced daemonsets"),
        ("v1alpha1", "StatefulSet", "advanced statefulsets"),
        ("v1beta1", "StatefulSet", "advanced statefulsets"),
    ] {
        let object = sized(&format!("apps.kruise.io/{version}"), kind, &namespace, "web");
        let object = if kind == "StatefulSet" { object.with("/spec/serviceName", "web") } else { object };
        let object = Stored::create(&client, object).await;
        refused(words).await;
        if version == "v1beta1" {
            serve_old_stateful_sets(server, false).await;
            refused(words).await;
            serve_old_stateful_sets(server, true).await;
        }
        object.deleted().await;
        object.gone().await;
        allowed().await;
    }
}

/// Whether there are Advanced StatefulSets in v1alpha1.
async fn serve_old_stateful_sets(server: &ApiServer, serve: bool) {
    const DEFINITION: &str =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/statefulsets.apps.kruise.io";
    let client = server.client();
    let definition = Stored::existing(&client, DEFINITION.to_owned(), Value::Null);
    wait_for("the definition to change", async || {
        let mut now = definition.get().await.1;
        for version in now["spec"]["versions"].as_array_mut().unwrap() {
            if version["name"] == "v1alpha1" {
                version["served"] = json!(serve);
            }
        }
        match call(&client, "PUT", DEFINITION, &now).await {
            (200, _) => Ok(()),
            (_, answer) => Err(answer),
        }
    })
    .await;
    wait_for("the API server to follow", async || {
        let code = call(&client, "GET", "/apis/apps.kruise.io/v1alpha1/statefulsets", &Value::Null).await.0;
        if (code == 200) == serve { Ok(()) } else { Err(code) }
    })
    .await;
}

/// Scenario 34.
async fn both_answer_and_the_lease_moves(server: &ApiServer, replicas: Vec<(Product, service::Endpoint)>) {
    let client = server.client();
    for (product, _) in &replicas {
        let direct = direct_of(server, product.port).await;
        let answer = review(&direct, &pod_review("default", "CREATE", "", &pod("a").build())).await;
        assert_eq!(answer["allowed"], true, "{answer:#}");
    }
    let holder = async || get(&client, LEASE).await["spec"]["holderIdentity"].clone();
    let (leader, first) = wait_for("one leader", async || {
        let held = holder().await;
        let mut leaders = Vec::new();
        for (index, (product, _)) in replicas.iter().enumerate() {
            if leads(product).await {
                leaders.push(index);
            }
        }
        match leaders[..] {
            [leader] if held == holder().await => Ok((leader, held)),
            _ => Err(leaders),
        }
    })
    .await;
    assert!(first.is_string());
    let (mut killed, mut other) = (None, None);
    for (index, replica) in replicas.into_iter().enumerate() {
        *if index == leader { &mut killed } else { &mut other } = Some(replica);
    }
    let (product, endpoint) = killed.unwrap();
    product.kill().await;
    endpoint.leave().await;
    let (product, _endpoint) = other.unwrap();
    wait_for("the Lease to move", async || {
        let holder = holder().await;
        if holder.is_string() && holder != first && leads(&product).await { Ok(()) } else { Err(holder) }
    })
    .await;
    // A leader that stops gives the Lease up.
    assert!(product.stop().await.success());
    let left = holder().await;
    assert!(left.as_str().unwrap_or_default().is_empty(), "{left}");
}

async fn leads(product: &Product) -> bool {
    product.metrics().await.lines().any(|line| line == "kruise_manager_is_leader 1")
}

/// Scenario 38: what the server answers to calls that do not come from an API server of today.
#[tokio::test(flavor = "multi_thread")]
async fn reviews_are_answered_in_their_version() {
    let (server, product) = shared().await;
    let direct = direct_of(server, product.port).await;
    for version in ["v1", "v1beta1"] {
        let mut asked = pod_review("default", "CREATE", "", &pod("a").build());
        asked["apiVersion"] = format!("admission.k8s.io/{version}").into();
        let (code, answer) = call(&direct, "POST", "/mutate-pod", &asked).await;
        assert_eq!((code, &answer["apiVersion"]), (200, &asked["apiVersion"]));
        assert_eq!(answer["response"]["uid"], asked["request"]["uid"]);
        assert_eq!(answer["response"]["allowed"], true, "{answer:#}");
    }
    let text = Request::post("/mutate-pod").header("content-type", "text/plain");
    let text = text.body(Body::from(b"{}".to_vec())).unwrap();
    let empty = Request::get("/mutate-pod").body(Body::empty()).unwrap();
    for (request, message) in
        [(empty, "request body is empty"), (text, "contentType=text/plain, expected application/json")]
    {
        let answer = direct.send(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        let body = answer.into_body().collect_bytes().await.unwrap();
        let review: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(review["response"]["status"]["code"], 400, "{review:#}");
        assert_eq!(review["response"]["status"]["message"], message);
        assert_eq!(review["response"]["uid"], "");
        assert!(review.get("apiVersion").is_none(), "{review:#}");
    }
    wait_for("the program to be alive", async || match product.liveness().await {
        Ok((200, body)) if body == "ok" => Ok(()),
        answer => Err(answer),
    })
    .await;
}

/// docs/behaviour/server.md#callers
#[tokio::test(flavor = "multi_thread")]
async fn nobody_but_the_api_server_is_answered() {
    let (server, product) = shared().await;
    let client = server.client();
    let called = wait_for("all to be called behind a segment", async || {
        let paths = paths(&client).await;
        if paths.iter().all(|path| split(path).0.is_some()) { Ok(paths) } else { Err(paths) }
    })
    .await;
    let stranger = direct(product.port, &authority(&client).await).await;
    let forged = pod_review("default", "CREATE", "", &pod("a").build());
    wait_for("plain paths to be forgotten", async || {
        let answers = called.iter().map(|path| call(&stranger, "POST", split(path).1, &forged));
        let answers = join_all(answers).await;
        if answers.iter().all(|answer| *answer == (404, json!(""))) { Ok(()) } else { Err(answers) }
    })
    .await;
    let (code, _) = call(&direct_of(server, product.port).await, "POST", "/mutate-pod", &forged).await;
    assert_eq!(code, 200);
    let (reported, _) = called[0].rsplit_once('/').unwrap();
    let segment = reported.trim_start_matches('/');
    for text in [product.log(), product.metrics().await, product.readiness().await.unwrap().1] {
        assert!(segment.len() == 32 && !text.contains(segment));
    }
}

/// docs/behaviour/server.md#metrics: the names that dashboards know.
#[tokio::test(flavor = "multi_thread")]
async fn dashboards_find_their_metrics() {
    let (server, product) = shared().await;
    let metrics = product.metrics().await;
    let host = server.config().cluster_url.authority().unwrap().to_string();
    for line in [
        format!("rest_client_requests_total{{code=\"200\",host=\"{host}\",method=\"GET\"}} "),
        "certwatcher_read_certificate_total ".to_owned(),
        "certwatcher_read_certificate_errors_total 0".to_owned(),
        "controller_runtime_webhook_requests_total{code=\"200\"".to_owned(),
        "leader_election_master_status{name=\"kruise-manager\"} ".to_owned(),
        "kutter_webhook_silent 0".to_owned(),
        "kutter_certificates_in_order 1".to_owned(),
        // Billions of seconds: a certificate that is served ends after the year 2033.
        "kutter_certificate_expiry_seconds 2".to_owned(),
        "process_resident_memory_bytes ".to_owned(),
    ] {
        assert!(metrics.lines().any(|found| found.starts_with(&line)), "{line} is not in\n{metrics}");
    }
}
