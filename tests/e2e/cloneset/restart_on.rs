//! ConfigMaps and Secrets whose changes restart Pods (docs/behaviour/in-place-update.md#configuration-that-changes).

use kit::builders::{Object, object, workload};
use kit::wait_for;
use kube::Client;
use serde_json::{Value, json};

use super::{Fleet, asked, in_place, restarts, uids};
use crate::support::{Shop, Stored};

const RESTART_ON: &str = "kutter.io/restart-on";
const APPLIED: &str = "kutter.io/configuration-applied";
const HASH: &str = "kutter.io/configuration-hash";

fn named(kind: &str, namespace: &str, data: Value) -> Object {
    object("v1", kind, "web").in_namespace(namespace).with("/data", data)
}

async fn create(client: &Client, kind: &str, namespace: &str, data: Value) -> Stored {
    Stored::create(client, named(kind, namespace, data)).await
}

/// An annotation; empty where there is none.
fn note<'v>(object: &'v Value, key: &str) -> &'v str {
    object["metadata"]["annotations"][key].as_str().unwrap_or_default()
}

/// The hash that a workload took in last, once that is another one than `before`.
async fn applied(set: &Stored, before: &str) -> String {
    wait_for("the configuration to be taken in", async || {
        let now = set.get().await.1;
        let applied = note(&now, APPLIED);
        if applied.is_empty() || applied == before {
            Err(now["metadata"].clone())
        } else {
            Ok(applied.to_owned())
        }
    })
    .await
}

/// The hash that the template of a workload shows.
fn shown(set: &Value) -> &str {
    note(&set["spec"]["template"], HASH)
}

/// Scenarios 38, 39 and 41.
#[tokio::test]
async fn a_change_is_a_revision_that_can_be_undone_and_what_is_missing_changes_nothing() {
    let names = "configmap/web,secret/web";
    let fleet = Fleet::launch("cloneset-restart-on", |set| {
        in_place(set.replicas(2).annotation(RESTART_ON, names), json!({}))
    })
    .await;
    let (client, namespace) = (&fleet.shop.client, &fleet.shop.namespace);
    let before = fleet.pods().await;
    let chronicle = fleet.chronicle().await;
    let secret = create(client, "Secret", namespace, json!({"token": "MQ=="})).await;
    let event = fleet.event("ConfigurationNotFound").await;
    assert!(event.contains("configmap/web"), "{event}");
    let explained = fleet.explained().await;
    assert!(explained.stdout.contains("configmap/web not found"), "{explained:?}");

    let map = create(client, "ConfigMap", namespace, json!({"color": "red"})).await;
    let first = applied(&fleet.set, "").await;
    assert_eq!((shown(&fleet.set.get().await.1), fleet.revisions().await.len()), ("", 1));

    map.patch(&json!({"data": {"color": "blue"}})).await;
    let second = applied(&fleet.set, &first).await;
    fleet.complete().await;
    assert_eq!((shown(&fleet.set.get().await.1), fleet.revisions().await.len()), (second.as_str(), 2));

    // Somebody goes back. What wakes the controller then changes nothing: labels, an object that goes and comes.
    fleet.change(json!({"template": {"metadata": {"annotations": {HASH: null}}}})).await;
    fleet.complete().await;
    map.patch(&json!({"metadata": {"labels": {"a": "b"}}})).await;
    map.deleted().await;
    map.gone().await;
    secret.patch(&json!({"data": {"token": "Mg=="}})).await;
    create(client, "ConfigMap", namespace, json!({"color": "blue"})).await;
    let third = applied(&fleet.set, &second).await;
    fleet.complete().await;
    let after = fleet.pods().await;
    assert_eq!(
        (uids(&after), restarts(&after[0], "main")),
        (uids(&before), 0),
        "no container shows the hash"
    );
    for pod in &before {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let hashes = chronicle.course(name, |pod| note(pod, HASH).to_owned()).await;
        assert_eq!(hashes, ["", &second, "", &third]);
    }
}

#[tokio::test]
async fn every_kind_takes_a_change_in() {
    let shop = Shop::open_on(asked().await, "restart-on-kinds").await;
    let map = create(&shop.client, "ConfigMap", &shop.namespace, json!({"color": "red"})).await;
    let mut sets = Vec::new();
    for kind in ["CloneSet", "StatefulSet", "DaemonSet"] {
        let set = workload("apps.kruise.io/v1beta1", kind, "web")
            .in_namespace(&shop.namespace)
            .matching("app", "web")
            .annotation(RESTART_ON, "configmap/web")
            .with("/spec/template/spec/nodeSelector", json!({"no": "node"}))
            .container("main", "nginx:1.25");
        let set = if kind == "DaemonSet" { set } else { set.replicas(0) };
        let set = Stored::create(&shop.client, set).await;
        let first = applied(&set, "").await;
        sets.push((set, first));
    }
    map.patch(&json!({"data": {"color": "blue"}})).await;
    for (set, first) in &sets {
        let second = applied(set, first).await;
        assert_eq!(shown(&set.get().await.1), second);
    }
}
