use std::sync::Arc;
use std::time::Duration;

use api::kinds::podunavailablebudget::PodUnavailableBudget;
use serde_json::{Value, json};

use super::fixture::{ago, gates, merge, now, pod, pods, stored};
use crate::kinds::podunavailablebudget::plan::{Plan, Snapshot, Workload, plan};
use crate::pod::observed::ObservedPod;

fn workload(uid: &str, replicas: impl Into<Option<i32>>) -> Workload {
    Workload { uid: uid.to_owned(), replicas: replicas.into(), is_deleted: false }
}

fn planned(over: &Value, pods: &[Arc<ObservedPod>], workloads: &[Workload]) -> Plan {
    planned_beside(over, pods, workloads, &[])
}

fn planned_beside(
    over: &Value,
    pods: &[Arc<ObservedPod>],
    workloads: &[Workload],
    others: &[Arc<PodUnavailableBudget>],
) -> Plan {
    let (budget, gates) = (stored(over), gates(""));
    plan(&Snapshot { budget: &budget, others, pods, workloads, gates: &gates }, now())
}

fn status(plan: &Plan) -> Value {
    let Some(patch) = &plan.status else { return Value::Null };
    let patch: Value = serde_json::from_str(patch).unwrap();
    assert_eq!(patch["metadata"], json!({"uid": "b", "resourceVersion": "7"}));
    patch["status"].clone()
}

fn numbers(plan: &Plan) -> [i64; 4] {
    let status = status(plan);
    ["totalReplicas", "desiredAvailable", "currentAvailable", "unavailableAllowed"]
        .map(|name| status[name].as_i64().unwrap())
}

fn targeting() -> Value {
    let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"});
    json!({"spec": {"selector": null, "targetRef": target}})
}

#[test]
fn numbers_come_from_workloads_and_pods() {
    let ten = pods(10);
    let thirty = json!({"spec": {"maxUnavailable": "30%"}});
    let plan = planned(&thirty, &ten, &[workload("w", 10)]);
    assert_eq!(numbers(&plan), [10, 7, 10, 3]);
    assert_eq!(status(&plan)["observedGeneration"], 1);
    let two = [workload("a", 5), workload("b", 3), workload("a", 5)];
    assert_eq!(numbers(&planned(&json!({}), &ten, &two)), [8, 7, 10, 3]);
    let unknown = [workload("a", 5), workload("job", None), workload("odd", -1)];
    assert_eq!(numbers(&planned(&json!({}), &ten, &unknown)), [5, 4, 10, 6]);
    let deleted = [workload("a", 5), Workload { is_deleted: true, ..workload("b", 3) }];
    assert_eq!(numbers(&planned(&json!({}), &ten, &deleted)), [5, 4, 10, 6]);
    assert_eq!(numbers(&planned(&json!({"spec": {"protectTotalReplicas": 3}}), &pods(3), &[])), [3, 2, 3, 1]);
    assert_eq!(numbers(&planned(&json!({}), &pods(3), &[])), [0, 0, 3, 3]);
    let min = json!({"spec": {"maxUnavailable": null, "minAvailable": 100}});
    assert_eq!(numbers(&planned(&min, &ten, &[workload("w", 10)])), [10, 100, 10, 0]);
}

#[test]
fn a_target_that_is_gone_protects_nothing() {
    let ten = pods(10);
    let mut min = targeting();
    merge(&mut min, &json!({"spec": {"maxUnavailable": null, "minAvailable": 5}}));
    let deleted = Workload { is_deleted: true, ..workload("w", 10) };
    assert_eq!(numbers(&planned(&min, &ten, &[deleted])), [0, 0, 0, 0]);
    assert_eq!(numbers(&planned(&min, &ten, &[])), [0, 0, 0, 0]);
    assert_eq!(numbers(&planned(&min, &ten, &[workload("w", 0)])), [0, 5, 0, 0]);
    assert_eq!(numbers(&planned(&min, &ten, &[workload("w", 10)])), [10, 5, 10, 5]);
    assert_eq!(numbers(&planned(&min, &ten, &[workload("w", None)])), [0, 5, 10, 5]);
}

#[test]
fn recorded_pods_do_not_count_until_their_time_ends() {
    let five = pods(5);
    let with = |entries: &Value| planned(&json!({"status": entries}), &five, &[workload("w", 5)]);
    let held = with(&json!({"disruptedPods": {"web-0": ago(19)}, "unavailablePods": {"web-1": ago(7)}}));
    assert_eq!(numbers(&held), [5, 4, 3, 0]);
    assert_eq!(status(&held).get("disruptedPods"), None);
    assert_eq!(held.requeue_after, Some(Duration::from_secs(1)));
    let ended = with(&json!({"disruptedPods": {"web-0": ago(20)}, "unavailablePods": {"web-1": ago(10)}}));
    assert_eq!(numbers(&ended), [5, 4, 5, 1]);
    assert_eq!(status(&ended)["disruptedPods"], json!({"web-0": null}));
    assert_eq!(status(&ended)["unavailablePods"], json!({"web-1": null}));
    assert_eq!(ended.requeue_after, None);
    let [(about, event)] = ended.pod_events.as_slice() else { panic!("{:?}", ended.pod_events) };
    assert_eq!((&*about.name, event.reason), ("web-0", "NotDeleted"));
    assert_eq!(event.message, "Pod was expected by PUB shop/pub to be deleted but it wasn't");
}

#[test]
fn entries_go_with_their_pods() {
    let going = pod("web-0", &json!({"metadata": {"deletionTimestamp": ago(1)}}));
    let young = pod("web-1", &json!({"metadata": {"creationTimestamp": ago(2)}}));
    let entries = json!({"status": {"disruptedPods": {
        "web-0": ago(3), "web-1": ago(3), "unseen": ago(3), "gone": ago(6),
    }}});
    let plan = planned(&entries, &[going, young, pod("web-2", &json!({}))], &[workload("w", 3)]);
    assert_eq!(numbers(&plan), [3, 2, 2, 0]);
    // A Pod that the controller does not see may be too young for its cache.
    assert_eq!(status(&plan)["disruptedPods"], json!({"web-0": null, "web-1": null, "gone": null}));
    assert_eq!(plan.requeue_after, Some(Duration::from_secs(2)));
    assert!(plan.pod_events.is_empty());
}

#[test]
fn nothing_is_written_where_nothing_differs() {
    let mark = json!({"metadata": {"annotations": {"pub.kruise.io/related-pub": "pub"}}});
    let five: Vec<_> = (0..5).map(|number| pod(&format!("web-{number}"), &mark)).collect();
    let status = json!({"status": {"observedGeneration": 1, "totalReplicas": 5, "currentAvailable": 5,
        "desiredAvailable": 4, "unavailableAllowed": 1, "disruptedPods": {}}});
    assert_eq!(planned(&status, &five, &[workload("w", 5)]), Plan::default());
}

#[test]
fn pods_are_marked_unless_another_budget_may_protect_them() {
    let marked = |name: &str, mark: &str| {
        pod(name, &json!({"metadata": {"annotations": {"pub.kruise.io/related-pub": mark}}}))
    };
    let other = |name: &str, app: &str| {
        let selector = json!({"matchLabels": {"app": app}});
        Arc::new(stored(&json!({"metadata": {"name": name}, "spec": {"selector": selector}})))
    };
    let pods =
        [marked("a", ""), marked("b", "pub"), marked("c", "gone"), marked("d", "web"), marked("e", "db")];
    let plan =
        planned_beside(&json!({}), &pods, &[workload("w", 5)], &[other("web", "web"), other("db", "db")]);
    let names: Vec<&str> = plan.marks.iter().map(|(pod, _)| &*pod.name).collect();
    assert_eq!(names, ["a", "c", "e"]);
    let (_, write) = &plan.marks[0];
    let expected = ["kruise.io/related-pub", "pub.kruise.io/related-pub"];
    assert!(
        write.annotations.keys().eq(expected)
            && write.annotations.values().flatten().all(|name| name == "pub")
    );
    let many = planned(&json!({}), &super::fixture::pods(201), &[workload("w", 201)]);
    assert_eq!((many.marks.len(), many.requeue_after), (200, Some(Duration::from_secs(1))));
}

#[test]
fn events_tell_what_is_wrong_with_the_budget_once() {
    let reasons = |over: &Value, others: &[Arc<PodUnavailableBudget>]| {
        let plan = planned_beside(over, &[], &[], others);
        plan.events.iter().map(|event| event.reason).collect::<Vec<_>>()
    };
    assert_eq!(reasons(&json!({}), &[]), ["NoPods"]);
    assert_eq!(reasons(&json!({"status": {"observedGeneration": 1}}), &[]), [""; 0]);
    assert_eq!(
        reasons(&json!({"status": {"observedGeneration": 1, "currentAvailable": 2}}), &[]),
        ["NoPods"]
    );
    let twin = Arc::new(stored(&json!({"metadata": {"name": "twin"}})));
    assert_eq!(reasons(&json!({}), &[twin]), ["NoPods", "Conflict"]);
    let broken = json!({"spec": {"maxUnavailable": "many"}, "status": {"observedGeneration": 1}});
    let plan = planned(&broken, &pods(1), &[workload("w", 1)]);
    assert_eq!((plan.status, plan.events[0].reason), (None, "CalculateExpectedPodCountFailed"));
}
