use serde_json::{Value, json};

use crate::pod_review::Resolved;
use crate::pod_review::fixture::{Cluster, pod};
use crate::world::Watched;

fn budget(cluster: Cluster, name: &str, created: &str, spec: Value) -> Cluster {
    let metadata = json!({"name": name, "namespace": "shop", "creationTimestamp": created});
    let mut object = json!({"metadata": metadata});
    object["spec"] = spec;
    cluster.apply(Watched::PodUnavailableBudget, &object)
}

fn targeting(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"targetRef": {"apiVersion": api_version, "kind": kind, "name": name}, "maxUnavailable": 1})
}

fn selecting(labels: Value) -> Value {
    let mut spec = json!({"selector": {}, "maxUnavailable": 1});
    spec["selector"]["matchLabels"] = labels;
    spec
}

fn owned(api_version: &str, kind: &str, name: &str) -> Value {
    let mut pod = pod(json!([{"name": "m"}]));
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": api_version, "kind": kind, "name": name, "controller": true}]);
    pod
}

/// A Pod of the ReplicaSet `web-5d4f`, which the Deployment `web` has made.
fn deployed() -> Value {
    let mut pod = owned("apps/v1", "ReplicaSet", "web-5d4f");
    pod["metadata"]["labels"]["pod-template-hash"] = json!("5d4f");
    pod
}

/// Both marks, which are always the same.
fn mark(pod: &Value) -> Option<&str> {
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations["pub.kruise.io/related-pub"], annotations["kruise.io/related-pub"]);
    annotations["kruise.io/related-pub"].as_str()
}

const DAY: &str = "2026-01-01T00:00:00Z";

#[test]
fn scenario_25_pods_of_a_deployment_are_marked_while_a_gate_is_on() {
    let cluster = budget(Cluster::new(), "keep", DAY, targeting("apps/v1", "Deployment", "web"));
    let marked = cluster.admit(&deployed());
    assert_eq!(mark(&marked), Some("keep"));
    assert_eq!(cluster.admit(&marked), marked);
    let updates = "PodUnavailableBudgetDeleteGate=false,PodUnavailableBudgetUpdateGate=true";
    assert_eq!(mark(&cluster.clone().gates(updates).admit(&deployed())), Some("keep"));
    let off = cluster.gates("PodUnavailableBudgetDeleteGate=false");
    assert_eq!(off.admit(&deployed()), deployed());
}

#[test]
fn a_target_is_compared_by_group_kind_and_name_and_never_by_version() {
    let cluster =
        budget(Cluster::new(), "keep", DAY, targeting("apps.kruise.io/v1beta1", "StatefulSet", "db"));
    let marked = |api_version: &str, kind: &str, name: &str| {
        mark(&cluster.admit(&owned(api_version, kind, name))).is_some()
    };
    assert!(marked("apps.kruise.io/v1alpha1", "StatefulSet", "db"));
    assert!(!marked("apps/v1", "StatefulSet", "db"));
    assert!(!marked("apps.kruise.io/v1beta1", "CloneSet", "db"));
    assert!(!marked("apps.kruise.io/v1beta1", "StatefulSet", "db2"));
    let mut elsewhere = owned("apps.kruise.io/v1beta1", "StatefulSet", "db");
    elsewhere["metadata"]["namespace"] = json!("other");
    assert_eq!(mark(&cluster.admit(&elsewhere)), None);
}

#[test]
fn a_replica_set_of_its_own_is_the_workload() {
    let cluster = budget(Cluster::new(), "set", DAY, targeting("apps/v1", "ReplicaSet", "web-5d4f"));
    let cluster = budget(cluster, "deployment", DAY, targeting("apps/v1", "Deployment", "web"));
    assert_eq!(mark(&cluster.admit(&owned("apps/v1", "ReplicaSet", "web-5d4f"))), Some("set"));
    assert_eq!(mark(&cluster.admit(&deployed())), Some("deployment"));
    let mut other = deployed();
    other["metadata"]["labels"]["pod-template-hash"] = json!("4f");
    assert_eq!(mark(&cluster.admit(&other)), Some("set"));
}

#[test]
fn a_selector_counts_where_target_and_workload_cannot_be_compared() {
    let both = json!({"selector": {"matchLabels": {"app": "web"}}, "targetRef":
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "db"}});
    let cluster = budget(Cluster::new(), "both", DAY, both);
    assert_eq!(mark(&cluster.admit(&pod(json!([{"name": "m"}])))), Some("both"));
    assert_eq!(mark(&cluster.admit(&deployed())), None);
    let cluster = budget(Cluster::new(), "labels", DAY, selecting(json!({"app": "web"})));
    assert_eq!(mark(&cluster.admit(&deployed())), Some("labels"));
    for spec in [json!({"selector": {}}), json!({}), selecting(json!({"app": "db"}))] {
        let cluster = budget(Cluster::new(), "nothing", DAY, spec);
        assert_eq!(mark(&cluster.admit(&pod(json!([{"name": "m"}])))), None);
    }
}

#[test]
fn marks_of_the_user_are_replaced_by_a_match_and_stay_without_one() {
    let mut stamped = pod(json!([{"name": "m"}]));
    stamped["metadata"]["annotations"] = json!({"kruise.io/related-pub": "mine", "k": "v"});
    let other = budget(Cluster::new(), "other", DAY, selecting(json!({"app": "db"})));
    assert_eq!(other.admit(&stamped), stamped);
    let matching = budget(other, "web", DAY, selecting(json!({"app": "web"})));
    let marked = matching.admit(&stamped);
    assert_eq!((mark(&marked), &marked["metadata"]["annotations"]["k"]), (Some("web"), &json!("v")));
}

#[test]
fn a_named_workload_goes_before_a_selector_then_the_oldest_then_the_name() {
    let web = || selecting(json!({"app": "web"}));
    let budgets = [
        ("c", "2025-01-01T00:00:00Z", web()),
        ("b", DAY, web()),
        ("a", DAY, web()),
        ("young", "2026-06-01T00:00:00Z", targeting("apps/v1", "Deployment", "web")),
    ];
    for rotation in 0..budgets.len() {
        let mut order = budgets.clone();
        order.rotate_left(rotation);
        let mut cluster = order
            .into_iter()
            .fold(Cluster::new(), |cluster, (name, created, spec)| budget(cluster, name, created, spec));
        for expected in ["young", "c", "a", "b"] {
            assert_eq!(mark(&cluster.admit(&deployed())), Some(expected));
            cluster.world.remove(Watched::PodUnavailableBudget, "shop", expected);
        }
        assert_eq!(cluster.admit(&deployed()), deployed());
    }
}

#[test]
fn a_changed_budget_replaces_its_earlier_state() {
    let cluster = budget(Cluster::new(), "b", DAY, selecting(json!({"app": "web"})));
    let snapshot = cluster.clone();
    let cluster = budget(cluster, "b", DAY, selecting(json!({"app": "db"})));
    assert_eq!(mark(&cluster.admit(&deployed())), None);
    assert_eq!(mark(&snapshot.admit(&deployed())), Some("b"));
}

#[test]
fn a_budget_that_cannot_be_used_is_reported_and_refuses_no_pod() {
    let mut cluster = budget(Cluster::new(), "good", DAY, selecting(json!({"app": "web"})));
    let operator = json!([{"key": "app", "operator": "Near", "values": ["web"]}]);
    for (name, selector) in [("broken", json!({"matchExpressions": operator})), ("odd", json!(7))] {
        let object = json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {"selector": selector}});
        let error = cluster.world.apply(Watched::PodUnavailableBudget, &object.to_string()).unwrap_err();
        assert!(error.to_string().starts_with(&format!("PodUnavailableBudget {name:?} can't be read")));
    }
    assert_eq!(mark(&cluster.admit(&deployed())), Some("good"));
}

#[test]
fn every_budget_of_the_namespace_is_explained() {
    let cluster = budget(Cluster::new(), "first", DAY, targeting("apps/v1", "Deployment", "web"));
    let cluster = budget(cluster, "second", DAY, selecting(json!({"app": "web"})));
    let cluster = budget(cluster, "third", DAY, selecting(json!({"app": "db"})));
    let reported = cluster.explain(&deployed(), &Resolved::default());
    let reported: Vec<String> = reported.iter().map(ToString::to_string).collect();
    let expected = [
        "PodUnavailableBudget first: protects the Pod",
        "PodUnavailableBudget second: matches, but the Pod is protected by PodUnavailableBudget first",
        "PodUnavailableBudget third: does not protect the Pod: spec.selector does not match its labels",
    ];
    assert_eq!(reported, expected);
}
