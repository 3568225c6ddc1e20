use api::kinds::cloneset::Status;
use serde_json::{Value, json};

use super::*;

fn plan(old: Status, new: Status) -> StatusPlan<Status> {
    StatusPlan {
        uid: "u".to_owned(),
        resource_version: "7".to_owned(),
        old,
        new,
        now: "2026-05-01T08:00:00Z".parse().unwrap(),
        blocked: None,
        nothing_was_done: false,
    }
}

fn written() -> Status {
    Status {
        observed_generation: Some(1),
        update_revision: "web-1".to_owned(),
        updated_available_replicas: Some(2),
        ..Status::default()
    }
}

fn patch(plan: &StatusPlan<Status>, scale: &Outcome, update: &Outcome) -> Option<Value> {
    plan.patch(scale, update).map(|patch| serde_json::from_str(&patch).unwrap())
}

#[test]
fn nothing_is_written_where_nothing_differs() {
    let same = plan(written(), written());
    assert_eq!(patch(&same, &Outcome::Succeeded, &Outcome::Skipped), None);
}

#[test]
fn a_patch_has_what_differs_and_what_must_be_there() {
    let new = Status { updated_available_replicas: None, replicas: 2, ..written() };
    assert_eq!(
        patch(&plan(written(), new), &Outcome::Succeeded, &Outcome::Succeeded).unwrap(),
        json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "status": {"availableReplicas": 0, "readyReplicas": 0, "replicas": 2,
            "updatedReadyReplicas": 0, "updatedReplicas": 0, "updatedAvailableReplicas": null}})
    );
    // The first status of all has its zeros too.
    let first = patch(&plan(Status::default(), Status::default()), &Outcome::Succeeded, &Outcome::Succeeded);
    assert_eq!(first.unwrap()["status"]["replicas"], 0);
}

#[test]
fn sharp_edge_6_errors_of_a_step_come_change_and_go() {
    let failed = |message: &str| Outcome::Failed(message.to_owned());
    let apply = |status: &Status, scale: &Outcome, update: &Outcome| {
        let mut status = status.clone();
        if let Some(patch) = patch(&plan(status.clone(), status.clone()), scale, update) {
            status.conditions =
                serde_json::from_value(patch["status"]["conditions"].clone()).unwrap_or_default();
        }
        status
    };
    let first = apply(&written(), &failed("quota"), &Outcome::Skipped);
    assert_eq!(
        serde_json::to_value(&first.conditions).unwrap(),
        json!([{"type": "FailedScale", "status": "True", "message": "quota", "lastTransitionTime": "2026-05-01T08:00:00Z"}])
    );
    assert_eq!(apply(&first, &failed("quota"), &Outcome::Skipped), first);
    let second = apply(&first, &failed("webhook"), &failed("conflict"));
    assert_eq!((second.conditions[0].message.as_str(), second.conditions.len()), ("webhook", 2));
    let skipped = apply(&second, &Outcome::Succeeded, &Outcome::Skipped);
    assert_eq!(skipped.conditions.len(), 1, "a step that was not tried says nothing");
    assert!(apply(&skipped, &Outcome::Succeeded, &Outcome::Succeeded).conditions.is_empty());
}

#[test]
fn selectors_read_as_kubernetes_prints_them() {
    let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
        {"key": "zone", "operator": "In", "values": ["b", "a"]}, {"key": "tier", "operator": "NotIn", "values": ["x"]},
        {"key": "a", "operator": "Exists"}, {"key": "b", "operator": "DoesNotExist"}]});
    let selector: LabelSelector = serde_json::from_value(selector).unwrap();
    assert_eq!(selector_text(&selector), "a,app=web,!b,tier notin (x),zone in (a,b)");
}
