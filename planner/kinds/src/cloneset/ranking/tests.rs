use std::sync::Arc;

use api::kinds::cloneset::CloneSet;
use serde_json::{Value, json};

use super::*;
use crate::cloneset::members::members;
use pod::node_fit::NodeFacts;

/// A Pod that is ready since 08:00, changed by `edit`.
fn pod(name: &str, node: &str, edit: Value) -> Arc<ObservedPod> {
    let mut object = json!({
        "metadata": {"name": name, "creationTimestamp": "2026-05-01T07:00:00Z"},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-05-01T08:00:00Z"}]},
    });
    crate::cloneset::fixture::merge(&mut object, edit);
    Arc::new(ObservedPod::read(&object.to_string()).unwrap())
}

fn cost(cost: &str) -> Value {
    json!({"metadata": {"annotations": {POD_DELETION_COST: cost}}})
}

fn conditions(list: &Value) -> Value {
    json!({"status": {"conditions": list}})
}

/// The names in the order in which they go.
fn order(pods: &[Arc<ObservedPod>], keys: &[&str], nodes: &[(&str, &str, &str)]) -> Vec<String> {
    order_by(pods, keys, nodes, &Costs::new())
}

/// The same where these costs are about to be written.
fn order_by(
    pods: &[Arc<ObservedPod>],
    keys: &[&str],
    nodes: &[(&str, &str, &str)],
    costs: &Costs,
) -> Vec<String> {
    order_of(pods, keys, nodes, (costs, &ScaleInOrder::default()))
}

/// The same in this order of labels.
fn order_of(
    pods: &[Arc<ObservedPod>],
    keys: &[&str],
    nodes: &[(&str, &str, &str)],
    (costs, labels): (&Costs, &ScaleInOrder),
) -> Vec<String> {
    let references: Vec<&Arc<ObservedPod>> = pods.iter().collect();
    let now = "2026-05-01T09:00:00Z".parse().unwrap();
    let all = members(&references, &CloneSet::default(), "web-1", now);
    let candidates: Vec<&Member<'_>> = all.iter().collect();
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    let facts = |key: &str, value: &str| NodeFacts {
        labels: [(key, value)].into_iter().collect(),
        ..NodeFacts::default()
    };
    let nodes: Nodes =
        nodes.iter().map(|(node, key, value)| ((*node).into(), Arc::new(facts(key, value)))).collect();
    let order = rank(&candidates, Topology { keys: &keys, nodes: &nodes, costs, labels });
    order.into_iter().map(|position| candidates[position].name().to_owned()).collect()
}

#[test]
fn the_rules_apply_one_after_another() {
    let ready = "2026-05-01T08:30:00Z";
    let pods = [
        pod("k-plain", "n11", json!({})),
        pod("j-older", "n10", json!({"metadata": {"creationTimestamp": "2026-05-01T07:30:00Z"}})),
        pod("i-restarts", "n9", json!({"status": {"containerStatuses": [{"restartCount": 3}]}})),
        pod(
            "h-later-ready",
            "n8",
            conditions(&json!([{"type": "Ready", "status": "True", "lastTransitionTime": ready}])),
        ),
        pod("g-no-ready-time", "n7", conditions(&json!([{"type": "Ready", "status": "True"}]))),
        pod("f-cheap", "n6", cost("-5")),
        pod(
            "e-preparing",
            "n5",
            json!({"metadata": {"labels": {"lifecycle.apps.kruise.io/state": "Updating"}}}),
        ),
        pod("d-not-ready", "n4", conditions(&json!([{"type": "Ready", "status": "False"}]))),
        pod("c-unknown", "n3", json!({"status": {"phase": "Unknown"}})),
        pod("b-pending", "n2", json!({"status": {"phase": "Pending", "conditions": []}})),
        pod("a-unassigned", "", json!({"status": {"phase": "Pending", "conditions": []}})),
    ];
    let mut expected: Vec<String> = pods.iter().map(|pod| pod.metadata.name.to_string()).collect();
    expected.sort();
    assert_eq!(order(&pods, &[], &[]), expected);
}

#[test]
fn scenario_20_the_lowest_cost_goes_first() {
    let pods = [pod("a", "n1", cost("10")), pod("b", "n2", cost("-5")), pod("c", "n3", json!({}))];
    assert_eq!(order(&pods, &[], &[]), ["b", "c", "a"]);
    let costs = [("a".into(), -9), ("c".into(), 5)].into();
    assert_eq!(order_by(&pods, &[], &[], &costs), ["a", "b", "c"], "what is about to be written comes first");
}

#[test]
fn scenario_39_labels_order_pods_before_their_costs() {
    let labelled = |release: &str, cost: &str| json!({"metadata": {"labels": {"release": release}, "annotations": {POD_DELETION_COST: cost}}});
    let mut not_ready = labelled("c", "100");
    not_ready["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    let pods = [
        pod("a-cheap", "n1", labelled("a", "-100")),
        pod("b-dear", "n2", labelled("b", "100")),
        pod("b-cheap", "n3", labelled("b", "-100")),
        pod("broken", "n4", not_ready),
        pod("other", "n5", cost("-200")),
        pod("unplaced", "", labelled("c", "100")),
    ];
    let order = |text: &str| order_of(&pods, &[], &[], (&Costs::new(), &ScaleInOrder::read(text).unwrap()));
    assert_eq!(order("release=b,release=a"), ["unplaced", "broken", "b-cheap", "b-dear", "a-cheap", "other"]);
    assert_eq!(order("release=a"), ["unplaced", "broken", "a-cheap", "other", "b-cheap", "b-dear"]);
}

#[test]
fn only_what_kubernetes_takes_is_a_cost() {
    for (text, expected) in [
        ("10", 10),
        ("-5", -5),
        ("0", 0),
        ("+5", 0),
        ("05", 0),
        ("x", 0),
        ("", 0),
        ("2147483648", 0),
        ("-0", 0),
    ] {
        assert_eq!(deletion_cost(&pod("a", "n", cost(text))), expected, "{text}");
    }
}

#[test]
fn scenario_21_the_fuller_node_gives() {
    let pods = [pod("a", "A", json!({})), pod("b", "B", json!({})), pod("c", "B", json!({}))];
    assert_eq!(order(&pods, &[], &[])[0], "b");
}

#[test]
fn scenario_22_the_fuller_zone_gives() {
    const ZONE: &str = "topology.kubernetes.io/zone";
    let pods = [
        pod("a", "n1", json!({})),
        pod("b", "n2", json!({})),
        pod("c", "n3", json!({})),
        pod("d", "n4", json!({})),
    ];
    let nodes = [("n1", ZONE, "z2"), ("n2", ZONE, "z1"), ("n3", ZONE, "z1"), ("n4", ZONE, "z1")];
    assert_eq!(order(&pods, &[ZONE], &nodes)[0], "b");
    // Without constraints the zone does not matter.
    assert_eq!(order(&pods, &[], &nodes)[0], "a");
    // A node that is not known takes no part.
    assert_eq!(order(&pods, &[ZONE], &nodes[..3])[0], "b");
}

#[test]
fn scenario_23_a_pod_that_is_not_ready_goes_before_a_cheap_one() {
    let pods = [
        pod("ready", "n1", cost("-100")),
        pod(
            "broken",
            "n2",
            json!({"metadata": {"annotations": {POD_DELETION_COST: "100"}}, "status": {"conditions": []}}),
        ),
    ];
    assert_eq!(order(&pods, &[], &[]), ["broken", "ready"]);
}
