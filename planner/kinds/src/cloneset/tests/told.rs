use serde_json::{Value, json};

use super::super::fixture::Fleet;
use super::super::*;
use crate::workload::told::{names, trouble};

const REFUSAL: &str = "an admission policy says no";

/// Four Pods of which one may be updated at a time, and a new image; the status tells of these conditions.
fn told_of(conditions: Value) -> Fleet {
    let rolling = json!({"maxUnavailable": 1});
    let mut fleet = Fleet::running(4, Fleet::rolling("InPlaceIfPossible", rolling));
    fleet.image("nginx:2");
    fleet.settled_plan();
    fleet.object["status"]["observedGeneration"] = fleet.object["metadata"]["generation"].clone();
    fleet.object["status"]["conditions"] = conditions;
    fleet
}

fn condition(kind: &str, message: &str) -> Value {
    json!({"type": kind, "status": "True", "message": message, "lastTransitionTime": "2026-05-01T07:00:00Z"})
}

/// The Pods that wait for the API server, and whether anything moves.
fn waiting(plan: &Plan<Status>) -> (Vec<&str>, bool) {
    let refused = plan.explanation.blockers.iter().filter(|blocker| blocker.reason == "Refused");
    (refused.map(|blocker| blocker.pod.as_str()).collect(), plan.explanation.is_moving)
}

#[test]
fn a_name_is_not_found_in_a_longer_one() {
    for message in ["web-1", "pods \"web-1\" is forbidden", "no: web-1."] {
        assert!(names(message, "web-1"), "{message}");
    }
    for message in ["web-10 is forbidden", "my-web-1", "web-1-a", ""] {
        assert!(!names(message, "web-1"), "{message}");
    }
    assert!(names("web-10, web-1", "web-1"));
}

#[test]
fn a_refused_pod_waits_and_another_one_is_updated_in_its_place() {
    let fleet = told_of(json!([]));
    let first = fleet.plan().update[0].object().to_owned();
    assert_eq!(waiting(&fleet.plan_as_told()), (vec![], true), "nothing is told");
    for message in [REFUSAL.to_owned(), format!("pod {first}: {REFUSAL}")] {
        let fleet = told_of(json!([condition("FailedUpdate", &message)]));
        let plan = fleet.plan_as_told();
        assert_eq!(waiting(&plan), (vec![first.as_str()], true), "{plan}");
        assert_ne!(plan.update[0].object(), first);
        let blocker = &plan.explanation.blockers[0];
        assert!(blocker.message.contains(REFUSAL) && !blocker.remedy.is_empty(), "{blocker:?}");
        assert_eq!(blocker.since, Some("2026-05-01T07:00:00Z".parse().unwrap()));
    }
}

#[test]
fn of_several_pods_the_one_that_is_named_waits() {
    let mut fleet = told_of(json!([]));
    fleet.object["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!(2);
    let second = fleet.plan().update[1].object().to_owned();
    fleet.object["status"]["conditions"] =
        json!([condition("FailedUpdate", &format!("pods \"{second}\" is forbidden"))]);
    assert_eq!(waiting(&fleet.plan_as_told()), (vec![second.as_str()], true));
}

#[test]
fn where_nothing_moves_all_pods_that_could_be_updated_wait() {
    let fleet = told_of(json!([condition("FailedUpdate", REFUSAL), condition("kutter.io/Blocked", REFUSAL)]));
    let plan = fleet.plan_as_told();
    let (pods, is_moving) = waiting(&plan);
    assert_eq!((pods.len(), is_moving), (4, false), "{plan}");
    assert!(plan.update.is_empty());
    let set = fleet.set();
    let told: Vec<String> = trouble(&set.status).into_iter().map(|condition| condition.kind).collect();
    assert_eq!(told, ["FailedUpdate", "kutter.io/Blocked"]);
}

#[test]
fn what_was_refused_to_an_older_generation_is_tried_again() {
    let mut fleet = told_of(json!([condition("FailedUpdate", REFUSAL), condition("FailedScale", REFUSAL)]));
    fleet.object["metadata"]["generation"] = json!(99);
    assert_eq!(waiting(&fleet.plan_as_told()), (vec![], true));
}

#[test]
fn pods_that_are_not_created_wait() {
    let mut fleet = told_of(json!([condition("FailedScale", "exceeded quota")]));
    fleet.object["spec"]["replicas"] = json!(6);
    fleet.object["spec"]["updateStrategy"]["rollingUpdate"]["paused"] = json!(true);
    let plan = fleet.plan_as_told();
    let blocker = &plan.explanation.blockers[0];
    assert_eq!(
        blocker.message, "2 Pods are not created: the API server refuses it: exceeded quota",
        "{plan}"
    );
    assert!(!plan.explanation.is_moving && blocker.reason == "FailedScale");
    fleet.object["status"]["conditions"][0]["status"] = json!("False");
    assert!(fleet.plan_as_told().explanation.is_moving);
}

#[test]
fn what_cannot_be_planned_is_no_refusal() {
    let mut fleet = told_of(json!([]));
    let rolling = &mut fleet.object["spec"]["updateStrategy"]["rollingUpdate"];
    rolling["podUpdatePolicy"] = json!("InPlaceOnly");
    let name = fleet.name(0);
    let mut write = ::pod::write::PodWrite::default();
    write.set_label("controller-revision-hash", "web-gone");
    write.apply(fleet.pod_mut(&name));
    let problem = fleet.plan().problems.update.unwrap();
    fleet.object["status"]["conditions"] = json!([condition("FailedUpdate", &problem)]);
    assert_eq!(waiting(&fleet.plan_as_told()), (vec![], true));
}
