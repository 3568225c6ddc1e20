//! Acceptance scenarios of docs/behaviour/cloneset.md#acceptance-scenarios that need no API server, and
//! properties of whole plans.

use std::time::Duration;

use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{Fleet, merge};
use super::*;
use crate::workload::plan::Outcome;

mod claims;
mod courses;
mod documented;
mod limits;
mod progress;
mod rollouts;
mod scaling;
mod status;
mod threads;
mod trigger;
mod updates;

fn in_place(more: Value) -> Value {
    Fleet::rolling("InPlaceIfPossible", more)
}

fn with(mut spec: Value, more: Value) -> Value {
    merge(&mut spec, more);
    spec
}

fn claims() -> Value {
    json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "future": 1.50}}]})
}

fn names(fleet: &Fleet) -> Vec<String> {
    let mut names: Vec<String> = (0..fleet.pods.len()).map(|index| fleet.name(index)).collect();
    names.sort();
    names
}

/// Labels the Pod for deletion.
fn specify(fleet: &mut Fleet, index: usize) -> String {
    let name = fleet.name(index);
    let write = ::pod::lifecycle::specify_delete(&fleet.pods[index]).unwrap();
    write.apply(fleet.pod_mut(&name));
    name
}

fn deleted(plan: &Plan<Status>) -> Vec<&str> {
    let deleted = plan.scale.iter().filter_map(|action| match action {
        Action::DeletePod { pod, .. } => Some(pod.name.as_str()),
        _ => None,
    });
    deleted.collect()
}

fn created(plan: &Plan<Status>) -> usize {
    plan.scale.iter().filter(|action| matches!(action, Action::CreatePod { .. })).count()
}

#[test]
fn scenario_35_availability_comes_by_itself() {
    let mut fleet = Fleet::new(json!({"replicas": 3, "minReadySeconds": 20}));
    for _ in 0..4 {
        fleet.step();
        fleet.kubelet();
    }
    let plan = fleet.step();
    assert_eq!((fleet.status().ready_replicas, fleet.status().available_replicas), (3, 0));
    assert_eq!(plan.requeue_after, Some(Duration::from_millis(20_010)));
    fleet.now += SignedDuration::try_from(plan.requeue_after.unwrap()).unwrap();
    fleet.step();
    assert_eq!(fleet.status().available_replicas, 3);
    assert!(fleet.plan().is_idle());
}

#[test]
fn a_clone_set_that_is_being_deleted_only_gets_a_status() {
    let mut fleet = Fleet::running(3, claims());
    fleet.object["metadata"]["deletionTimestamp"] = fixture::NOW.into();
    fleet.image("nginx:2");
    fleet.break_pod(0);
    let plan = fleet.plan();
    assert!(plan.is_idle() && plan.status.is_some());
    assert_eq!(plan.status.unwrap().status().ready_replicas, 2);
    let name = fleet.name(0);
    fleet.remove(&name);
    let plan = fleet.plan();
    assert!(plan.is_idle(), "nor is a Pod that is gone replaced: {plan}");
    assert_eq!(plan.status.unwrap().status().replicas, 2);
}

#[test]
fn settings_that_cannot_be_read_change_nothing() {
    let mut fleet = Fleet::running(2, json!({}));
    fleet.object["spec"]["template"] = json!("odd");
    let plan = fleet.plan();
    assert!(plan.is_idle() && plan.problems.scale.is_some(), "{plan}");
    fleet.object["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
    assert!(fleet.plan().problems.scale.unwrap().contains("spec.selector"));
}

#[test]
fn the_order_of_the_lists_does_not_matter() {
    let mut fleet = Fleet::running(6, in_place(json!({"maxUnavailable": 3})));
    fleet.edit(json!({"spec": {"replicas": 4}}));
    fleet.image("nginx:2");
    let one = fleet.settled_plan();
    fleet.pods.reverse();
    fleet.revisions.reverse();
    assert_eq!(one, fleet.plan());
    assert!(one.to_string().contains("delete Pod"), "{one}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever users and Pods do: no Pod is touched twice by a step, the number of Pods and of available
    /// ones keeps its bounds by our own doing, and in the end everything is as it is asked for.
    #[test]
    fn plans_keep_the_bounds_and_converge(
        policy in prop::sample::select(vec!["ReCreate", "InPlaceIfPossible"]),
        replicas in 1..7_i32, unavailable in 0..3_i32, surge in 0..3_i32, partition in 0..4_i32,
        moves in prop::collection::vec((0..8_u8, any::<usize>()), 1..40),
    ) {
        prop_assume!(unavailable + surge > 0);
        let rolling = json!({"maxUnavailable": unavailable, "maxSurge": surge, "partition": partition});
        let mut fleet = Fleet::running(replicas, Fleet::rolling(policy, rolling));
        let mut wanted = replicas;
        for (choice, number) in moves {
            let index = number % fleet.pods.len().max(1);
            let some = !fleet.pods.is_empty();
            match choice {
                0 => fleet.image(&format!("nginx:{}", number % 3)),
                1 if some => fleet.break_pod(index),
                2 if some => { let name = fleet.name(index); fleet.remove(&name); }
                3 if some && fleet.pods[index].label("apps.kruise.io/specified-delete").is_none() => { specify(&mut fleet, index); }
                4 if some => fleet.kubelet_of(index),
                5 => { wanted = i32::try_from(number % 7).unwrap(); fleet.edit(json!({"spec": {"replicas": wanted}})); }
                _ => fleet.kubelet(),
            }
            fleet.later(1);
            let before = (fleet.pods.len(), fleet.available());
            let plan = fleet.step();
            for actions in [&plan.scale, &plan.update, &plan.release] {
                let objects: BTreeSet<&str> = actions.iter().map(Action::object).collect();
                prop_assert_eq!(objects.len(), actions.len(), "{}", plan);
            }
            let most = usize::try_from(wanted + surge).unwrap();
            prop_assert!(fleet.pods.len() <= most.max(before.0), "{} Pods: {}", fleet.pods.len(), plan);
            let least = usize::try_from((wanted - unavailable).max(0)).unwrap();
            prop_assert!(fleet.available() >= before.1.min(least), "{} available: {}", fleet.available(), plan);
        }
        fleet.settle();
        let plan = fleet.plan();
        prop_assert!(plan.is_idle() && plan.explanation.is_complete, "{}", plan);
        prop_assert_eq!(fleet.pods.len(), usize::try_from(wanted).unwrap());
        let status = fleet.status();
        prop_assert!(status.updated_replicas >= wanted - partition.min(wanted), "{:?}", status);
    }
}

#[test]
fn where_nothing_can_be_planned_the_status_says_why() {
    let mut fleet = Fleet::running(3, claims());
    let before = fleet.status();
    // As an older release let it in.
    fleet.object["spec"]["volumeClaimTemplates"][0]["spec"]["accessModes"] = json!("ReadWriteOnce");
    fleet.object["metadata"]["generation"] = json!(9);
    let plan = fleet.step();
    assert!(plan.is_idle() && plan.problems.scale.is_some(), "{plan}");
    let status = fleet.status();
    assert_eq!((status.replicas, status.observed_generation), (3, before.observed_generation));
    for (kind, reason) in [("FailedScale", ""), ("kutter.io/Blocked", "Unreadable")] {
        let condition = status.conditions.iter().find(|condition| condition.kind == kind).unwrap();
        assert!(condition.reason == reason && condition.message.contains("accessModes"), "{condition:?}");
    }
    let idle = fleet.plan().status.unwrap();
    let failed = Outcome::Failed(plan.problems.scale.unwrap());
    assert_eq!(idle.patch(&failed, &Outcome::Succeeded), None, "it is told once");
    fleet.object["spec"]["volumeClaimTemplates"][0]["spec"]["accessModes"] = json!(["ReadWriteOnce"]);
    fleet.settle();
    assert!(fleet.status().conditions.is_empty(), "{:?}", fleet.status().conditions);
}
