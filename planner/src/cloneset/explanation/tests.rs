use serde_json::json;

use crate::cloneset::Plan;
use crate::cloneset::explanation::BLOCKED;
use crate::cloneset::fixture::Fleet;

fn reasons(plan: &Plan) -> Vec<&'static str> {
    plan.explanation.blockers.iter().map(|blocker| blocker.reason).collect()
}

/// A rollout whose first Pod never gets ready.
fn stuck() -> Fleet {
    let mut fleet = Fleet::running(3, Fleet::rolling("InPlaceIfPossible", json!({"maxUnavailable": 1})));
    fleet.image("nginx:broken");
    fleet.step();
    fleet.step();
    fleet
}

#[test]
fn a_used_up_budget_is_named_with_the_pods_that_use_it() {
    let mut fleet = stuck();
    let plan = fleet.settled_plan();
    let text = plan.explanation.to_string();
    assert_eq!(reasons(&plan), ["Updating"], "{plan}");
    let name = &plan.explanation.blockers[0].pod;
    assert!(
        text.contains(&format!(
            "maxUnavailable 1 of 3 Pods and 0 surge Pods is used up; unavailable 1: {name}"
        )),
        "{text}"
    );
    assert!(text.contains("does not run its new image yet"), "{text}");
}

#[test]
fn the_condition_comes_after_a_minute_and_goes_with_the_blocker() {
    let mut fleet = stuck();
    let blocked =
        |fleet: &Fleet| fleet.status().conditions.into_iter().find(|condition| condition.kind == BLOCKED);
    let early = fleet.step();
    assert!(blocked(&fleet).is_none() && early.requeue_after.is_some(), "{early}");
    fleet.later(61);
    fleet.step();
    let first = blocked(&fleet).unwrap();
    assert!(first.reason == "Updating" && first.message.contains("maxUnavailable 1"), "{first:?}");
    fleet.later(600);
    fleet.step();
    assert_eq!(blocked(&fleet).unwrap(), first, "it is written once");
    fleet.kubelet();
    fleet.settle();
    assert!(blocked(&fleet).is_none());
}

#[test]
fn what_people_decided_is_a_limit_and_no_blockade() {
    for (setting, expected) in [
        (json!({"paused": true}), "paused: 3 Pods are not updated"),
        (json!({"partition": 2}), "partition 2: 2 Pods stay at older revisions"),
    ] {
        let mut fleet = Fleet::running(3, Fleet::rolling("InPlaceIfPossible", setting));
        fleet.image("nginx:2");
        fleet.settle();
        fleet.later(3600);
        fleet.step();
        let plan = fleet.plan();
        assert_eq!(plan.explanation.limits, [expected]);
        assert!(plan.explanation.blockers.is_empty() && fleet.status().conditions.is_empty(), "{plan}");
    }
    let mut fleet = Fleet::running(2, json!({"updateStrategy": {"type": "OnDelete"}}));
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(
        fleet.plan().explanation.limits,
        ["type OnDelete: 2 Pods are updated when somebody deletes them"]
    );
}

#[test]
fn a_pod_without_a_node_says_why() {
    let mut fleet = Fleet::new(json!({"replicas": 1}));
    fleet.step();
    let plan = fleet.settled_plan();
    assert_eq!(reasons(&plan), ["Unschedulable"]);
    fleet.kubelet();
    fleet.settle();
    assert!(fleet.plan().explanation.is_complete);
}

#[test]
fn minimum_ready_seconds_are_told_with_their_end() {
    let mut fleet = Fleet::running(1, json!({}));
    fleet.edit(json!({"spec": {"minReadySeconds": 30}}));
    let plan = fleet.settled_plan();
    assert_eq!(reasons(&plan), ["MinReadySeconds"]);
    assert!(plan.explanation.to_string().contains("available from 2026-05-01T08:00:30Z"), "{plan}");
}
