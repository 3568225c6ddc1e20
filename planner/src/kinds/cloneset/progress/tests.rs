use serde_json::{Value, json};

use super::*;

const START: &str = "2026-05-01T08:00:00Z";

fn at(seconds: i64) -> Timestamp {
    START.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn owner(spec: Value) -> CloneSet {
    let mut object = json!({"spec": {"replicas": 5, "progressDeadlineSeconds": 10}});
    crate::kinds::cloneset::fixture::merge(&mut object["spec"], spec);
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
    let deadline = update(owner, old, new, at(seconds));
    let condition = condition(&new.conditions, PROGRESSING).unwrap();
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
fn scenario_26_a_rollout_without_progress_is_late_until_it_goes_on() {
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
    assert_eq!(look(&owner, &still, &mut further, 70), progressing, "progress starts the time anew");
    let mut done = status(5, 5, 5);
    assert_eq!(look(&owner, &further, &mut done, 90), (reason(AVAILABLE), ConditionStatus::True, None));
    assert_eq!(done.conditions[0].last_transition_time, further.conditions[0].last_transition_time);
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
        assert_eq!(update(&owner(spec), &old, &mut new, at(1)), None);
        assert!(new.conditions.is_empty());
    }
}
