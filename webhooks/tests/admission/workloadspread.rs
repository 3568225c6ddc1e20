//! WorkloadSpreads in admission over files (docs/behaviour/workloadspread.md).

use cluster::files::Objects;
use cluster::{Index, Lookup};
use planner::server::world::{Watched, World};
use serde_json::{Value, json};
use webhooks::Admission;

use crate::support::{admission, ask, with_index};

const PATHS: [&str; 2] =
    ["/validate-apps-kruise-io-workloadspread", "/validate-apps-kruise-io-v1alpha1-workloadspread"];

fn spread(subsets: Value) -> Value {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let mut spread = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "WorkloadSpread",
        "metadata": {"name": "ws", "namespace": "shop", "resourceVersion": "1"}, "spec": {"targetRef": target}});
    spread["spec"]["subsets"] = subsets;
    spread
}

/// Admission that knows this WorkloadSpread; `manifests` are on the API server.
fn dividing(subsets: Value, manifests: &str) -> Admission {
    let mut objects = Objects::default();
    if !manifests.is_empty() {
        objects.parse("test", manifests).unwrap();
    }
    let mut world = World::new(api::DEFAULT_NAMESPACE);
    world.apply(Watched::WorkloadSpread, &spread(subsets).to_string()).unwrap();
    with_index("", Index::fixed(world), Lookup::files(objects))
}

fn pod(hash: &str) -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f", "uid": "u", "controller": true});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "web-5d4f-", "namespace": "shop", "labels": {"pod-template-hash": hash}, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]}})
}

async fn created(admission: &Admission, pod: &Value) -> Value {
    let request = json!({"uid": "1", "operation": "CREATE", "namespace": "shop",
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": pod});
    ask(admission, "/mutate-pod", &request).await
}

/// The annotation in the patch of an answer.
fn subset(answer: &Value) -> Option<String> {
    use base64::Engine;
    assert_eq!(answer["allowed"], true, "{answer}");
    let patch = answer["patch"].as_str()?;
    let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap();
    let patch = String::from_utf8(patch).unwrap();
    let (_, after) = patch.split_once(r#"subset\":\""#)?;
    Some(after.split('\\').next().unwrap().to_owned())
}

#[tokio::test]
async fn both_paths_validate_and_the_gate_shuts_them() {
    let write = |operation: &str, object: &Value, old: &Value| {
        json!({"uid": "1", "operation": operation, "name": "ws", "namespace": "shop",
            "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "workloadspreads"},
            "object": object, "oldObject": old})
    };
    let (good, bad) = (spread(json!([{"name": "a"}])), spread(json!([])));
    for path in PATHS {
        let on = admission("", "");
        assert_eq!(ask(&on, path, &write("CREATE", &good, &Value::Null)).await["allowed"], true);
        let refused = ask(&on, path, &write("CREATE", &bad, &Value::Null)).await;
        assert_eq!(refused["status"]["code"], 400, "{refused}");
        let off = admission("WorkloadSpread=false", "");
        let refused = ask(&off, path, &write("CREATE", &good, &Value::Null)).await;
        let status =
            json!({"metadata": {}, "code": 403, "message": "feature-gate WorkloadSpread is not enabled"});
        assert_eq!(refused["status"], status);
        assert_eq!(ask(&off, path, &write("UPDATE", &good, &good)).await["allowed"], true);
    }
}

#[tokio::test]
async fn places_are_shown_without_an_api_server() {
    let limited = dividing(json!([{"name": "a", "maxReplicas": 0}, {"name": "b"}]), "");
    assert_eq!(subset(&created(&limited, &pod("5d4f")).await).as_deref(), Some("b"));
    let full = dividing(json!([{"name": "a", "maxReplicas": 0}]), "");
    assert_eq!(subset(&created(&full, &pod("5d4f")).await), None);
}

#[tokio::test]
async fn a_share_is_one_of_the_replicas_of_the_target() {
    let deployment = |replicas: u32| {
        format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web, namespace: shop}}, spec: {{replicas: {replicas}}}}}"
        )
    };
    for (replicas, expected) in [(0, "b"), (1, "a")] {
        let shared =
            dividing(json!([{"name": "a", "maxReplicas": "50%"}, {"name": "b"}]), &deployment(replicas));
        assert_eq!(subset(&created(&shared, &pod("5d4f")).await).as_deref(), Some(expected), "{replicas}");
    }
}

#[tokio::test]
async fn an_owner_is_read_where_its_name_does_not_tell() {
    let subsets = json!([{"name": "a"}]);
    let answer = created(&dividing(subsets.clone(), ""), &pod("other")).await;
    assert_eq!((&answer["allowed"], &answer["status"]["code"]), (&json!(false), &json!(500)), "{answer}");
    let set = "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-5d4f, namespace: shop, uid: u, \
        ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}]}}";
    assert_eq!(subset(&created(&dividing(subsets, set), &pod("other")).await).as_deref(), Some("a"));
}
