//! Objects of an older release (docs/behaviour/server.md#readiness): readiness must not wait for itself.

use kit::builders::pod;
use kit::{ApiServer, wait_for};
use serde_json::{Value, json};

use super::conversion_of_a_clone_set;
use crate::conversion::samples;
use crate::product::{self, Options, Product};
use crate::registration::get;
use crate::service;
use crate::support::{Stored, direct_of, in_use, pod_review, review};

/// Objects stored as v1alpha1 are served after an upgrade and after all replicas were lost, and the
/// leader rewrites them.
#[tokio::test(flavor = "multi_thread")]
async fn objects_of_an_older_storage_version_never_block_the_start() {
    let server = ApiServer::start(kit::Options::default()).await;
    let namespace = older_release_with_objects(&server).await;
    product::install(&server).await;

    // The upgrade: without a leader, so that nothing is rewritten yet.
    let upgraded = started_alone(&server, Options::default().argument("--webhooks-only")).await;
    killed(upgraded).await;
    // The whole cluster starts again: registrations are in place, objects are as old as before, and
    // the API server remembers no conversion.
    server.restart().await;
    assert_eq!(stored_versions(&server, "sidecarsets").await, json!(["v1alpha1", "v1beta1"]));
    let restarted = started_alone(&server, Options::default()).await;
    rewritten(&server, "v1beta1", &restarted.0).await;
    in_use(&server).await;
    for sample in samples(&namespace, "v1alpha1") {
        let object = Stored::existing(&server.client(), sample.path(), Value::Null).in_version("v1beta1");
        let (code, answer) = object.get().await;
        assert_eq!(code, 200, "{answer:#}");
    }
    killed(restarted).await;
    way_back(&server, &namespace).await;
}

/// The definitions name v1alpha1 for storage: the leader rewrites the objects, and nothing of them is lost
/// (docs/installation.md#going-back).
async fn way_back(server: &ApiServer, namespace: &str) {
    let written: Vec<Stored> = samples(namespace, "v1alpha1")
        .iter()
        .filter(|sample| {
            ["CloneSet", "SidecarSet", "StatefulSet"].map(Value::from).contains(&sample.object["kind"])
        })
        .map(|sample| Stored::existing(&server.client(), sample.path(), Value::Null))
        .collect();
    let running = started(server, Options::default()).await;
    let before = specs(&written).await;
    killed(running).await;
    let definitions = product::run(&["crds", "--storage-version", "v1alpha1"]).await.success();
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    server.kubectl_with_input(apply, &definitions).await.success();
    let running = started(server, Options::default()).await;
    rewritten(server, "v1alpha1", &running.0).await;
    assert_eq!(specs(&written).await, before);
    killed(running).await;
    // OpenKruise's definition, which has no other version, is accepted now, and no conversion is needed.
    let only = r#"--patch=[{"op": "remove", "path": "/spec/versions/1"}]"#;
    server.kubectl(["patch", "crd", "clonesets.apps.kruise.io", "--type=json", only]).await.success();
    for object in &written {
        wait_for("the object to be served without a conversion", async || match object.get().await {
            (200, _) => Ok(()),
            answer => Err(answer),
        })
        .await;
    }
}

/// Waits until all objects are stored in `version`.
async fn rewritten(server: &ApiServer, version: &str, product: &Product) {
    for definition in two_versions() {
        wait_for("the objects to be rewritten", async || {
            let stored = stored_versions(server, definition.plural).await;
            if stored == json!([version]) { Ok(()) } else { Err((definition.kind, stored, product.log())) }
        })
        .await;
    }
}

/// What objects ask for, as v1beta1.
async fn specs(objects: &[Stored]) -> Vec<Value> {
    let mut specs = Vec::new();
    for object in objects {
        let (code, mut answer) = object.in_version("v1beta1").get().await;
        assert_eq!(code, 200, "{answer:#}");
        specs.push(answer["spec"].take());
    }
    specs
}

/// [`started`], where a cache can't be filled before the replica itself converts.
async fn started_alone(server: &ApiServer, options: Options) -> (Product, service::Endpoint) {
    let mut product = Product::start(server, options).await;
    // Readiness waits for ten seconds only: a later reader finds what the log says.
    wait_for("readiness to wait for conversion", async || match product.readiness().await {
        Ok((500, reason)) if reason.contains("waits for version conversion") => Ok(()),
        Ok((200, _)) if product.log().contains("AwaitingConversion") => Ok(()),
        answer => Err((answer, product.log())),
    })
    .await;
    what_needs_no_cache_is_answered(server, &product).await;
    let endpoint = service::join(server, &product).await;
    product.wait_ready().await;
    in_use(server).await;
    (product, endpoint)
}

/// Conversion continues, and only what needs the missing cache is refused (docs/behaviour/server.md#readiness).
async fn what_needs_no_cache_is_answered(server: &ApiServer, product: &Product) {
    let direct = direct_of(server, product.port).await;
    let converted = conversion_of_a_clone_set(&direct).await;
    assert_eq!(converted["result"]["status"], "Success", "{converted:#}");
    let asked = pod_review("default", "CREATE", "", &pod("web").container("main", "nginx:1.25").build());
    let answer = review(&direct, &asked).await;
    assert_eq!((&answer["allowed"], &answer["status"]["code"]), (&json!(false), &json!(503)), "{answer:#}");
}

/// A replica that is ready.
async fn started(server: &ApiServer, options: Options) -> (Product, service::Endpoint) {
    let mut product = Product::start(server, options).await;
    let endpoint = service::join(server, &product).await;
    product.wait_ready().await;
    in_use(server).await;
    (product, endpoint)
}

async fn killed((product, endpoint): (Product, service::Endpoint)) {
    product.kill().await;
    endpoint.leave().await;
}

fn two_versions() -> impl Iterator<Item = &'static api::crds::CustomResourceDefinition> {
    api::crds::ALL.iter().filter(|definition| definition.versions.len() == 2)
}

async fn stored_versions(server: &ApiServer, plural: &str) -> Value {
    let definition = two_versions().find(|definition| definition.plural == plural).unwrap();
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", definition.name());
    get(&server.client(), &path).await["status"]["storedVersions"].clone()
}

/// Definitions that store v1alpha1 and convert nothing, and an object of each.
async fn older_release_with_objects(server: &ApiServer) -> String {
    let older: Vec<String> = two_versions().map(|definition| older(definition.yaml)).collect();
    server.apply_yaml(&older.join("\n---\n")).await;
    let namespace = server.namespace("older").await;
    for sample in samples(&namespace, "v1alpha1") {
        sample.create(&server.client()).await;
    }
    namespace
}

fn older(yaml: &str) -> String {
    let mut lines = Vec::new();
    let mut in_conversion = false;
    for line in yaml.lines() {
        in_conversion = line == "  conversion:" || in_conversion && line.starts_with("   ");
        match line.trim() {
            _ if in_conversion => {}
            "storage: true" => lines.push(line.replace("true", "false")),
            "storage: false" => lines.push(line.replace("false", "true")),
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}
