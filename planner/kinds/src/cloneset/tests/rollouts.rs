//! Rollouts: partition, budgets, pauses, rollbacks (docs/behaviour/cloneset.md#update-step and
//! docs/behaviour/cloneset.md#acceptance-scenarios).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::super::fixture::{Fleet, image, template};
use super::super::*;
use super::{in_place, names};

use ::pod::write::PodWrite;
use api::features::FeatureGates;

#[test]
fn scenario_6_a_partition_holds_pods_back() {
    let mut fleet = Fleet::running(5, in_place(json!({"partition": 3, "maxUnavailable": 2})));
    let old = fleet.status().update_revision;
    let before = names(&fleet);
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!((fleet.with_image("nginx:2"), fleet.with_image("nginx:1")), (2, 3));
    assert_eq!(names(&fleet), before, "in place");
    let status = fleet.status();
    assert_eq!((status.updated_replicas, status.expected_updated_replicas), (2, Some(2)));
    assert_eq!(status.current_revision, old);
    assert_ne!(status.update_revision, old);
}

#[test]
fn scenario_7_percentages_of_the_partition() {
    for (replicas, partition, updated) in [(5, "99%", 1), (5, "100%", 0), (1, "99%", 0)] {
        let mut fleet = Fleet::running(replicas, in_place(json!({"partition": partition})));
        fleet.image("nginx:2");
        fleet.settle();
        assert_eq!(fleet.with_image("nginx:2"), updated, "{partition} of {replicas}");
    }
}

#[test]
fn scenario_8_raising_the_partition_rolls_back_only_with_the_gate() {
    for (gate, updated) in [(false, 2), (true, 0)] {
        let mut fleet = Fleet::running(5, in_place(json!({"partition": 3, "maxUnavailable": 2})));
        fleet.gates = FeatureGates::default().with(Feature::CloneSetPartitionRollback, gate);
        let before = names(&fleet);
        fleet.image("nginx:2");
        fleet.settle();
        fleet.edit(json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 5}}}}));
        fleet.settle();
        assert_eq!(fleet.with_image("nginx:2"), updated);
        assert_eq!(names(&fleet), before);
    }
}

#[test]
fn scenario_8_pods_go_back_within_the_budget() {
    let mut fleet = Fleet::running(5, in_place(json!({"partition": 3, "maxUnavailable": 1})));
    fleet.gates = FeatureGates::default().with(Feature::CloneSetPartitionRollback, true);
    fleet.image("nginx:2");
    fleet.settle();
    let old = fleet.pods.iter().position(|pod| image(pod) == "nginx:1").unwrap();
    fleet.break_pod(old);
    fleet.edit(json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 5}}}}));
    for _ in 0..5 {
        fleet.step();
    }
    assert_eq!(fleet.with_image("nginx:2"), 2, "the old revision is in trouble");
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:1"), 5);
}

/// Labels the first Pods with these values and gives those of all in the order in which one after another is updated.
fn order_of_update(mut fleet: Fleet, key: &str, values: &[&'static str]) -> Vec<&'static str> {
    let mut of = BTreeMap::new();
    for (index, value) in values.iter().enumerate() {
        let mut write = PodWrite::default();
        write.set_label(key, *value);
        of.insert(fleet.name(index), *value);
        let name = fleet.name(index);
        write.apply(fleet.pod_mut(&name));
    }
    fleet.image("nginx:2");
    let mut order = Vec::new();
    for _ in 0..100 {
        fleet.step();
        let new = fleet.pods.iter().filter(|pod| image(pod) == "nginx:2");
        let new: Vec<String> = new.map(|pod| pod.metadata.name.to_string()).collect();
        order.extend(new.into_iter().filter(|name| !order.contains(name)).collect::<Vec<_>>());
        fleet.kubelet();
    }
    assert_eq!(order.len(), fleet.pods.len());
    order.iter().map(|name| of.get(name).copied().unwrap_or_default()).collect()
}

/// The order is found anew for each Pod: the second one comes as the fifth, and the last one, which is not scattered any
/// more, at any later time (docs/behaviour/in-place-update.md#scatter).
#[test]
fn scattered_pods_are_updated_far_from_one_another() {
    let scatter = json!({"maxUnavailable": 1, "scatterStrategy": [{"key": "foo", "value": "bar"}]});
    let order = order_of_update(Fleet::running(10, in_place(scatter)), "foo", &["bar"; 3]);
    let places: Vec<usize> = (0..10).filter(|place| order[*place] == "bar").collect();
    assert_eq!(places[..2], [0, 4], "{order:?}");
}

#[test]
fn heavier_pods_are_updated_first() {
    let term =
        |weight: i32, value: &str| json!({"weight": weight, "matchSelector": {"matchLabels": {"k": value}}});
    let priority = json!({"weightPriority": [term(30, "bar"), term(50, "foo")]});
    let rolling = json!({"maxUnavailable": 1, "priorityStrategy": priority});
    let values = ["bar", "", "foo", "bar", "foo"];
    let order = order_of_update(Fleet::running(6, in_place(rolling)), "k", &values);
    assert_eq!(order, ["foo", "foo", "bar", "bar", "", ""]);
}

#[test]
fn scenario_9_surge_alone_never_takes_a_pod_away() {
    let mut fleet =
        Fleet::running(5, Fleet::rolling("ReCreate", json!({"maxUnavailable": 0, "maxSurge": 1})));
    fleet.image("nginx:2");
    for _ in 0..200 {
        fleet.step();
        assert!(fleet.pods.len() <= 6 && fleet.available() >= 5, "{}", fleet.plan());
        fleet.kubelet();
    }
    assert_eq!((fleet.pods.len(), fleet.with_image("nginx:2")), (5, 5));
}

#[test]
fn scenario_10_percentages_of_max_unavailable() {
    for (surge, most) in [(0, 3), (1, 2)] {
        let rolling = json!({"maxUnavailable": "25%", "maxSurge": surge});
        let mut fleet = Fleet::running(10, in_place(rolling));
        fleet.image("nginx:2");
        let mut worst = 0;
        for _ in 0..100 {
            fleet.step();
            worst = worst.max(10_usize.saturating_sub(fleet.available()));
            fleet.kubelet();
        }
        assert_eq!((worst, fleet.with_image("nginx:2")), (most, 10));
    }
}

#[test]
fn scenario_13_paused_scales_but_updates_nothing() {
    let mut fleet = Fleet::running(3, in_place(json!({"paused": true})));
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:1"), 3);
    fleet.edit(json!({"spec": {"replicas": 4}}));
    fleet.settle();
    assert_eq!(fleet.pods.len(), 4);
    fleet.edit(json!({"spec": {"updateStrategy": {"rollingUpdate": {"paused": false}}}}));
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:2"), 4);
}

#[test]
fn scenario_14_on_delete_waits_for_people() {
    let mut fleet = Fleet::running(3, json!({"updateStrategy": {"type": "OnDelete"}}));
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:1"), 3);
    let name = fleet.name(0);
    fleet.remove(&name);
    fleet.settle();
    assert_eq!((fleet.with_image("nginx:1"), fleet.with_image("nginx:2")), (2, 1));
}

#[test]
fn scenario_28_a_rollback_touches_only_what_was_changed() {
    let mut fleet = Fleet::running(5, in_place(json!({"partition": 3, "maxUnavailable": 2})));
    fleet.image("nginx:2");
    fleet.settle();
    let (before, first) = (fleet.pods.clone(), fleet.revisions[0].name().to_owned());
    fleet.edit(json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}, "template": template("nginx:1")}}));
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:1"), 5);
    assert_eq!((fleet.status().update_revision, fleet.revisions.len()), (first, 2));
    let untouched = |pod: &&Arc<ObservedPod>| image(pod) == "nginx:1";
    assert!(before.iter().filter(untouched).all(|pod| fleet.pods.contains(pod)));
}

#[test]
fn sharp_edge_8_a_marked_pod_is_reported_once() {
    let mut fleet = Fleet::running(3, Fleet::rolling("ReCreate", json!({"maxUnavailable": 1})));
    fleet.image("nginx:2");
    fleet.settle();
    let reported = fleet.reasons().iter().filter(|reason| **reason == "SuccessfulUpdatePodReCreate").count();
    assert_eq!(reported, 3, "{:?}", fleet.events);
}

#[test]
fn sharp_edge_17_an_impossible_pod_stops_no_other() {
    let mut fleet = Fleet::running(3, Fleet::rolling("InPlaceOnly", json!({"maxUnavailable": 3})));
    // A Pod whose revision is not in the history.
    let name = fleet.name(0);
    let mut write = PodWrite::default();
    write.set_label("controller-revision-hash", "web-gone");
    write.apply(fleet.pod_mut(&name));
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:2"), 2);
    let status = fleet.status();
    let failed = status.conditions.iter().find(|condition| condition.kind == "FailedUpdate").unwrap();
    let expected = format!("find Pod {name} update strategy is InPlaceOnly but can not update in-place");
    assert!(failed.message.starts_with(&expected), "{}", failed.message);
    let blocked = status
        .conditions
        .iter()
        .find(|condition| condition.kind == crate::workload::explanation::BLOCKED)
        .unwrap();
    assert!(blocked.message.contains(&name), "{}", blocked.message);
}

#[test]
fn a_marked_pod_keeps_its_place_in_the_partition() {
    // The marked Pod waits for surge; meanwhile the order of the others changes.
    let rolling = json!({"partition": 4, "maxUnavailable": 0, "maxSurge": 1});
    let mut fleet = Fleet::running(5, Fleet::rolling("ReCreate", rolling));
    fleet.image("nginx:2");
    for turn in 0..40 {
        fleet.step();
        let marked = |pod: &&Arc<ObservedPod>| pod.label("apps.kruise.io/specified-delete").is_some();
        assert!(fleet.pods.iter().filter(marked).count() <= 1);
        fleet.break_pod(turn % 3);
        fleet.later(5);
        fleet.kubelet();
    }
    assert_eq!((fleet.with_image("nginx:1"), fleet.with_image("nginx:2")), (4, 1));
}

/// Five old Pods and new ones by this surge. No Pod will be available for 68 years: a blue-green release raises
/// `minReadySeconds` before it changes the template.
fn blue_green(surge: &str) -> Fleet {
    let mut fleet =
        Fleet::running(5, Fleet::rolling("ReCreate", json!({"maxUnavailable": 0, "maxSurge": surge})));
    fleet.edit(json!({"spec": {"minReadySeconds": i32::MAX - 1}}));
    fleet.settle();
    assert_eq!(fleet.available(), 0);
    fleet.image("nginx:2");
    let plan = fleet.settled_plan();
    assert!(plan.update.is_empty(), "none goes before there is any new one: {plan}");
    fleet.settle();
    fleet.later(3_600);
    fleet.settle();
    fleet
}

fn old_and_new(fleet: &Fleet) -> (usize, usize) {
    (fleet.with_image("nginx:1"), fleet.with_image("nginx:2"))
}

#[test]
fn serving_pods_stay_until_new_ones_are_available() {
    for (surge, new) in [("50%", 3), ("100%", 5)] {
        let mut fleet = blue_green(surge);
        assert_eq!(old_and_new(&fleet), (5, new), "{}", fleet.plan());
        fleet.edit(json!({"spec": {"minReadySeconds": 0}}));
        fleet.settle();
        assert_eq!(old_and_new(&fleet), (0, 5), "{}", fleet.plan());
    }
}

/// What is beyond `replicas` and `maxSurge` is for the user who scales in, the rest for the rollout.
#[test]
fn scaling_in_goes_on_beside_new_pods_that_are_not_available() {
    for (surge, new) in [("50%", 2), ("100%", 3)] {
        let mut fleet = blue_green(surge);
        fleet.edit(json!({"spec": {"replicas": 3}}));
        fleet.settle();
        assert_eq!(old_and_new(&fleet), (3, new), "{}", fleet.plan());
    }
    // A pause is no scaling in: the new Pods stay.
    let mut fleet = blue_green("50%");
    for (replicas, expected) in [(5, (5, 3)), (3, (3, 2))] {
        let paused = json!({"rollingUpdate": {"paused": true}});
        fleet.edit(json!({"spec": {"replicas": replicas, "updateStrategy": paused}}));
        fleet.settle();
        assert_eq!(old_and_new(&fleet), expected, "{}", fleet.plan());
    }
}

#[test]
fn a_rollout_takes_as_many_serving_pods_as_may_be_unavailable_however_long_pods_have_to_be_ready() {
    for unavailable in [1, 2] {
        let rolling = Fleet::rolling("ReCreate", json!({"maxUnavailable": unavailable}));
        let mut fleet = Fleet::running(5, rolling);
        fleet.edit(json!({"spec": {"minReadySeconds": 3_600}}));
        fleet.image("nginx:2");
        fleet.settle();
        assert_eq!(old_and_new(&fleet), (5 - unavailable, unavailable), "{}", fleet.plan());
        fleet.edit(json!({"spec": {"replicas": 4,
            "scaleStrategy": {"podsToDelete": [fleet.name(fleet.pods.len() - 1)]}}}));
        fleet.settle();
        assert_eq!(fleet.pods.len(), 4, "a named new Pod goes: {}", fleet.plan());
    }
}
