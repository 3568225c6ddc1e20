use serde_json::{Value, json};

use jiff::{SignedDuration, Timestamp};

use super::super::fixture::Fleet;
use super::super::*;
use super::in_place;
use crate::cloneset::status::record_progress;
use crate::workload::conditions::condition;
use crate::workload::progress::{DEADLINE_EXCEEDED, PROGRESSING};
use api::kinds::shared::ConditionStatus;

const AVAILABLE: &str = "CloneSetAvailable";
const PAUSED: &str = "CloneSetPaused";
const PARTITION_AVAILABLE: &str = "ProgressPartitionAvailable";
const UPDATED: &str = "CloneSetUpdated";

const START: &str = "2026-05-01T08:00:00Z";

fn at(seconds: i64) -> Timestamp {
    START.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn owner(spec: Value) -> CloneSet {
    let mut object = json!({"spec": {"replicas": 5, "progressDeadlineSeconds": 10}});
    crate::cloneset::fixture::merge(&mut object["spec"], spec);
    serde_json::from_value(object).unwrap()
}

fn status(updated: i32, available: i32, expected: i32) -> Status {
    Status {
        replicas: 5,
        updated_replicas: updated,
        updated_available_replicas: Some(available),
        expected_updated_replicas: Some(expected),
        update_revision: "web-2".to_owned(),
        current_revision: if updated == 5 { "web-2" } else { "web-1" }.to_owned(),
        ..Status::default()
    }
}

/// Looks at `new` after `old`; gives reason, status and how many seconds are left.
fn look(
    owner: &CloneSet,
    old: &Status,
    new: &mut Status,
    seconds: i64,
) -> (String, ConditionStatus, Option<i64>) {
    new.conditions = old.conditions.clone();
    let deadline = record_progress(owner, old, new, at(seconds));
    let conditions = new.conditions();
    let condition = condition(&conditions, PROGRESSING).unwrap();
    (
        condition.reason.clone(),
        condition.status.clone(),
        deadline.map(|deadline| deadline.duration_since(at(seconds)).as_secs()),
    )
}

fn reason(reason: &str) -> String {
    reason.to_owned()
}

#[test]
fn scenario_26_a_rollout_without_progress_is_late_until_it_is_over() {
    let owner = owner(json!({}));
    let mut first = status(1, 0, 5);
    let progressing = (reason(UPDATED), ConditionStatus::True, Some(10));
    assert_eq!(look(&owner, &Status::default(), &mut first, 0), progressing);
    let mut second = status(1, 0, 5);
    assert_eq!(look(&owner, &first, &mut second, 9).2, Some(1));
    assert_eq!(second.conditions, first.conditions, "nothing is written while nothing changes");
    let mut late = status(1, 0, 5);
    assert_eq!(
        look(&owner, &second, &mut late, 11),
        (reason(DEADLINE_EXCEEDED), ConditionStatus::False, None)
    );
    assert_eq!(late.conditions[0].message, "CloneSet revision web-2 has timed out progressing");
    let mut still = status(1, 0, 5);
    look(&owner, &late, &mut still, 60);
    assert_eq!(still.conditions, late.conditions, "it is told once");
    let mut further = status(2, 1, 5);
    assert_eq!(
        look(&owner, &still, &mut further, 70),
        (reason(DEADLINE_EXCEEDED), ConditionStatus::False, None),
        "progress does not take it back"
    );
    assert_eq!(further.conditions, late.conditions);
    let mut done = status(5, 5, 5);
    assert_eq!(look(&owner, &further, &mut done, 90), (reason(AVAILABLE), ConditionStatus::True, None));
    assert_eq!(done.conditions[0].last_transition_time, Some(at(90).into()));
}

#[test]
fn progress_starts_the_time_anew_before_the_deadline() {
    let owner = owner(json!({}));
    let mut first = status(1, 0, 5);
    look(&owner, &Status::default(), &mut first, 0);
    let mut second = status(2, 1, 5);
    assert_eq!(look(&owner, &first, &mut second, 9), (reason(UPDATED), ConditionStatus::True, Some(10)));
    assert_eq!(second.conditions[0].last_transition_time, first.conditions[0].last_transition_time);
}

#[test]
fn a_rollout_that_was_late_has_its_whole_time_after_a_pause() {
    let owner_of = |paused: bool| owner(json!({"updateStrategy": {"rollingUpdate": {"paused": paused}}}));
    let (mut first, mut late) = (status(1, 0, 5), status(1, 0, 5));
    look(&owner_of(false), &Status::default(), &mut first, 0);
    assert_eq!(look(&owner_of(false), &first, &mut late, 11).0, DEADLINE_EXCEEDED);
    let (mut paused, mut resumed) = (status(1, 0, 5), status(1, 0, 5));
    assert_eq!(look(&owner_of(true), &late, &mut paused, 20).0, PAUSED);
    let progressing = (reason(UPDATED), ConditionStatus::True, Some(10));
    assert_eq!(look(&owner_of(false), &paused, &mut resumed, 30), progressing);
}

#[test]
fn sharp_edge_5_a_rollout_has_its_whole_time_however_long_the_rest_was() {
    let owner = owner(json!({}));
    let mut done = status(5, 5, 5);
    look(&owner, &Status::default(), &mut done, 0);
    let mut next = status(0, 0, 5);
    next.update_revision = "web-3".to_owned();
    assert_eq!(look(&owner, &done, &mut next, 10_000), (reason(UPDATED), ConditionStatus::True, Some(10)));
    // The next revision comes while the last one is late.
    let mut late = status(0, 0, 5);
    late.update_revision = "web-3".to_owned();
    assert_eq!(look(&owner, &next, &mut late, 10_020).0, DEADLINE_EXCEEDED);
    let mut another = status(0, 0, 5);
    another.update_revision = "web-4".to_owned();
    assert_eq!(look(&owner, &late, &mut another, 10_030).0, UPDATED);
}

#[test]
fn scenario_27_waiting_as_asked_is_no_delay() {
    let mut new = status(3, 3, 3);
    assert_eq!(look(&owner(json!({})), &Status::default(), &mut new, 0).0, PARTITION_AVAILABLE);
    let paused = owner(json!({"updateStrategy": {"rollingUpdate": {"paused": true}}}));
    assert_eq!(look(&paused, &Status::default(), &mut new, 0).0, PAUSED);
}

#[test]
fn without_a_deadline_there_is_no_condition() {
    for spec in [json!({"progressDeadlineSeconds": null}), json!({"progressDeadlineSeconds": i32::MAX})] {
        let mut new = status(1, 0, 5);
        look(&owner(json!({})), &Status::default(), &mut new, 0);
        let old = new.clone();
        assert_eq!(record_progress(&owner(spec), &old, &mut new, at(1)), None);
        assert!(new.conditions.is_empty());
    }
}

#[test]
fn the_deadline_is_waited_for_and_reported() {
    let mut fleet = Fleet::running(2, in_place(json!({"maxUnavailable": 1})));
    fleet.edit(json!({"spec": {"progressDeadlineSeconds": 20}}));
    fleet.settle();
    let reported = |fleet: &Fleet| {
        let conditions = fleet.status().conditions();
        let reported = condition(&conditions, PROGRESSING).unwrap();
        (reported.reason.clone(), reported.status.clone())
    };
    assert_eq!(reported(&fleet), (reason(AVAILABLE), ConditionStatus::True));
    // No kubelet runs what the first Pod is updated to.
    fleet.image("nginx:missing");
    let plans: Vec<_> = (0..5).map(|_| fleet.step()).collect();
    assert_eq!(reported(&fleet), (reason(UPDATED), ConditionStatus::True));
    let wait = plans.last().unwrap().requeue_after.unwrap();
    assert!((20.0..20.1).contains(&wait.as_secs_f64()), "{wait:?}");
    fleet.now += SignedDuration::try_from(wait).unwrap();
    fleet.step();
    assert_eq!(reported(&fleet), (reason(DEADLINE_EXCEEDED), ConditionStatus::False));
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(reported(&fleet), (reason(AVAILABLE), ConditionStatus::True));
}
