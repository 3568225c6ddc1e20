//! What the tests of several subjects use.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::http::Request;
use kube::Client;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;
use tokio::time::sleep;

use kit::builders::{Object, object, pod, sidecar_set};
use kit::{ApiServer, DEADLINE, wait_for};

use crate::product::{self, NAMESPACE, Product};

pub mod agent;
pub mod agents;
pub mod claims;
pub mod fleet;

/// Between two tries of a request that the program could not judge.
const PAUSE: Duration = Duration::from_millis(50);
/// How the program says that it could not read in the time of a review what it has to.
const UNREAD: [&str; 3] =
    ["try again", "no answer from the API server within", "the time of this review ended"];

/// Sends a request with a JSON body (none for null) and gives the HTTP code and the answer.
pub async fn call(client: &Client, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let answer = client.send(request.body(Body::from(bytes)).unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    let text = answer.into_body().collect_bytes().await.unwrap();
    // Paths that are not served yet are answered in plain text.
    let body = serde_json::from_slice(&text);
    (code, body.unwrap_or_else(|_| String::from_utf8_lossy(&text).into()))
}

/// What a client gets when a webhook refuses with this text: neither reason nor details
/// (docs/behaviour/deletion-protection.md#what-the-client-sees).
pub fn denied(webhook: &str, code: u16, text: &str) -> (u16, Value) {
    let message = format!("admission webhook \"{webhook}\" denied the request: {text}");
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": code,
    });
    (code, status)
}

/// The message of an answer that refuses.
pub fn message((code, answer): &(u16, Value)) -> &str {
    assert!(*code >= 400, "{answer:#}");
    answer["message"].as_str().unwrap()
}

/// The path under which objects like `manifest` are created.
pub fn collection(manifest: &Value) -> String {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let resource = kit::objects::kind(text("/apiVersion"), text("/kind"));
    let root = if resource.group.is_empty() { "/api" } else { "/apis" };
    let namespace = match text("/metadata/namespace") {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    format!("{root}/{}{namespace}/{}", resource.api_version, resource.plural)
}

/// Asks for a creation; `query` is for example `?dryRun=All`. Asks again where the program could not read in the time of
/// a review what it has yet to learn of, such as the new Namespace.
pub async fn create(client: &Client, manifest: impl Into<Value>, query: &str) -> (u16, Value) {
    let manifest = manifest.into();
    judged(client, "POST", &(collection(&manifest) + query), &manifest).await
}

/// Sends a body, and again while the program could not judge it in time.
async fn judged(client: &Client, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let begun = Instant::now();
    loop {
        let answer = call(client, method, path, body).await;
        let is_unread =
            [422, 500].contains(&answer.0) && UNREAD.iter().any(|words| message(&answer).contains(words));
        if !is_unread || begun.elapsed() > DEADLINE {
            return answer;
        }
        // Not `wait_for`: a future that holds it cannot be spawned.
        sleep(PAUSE).await;
    }
}

/// Waits until admission knows an object with which `rival` is in conflict: it would refuse that one.
pub async fn in_conflict(client: &Client, rival: impl Into<Value>) {
    let rival = rival.into();
    wait_for("admission to find the conflict", async || {
        match create(client, rival.clone(), "?dryRun=All").await {
            answer @ (400, _) if message(&answer).contains("in conflict") => Ok(()),
            answer => Err(answer),
        }
    })
    .await;
}

/// Waits until the API server refuses an object because of a quota, whose status it knows later than its spec.
pub async fn wait_quota(client: &Client, probe: impl Into<Value>) {
    let probe = probe.into();
    wait_for("the quota to be in force", async || match create(client, probe.clone(), "?dryRun=All").await {
        answer @ (403, _) if message(&answer).contains("exceeded quota") => Ok(()),
        answer => Err(answer),
    })
    .await;
}

/// An object on an API server.
pub struct Stored {
    client: Client,
    /// Its path.
    pub path: String,
    /// The object as it was created.
    pub object: Value,
}

impl Stored {
    /// Creates the object.
    pub async fn create(client: &Client, manifest: impl Into<Value>) -> Self {
        let manifest = manifest.into();
        let (code, object) = create(client, manifest.clone(), "").await;
        assert_eq!(code, 201, "{object:#}");
        let path = format!("{}/{}", collection(&manifest), object["metadata"]["name"].as_str().unwrap());
        Self { client: client.clone(), path, object }
    }

    /// An object that is there already.
    pub fn existing(client: &Client, path: String, object: Value) -> Self {
        Self { client: client.clone(), path, object }
    }

    /// The same object, touched by another user.
    pub fn seen_by(&self, client: &Client) -> Self {
        Self { client: client.clone(), path: self.path.clone(), object: self.object.clone() }
    }

    /// The same object in another version of its API.
    pub fn in_version(&self, version: &str) -> Self {
        let mut steps: Vec<&str> = self.path.split('/').collect();
        steps[3] = version;
        Self { client: self.client.clone(), path: steps.join("/"), object: self.object.clone() }
    }

    /// The object now.
    pub async fn get(&self) -> (u16, Value) {
        call(&self.client, "GET", &self.path, &Value::Null).await
    }

    /// Asks for its deletion.
    pub async fn delete(&self) -> (u16, Value) {
        self.delete_with(&Value::Null).await
    }

    /// Asks for its deletion with options.
    pub async fn delete_with(&self, options: &Value) -> (u16, Value) {
        call(&self.client, "DELETE", &self.path, options).await
    }

    /// Asks for its deletion without consequences.
    pub async fn delete_dry(&self) -> (u16, Value) {
        self.delete_with(&json!({"dryRun": ["All"]})).await
    }

    /// Asks for the eviction of a Pod, with options of the deletion. Asks again where the program could not
    /// read the Pod in time.
    pub async fn evict(&self, options: &Value) -> (u16, Value) {
        let name = self.path.rsplit('/').next().unwrap();
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": name}, "deleteOptions": options});
        judged(&self.client, "POST", &format!("{}/eviction", self.path), &eviction).await
    }

    /// Deletes it, which has to be allowed.
    pub async fn deleted(&self) {
        let (code, answer) = self.delete().await;
        assert!(code == 200 || code == 202, "{answer:#}");
    }

    /// Waits until it is gone.
    pub async fn gone(&self) {
        wait_for("the object to be gone", async || match self.get().await {
            (404, _) => Ok(()),
            (_, object) => Err(object),
        })
        .await;
    }

    /// Asks for a change by merge patch. Asks again where the program could not read in time what the change names.
    pub async fn try_patch(&self, patch: &Value) -> (u16, Value) {
        judged(&self.client, "PATCH", &self.path, patch).await
    }

    /// Asks for a change of a part of it, such as `resize`.
    pub async fn try_patch_part(&self, part: &str, patch: &Value) -> (u16, Value) {
        call(&self.client, "PATCH", &format!("{}/{part}", self.path), patch).await
    }

    /// Changes it by merge patch.
    pub async fn patch(&self, patch: &Value) -> Value {
        let (code, object) = self.try_patch(patch).await;
        assert_eq!(code, 200, "{object:#}");
        object
    }

    /// Changes its status by merge patch.
    pub async fn patch_status(&self, status: &Value) -> Value {
        let (code, object) = self.try_patch_part("status", &json!({"status": status})).await;
        assert_eq!(code, 200, "{object:#}");
        object
    }

    /// Sets or, with null, removes a label.
    pub async fn label(&self, key: &str, value: impl Into<Value>) {
        self.patch(&json!({"metadata": {"labels": {key: value.into()}}})).await;
    }
}

/// Where a webhook is called: the path of the Service, or the address.
fn address(client: &Value) -> Option<&str> {
    client.pointer("/service/path").or(client.get("url"))?.as_str()
}

/// The program on an API server, once its webhooks are really called.
pub async fn in_use(server: &ApiServer) {
    let client = server.client();
    wait_for("all webhooks to be called", async || {
        let (_, configuration) = call(
            &client,
            "GET",
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kruise-mutating-webhook-configuration",
            &Value::Null,
        )
        .await;
        let Some(called) = configuration.pointer("/webhooks/0/clientConfig").and_then(address) else {
            return Err(configuration);
        };
        // Who watches a kind loses its watch when the conversion changes.
        let (_, definitions) =
            call(&client, "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &Value::Null).await;
        let expected = format!("{}/convert", called.rsplit_once('/').unwrap().0);
        for definition in definitions["items"].as_array().unwrap() {
            let called = definition.pointer("/spec/conversion/webhook/clientConfig").and_then(address);
            if called.is_some_and(|called| called != expected) {
                return Err(definition["metadata"]["name"].clone());
            }
        }
        // It has no selector: the last word is that of the validation, the hashes come from the defaulting.
        let unselective = sidecar_set("in-use").container("main", "busybox:1.36").build();
        match create(&client, unselective, "?dryRun=All").await {
            (500, answer) if answer["message"].as_str().is_some_and(|text| text.contains("no selector defined")) => {}
            (_, answer) => return Err(answer),
        }
        let whole = sidecar_set("in-use").matching("in", "use").container("main", "busybox:1.36").build();
        match create(&client, whole, "?dryRun=All").await {
            (201, set) if !set["metadata"]["annotations"]["kruise.io/sidecarset-hash"].is_null() => Ok(()),
            (_, answer) => Err(answer),
        }
    })
    .await;
}

/// Waits until the program is asked about a delete of this labelled object, and allows it: the API server
/// learns of endpoints later than we do. For programs without the webhooks that [`in_use`] calls.
pub async fn reached(object: &Stored) {
    wait_for("the Service to lead to the program", async || match object.delete_dry().await {
        (200 | 202, _) => Ok(()),
        (_, answer) => Err(answer),
    })
    .await;
}

/// The shared API server with the program in use.
pub async fn shared() -> (&'static ApiServer, &'static Product) {
    static IN_USE: OnceCell<()> = OnceCell::const_new();
    let product = product::shared().await;
    let server = kit::shared().await;
    IN_USE.get_or_init(async || in_use(server).await).await;
    (server, product)
}

/// An API server with the program on it.
pub struct Site {
    /// The API server.
    pub server: ApiServer,
    /// The program.
    pub product: Product,
}

/// A site whose gates differ from those of the others: they widen what happens to Pods, end sidecars of jobs, let budgets
/// hold changes and no deletions, and leave protection of definitions half on.
pub async fn gated() -> &'static Site {
    static SITE: OnceCell<Site> = OnceCell::const_new();
    SITE.get_or_init(async || {
        let server = product::server(kit::Options::default()).await;
        let gates = "ResourcesDeletionProtection=true,KruisePodReadinessGate=true,EnableSortSidecarContainerByName=true,\
                     SidecarTerminator=true,PodUnavailableBudgetDeleteGate=false,PodUnavailableBudgetUpdateGate=true,\
                     InPlacePodVerticalScaling=true";
        let product = Product::serve(&server, product::Options::default().gates(gates)).await;
        in_use(&server).await;
        Site { server, product }
    })
    .await
}

/// A namespace on the shared API server, for the SidecarSets and Pods of one test.
pub struct Shop {
    /// A client of this test.
    pub client: Client,
    /// The namespace.
    pub namespace: String,
}

impl Shop {
    /// A new namespace.
    pub async fn open(prefix: &str) -> Self {
        Self::open_on(shared().await.0, prefix).await
    }

    /// A new namespace on another API server.
    pub async fn open_on(server: &ApiServer, prefix: &str) -> Self {
        Self { client: server.client(), namespace: server.namespace(prefix).await }
    }

    /// A cluster-wide name that is only used here.
    pub fn name(&self, name: &str) -> String {
        format!("{name}-{}", self.namespace)
    }

    /// A SidecarSet for the Pods labelled `app=web` of this namespace, with a name of its own.
    pub fn sidecar_set(&self, name: &str) -> Object {
        self.selecting(sidecar_set(&self.name(name)).matching("app", "web"))
    }

    /// Narrows a SidecarSet to this namespace.
    pub fn selecting(&self, set: Object) -> Object {
        set.with(
            "/spec/namespaceSelector/matchLabels",
            json!({"kubernetes.io/metadata.name": self.namespace}),
        )
    }

    /// A Pod of this namespace with the label `app=web` and the container `main`.
    pub fn pod(&self, name: &str) -> Object {
        self.bare_pod(name).container("main", "nginx:1.25")
    }

    /// A Pod of this namespace with the label `app=web` and no container yet.
    pub fn bare_pod(&self, name: &str) -> Object {
        pod(name).in_namespace(&self.namespace).label("app", "web")
    }

    /// Creates SidecarSets and waits until the program knows them.
    pub async fn stock(&self, sets: impl IntoIterator<Item = Object>) {
        for set in sets {
            Stored::create(&self.client, set).await;
        }
        self.settle().await;
    }

    /// Waits until the program has observed every SidecarSet written so far: one more is written, whose
    /// effect shows, and a watch keeps the order.
    pub async fn settle(&self) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let label = format!("{}-{}", self.namespace, NEXT.fetch_add(1, Ordering::Relaxed));
        let set = self.selecting(sidecar_set(&format!("sentinel-{label}")).matching("sentinel", &label));
        let set = Stored::create(&self.client, set.container("sentinel", "busybox:1.36")).await;
        let probe = pod("probe").in_namespace(&self.namespace).label("sentinel", &label);
        let probe = probe.container("main", "busybox:1.36").build();
        wait_for("the program to know the SidecarSets", async || {
            match create(&self.client, probe.clone(), "?dryRun=All").await {
                (201, pod) if names(&pod["spec"]["containers"]).contains(&"sentinel") => Ok(()),
                (_, answer) => Err(answer),
            }
        })
        .await;
        set.deleted().await;
    }

    /// Creates a Pod and gives it as stored.
    pub async fn admit(&self, pod: impl Into<Value>) -> Value {
        Stored::create(&self.client, pod).await.object
    }

    /// The code and the message with which a Pod is refused.
    pub async fn refuse(&self, pod: impl Into<Value>) -> (u16, String) {
        let answer = create(&self.client, pod, "").await;
        (answer.0, message(&answer).to_owned())
    }
}

/// A policy of the cluster's administrators, by which one Pod keeps its images.
pub struct KeptImages {
    pod: Stored,
    binding: Stored,
}

impl KeptImages {
    /// The policy in force over a Pod.
    pub async fn of(shop: &Shop, pod: &str) -> Self {
        let (client, name) = (&shop.client, shop.name("images"));
        let same = "object.spec.containers.all(one, oldObject.spec.containers.exists(old, old.name == one.name \
                    && old.image == one.image))";
        let policy = object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", &name).with(
            "/spec",
            json!({
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"],
                }]},
                "validations": [{
                    "expression": format!("object.metadata.name != '{pod}' || {same}"),
                    "message": format!("{pod} keeps its images"),
                }],
            }),
        );
        Stored::create(client, policy).await;
        let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": shop.namespace}});
        let binding = object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", &name)
            .with(
                "/spec",
                json!({
                    "policyName": name, "validationActions": ["Deny"],
                    "matchResources": {"namespaceSelector": selector},
                }),
            );
        let path = format!("/api/v1/namespaces/{}/pods/{pod}", shop.namespace);
        let pod = Stored::existing(client, path, Value::Null);
        let policy = Self { pod, binding: Stored::create(client, binding).await };
        wait_for("the policy to be in force", async || if policy.holds().await { Ok(()) } else { Err(()) })
            .await;
        policy
    }

    async fn holds(&self) -> bool {
        let mut containers = self.pod.get().await.1["spec"]["containers"].clone();
        containers[0]["image"] = json!("image:tried");
        let trial = json!({"spec": {"containers": containers}});
        call(&self.pod.client, "PATCH", &format!("{}?dryRun=All", self.pod.path), &trial).await.0 == 422
    }

    /// The policy is not in force any more.
    pub async fn lift(self) {
        self.binding.deleted().await;
        wait_for("the policy to be gone", async || if self.holds().await { Err(()) } else { Ok(()) }).await;
    }
}

/// The names in a list of containers, volumes and the like.
pub fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|item| item["name"].as_str()).collect()
}

/// The item of a list with this name.
pub fn named<'v>(list: &'v Value, name: &str) -> &'v Value {
    let found = list.as_array().into_iter().flatten().find(|item| item["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {list:#}"))
}

/// The annotation of an object as text.
pub fn annotation<'v>(object: &'v Value, key: &str) -> &'v str {
    object["metadata"]["annotations"][key].as_str().unwrap_or_else(|| panic!("no {key} in {object:#}"))
}

/// Asserts that `actual` is `expected` but for fields that Kubernetes fills in: lists have the same
/// items, objects at least the same fields.
#[track_caller]
pub fn assert_holds(actual: &Value, expected: &Value) {
    fn difference(actual: &Value, expected: &Value, path: &str) -> Option<String> {
        match (actual, expected) {
            (Value::Object(actual), Value::Object(expected)) => {
                expected.iter().find_map(|(key, expected)| {
                    difference(actual.get(key).unwrap_or(&Value::Null), expected, &format!("{path}/{key}"))
                })
            }
            (Value::Array(actual), Value::Array(expected)) if actual.len() == expected.len() => {
                let pairs = actual.iter().zip(expected).enumerate();
                pairs
                    .map(|(index, (actual, expected))| {
                        difference(actual, expected, &format!("{path}/{index}"))
                    })
                    .find_map(|found| found)
            }
            _ => (actual != expected).then(|| format!("{path}: {actual:#} is not {expected:#}")),
        }
    }
    if let Some(difference) = difference(actual, expected, "") {
        panic!("{difference}");
    }
}

/// Replaces the times in the records of an annotation, which must be there, so that the text can be compared.
pub fn timeless(text: &str) -> String {
    let mut records: Map<String, Value> = serde_json::from_str(text).unwrap();
    for record in records.values_mut() {
        if let Some(time) = record["updateTimestamp"].as_str() {
            assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
            record["updateTimestamp"] = json!("TIME");
        }
    }
    Value::Object(records).to_string()
}

/// A client that speaks to a webhook server itself; `authority` is the PEM text of its CA in base64.
pub async fn direct(port: u16, authority: &str) -> Client {
    direct_as(port, authority, &format!("kruise-webhook-service.{NAMESPACE}.svc")).await
}

/// [`direct`], where the certificate has to be for `name`.
pub async fn direct_as(port: u16, authority: &str, name: &str) -> Client {
    direct_with(port, authority, name, &json!({})).await
}

/// [`direct_as`], by a client with this proof.
pub async fn direct_with(port: u16, authority: &str, name: &str, user: &Value) -> Client {
    direct_at(&format!("127.0.0.1:{port}"), authority, name, user).await
}

/// [`direct_with`], at an address that may have a path.
async fn direct_at(address: &str, authority: &str, name: &str, user: &Value) -> Client {
    kit::install_crypto_provider();
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "current-context": "webhook",
        "clusters": [{"name": "webhook", "cluster": {
            "server": format!("https://{address}"), "certificate-authority-data": authority,
            "tls-server-name": name,
        }}],
        "users": [{"name": "nobody", "user": user}],
        "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": "nobody"}}],
    }))
    .unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// The CA that the program keeps in its Secret: its PEM text in base64.
pub async fn authority(server: &ApiServer) -> String {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/kruise-webhook-certs");
    let (_, secret) = call(&server.client(), "GET", &path, &Value::Null).await;
    secret["data"]["ca-cert.pem"].as_str().unwrap().to_owned()
}

/// [`direct`], as the API server: with the CA of the program, and the segment that precedes every path.
pub async fn direct_of(server: &ApiServer, port: u16) -> Client {
    direct_of_with(server, port, &json!({})).await
}

/// [`direct_of`], by a client with this proof.
pub async fn direct_of_with(server: &ApiServer, port: u16, user: &Value) -> Client {
    let authority = authority(server).await;
    let segment =
        kit::objects::secret_text(&server.client(), NAMESPACE, "kruise-webhook-certs", "path-segments").await;
    let address = format!("127.0.0.1:{port}/{}", segment.split(' ').next().unwrap());
    direct_at(&address, &authority, &format!("kruise-webhook-service.{NAMESPACE}.svc"), user).await
}

/// An AdmissionReview about a Pod of `namespace`.
pub fn pod_review(namespace: &str, operation: &str, subresource: &str, object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "subResource": subresource, "namespace": namespace, "operation": operation,
            "userInfo": {"username": "tester"}, "object": object, "dryRun": false,
        },
    })
}

/// Sends a review about a Pod to the program and gives the `response` part of the answer.
pub async fn review(program: &Client, review: &Value) -> Value {
    let (code, mut answer) = call(program, "POST", "/mutate-pod", review).await;
    assert_eq!(code, 200, "{answer:#}");
    assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
    answer["response"].take()
}

/// The object of a review with the patch of its response.
pub fn patched(object: &Value, response: &Value) -> Value {
    use base64::Engine;
    assert_eq!(response["allowed"], true, "{response:#}");
    assert_eq!(response["patchType"], "JSONPatch");
    let text = base64::engine::general_purpose::STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&text).unwrap();
    let mut patched = object.clone();
    json_patch::patch(&mut patched, &patch).unwrap();
    patched
}
