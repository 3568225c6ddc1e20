//! WorkloadSpreads in admission over files (docs/behaviour/workloadspread.md).

use admission::world::{Watched, World};
use cluster::reservation::Reservations;
use informers::{Index, Lookup, files};
use kinds::workloadspread::slots::Slots;
use kit::double::{Objects, Requests, api_server};
use serde_json::{Value, json};
use webhooks::Admission;

use crate::support::{admission, ask, delete, with_index};

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
    let mut objects = files::Objects::default();
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
async fn slots_are_shown_without_an_api_server() {
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

const LIST: &str = r#"{"workloads":[{"Group":"kubeflow.org","Kind":"TFJob"}]}"#;

/// Admission of a namespace with a WorkloadSpread of a TFJob on an API server.
fn dividing_a_job(server: &Objects, subsets: Value, status: Value) -> (Admission, Requests) {
    let stored = server.clone();
    let served = json!({"resources": [{"name": "tfjobs", "kind": "TFJob", "namespaced": true},
        {"name": "tfjobs/scale", "kind": "Scale", "namespaced": true}]});
    let group = json!({"versions": [{"groupVersion": "kubeflow.org/v1"}]});
    let (client, requests) = api_server(move |request| match request.path {
        "/apis/kubeflow.org" => (200, group.to_string()),
        "/apis/kubeflow.org/v1" => (200, served.to_string()),
        _ => stored.answer(&request),
    });
    let mut object = spread(subsets);
    object["spec"]["targetRef"] = json!({"apiVersion": "kubeflow.org/v9", "kind": "TFJob", "name": "web"});
    object["status"] = status;
    let object = server.put(SPREAD, object);
    let mut world = World::new(api::DEFAULT_NAMESPACE);
    world.apply(Watched::WorkloadSpread, &object.to_string()).unwrap();
    let map = json!({"metadata": {"name": "kruise-configuration", "namespace": api::DEFAULT_NAMESPACE},
        "data": {"WorkloadSpread_Watch_Custom_Workload_WhiteList": LIST}});
    world.apply(Watched::ConfigMap, &map.to_string()).unwrap();
    let mut admission = with_index("", Index::fixed(world), Lookup::cluster(client.clone()));
    admission.spreads = Reservations::new(Some(client), Slots);
    (admission, requests)
}

const SPREAD: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/workloadspreads/ws";
const POD: &str = "/api/v1/namespaces/shop/pods/p1";
const JOB: &str = "/apis/kubeflow.org/v1/namespaces/shop/tfjobs/web";

fn pod_of_job(name: &str) -> Value {
    let owner = json!({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "web", "uid": "j", "controller": true});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]}, "status": {"phase": "Running"}})
}

#[tokio::test]
async fn scenario_7_a_share_of_a_custom_workload_is_one_of_its_scale() {
    let server = Objects::default();
    server.put(JOB, json!({"metadata": {"name": "web", "uid": "j"}, "spec": {"size": 3}}));
    server.put(&format!("{JOB}/scale"), json!({"spec": {"replicas": 3}}));
    let half = json!([{"name": "a", "maxReplicas": "50%"}, {"name": "b"}]);
    let placed = async |admission: &Admission| {
        let mut placed = Vec::new();
        for name in ["p1", "p2", "p3"] {
            placed.push(subset(&created(admission, &pod_of_job(name)).await).unwrap());
        }
        placed
    };
    let (admission, _) = dividing_a_job(&server, half.clone(), json!({}));
    assert_eq!(placed(&admission).await, ["a", "a", "b"]);
    // Where nothing else gives the number, the status does.
    server.remove(&format!("{JOB}/scale"));
    let counted = json!({"subsetStatuses": [{"name": "a", "replicas": 0, "missingReplicas": 1}, {"name": "b", "replicas": 0, "missingReplicas": -1}]});
    let (admission, _) = dividing_a_job(&server, half, counted);
    assert_eq!(placed(&admission).await, ["a", "b", "b"]);
}

/// Admission of a full subset `a`, and a review of the deletion of its Pod.
fn full(server: &Objects) -> (Admission, Requests, Value) {
    let full = json!({"versionedSubsetStatuses": {"versionIgnored": [
        {"name": "a", "replicas": 1, "missingReplicas": 0}, {"name": "b", "replicas": 0, "missingReplicas": -1}]}});
    let subsets = json!([{"name": "a", "maxReplicas": 1}, {"name": "b"}]);
    let (admission, requests) = dividing_a_job(server, subsets, full);
    let mut pod = pod_of_job("p1");
    pod["metadata"]["uid"] = json!("u1");
    pod["metadata"]["annotations"] =
        json!({"apps.kruise.io/matched-workloadspread": r#"{"name":"ws","subset":"a"}"#});
    let mut request = delete("pods", "v1", &pod);
    request["namespace"] = json!("shop");
    (admission, requests, request)
}

/// What is written down of subset `a`.
fn noted(server: &Objects) -> Value {
    server.get(SPREAD).unwrap()["status"]["versionedSubsetStatuses"]["versionIgnored"][0].clone()
}

#[tokio::test]
async fn scenario_21_a_deletion_is_noted_with_the_slot_that_it_frees() {
    let server = Objects::default();
    let (admission, requests, request) = full(&server);
    server.put(POD, request["oldObject"].clone());
    for _ in 0..2 {
        assert_eq!(ask(&admission, "/validate-pod", &request).await["allowed"], true);
        let noted = noted(&server);
        assert!(noted["deletingPods"]["p1"].is_string(), "{noted:#}");
        assert_eq!((&noted["missingReplicas"], &noted["replicas"]), (&json!(1), &json!(1)));
    }
    let asked = requests.lock().unwrap().clone();
    assert!(asked.iter().all(|request| !request.starts_with(&format!("GET {SPREAD}"))), "{asked:?}");
    assert_eq!(asked.iter().filter(|request| request.starts_with("PATCH")).count(), 1, "{asked:?}");
    assert_eq!(subset(&created(&admission, &pod_of_job("p2")).await).as_deref(), Some("a"));
}

#[tokio::test]
async fn a_pod_that_is_not_there_frees_no_slot() {
    let server = Objects::default();
    let (admission, _, request) = full(&server);
    for other in [None, Some("u2")] {
        if let Some(uid) = other {
            server.put(POD, json!({"metadata": {"name": "p1", "namespace": "shop", "uid": uid}}));
        }
        assert_eq!(ask(&admission, "/validate-pod", &request).await["allowed"], true);
        let noted = noted(&server);
        assert!(noted["deletingPods"].is_null(), "{noted:#}");
        assert_eq!(noted["missingReplicas"], 0, "{noted:#}");
    }
}

#[tokio::test]
async fn an_owner_is_read_where_its_name_does_not_suffice() {
    let subsets = json!([{"name": "a"}]);
    let answer = created(&dividing(subsets.clone(), ""), &pod("other")).await;
    assert_eq!((&answer["allowed"], &answer["status"]["code"]), (&json!(false), &json!(500)), "{answer}");
    let set = "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-5d4f, namespace: shop, uid: u, \
        ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}]}}";
    assert_eq!(subset(&created(&dividing(subsets, set), &pod("other")).await).as_deref(), Some("a"));
}
