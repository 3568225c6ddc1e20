use serde_json::{Value, json};

use crate::pod_review::Resolved;
use crate::pod_review::explanation::Explanation;
use crate::pod_review::fixture::{Cluster, pod};
use crate::world::Watched;

const MARK: &str = "/metadata/annotations/kruise.io~1injected-persistent-pod-state";
const PREFERRED: &str = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
const LISTED: &str = r#"{"workloads":[{"group":"example.com","version":"v1","kind":"Database"}]}"#;

/// A PersistentPodState `pps` of the StatefulSet `web` that remembers `web-7`.
fn state(change: impl Fn(&mut Value)) -> Value {
    let mut state = json!({
        "metadata": {"name": "pps", "namespace": "shop", "creationTimestamp": "2026-01-02T00:00:00Z"},
        "spec": {
            "targetRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "StatefulSet", "name": "web"},
            "requiredPersistentTopology": {"keys": ["zone"]},
            "preferredPersistentTopology": [{"weight": 50, "preference": {"keys": ["kubernetes.io/hostname", "rack"]}}],
        },
        "status": {"podStates": {"web-7": {"nodeName": "n2",
            "nodeTopologyLabels": {"zone": "b", "kubernetes.io/hostname": "n2"}, "annotations": {"ip": "10.0.0.1"}}}},
    });
    change(&mut state);
    state
}

fn cluster(state: &Value) -> Cluster {
    Cluster::new().apply(Watched::PersistentPodState, state)
}

/// `web-7` of a workload `web`.
fn owned(api_version: &str, kind: &str) -> Value {
    let mut pod = pod(json!([{"name": "main"}]));
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": api_version, "kind": kind, "name": "web", "uid": "u", "controller": true}]);
    pod["spec"]["readinessGates"] = json!([{"conditionType": "KruisePodReady"}]);
    pod
}

fn of_set() -> Value {
    owned("apps.kruise.io/v1beta1", "StatefulSet")
}

fn term(weight: i32, expressions: &Value) -> Value {
    json!({"weight": weight, "preference": {"matchExpressions": expressions}})
}

fn hostname() -> Value {
    json!([{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}])
}

#[test]
fn scenario_2_the_next_pod_is_led_to_where_the_last_one_ran() {
    let cluster = cluster(&state(|_| ()));
    let admitted = cluster.admit(&of_set());
    assert_eq!(admitted["spec"]["nodeSelector"], json!({"zone": "b"}));
    assert_eq!(admitted.pointer(PREFERRED).unwrap(), &json!([term(50, &hostname())]));
    assert_eq!(admitted.pointer(MARK).unwrap(), "pps");
    assert_eq!(admitted["metadata"]["annotations"].as_object().unwrap().len(), 1, "none is put back");
    assert_eq!(cluster.admit(&admitted), admitted, "a second review changes nothing");
}

#[test]
fn scenario_3_a_pod_without_a_record_is_left_alone() {
    let mut other = of_set();
    other["metadata"]["name"] = json!("web-8");
    let without = state(|state| state["status"].as_object_mut().unwrap().clear());
    let bare = state(|state| drop(state["status"]["podStates"]["web-7"]["nodeTopologyLabels"].take()));
    let unknown = state(|state| {
        state["spec"]["requiredPersistentTopology"]["keys"] = json!(["rack"]);
        state["spec"]["preferredPersistentTopology"] = json!([]);
    });
    let deleted = state(|state| state["metadata"]["deletionTimestamp"] = json!("2026-01-03T00:00:00Z"));
    let unnamed = {
        let mut pod = of_set();
        pod["metadata"] =
            json!({"generateName": "web-", "ownerReferences": pod["metadata"]["ownerReferences"]});
        pod
    };
    for (state, pod) in [
        (state(|_| ()), other),
        (state(|_| ()), unnamed),
        (without, of_set()),
        (bare, of_set()),
        (unknown, of_set()),
        (deleted, of_set()),
        // Of group, kind and name all have to be the same.
        (state(|_| ()), owned("apps/v1", "StatefulSet")),
        (state(|state| state["spec"]["targetRef"]["name"] = json!("web2")), of_set()),
    ] {
        assert_eq!(cluster(&state).admit(&pod), pod);
    }
}

#[test]
fn scenario_18_the_remembered_value_wins_and_terms_stand_side_by_side() {
    let mut pod = of_set();
    let own = term(7, &json!([{"key": "disk", "operator": "Exists"}]));
    pod["spec"]["nodeSelector"] = json!({"zone": "a", "disk": "ssd"});
    pod["spec"]["affinity"] = json!({"podAffinity": {}, "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [own]}});
    let admitted = cluster(&state(|_| ())).admit(&pod);
    assert_eq!(admitted["spec"]["nodeSelector"], json!({"zone": "b", "disk": "ssd"}));
    assert_eq!(admitted.pointer(PREFERRED).unwrap(), &json!([own, term(50, &hostname())]));
    assert_eq!(admitted["spec"]["affinity"]["podAffinity"], json!({}));
    for affinity in [json!(null), json!({}), json!({"nodeAffinity": {}}), json!({"nodeAffinity": null})] {
        pod["spec"]["affinity"] = affinity.clone();
        let admitted = cluster(&state(|_| ())).admit(&pod);
        assert_eq!(admitted.pointer(PREFERRED).unwrap(), &json!([term(50, &hostname())]), "{affinity}");
    }
}

#[test]
fn a_wish_without_remembered_labels_adds_a_term_without_effect_and_weights_are_ones_that_pass() {
    let wishes = json!([{"weight": 0, "preference": {"keys": ["rack"]}}, {"weight": 900, "preference": {"keys": ["zone"]}}]);
    let state = state(|state| {
        state["spec"]["preferredPersistentTopology"] = wishes.clone();
        state["spec"].as_object_mut().unwrap().remove("requiredPersistentTopology");
    });
    let cluster = cluster(&state);
    let admitted = cluster.admit(&of_set());
    let zone = json!([{"key": "zone", "operator": "In", "values": ["b"]}]);
    let expected = json!([{"weight": 1, "preference": {}}, term(100, &zone)]);
    assert_eq!(admitted.pointer(PREFERRED).unwrap(), &expected);
    assert!(admitted["spec"]["nodeSelector"].is_null());
    assert_eq!(cluster.admit(&admitted), admitted);
}

#[test]
fn scenario_17_pods_of_listed_kinds_are_led_too() {
    let database = state(|state| {
        state["spec"]["targetRef"] =
            json!({"apiVersion": "example.com/v1", "kind": "Database", "name": "web"});
    });
    let listing = |list: &str| {
        let map = json!({"metadata": {"name": "kruise-configuration", "namespace": "kruise-system"},
            "data": {"PPS_Watch_Custom_Workload_WhiteList": list}});
        cluster(&database).apply(Watched::ConfigMap, &map)
    };
    let pod = owned("example.com/v2", "Database");
    assert_eq!(listing(LISTED).admit(&pod).pointer(MARK).unwrap(), "pps");
    for cluster in [cluster(&database), listing("{}"), listing("broken")] {
        assert_eq!(cluster.admit(&pod), pod);
    }
    // A broken list does not concern the kinds that are always known.
    let broken = listing("broken").apply(Watched::PersistentPodState, &state(|_| ()));
    assert_eq!(broken.admit(&of_set()).pointer(MARK).unwrap(), "pps");
}

#[test]
fn of_two_for_one_workload_the_older_one_counts_and_each_is_explained() {
    let older = state(|state| {
        state["metadata"]["name"] = json!("z-older");
        state["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        state["spec"]["preferredPersistentTopology"] = json!([]);
    });
    let deleted = state(|state| {
        state["metadata"]["name"] = json!("deleted");
        state["metadata"]["deletionTimestamp"] = json!("2026-01-03T00:00:00Z");
    });
    let foreign = state(|state| {
        state["metadata"]["name"] = json!("foreign");
        state["spec"]["targetRef"]["name"] = json!("db");
    });
    let mut cluster = Cluster::new();
    for state in [older, deleted, foreign, state(|_| ())] {
        cluster = cluster.apply(Watched::PersistentPodState, &state);
    }
    let reported = cluster.explain(&of_set(), &Resolved::default());
    let mut reported: Vec<String> = reported.iter().map(Explanation::to_string).collect();
    reported.sort();
    assert_eq!(
        reported,
        [
            "PersistentPodState deleted: leaves the Pod as it is: it is being deleted",
            "PersistentPodState foreign: does not concern the Pod: spec.targetRef is not its workload",
            "PersistentPodState pps: leaves the Pod as it is: an older PersistentPodState has the same spec.targetRef",
            "PersistentPodState z-older: leads the Pod to where the last one of its name ran: node n2",
        ]
    );
    assert_eq!(cluster.admit(&of_set()).pointer(MARK).unwrap(), "z-older");
}
