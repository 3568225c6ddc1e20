//! PersistentPodStates in admission over files (docs/behaviour/persistentpodstate.md).

use admission::world::{Watched, World};
use informers::index::CacheState;
use informers::{Index, Lookup, files};
use serde_json::{Value, json};
use webhooks::Admission;

use crate::support::{ask, with_index};

const PATH: &str = "/validate-apps-kruise-io-persistentpodstate";

fn state(name: &str, keys: &[&str]) -> Value {
    let target = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"});
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "PersistentPodState",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"targetRef": target, "requiredPersistentTopology": {"keys": keys}},
        "status": {"podStates": {"web-0": {"nodeName": "n1", "nodeTopologyLabels": {"zone": "a"}}}}})
}

/// Admission that knows the PersistentPodState `pps`, as far as its cache is.
fn admission(cache: CacheState) -> Admission {
    let mut world = World::new(api::DEFAULT_NAMESPACE);
    world.apply(Watched::PersistentPodState, &state("pps", &["zone"]).to_string()).unwrap();
    let index = Index::awaiting(world, [Watched::PersistentPodState]);
    index.set_cache_state(Watched::PersistentPodState, cache);
    with_index("", index, Lookup::files(files::Objects::default()))
}

async fn written(admission: &Admission, operation: &str, new: &Value, old: &Value) -> Value {
    let resource =
        json!({"group": "apps.kruise.io", "version": "v1beta1", "resource": "persistentpodstates"});
    let request = json!({"uid": "1", "operation": operation, "namespace": "shop", "resource": resource,
        "object": new, "oldObject": old});
    ask(admission, PATH, &request).await
}

async fn created(admission: &Admission, controller: &str) -> Value {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": controller, "name": "web", "uid": "u", "controller": true});
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-0", "namespace": "shop", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]}});
    let request = json!({"uid": "1", "operation": "CREATE", "namespace": "shop",
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": pod});
    ask(admission, "/mutate-pod", &request).await
}

#[tokio::test]
async fn every_refusal_has_code_400_and_labels_can_always_be_changed() {
    let admission = admission(CacheState::Synced);
    let (stored, none) = (state("pps", &["zone"]), Value::Null);
    let rival = written(&admission, "CREATE", &state("rival", &["zone"]), &none).await;
    assert_eq!((&rival["allowed"], &rival["status"]["code"]), (&json!(false), &json!(400)), "{rival}");
    assert_eq!(written(&admission, "UPDATE", &state("pps", &["region"]), &stored).await["allowed"], true);
    let mut broken = state("rival", &[]);
    broken["spec"] = json!({});
    let mut labelled = broken.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(written(&admission, "UPDATE", &labelled, &broken).await["allowed"], true);
}

#[tokio::test]
async fn pods_wait_until_the_objects_are_loaded_where_the_kind_is_installed() {
    for (cache, code) in [(CacheState::Synced, 200), (CacheState::Absent, 200), (CacheState::Pending, 503)] {
        let admission = admission(cache.clone());
        let answer = created(&admission, "StatefulSet").await;
        assert_eq!(answer["status"]["code"], code, "{cache:?} {answer}");
        assert_eq!(answer["allowed"], code == 200);
    }
    let led = created(&admission(CacheState::Synced), "StatefulSet").await;
    assert!(led["patch"].is_string(), "{led}");
    let other = created(&admission(CacheState::Synced), "ReplicaSet").await;
    assert!(other["patch"].is_null(), "{other}");
}
