//! Registration of webhooks and conversion (docs/behaviour/api-and-registration.md#how-entries-are-kept): one
//! API server that replicas come to and leave.

mod enforcer;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use admission::rotation::Step;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{Material, carry_out};
use jiff::Timestamp;
use kit::builders::object;
use kit::{ApiServer, wait_for};
use kube::Client;
use serde_json::{Value, json};

use crate::product::{self, NAMESPACE, Options, Product};
use crate::service::{self, Endpoint, SERVICE};
use crate::support::{Stored, call, create, direct_as, in_use, names, reached};

/// Paths of both configurations.
pub const CONFIGURATIONS: [&str; 2] = [
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kruise-mutating-webhook-configuration",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kruise-validating-webhook-configuration",
];
/// The path of all definitions.
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The object at `path`; null where there is none.
pub async fn get(client: &Client, path: &str) -> Value {
    match call(client, "GET", path, &Value::Null).await {
        (200, object) => object,
        (404, _) => Value::Null,
        (_, answer) => panic!("{answer:#}"),
    }
}

/// Changes the object at `path` by merge patch.
pub async fn patch(client: &Client, path: &str, change: &Value) {
    let (code, answer) = call(client, "PATCH", path, change).await;
    assert_eq!(code, 200, "{answer:#}");
}

/// The path of the Secret with the certificates.
pub fn secret_path(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
}

/// The entries of both configurations.
pub async fn entries(client: &Client) -> Vec<Value> {
    let mut all = Vec::new();
    for path in CONFIGURATIONS {
        all.extend(get(client, path).await["webhooks"].as_array().cloned().unwrap_or_default());
    }
    all
}

/// The client configuration of each definition that converts by webhook.
pub async fn conversions(client: &Client) -> BTreeMap<String, Value> {
    let list = get(client, DEFINITIONS).await;
    let webhooks = list["items"].as_array().unwrap().iter().filter_map(|definition| {
        let conversion = &definition["spec"]["conversion"];
        let name = definition["metadata"]["name"].as_str()?.to_owned();
        (conversion["strategy"] == "Webhook").then(|| (name, conversion["webhook"]["clientConfig"].clone()))
    });
    webhooks.collect()
}

/// The paths by which everything is called.
pub async fn paths(client: &Client) -> Vec<String> {
    let entries = entries(client).await;
    let configs = entries.iter().map(|entry| entry["clientConfig"].clone());
    let configs = configs.chain(conversions(client).await.into_values());
    configs.map(|config| config["service"]["path"].as_str().unwrap().to_owned()).collect()
}

/// Every different bundle that is published, in base64.
pub async fn bundles(client: &Client) -> BTreeSet<String> {
    let entries = entries(client).await;
    let conversions = conversions(client).await;
    let configs = entries.iter().map(|entry| &entry["clientConfig"]).chain(conversions.values());
    configs.map(|config| config["caBundle"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The authority in the Secret, in base64.
pub async fn authority(client: &Client) -> String {
    get(client, &secret_path("kruise-webhook-certs")).await["data"]["ca-cert.pem"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Waits until what is published everywhere is what the Secret holds.
pub async fn published(client: &Client) -> String {
    wait_for("one bundle everywhere", async || {
        let (authority, bundles) = (authority(client).await, bundles(client).await);
        if bundles.len() == 1 && bundles.contains(&authority) { Ok(authority) } else { Err(bundles) }
    })
    .await
}

/// A new authority with a certificate for the Service.
pub fn foreign_material() -> Material {
    let (step, none) = (Step::Create { bundle: vec![] }, Material::default());
    let host = format!("{SERVICE}.{NAMESPACE}.svc");
    carry_out(&step, &none, &[], &host, Timestamp::now()).unwrap()
}

/// Waits until an Event with this reason was recorded.
pub async fn event(client: &Client, reason: &str) {
    wait_for("the Event", async || {
        let list = get(client, "/apis/events.k8s.io/v1/events").await;
        let reasons: Vec<Value> =
            list["items"].as_array().unwrap().iter().map(|event| event["reason"].clone()).collect();
        if reasons.iter().any(|seen| seen == reason) { Ok(()) } else { Err(reasons) }
    })
    .await;
}

/// The versions of everything that the program publishes to, and of its Secret.
async fn versions(client: &Client) -> Vec<Value> {
    let mut versions = Vec::new();
    for path in [&secret_path("kruise-webhook-certs"), CONFIGURATIONS[0], CONFIGURATIONS[1]] {
        versions.push(get(client, path).await["metadata"]["resourceVersion"].clone());
    }
    let list = get(client, DEFINITIONS).await;
    versions.extend(
        list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["resourceVersion"].clone()),
    );
    versions
}

/// One replica behind the Service.
pub struct Replica {
    /// The program.
    pub product: Product,
    endpoint: Endpoint,
}

impl Replica {
    async fn start(server: &ApiServer, options: Options) -> Self {
        let product = Product::start(server, options).await;
        let endpoint = service::join(server, &product).await;
        Self { product, endpoint }
    }

    /// A replica that is ready, and called.
    pub async fn ready(server: &ApiServer, options: Options) -> Self {
        let mut replica = Self::start(server, options).await;
        replica.product.wait_ready().await;
        replica.endpoint.ready().await;
        replica
    }

    /// Stops it in order.
    pub async fn stop(self) {
        assert!(self.product.stop().await.success());
        self.endpoint.leave().await;
    }
}

/// Scenarios 1, 2, 5 to 8, 10 and 11 of docs/behaviour/server.md;
/// docs/behaviour/api-and-registration.md#how-entries-are-kept.
#[tokio::test(flavor = "multi_thread")]
async fn registrations_follow_the_program_and_nobody_else() {
    let server = product::server(kit::Options::default()).await;
    let replicas = three_replicas_share_one_authority(&server).await;
    a_restart_changes_nothing(&server, replicas).await;

    let replica = Replica::ready(&server, Options::default()).await;
    edits_by_others_are_repaired(&server).await;
    a_deleted_configuration_is_recreated(&server).await;
    replica.stop().await;

    gates_take_entries_away_and_bring_them_back(&server).await;
    external_certificates_are_only_compared(&server).await;
    outside_the_cluster_urls_are_registered(&server).await;
}

/// Scenario 1, docs/behaviour/server.md#certificates.
async fn three_replicas_share_one_authority(server: &ApiServer) -> Vec<Replica> {
    let client = server.client();
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(Replica::start(server, Options::default()).await);
    }
    for replica in &mut replicas {
        replica.product.wait_ready().await;
    }
    in_use(server).await;
    let authority = published(&client).await;
    let pem = String::from_utf8(STANDARD.decode(&authority).unwrap()).unwrap();
    assert_eq!(pem.matches("BEGIN CERTIFICATE").count(), 1);
    let secret = get(&client, &secret_path("kruise-webhook-certs")).await;
    let keys: Vec<&String> = secret["data"].as_object().unwrap().keys().collect();
    let ours = ["ca-cert.pem", "ca-key.pem", "cert.pem", "key.pem", "path-segments", "tls.crt", "tls.key"];
    assert_eq!(keys, ours);
    let wanted = api::crds::ALL.iter().filter(|definition| definition.converts_by_webhook).count();
    assert_eq!(conversions(&client).await.len(), wanted);
    for replica in &replicas {
        let direct = direct_as(replica.product.port, &authority, &format!("{SERVICE}.{NAMESPACE}.svc")).await;
        direct.request_text(axum::http::Request::get("/healthz").body(Vec::new()).unwrap()).await.unwrap();
    }
    replicas
}

/// Scenario 2.
async fn a_restart_changes_nothing(server: &ApiServer, replicas: Vec<Replica>) {
    let client = server.client();
    let before = versions(&client).await;
    for replica in replicas {
        replica.stop().await;
    }
    let replica = Replica::ready(server, Options::default()).await;
    assert_eq!(versions(&client).await, before);
    replica.stop().await;
}

/// Scenario 10, docs/behaviour/api-and-registration.md#how-entries-are-kept: a placeholder, a foreign
/// authority, other settings.
async fn edits_by_others_are_repaired(server: &ApiServer) {
    let client = server.client();
    let authority = published(&client).await;
    let (entries_before, conversions_before) = (entries(&client).await, conversions(&client).await);
    let edits = json!({"webhooks": [
        {"name": "mpod.kb.io", "clientConfig": {"caBundle": "Cg=="}},
        {"name": "msidecarset.kb.io", "failurePolicy": "Ignore", "timeoutSeconds": 3, "rules": [
            {"apiGroups": ["x.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["x"]}]},
    ]});
    let edits = edits.to_string();
    let configuration = "mutatingwebhookconfiguration/kruise-mutating-webhook-configuration";
    server.kubectl(["patch", configuration, "--type=strategic", "-p", &edits]).await.success();
    wait_for("the repair of the entries", async || {
        let live = entries(&client).await;
        if live == entries_before { Ok(()) } else { Err(live) }
    })
    .await;
    event(&client, "BundleRepaired").await;

    // What applying a manifest with its placeholder again does.
    let placeholder = json!({"spec": {"conversion": {"webhook": {"clientConfig": {
        "caBundle": STANDARD.encode(foreign_material().authorities),
        "service": {"namespace": "system", "name": "webhook-service"}}}}}});
    patch(&client, &format!("{DEFINITIONS}/clonesets.apps.kruise.io"), &placeholder).await;
    wait_for("the repair of the definition", async || {
        let live = conversions(&client).await;
        if live == conversions_before { Ok(()) } else { Err(live) }
    })
    .await;
    assert_eq!(self::authority(&client).await, authority);
}

/// Scenario 6, as decided: it is made anew.
async fn a_deleted_configuration_is_recreated(server: &ApiServer) {
    let client = server.client();
    let before = entries(&client).await;
    for path in CONFIGURATIONS {
        let (code, answer) = call(&client, "DELETE", path, &Value::Null).await;
        assert_eq!(code, 200, "{answer:#}");
    }
    wait_for("both configurations", async || {
        let live = entries(&client).await;
        if live == before { Ok(()) } else { Err(live) }
    })
    .await;
    in_use(server).await;
}

/// Scenarios 7 and 8.
async fn gates_take_entries_away_and_bring_them_back(server: &ApiServer) {
    let client = server.client();
    let before = entries(&client).await;
    let gates = "PodWebhook=false,ResourcesDeletionProtection=false";
    let replica = Replica::ready(server, Options::default().gates(gates)).await;
    let live = wait_for("the entries to go", async || {
        let live = json!(entries(&client).await);
        if names(&live).contains(&"mpod.kb.io") { Err(live) } else { Ok(live) }
    })
    .await;
    let before = json!(before);
    let mut expected = names(&before);
    let pods = [
        "mpod.kb.io",
        "mpodexitpriority.kb.io",
        "vpod.kb.io",
        "vpodeviction.kb.io",
        "vpodexitpriority.kb.io",
        "vpodresize.kb.io",
    ];
    expected.retain(|name| !pods.contains(name) && !["vservice.kb.io", "vingress.kb.io"].contains(name));
    wait_for("only these entries to go", async || {
        let live = json!(entries(&client).await);
        if names(&live) == expected { Ok(()) } else { Err(live) }
    })
    .await;
    assert!(names(&live).contains(&"vnamespace.kb.io"));
    let template = get(&client, CONFIGURATIONS[0]).await["metadata"]["annotations"]["template"].clone();
    assert!(template.as_str().unwrap().contains("\"mpod.kb.io\""), "{template}");
    let namespace = object("v1", "Namespace", "unprotected");
    let namespace =
        Stored::create(&client, namespace.label("policy.kruise.io/delete-protection", "Always")).await;
    reached(&namespace).await;
    namespace.deleted().await;
    replica.stop().await;

    let replica = Replica::ready(server, Options::default()).await;
    wait_for("the same entries as before", async || {
        let live = json!(entries(&client).await);
        if live == before { Ok(()) } else { Err(live) }
    })
    .await;
    replica.stop().await;
}

/// Scenario 11 and the last requirement of docs/behaviour/server.md#external-certificates.
async fn external_certificates_are_only_compared(server: &ApiServer) {
    let client = server.client();
    let material = foreign_material();
    let data =
        json!({"ca.crt": material.authorities, "tls.crt": material.certificate, "tls.key": material.key});
    let secret = object("v1", "Secret", "external").in_namespace(NAMESPACE).with("/stringData", data);
    Stored::create(&client, secret).await;
    let before = versions(&client).await;
    let timeout = Duration::from_secs(2);
    let options = Options::default()
        .gates("ResourcesDeletionProtection=true,EnableExternalCerts=true")
        .argument("--webhook-initialize-timeout=2s")
        .environment("SECRET_NAME", "external");
    let started = Instant::now();
    let mut replica = Replica::start(server, options).await;
    wait_for("the reason", async || match replica.product.readiness().await {
        Ok((500, reason)) if reason.contains("does not match external caBundle") => Ok(()),
        answer => Err(answer),
    })
    .await;
    // It waits for the issuer instead of ending.
    tokio::time::sleep_until((started + timeout * 2).into()).await;
    assert_eq!(replica.product.readiness().await.unwrap().0, 500);
    assert_eq!(replica.product.liveness().await.unwrap().0, 200);
    assert_eq!(versions(&client).await, before, "nothing is written");

    let bundle = STANDARD.encode(&material.authorities);
    publish_as_an_issuer(&client, &bundle).await;
    replica.product.wait_ready().await;
    in_use(server).await;
    assert_eq!(bundles(&client).await, BTreeSet::from([bundle]));
    replica.stop().await;
}

/// Writes a bundle to all entries and definitions.
async fn publish_as_an_issuer(client: &Client, bundle: &str) {
    for path in CONFIGURATIONS {
        let mut webhooks = get(client, path).await["webhooks"].take();
        for entry in webhooks.as_array_mut().unwrap() {
            entry["clientConfig"]["caBundle"] = bundle.into();
        }
        patch(client, path, &json!({"webhooks": webhooks})).await;
    }
    for name in conversions(client).await.into_keys() {
        let stanza = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}});
        patch(client, &format!("{DEFINITIONS}/{name}"), &stanza).await;
    }
}

/// Scenario 5, with an address that is really called.
async fn outside_the_cluster_urls_are_registered(server: &ApiServer) {
    let client = server.client();
    let options = Options::default().environment("WEBHOOK_HOST", "127.0.0.1");
    let mut product = Product::start(server, options).await;
    product.wait_ready().await;
    in_use(server).await;
    let base = format!("https://127.0.0.1:{}/", product.port);
    for entry in entries(&client).await {
        let config = &entry["clientConfig"];
        assert!(config["url"].as_str().unwrap().starts_with(&base), "{entry:#}");
        assert!(config.get("service").is_none(), "{entry:#}");
    }
    for (name, config) in conversions(&client).await {
        let url = config["url"].as_str().unwrap();
        assert!(url.starts_with(&base) && url.ends_with("/convert"), "{name}");
        assert!(config.get("service").is_none(), "{name}");
    }
    let file = product.directory().join("certificates/ca-cert.pem");
    let own = STANDARD.encode(std::fs::read(file).unwrap());
    for name in ["127.0.0.1", "localhost"] {
        let direct = direct_as(product.port, &own, name).await;
        direct.request_text(axum::http::Request::get("/healthz").body(Vec::new()).unwrap()).await.unwrap();
    }
    // Conversion comes that way too.
    let namespace = server.namespace("outside").await;
    let set = kit::builders::workload("apps.kruise.io/v1alpha1", "CloneSet", "web").in_namespace(&namespace);
    let set = set.matching("app", "web").container("main", "nginx:1.25").build();
    wait_for("the API server to take the definition in", async || {
        match create(&client, set.clone(), "").await {
            (201, _) => Ok(()),
            (_, answer) => Err(answer),
        }
    })
    .await;
    assert!(product.stop().await.success());
}
