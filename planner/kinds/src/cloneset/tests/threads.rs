//! What users of OpenKruise met with when surge, unavailable, partition and pause came together: a case for
//! each thread. (kruise#879 and kruise#2111 are not among the texts that were at hand; what they are listed
//! for is in the last two cases.)

use std::sync::Arc;

use serde_json::json;

use super::super::fixture::{Fleet, image, template};
use super::super::*;
use super::{created, deleted, in_place, names, specify, with};

use ::pod::write::PodWrite;
use api::features::FeatureGates;

fn one_percent_of_one() -> Fleet {
    let rolling = json!({"maxSurge": "50%", "maxUnavailable": "10%"});
    Fleet::running(1, Fleet::rolling("ReCreate", rolling))
}

/// 10 % of one Pod is none where there is surge: the old Pod is deleted when the new one serves.
#[test]
fn kruise_316_a_percentage_of_one_pod_does_not_take_it_down() {
    let mut fleet = one_percent_of_one();
    let old = fleet.name(0);
    fleet.image("nginx:2");
    for _ in 0..5 {
        fleet.step();
        assert!(names(&fleet).contains(&old), "the new one does not serve yet");
    }
    for _ in 0..20 {
        fleet.kubelet();
        fleet.step();
        assert_eq!(fleet.available(), 1);
    }
    assert_eq!((fleet.pods.len(), fleet.with_image("nginx:2")), (1, 1));
}

/// A rollback keeps the good old Pod and drops the new one that never came up.
#[test]
fn kruise_376_the_broken_new_pod_goes_and_the_good_old_one_stays() {
    let mut fleet = one_percent_of_one();
    let good = fleet.name(0);
    fleet.image("nginx:broken");
    fleet.step();
    assert_eq!(fleet.pods.len(), 2);
    fleet.image("nginx:1");
    for _ in 0..5 {
        fleet.step();
    }
    assert_eq!(names(&fleet), [good]);
}

#[test]
fn kruise_1153_a_pause_starts_no_surge_pods() {
    let rolling = json!({"maxSurge": "50%", "maxUnavailable": 0, "paused": true});
    let mut fleet = Fleet::running(4, Fleet::rolling("ReCreate", rolling));
    let before = names(&fleet);
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!((names(&fleet), fleet.with_image("nginx:2")), (before, 0));
}

/// One of two Pods is held by its hook before its update, partition 1; the other one is deleted.
fn held_by_its_hook(prepared_is_new: bool) -> Fleet {
    let mut labelled = template("nginx:1");
    labelled["metadata"]["labels"]["serves"] = "yes".into();
    let spec =
        json!({"lifecycle": {"inPlaceUpdate": {"labelsHandler": {"serves": "yes"}}}, "template": labelled});
    let mut fleet = Fleet::running(2, with(in_place(json!({"partition": 1, "maxUnavailable": 1})), spec));
    fleet.gates = FeatureGates::default().with(Feature::PreparingUpdateAsUpdate, prepared_is_new);
    labelled["spec"]["containers"][0]["image"] = "nginx:2".into();
    fleet.edit(json!({"spec": {"template": labelled}}));
    fleet.settle();
    let is_prepared =
        |pod: &&Arc<ObservedPod>| pod.label("lifecycle.apps.kruise.io/state") == Some("PreparingUpdate");
    let prepared = fleet.pods.iter().find(is_prepared).unwrap().metadata.name.to_string();
    let other = names(&fleet).into_iter().find(|name| *name != prepared).unwrap();
    fleet.remove(&other);
    fleet.settle();
    assert_eq!(fleet.pods.len(), 2);
    fleet
}

/// With the gate a Pod that prepares counts as new, so that the other is replaced by an old one.
#[test]
fn kruise_1290_a_pod_that_prepares_counts_as_new_with_the_gate() {
    let fleet = held_by_its_hook(true);
    assert_eq!((fleet.with_image("nginx:1"), fleet.with_image("nginx:2")), (2, 0));
    let states = fleet.pods.iter().map(|pod| pod.label("lifecycle.apps.kruise.io/state"));
    assert_eq!(states.filter(|state| *state == Some("PreparingUpdate")).count(), 1);
}

/// Without it the new Pod takes the turn of the one that prepared, which serves again.
#[test]
fn kruise_1183_a_pod_whose_turn_is_taken_goes_back_to_its_life() {
    let fleet = held_by_its_hook(false);
    assert_eq!((fleet.with_image("nginx:1"), fleet.with_image("nginx:2")), (1, 1));
    let normal = |pod: &Arc<ObservedPod>| pod.label("lifecycle.apps.kruise.io/state") == Some("Normal");
    assert!(fleet.pods.iter().all(normal));
    assert_eq!(fleet.available(), 2);
}

#[test]
fn kruise_1478_a_long_minimum_of_ready_seconds_does_not_hold_scaling_in_up() {
    let spec = with(Fleet::rolling("ReCreate", json!({})), json!({"minReadySeconds": 99_999, "replicas": 5}));
    let mut fleet = Fleet::new(spec);
    for _ in 0..5 {
        fleet.step();
        fleet.kubelet();
    }
    assert_eq!((fleet.pods.len(), fleet.available()), (5, 0));
    fleet.edit(json!({"spec": {"replicas": 3}}));
    fleet.step();
    assert_eq!(fleet.pods.len(), 3);
}

/// Pods that serve nobody do not wait for a budget that they have used up themselves.
#[test]
fn kruise_1480_broken_pods_are_updated_though_the_budget_is_used_up() {
    let mut fleet = Fleet::running(4, in_place(json!({"maxUnavailable": 1})));
    for index in 1..4 {
        fleet.break_pod(index);
    }
    let good = fleet.name(0);
    fleet.image("nginx:2");
    let plan = fleet.step();
    assert!(!plan.update.is_empty() && plan.update.iter().all(|action| action.object() != good), "{plan}");
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:2"), 4);
}

/// The partition keeps its share when the last old Pod went away by accident.
#[test]
fn kruise_1549_scaling_out_keeps_the_share_of_the_partition() {
    let mut fleet = Fleet::running(2, Fleet::rolling("ReCreate", json!({"partition": "50%"})));
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!((fleet.with_image("nginx:1"), fleet.with_image("nginx:2")), (1, 1));
    let old = fleet.pods.iter().find(|pod| image(pod) == "nginx:1").unwrap();
    let old = old.metadata.name.to_string();
    fleet.remove(&old);
    fleet.step();
    let new = fleet.pods.iter().find(|pod| image(pod) == "nginx:2").unwrap();
    let new = new.metadata.name.to_string();
    fleet.remove(&new);
    fleet.edit(json!({"spec": {"replicas": 4}}));
    fleet.settle();
    assert_eq!((fleet.with_image("nginx:1"), fleet.with_image("nginx:2")), (2, 2));
}

/// More surge brings more new Pods, also beside those that are not available.
#[test]
fn kruise_1666_more_surge_in_the_middle_brings_that_many_pods() {
    let spec = with(
        Fleet::rolling("ReCreate", json!({"maxSurge": 1, "maxUnavailable": 0})),
        json!({"minReadySeconds": 99_999}),
    );
    let mut fleet = Fleet::running(4, json!({}));
    fleet.edit(json!({"spec": spec}));
    fleet.later(200_000);
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!((fleet.pods.len(), fleet.with_image("nginx:2")), (5, 1));
    fleet.edit(json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": "100%"}}}}));
    fleet.settle();
    assert_eq!((fleet.with_image("nginx:1"), fleet.pods.len()), (4, 8), "one new Pod and three more");
}

/// However fast new Pods become ready, the bounds hold and each round does as much as they allow.
#[test]
fn kruise_1741_a_rollout_by_surge_takes_no_more_rounds_than_its_size_asks_for() {
    let rolling = json!({"maxSurge": 3, "maxUnavailable": 0});
    let mut fleet = Fleet::running(8, Fleet::rolling("ReCreate", rolling));
    fleet.image("nginx:2");
    let mut rounds = 0;
    while fleet.with_image("nginx:2") < 8 || fleet.pods.len() > 8 {
        let before = fleet.pods.len();
        for _ in 0..6 {
            fleet.step();
            assert!(fleet.pods.len() <= 11 && fleet.available() >= 8, "{}", fleet.plan());
        }
        rounds += usize::from(fleet.pods.len() > before);
        fleet.kubelet();
        assert!(rounds <= 4, "{} Pods are new after {rounds} rounds", fleet.with_image("nginx:2"));
    }
}

/// A partition is the number of Pods that are not updated, however many there are.
#[test]
fn kruise_1819_a_partition_is_what_stays_old_when_the_number_of_pods_changes() {
    let mut fleet = Fleet::running(5, in_place(json!({"partition": 2, "maxUnavailable": 5})));
    fleet.image("nginx:2");
    for (replicas, old) in [(5, 2), (8, 2), (3, 2), (2, 2), (1, 1), (4, 2)] {
        fleet.edit(json!({"spec": {"replicas": replicas}}));
        fleet.settle();
        let found = (fleet.with_image("nginx:1"), fleet.pods.len());
        let kept = if replicas == 4 { 1..=2 } else { old..=old };
        assert!(kept.contains(&found.0) && found.1 == replicas, "{found:?} of {replicas}");
    }
}

/// Priorities that match no Pod leave the order as it is: Pods that serve nobody come first.
#[test]
fn kruise_2107_a_priority_that_matches_nothing_changes_no_order() {
    let weight = json!([{"weight": 50, "matchSelector": {"matchLabels": {"none": "such"}}}]);
    let rolling = json!({"maxUnavailable": 1, "priorityStrategy": {"weightPriority": weight}});
    for broken in 0..2 {
        let mut fleet = Fleet::running(2, in_place(rolling.clone()));
        fleet.break_pod(broken);
        let name = fleet.name(broken);
        fleet.image("nginx:2");
        let plan = fleet.step();
        assert_eq!(plan.update.iter().map(Action::object).collect::<Vec<_>>(), [name]);
    }
}

/// The same where a priority puts those first that serve: they wait, and hold up nobody who does not.
#[test]
fn a_priority_does_not_keep_a_corrected_template_from_broken_pods() {
    let weight = json!([{"weight": 50, "matchSelector": {"matchLabels": {"first": "yes"}}}]);
    let rolling = json!({"maxUnavailable": 1, "priorityStrategy": {"weightPriority": weight}});
    let mut fleet = Fleet::running(4, in_place(rolling));
    for index in 0..2 {
        let name = fleet.name(index);
        let mut write = PodWrite::default();
        write.set_label("first", "yes");
        write.apply(fleet.pod_mut(&name));
    }
    fleet.break_pod(3);
    let broken = fleet.name(3);
    fleet.image("nginx:2");
    let plan = fleet.step();
    assert_eq!(plan.update.iter().map(Action::object).collect::<Vec<_>>(), [broken]);
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:2"), 4);
}

/// No Pod that serves is deleted in the step that creates the Pods it waits for.
#[test]
fn a_step_that_adds_surge_deletes_nothing_that_serves() {
    let rolling = json!({"maxSurge": 2, "maxUnavailable": 0});
    let mut fleet = Fleet::running(4, Fleet::rolling("ReCreate", rolling));
    for index in 0..2 {
        specify(&mut fleet, index);
    }
    let plan = fleet.settled_plan();
    assert_eq!((created(&plan), deleted(&plan)), (2, vec![]), "{plan}");
    fleet.image("nginx:2");
    for _ in 0..60 {
        let plan = fleet.step();
        assert!(created(&plan) == 0 || deleted(&plan).is_empty(), "{plan}");
        fleet.kubelet();
    }
    assert_eq!((fleet.pods.len(), fleet.with_image("nginx:2")), (4, 4));
}

/// Equal Pods have one order: by name, whatever order they come in.
#[test]
fn equal_pods_are_updated_in_the_order_of_their_names() {
    let mut fleet = Fleet::running(6, in_place(json!({"maxUnavailable": 2})));
    fleet.image("nginx:2");
    let mut expected = names(&fleet);
    expected.truncate(2);
    for turn in 0..6 {
        fleet.pods.rotate_left(turn);
        let plan = fleet.settled_plan();
        let mut chosen: Vec<&str> = plan.update.iter().map(Action::object).collect();
        chosen.sort_unstable();
        assert_eq!(chosen, expected);
    }
}
