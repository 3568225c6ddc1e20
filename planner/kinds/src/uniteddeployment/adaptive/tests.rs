use std::sync::Arc;

use api::kinds::Time;
use serde_json::{Value, json};

use super::*;
use crate::uniteddeployment::children::{Child, ChildKind};
use crate::uniteddeployment::durations;

const NOW: &str = "2026-03-02T10:00:00Z";

fn rules(strategy: Strategy) -> Rules<'static> {
    let now = NOW.parse().unwrap();
    Rules { strategy, durations: (30, 300), updated: "web-2", updated_since: Some(ago(60)), now }
}

fn ago(seconds: i64) -> Timestamp {
    let now: Timestamp = NOW.parse().unwrap();
    now - SignedDuration::from_secs(seconds)
}

fn child(replicas: i32, ready: i32) -> Child {
    let object = json!({"metadata": {"name": "web-a-x", "namespace": "shop", "uid": "c",
        "labels": {"apps.kruise.io/subset-name": "a"}},
        "spec": {"replicas": replicas}, "status": {"replicas": replicas, "readyReplicas": ready}});
    Child::read(ChildKind::CloneSet, &object.to_string()).unwrap().unwrap()
}

/// A Pod that is `ready` or finds no capacity, created so many seconds ago, at a revision, with a reservation label.
fn pod(is_ready: bool, age: i64, revision: &str, label: Option<&str>) -> Arc<ObservedPod> {
    let condition = match is_ready {
        true => json!({"type": "Ready", "status": "True", "lastTransitionTime": ago(age).to_string()}),
        false => json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}),
    };
    let mut object = json!({"metadata": {"name": "p", "uid": "p", "creationTimestamp": ago(age).to_string(),
        "labels": {"apps.kruise.io/controller-revision-hash": revision}},
        "spec": {"nodeName": if is_ready { "n1" } else { "" }},
        "status": {"phase": if is_ready { "Running" } else { "Pending" }, "conditions": [condition]}});
    if let Some(label) = label {
        object["metadata"]["labels"][RESERVED_POD] = label.into();
    }
    Arc::new(ObservedPod::read(&object.to_string()).unwrap())
}

fn marked(reason: &str, seconds: i64) -> Condition {
    Condition {
        last_transition_time: Some(Time::from(ago(seconds))),
        ..changed(None, (SCHEDULABLE, ConditionStatus::False), (reason, "m"), ago(0))
    }
}

fn judged(strategy: Strategy, pods: &[Arc<ObservedPod>], known: Option<&Condition>) -> Judgement {
    let ready = pods.iter().filter(|pod| pod.is_ready()).count();
    let child = child(i32::try_from(pods.len()).unwrap(), i32::try_from(ready).unwrap());
    judge(&rules(strategy), &SubsetWorkload { child: &child, pods: pods.iter().collect() }, known, 0)
}

/// With so many Pods wanted, in reservation mode.
fn reserving(wanted: i32, pods: &[Arc<ObservedPod>], known: Option<&Condition>, partition: i32) -> Judgement {
    let child = child(wanted, 0);
    let place = SubsetWorkload { child: &child, pods: pods.iter().collect() };
    judge(&rules(Strategy::Reserving), &place, known, partition)
}

fn ended(pod: &Arc<ObservedPod>) -> Arc<ObservedPod> {
    let mut pod = (**pod).clone();
    pod.status.phase = "Failed".into();
    Arc::new(pod)
}

fn reported(judgement: &Judgement) -> Value {
    let condition = judgement.condition.as_ref().unwrap();
    json!([condition.status, condition.reason, condition.message])
}

#[test]
fn a_fixed_division_judges_nothing() {
    let judgement = judged(Strategy::Fixed, &[pod(false, 1000, "web-2", None)], None);
    assert_eq!(judgement, Judgement::default());
}

#[test]
fn a_pod_without_room_marks_its_subset_after_a_while() {
    let waiting =
        judged(Strategy::Adaptive, &[pod(true, 99, "web-2", None), pod(false, 10, "web-2", None)], None);
    assert_eq!((waiting.is_unschedulable, waiting.condition, waiting.again), (false, None, Some(ago(-20))));
    let late = judged(Strategy::Adaptive, &[pod(false, 31, "web-2", None)], None);
    assert!(late.is_unschedulable && late.again == Some(ago(-300)));
    assert_eq!(reported(&late), json!(["False", "reschedule", "timeout pending pods found"]));
}

#[test]
fn a_marked_subset_is_trusted_again_after_a_while() {
    let known = marked("reschedule", 299);
    let still = judged(Strategy::Adaptive, &[pod(true, 99, "web-2", None)], Some(&known));
    assert!(still.is_unschedulable && still.was_marked && still.condition.as_ref() == Some(&known));
    assert_eq!(still.again, Some(ago(-1)));
    let over = judged(Strategy::Adaptive, &[pod(true, 99, "web-2", None)], Some(&marked("reschedule", 300)));
    assert!(!over.is_unschedulable && over.was_marked);
    assert_eq!(
        reported(&over),
        json!(["True", "recover", "unschedulable subset recovered after 300.000000 seconds"])
    );
    // A Pod that still waits is observed at once.
    let again =
        judged(Strategy::Adaptive, &[pod(false, 99, "web-2", None)], Some(&marked("reschedule", 300)));
    assert!(again.is_unschedulable && again.again == Some(ago(-300)));
    assert_eq!(reported(&again), json!(["False", "reschedule", "timeout pending pods found"]));
}

#[test]
fn pods_that_have_ended_wait_for_nothing() {
    let pods = [pod(true, 500, "web-2", Some("false")), ended(&pod(false, 500, "web-2", Some("true")))];
    let judgement = judged(Strategy::Reserving, &pods, None);
    assert_eq!((judgement.reserved, judgement.is_unschedulable, judgement.labels.len()), (0, false, 0));
    let judgement = judged(Strategy::Adaptive, &[ended(&pod(false, 500, "web-2", None))], None);
    assert!(!judgement.is_unschedulable);
}

#[test]
fn durations_are_what_the_object_says() {
    let said = |adaptive: Value| {
        let topology = json!({"scheduleStrategy": {"type": "Adaptive", "adaptive": adaptive}});
        durations(&serde_json::from_value(json!({"topology": topology})).unwrap())
    };
    assert_eq!(said(json!({})), (30, 300));
    assert_eq!(said(json!({"rescheduleCriticalSeconds": 5, "unschedulableDuration": 0})), (5, 0));
}

/// Pods that were just created, or run without being ready, may still come up: they free nothing for a rollout.
#[test]
fn only_pods_that_will_not_be_ready_soon_are_stuck() {
    let fresh = |phase: &str| {
        let mut pod = (*pod(false, 1, "web-2", None)).clone();
        pod.status.phase = phase.into();
        pod.status.conditions = Box::default();
        if phase == "Running" {
            pod.spec.node_name = "n1".into();
        }
        Arc::new(pod)
    };
    let refused = pod(false, 99, "web-2", Some("true"));
    let old = pod(false, 99, "web-1", Some("true"));
    let judgement = judged(
        Strategy::Reserving,
        &[fresh("Pending"), fresh("Running"), refused, old],
        Some(&marked("reschedule", 9)),
    );
    assert_eq!((judgement.reserved, judgement.stuck, judgement.unplaced), (4, 2, 3));
}

#[test]
fn pods_are_reserved_until_they_are_trusted() {
    let reserving = |pods: &[Arc<ObservedPod>], known| judged(Strategy::Reserving, pods, known);
    let fine = reserving(&[pod(true, 5, "web-2", None)], None);
    assert_eq!(reported(&fine), json!(["True", "reschedule", "no reserved pods"]));
    assert_eq!(fine.labels.iter().map(|label| label.1).collect::<Vec<_>>(), [false]);
    let late =
        reserving(&[pod(false, 31, "web-2", Some("false")), pod(true, 5, "web-2", Some("false"))], None);
    assert_eq!((late.reserved, late.is_unschedulable, late.labels.len()), (1, true, 1));
    assert_eq!(reported(&late), json!(["False", "reschedule", "reserved pods found"]));
    // It runs, but has not been ready for long.
    let young = reserving(&[pod(true, 299, "web-2", Some("true"))], None);
    assert_eq!((young.reserved, young.again, young.labels.len()), (1, Some(ago(-1)), 0));
    let old = reserving(&[pod(true, 301, "web-2", Some("true"))], None);
    assert_eq!((old.reserved, old.labels.len()), (0, 1));
    let outdated = reserving(&[pod(true, 301, "web-1", Some("true"))], None);
    assert_eq!(outdated.reserved, 1);
}

#[test]
fn pods_of_an_older_revision_count_once_the_rollout_has_had_its_time() {
    let stuck = judged(Strategy::Reserving, &[pod(false, 500, "web-1", Some("false"))], None);
    assert_eq!((stuck.reserved, stuck.stuck), (1, 1));
    let ready = judged(Strategy::Reserving, &[pod(true, 500, "web-1", Some("false"))], None);
    assert_eq!(ready.reserved, 0);
    let kept = [pod(false, 500, "web-1", Some("false"))];
    let kept = reserving(1, &kept, None, 1);
    assert_eq!(kept.reserved, 0, "the partition keeps it");
}

#[test]
fn a_new_subset_is_marked_until_it_has_its_pods() {
    let known = of_new_subset(ago(9));
    let none = reserving(2, &[], Some(&known), 0);
    assert!(none.was_marked && none.condition.as_ref() == Some(&known));
    let some = reserving(2, &[pod(true, 5, "web-2", None)], Some(&known), 0);
    assert_eq!((some.reserved, some.condition.as_ref()), (1, Some(&known)));
    let all = reserving(2, &[pod(true, 5, "web-2", None), pod(true, 5, "web-2", None)], Some(&known), 0);
    assert_eq!((all.reserved, reported(&all)), (2, json!(["False", "reschedule", "reserved pods found"])));
    let unused = reserving(0, &[], Some(&known), 0);
    assert_eq!(unused.condition.as_ref(), Some(&known), "it was given no Pods yet");
}
