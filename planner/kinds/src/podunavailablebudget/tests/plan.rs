use std::sync::Arc;
use std::time::Duration;

use api::kinds::podunavailablebudget::PodUnavailableBudget;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{ago, budget_json, entry, gates, merge, now, pod, pods, stored};
use crate::podunavailablebudget::plan::{Plan, Snapshot, Workload, plan};
use crate::podunavailablebudget::reserve::{Claim, Rules};
use crate::podunavailablebudget::terms::Operation;
use pod::observed::ObservedPod;
use values::reservation::Reservable;

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
fn an_update_by_a_controller_is_over_when_it_is_observed_on_the_pod() {
    let state = |revision: &str| json!({"revision": revision, "updateTimestamp": ago(60)}).to_string();
    let updated = |name: &str, revision: &str| {
        pod(
            name,
            &json!({"metadata": {"annotations": {"apps.kruise.io/inplace-update-state": state(revision)}}}),
        )
    };
    let before = pod("web-0", &json!({}));
    let claim = |by_controller| Claim { by_controller, ..Claim::new(&before, Operation::Update, false) };
    let budget = budget_json(&json!({"status": {"observedGeneration": 1, "totalReplicas": 2,
        "currentAvailable": 2, "desiredAvailable": 1, "unavailableAllowed": 1}}));
    for (by_controller, observed, expected) in [
        (true, before.clone(), [2, 1, 1, 0]),
        (true, updated("web-0", "1"), [2, 1, 2, 1]),
        // Of changes by others the Pod does not say how far they are.
        (false, updated("web-0", "1"), [2, 1, 1, 0]),
    ] {
        let mut budget = budget.clone();
        let reserved = Rules::new(&gates("")).reserve(&budget.to_string(), &[claim(by_controller)], now());
        json_patch::merge(&mut budget, &serde_json::from_str(&reserved.patch.unwrap()).unwrap());
        budget["metadata"]["resourceVersion"] = json!("7");
        let plan = planned(&budget, &[observed, pod("web-1", &json!({}))], &[workload("w", 2)]);
        let is_dropped = expected[3] == 1;
        assert_eq!(plan.status.is_some(), is_dropped);
        if is_dropped {
            assert_eq!(numbers(&plan), expected);
            assert_eq!(status(&plan)["unavailablePods"], json!({"web-0": null}));
        }
    }
}

#[test]
fn the_unit_of_a_pod_that_was_not_ready_is_given_back_and_the_pod_stays_uncounted() {
    let state = |ready: &str| json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
    let (failing, mended) = (pod("web-0", &state("False")), pod("web-0", &state("True")));
    let mut budget = budget_json(&json!({
        "metadata": {"annotations": {"kutter.io/unhealthy-pods": "Protect"}}, "spec": {"maxUnavailable": 2},
        "status": {"observedGeneration": 1, "totalReplicas": 3, "currentAvailable": 2, "desiredAvailable": 1,
            "unavailableAllowed": 1},
    }));
    let claims = [Claim::new(&failing, Operation::Delete, false)];
    let reserved = Rules::new(&gates("")).reserve(&budget.to_string(), &claims, now());
    json_patch::merge(&mut budget, &serde_json::from_str(&reserved.patch.unwrap()).unwrap());
    budget["metadata"]["resourceVersion"] = json!("7");
    assert_eq!(budget["status"]["unavailableAllowed"], 0);
    for observed in [failing, mended] {
        let pods = [observed, pod("web-1", &json!({})), pod("web-2", &json!({}))];
        let plan = planned(&budget, &pods, &[workload("w", 3)]);
        assert_eq!(numbers(&plan), [3, 1, 2, 1]);
        assert!(status(&plan)["disruptedPods"].is_null(), "its entry stays");
    }
}

#[test]
fn entries_go_with_their_pods() {
    let going = |name: &str| pod(name, &json!({"metadata": {"deletionTimestamp": ago(1)}}));
    let young = pod("web-1", &json!({"metadata": {"creationTimestamp": ago(2)}}));
    let entries = json!({"status": {"disruptedPods": {
        "web-0": entry("web-0", 3), "other": ago(3), "web-1": ago(3), "unseen": ago(3), "gone": ago(20),
    }}});
    let pods = [going("web-0"), going("other"), young, pod("web-2", &json!({}))];
    let plan = planned(&entries, &pods, &[workload("w", 3)]);
    assert_eq!(numbers(&plan), [3, 2, 2, 0]);
    // A Pod that the controller does not see may be too young for its cache.
    let ended = json!({"web-0": null, "other": null, "web-1": null, "gone": null});
    assert_eq!(status(&plan)["disruptedPods"], ended);
    assert_eq!(plan.requeue_after, Some(Duration::from_secs(17)));
    assert!(plan.pod_events.is_empty());
}

#[test]
fn the_entry_of_another_pod_of_that_name_stays_until_its_time_ends() {
    let going = pod("web-0", &json!({"metadata": {"deletionTimestamp": ago(1)}}));
    for (observed, age) in
        [(going.clone(), 3), (pod("web-0", &json!({})), 3), (going, 20), (pod("web-0", &json!({})), 20)]
    {
        let entries = json!({"status": {"disruptedPods": {"web-0": entry("later", age)}}});
        let is_back = age == 20 && observed.is_active();
        let plan = planned(&entries, &[observed, pod("web-1", &json!({}))], &[workload("w", 2)]);
        assert_eq!(numbers(&plan), [2, 1, 1 + i64::from(is_back), i64::from(is_back)]);
        assert_eq!(status(&plan)["disruptedPods"].is_null(), age == 3);
        assert!(plan.pod_events.is_empty());
    }
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
fn events_say_what_is_wrong_with_the_budget_once() {
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

proptest! {
    /// Against counting by hand. What requests take then is counted by the controller as they have left it.
    #[test]
    fn numbers_are_those_of_counting_by_hand(
        states in prop::collection::vec((any::<bool>(), prop::option::of(0..25_i64)), 0..12),
        replicas in 0..15_i32,
        (is_max, is_percent, limit) in (any::<bool>(), any::<bool>(), 0..=100_i32),
        claimed in prop::collection::vec(0..12_usize, 0..6),
    ) {
        let value = if is_percent { json!(format!("{limit}%")) } else { json!(limit) };
        let (given, other) =
            if is_max { ("maxUnavailable", "minAvailable") } else { ("minAvailable", "maxUnavailable") };
        let mut budget = budget_json(&json!({"spec": {given: value, other: null}}));
        let mut pods = Vec::new();
        for (number, (is_ready, recorded)) in states.iter().enumerate() {
            let ready = if *is_ready { "True" } else { "False" };
            let conditions = json!([{"type": "Ready", "status": ready}]);
            let name = format!("web-{number}");
            if let Some(age) = recorded {
                merge(&mut budget, &json!({"status": {"disruptedPods": {&name: ago(*age)}}}));
            }
            pods.push(pod(&name, &json!({"status": {"conditions": conditions}})));
        }
        let share = if is_percent { (limit * replicas + 99) / 100 } else { limit };
        let desired = if is_max { (replicas - share).max(0) } else { share };
        let counts = |(is_ready, recorded): &&(bool, Option<i64>)| *is_ready && recorded.is_none_or(|age| age >= 20);
        let current = i32::try_from(states.iter().filter(counts).count()).unwrap();
        let counted = |budget: &Value| planned(budget, &pods, &[workload("w", replicas)]);
        if let Some(patch) = counted(&budget).status {
            json_patch::merge(&mut budget, &serde_json::from_str(&patch).unwrap());
        }
        let status = &budget["status"];
        prop_assert_eq!(&status["totalReplicas"], replicas);
        prop_assert_eq!(&status["desiredAvailable"], desired);
        prop_assert_eq!(&status["currentAvailable"], current);
        prop_assert_eq!(&status["unavailableAllowed"], (current - desired).max(0));
        let ready = claimed.iter().filter(|number| states.get(**number).is_some_and(|(is_ready, _)| *is_ready));
        let claims: Vec<Claim> = ready.map(|number| Claim::new(&pods[*number], Operation::Evict, false)).collect();
        let reserved = Rules::new(&gates("")).reserve(&budget.to_string(), &claims, now());
        if let Some(patch) = reserved.patch {
            json_patch::merge(&mut budget, &serde_json::from_str(&patch).unwrap());
            budget["metadata"]["resourceVersion"] = json!("7");
        }
        prop_assert_eq!(counted(&budget).status, None);
    }
}
