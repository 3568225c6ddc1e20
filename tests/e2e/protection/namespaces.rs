//! Namespaces (docs/behaviour/deletion-protection.md#cascading-for-namespaces).

use kit::builders::{Object, object, pod};
use kit::fake_nodes::{self, FakeNodes};
use kit::wait_for;
use serde_json::json;

use super::{ALWAYS, CASCADING, LABEL, denied, site};
use crate::support::Stored;

const WEBHOOK: &str = "vnamespace.kb.io";

fn name(namespace: &Stored) -> &str {
    namespace.object["metadata"]["name"].as_str().unwrap()
}

fn claim(namespace: &str, volume: &str) -> Object {
    object("v1", "PersistentVolumeClaim", "data").in_namespace(namespace).with(
        "/spec",
        json!({
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}},
            "storageClassName": "", "volumeName": volume,
        }),
    )
}

/// Scenario 1.
#[tokio::test]
async fn a_namespace_is_kept_until_the_label_is_off() {
    let namespace = site().await.labelled_namespace("Always").await;
    assert_eq!(namespace.delete().await, denied(WEBHOOK, 403, ALWAYS));
    namespace.label(LABEL, json!(null)).await;
    namespace.deleted().await;
    namespace.gone().await;
}

/// Scenario 2.
#[tokio::test]
async fn a_cascading_namespace_is_kept_while_it_has_active_pods() {
    let site = site().await;
    let (client, namespace) = (site.client(), site.labelled_namespace("Cascading").await);
    let options = fake_nodes::Options::nodes(1).in_namespace(name(&namespace)).binding_pods();
    let _nodes = FakeNodes::start(client.clone(), options).await;
    let running = pod("running").in_namespace(name(&namespace)).container("main", "nginx:1.25");
    let running = Stored::create(&client, running).await;
    let refused = |count: usize| denied(WEBHOOK, 403, &format!("{CASCADING} and active pods {count}>0"));
    // A Pod counts from its creation on.
    assert_eq!(namespace.delete().await, refused(1));
    wait_for("the Pod to run", async || match running.get().await.1 {
        pod if pod["status"]["phase"] == "Running" => Ok(()),
        pod => Err(pod),
    })
    .await;
    assert_eq!(namespace.delete().await, refused(1));
    running.deleted().await;
    running.gone().await;
    namespace.deleted().await;
    namespace.gone().await;
}

/// Scenario 3.
#[tokio::test]
async fn finished_pods_do_not_keep_a_cascading_namespace() {
    let site = site().await;
    let (client, namespace) = (site.client(), site.labelled_namespace("Cascading").await);
    for phase in ["Succeeded", "Failed"] {
        let done =
            pod(&phase.to_lowercase()).in_namespace(name(&namespace)).container("main", "busybox:1.36");
        Stored::create(&client, done).await.patch_status(&json!({"phase": phase})).await;
    }
    namespace.deleted().await;
}

/// Scenario 4.
#[tokio::test]
async fn a_cascading_namespace_is_kept_while_it_has_bound_claims() {
    let site = site().await;
    let (client, namespace) = (site.client(), site.labelled_namespace("Cascading").await);
    let volume = object("v1", "PersistentVolume", &format!("volume-{}", name(&namespace))).with(
        "/spec",
        json!({
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Mi"}, "storageClassName": "",
            "hostPath": {"path": "/nowhere"}, "persistentVolumeReclaimPolicy": "Retain",
        }),
    );
    let volume = Stored::create(&client, volume).await;
    let volume_name = volume.object["metadata"]["name"].as_str().unwrap();
    let claim_of = claim(name(&namespace), volume_name);
    let bound = Stored::create(&client, claim_of).await;
    wait_for("the claim to be bound", async || match bound.get().await.1 {
        claim if claim["status"]["phase"] == "Bound" => Ok(()),
        claim => Err(claim),
    })
    .await;
    let text = format!("{CASCADING} and \"Bound\" status pvc 1>0");
    assert_eq!(namespace.delete().await, denied(WEBHOOK, 403, &text));

    let other = site.labelled_namespace("Cascading").await;
    Stored::create(&client, claim(name(&other), "no-such-volume")).await;
    other.deleted().await;
}

/// docs/behaviour/deletion-protection.md#warnings: the client gets to know what will hold the namespace, and which
/// label means nothing.
#[tokio::test]
async fn a_namespace_that_will_hang_is_reported() {
    let site = site().await;
    let (client, namespace) = (site.client(), site.labelled_namespace("Cascading").await);
    let service = object("v1", "Service", "front").in_namespace(name(&namespace));
    let service = service.label(LABEL, "Always").with("/spec/ports", json!([{"port": 80}]));
    Stored::create(&client, service).await;
    let delete = async || {
        let server = &site.server;
        server.kubectl(["delete", "namespace", name(&namespace), "--dry-run=server"]).await
    };
    // What can't be listed in the time of a review is not warned of.
    let reported = wait_for("the warning", async || {
        let reported = delete().await;
        let warns =
            ["will stay Terminating", "keeps Service front"].map(|text| reported.stderr.contains(text));
        if warns == [true; 2] { Ok(reported) } else { Err(reported.stderr) }
    })
    .await;
    reported.success();
    namespace.label(LABEL, "cascading").await;
    let reported = delete().await;
    assert!(reported.stderr.contains("=cascading protects nothing"), "{}", reported.stderr);
}
