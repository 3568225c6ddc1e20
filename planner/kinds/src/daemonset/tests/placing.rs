//! Which Nodes have a Pod, and which Pods go.

use jiff::SignedDuration;
use serde_json::json;

use crate::daemonset::fixture::{Fleet, rolling, template};
use crate::workload::kind::Workload;
use pod::node_fit::NodeFacts;

#[test]
fn each_node_gets_a_pod_that_the_scheduler_can_only_put_there() {
    let mut fleet = Fleet::unsettled(3, json!({}));
    fleet.step();
    let nodes: Vec<&str> = fleet.pods.iter().filter_map(|pod| pod.spec.assigned_node.as_deref()).collect();
    assert_eq!(nodes, ["n1", "n2", "n3"]);
    fleet.settle();
    let status = fleet.status();
    assert_eq!((status.desired_number_scheduled, status.number_available), (3, Some(3)));
    assert_eq!(status.number_unavailable, None);
    assert!(fleet.plan().is_idle() && fleet.plan().explanation.is_complete);
    assert_eq!(fleet.reasons(), ["SuccessfulCreate"; 3]);
}

#[test]
fn taints_keep_pods_away_or_chase_them_off() {
    let mut fleet = Fleet::on_nodes(2, json!({}));
    let tainted = |fleet: &mut Fleet, effect: &str| {
        let before = fleet.nodes["n2"].clone();
        fleet.taint("n2", "gpu", effect);
        assert!(fleet.set().is_concerned("n2", Some(&before), Some(&fleet.nodes["n2"])), "{effect}");
    };
    tainted(&mut fleet, "NoSchedule");
    fleet.taint("n3", "gpu", "NoSchedule");
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:1"), ["n1", "n2"], "the Pod that is there stays");
    let status = fleet.status();
    assert_eq!((status.desired_number_scheduled, status.number_misscheduled), (1, 1));
    tainted(&mut fleet, "NoExecute");
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:1"), ["n1"]);
    let before = fleet.nodes["n2"].clone();
    fleet.node("n2", json!({"spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}}));
    assert!(fleet.set().is_concerned("n2", Some(&before), Some(&fleet.nodes["n2"])), "a taint is taken off");
    fleet.node("n3", json!({}));
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:1"), ["n1", "n2", "n3"]);
}

#[test]
fn a_node_that_the_template_excludes_loses_its_pod_at_once() {
    let mut fleet = Fleet::on_nodes(3, rolling(json!({"maxUnavailable": 1, "paused": true})));
    let mut other = template("nginx:1");
    crate::daemonset::fixture::merge(
        &mut other,
        json!({"spec": {"nodeSelector": {"kubernetes.io/hostname": "n2"}}}),
    );
    fleet.edit(json!({"spec": {"template": other}}));
    fleet.step();
    assert_eq!(fleet.nodes_with("nginx:1"), ["n2"]);
    assert!(fleet.set().is_concerned("n2", None, fleet.nodes.get("n2").map(|node| &**node)));
    let cordoned = NodeFacts { unschedulable: true, ..(*fleet.nodes["n1"]).clone() };
    assert!(!fleet.set().is_concerned("n1", fleet.nodes.get("n1").map(|node| &**node), Some(&cordoned)));
}

#[test]
fn a_node_with_a_pod_that_ends_waits_for_its_end() {
    let mut fleet = Fleet::on_nodes(1, json!({}));
    fleet.lingering = true;
    let name = fleet.name_on("n1");
    fleet.remove(&name);
    assert!(fleet.plan().scale.is_empty());
    fleet.lingering = false;
    fleet.remove(&name);
    assert_eq!(fleet.plan().scale.len(), 1);
}

#[test]
fn failed_pods_give_way_at_once_and_then_after_pauses() {
    let mut fleet = Fleet::on_nodes(1, json!({}));
    let fail = |fleet: &mut Fleet| {
        let name = fleet.name_on("n1");
        fleet.pod_mut(&name).status.phase = "Failed".into();
    };
    fail(&mut fleet);
    fleet.step();
    let reported = fleet.events.iter().find(|event| event.reason == "FailedDaemonPod").unwrap();
    assert!(fleet.pods.is_empty() && reported.message.contains("on node n1"), "{reported:?}");
    fleet.step();
    fail(&mut fleet);
    let plan = fleet.settled_plan();
    assert!(plan.scale.is_empty(), "{plan}");
    let pause = plan.requeue_after.unwrap();
    assert!((1.0..1.1).contains(&pause.as_secs_f64()), "{pause:?}");
    fleet.later(2);
    fleet.step();
    assert!(fleet.pods.is_empty());
}

#[test]
fn a_node_where_a_pod_was_refused_keeps_no_other_from_its_pod() {
    let mut fleet = Fleet::unsettled(3, json!({"burstReplicas": 2}));
    fleet.refused.insert("n1".to_owned());
    fleet.step();
    let nodes: Vec<&str> = fleet.pods.iter().filter_map(|pod| pod.spec.node()).collect();
    assert_eq!(nodes, ["n2", "n3"]);
}

#[test]
fn a_burst_limits_what_one_plan_does() {
    let mut fleet = Fleet::unsettled(5, json!({"burstReplicas": 2}));
    fleet.step();
    assert_eq!(fleet.pods.len(), 2);
    let mut fleet = Fleet::unsettled(5, json!({"burstReplicas": "10%"}));
    fleet.step();
    assert_eq!(fleet.pods.len(), 1, "a share of few Nodes is one at least");
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:1"), ["n1", "n2", "n3", "n4", "n5"]);
}

#[test]
fn scenario_40_ready_pods_become_available_by_time_alone() {
    let mut fleet = Fleet::unsettled(2, json!({"minReadySeconds": 3600}));
    fleet.settle();
    let status = fleet.status();
    assert_eq!((status.number_ready, status.number_available), (2, None));
    let wait = fleet.plan().requeue_after.unwrap();
    assert!((3600.0..3600.1).contains(&wait.as_secs_f64()), "{wait:?}");
    fleet.now += SignedDuration::try_from(wait).unwrap();
    fleet.step();
    assert_eq!(fleet.status().number_available, Some(2));
}

#[test]
fn partitioned_scaling_creates_on_the_first_nodes_by_name() {
    let mut spec = rolling(json!({"partition": 9}));
    spec["scaleStrategy"] = json!({"partitionedScaling": true});
    let mut fleet = Fleet::new(spec);
    for number in 0..10 {
        fleet.node(&format!("node-{number}"), json!({}));
    }
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:1"), ["node-0"]);
    assert!(fleet.plan().explanation.is_complete, "{}", fleet.plan());
    fleet.edit(json!({"spec": rolling(json!({"partition": "50%"}))}));
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:1").len(), 5);
    fleet.edit(json!({"spec": rolling(json!({"partition": 0}))}));
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:1").len(), 10);
}

#[test]
fn pods_without_an_owner_are_adopted_and_pods_with_other_labels_let_go() {
    let mut fleet = Fleet::on_nodes(2, json!({}));
    let name = fleet.name_on("n1");
    fleet.pod_mut(&name).metadata.owner_references = [].into();
    fleet.step();
    assert_eq!(fleet.pods.len(), 2, "adopted before another one is created");
    assert!(fleet.plan().is_idle(), "{}", fleet.plan());
    fleet.pod_mut(&name).metadata.labels = [("app", "other")].into_iter().collect();
    fleet.settle();
    assert_eq!(fleet.pods.len(), 3);
}

#[test]
fn a_hook_holds_every_deletion() {
    let spec = json!({"lifecycle": {"preDelete": {"labelsHandler": {"block": "true"}}}});
    let mut fleet = Fleet::on_nodes(1, spec);
    let name = fleet.name_on("n1");
    let labels = [("app", "web"), ("block", "true")];
    let known = fleet.pod_mut(&name).metadata.labels.clone();
    fleet.pod_mut(&name).metadata.labels = known.iter().chain(labels).collect();
    fleet.taint("n1", "gone", "NoExecute");
    fleet.settle();
    assert_eq!(fleet.pods[0].label("lifecycle.apps.kruise.io/state"), Some("PreparingDelete"));
    let known = fleet.pod_mut(&name).metadata.labels.clone();
    fleet.pod_mut(&name).metadata.labels = known.iter().filter(|(key, _)| *key != "block").collect();
    fleet.settle();
    assert!(fleet.pods.is_empty());
}

#[test]
fn a_finalizer_holds_the_pod_of_a_node_that_is_excluded() {
    let hook = json!({"lifecycle": {"preDelete": {"finalizersHandler": ["example.com/drain"]}}});
    let mut fleet = Fleet::on_nodes(1, hook);
    let name = fleet.name_on("n1");
    fleet.pod_mut(&name).metadata.finalizers = [Box::<str>::from("example.com/drain")].into();
    fleet.taint("n1", "gone", "NoExecute");
    fleet.settle();
    assert_eq!(fleet.pods[0].label("lifecycle.apps.kruise.io/state"), Some("PreparingDelete"));
    fleet.pod_mut(&name).metadata.finalizers = [].into();
    fleet.settle();
    assert!(fleet.pods.is_empty());
}
