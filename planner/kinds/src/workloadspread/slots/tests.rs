use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use values::reservation::{ReservationState, Step};

const NOW: &str = "2026-07-02T09:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn spread(subsets: Value, versioned: Value) -> Value {
    let mut object = json!({"metadata": {"name": "ws", "namespace": "shop", "resourceVersion": "7"},
        "spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"}}});
    object["spec"]["subsets"] = subsets;
    object["status"]["versionedSubsetStatuses"] = versioned;
    object
}

fn limited() -> Value {
    json!([{"name": "a", "maxReplicas": 3}, {"name": "b"}])
}

fn create(id: &str) -> Claim {
    versioned("v", None, PodEvent::Creation { id: id.to_owned() })
}

fn delete(pod: &str, subset: &str) -> Claim {
    deletion(pod, pod, subset)
}

fn deletion(pod: &str, id: &str, subset: &str) -> Claim {
    let [pod, id, subset] = [pod, id, subset].map(str::to_owned);
    versioned("v", None, PodEvent::Deletion { pod, id, subset })
}

fn refusal(pod: &str) -> Claim {
    versioned("v", None, PodEvent::Refusal { pod: pod.to_owned() })
}

fn versioned(version: &str, replicas: Option<i32>, event: PodEvent) -> Claim {
    Claim { version: version.to_owned(), replicas, event }
}

fn item(name: &str, replicas: i32, missing: i32, more: Value) -> Value {
    let mut item = more;
    item["name"] = json!(name);
    item["replicas"] = json!(replicas);
    item["missingReplicas"] = json!(missing);
    item
}

/// The object after the claims, and the subset of each.
fn reserve(object: &Value, claims: &[Claim]) -> (Value, Vec<String>) {
    let Reserved { patch, answers } = Slots.reserve(&object.to_string(), claims, now());
    let mut after = object.clone();
    if let Some(patch) = patch {
        let patch: Value = serde_json::from_str(&patch).unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
        json_patch::merge(&mut after, &patch);
    }
    let subsets = answers.into_iter().map(|answer| match answer {
        Answer::Subset(subset) | Answer::Unlimited(subset) => subset,
        Answer::Full => "full".to_owned(),
        Answer::Noted => "noted".to_owned(),
        Answer::Nothing => "nothing".to_owned(),
    });
    (after, subsets.collect())
}

fn list<'v>(object: &'v Value, version: &str) -> &'v Value {
    &object["status"]["versionedSubsetStatuses"][version]
}

#[test]
fn scenario_1_pods_fill_the_first_subset_and_then_the_next() {
    let claims: Vec<Claim> = ["p1", "p2", "p3", "p4", "p5"].map(create).to_vec();
    let (after, subsets) = reserve(&spread(limited(), json!({})), &claims);
    assert_eq!(subsets, ["a", "a", "a", "b", "b"]);
    let creating = json!({"p1": NOW, "p2": NOW, "p3": NOW});
    let expected = json!([item("a", 0, 0, json!({"creatingPods": creating})), item("b", 0, 0, json!({}))]);
    assert_eq!(*list(&after, "v"), expected);
    assert_eq!(after["status"].as_object().unwrap().len(), 1, "only the list of the version is written");
}

#[test]
fn a_pod_that_is_noted_takes_no_second_slot() {
    let (after, _) = reserve(&spread(limited(), json!({})), &[create("p1")]);
    let (again, subsets) = reserve(&after, &[create("p1"), create("p1")]);
    assert_eq!((again, subsets), (after, vec!["a".to_owned(); 2]));
}

#[test]
fn scenario_21_a_pod_that_is_deleted_gives_its_slot_back_at_once() {
    let full = spread(limited(), json!({"v": [item("a", 3, 0, json!({})), item("b", 1, -1, json!({}))]}));
    let (after, subsets) =
        reserve(&full, &[delete("p1", "a"), delete("p1", "a"), delete("p9", "b"), delete("p8", "x")]);
    assert_eq!(subsets, ["noted", "nothing", "nothing", "nothing"]);
    assert_eq!(list(&after, "v")[0], item("a", 3, 1, json!({"deletingPods": {"p1": NOW}})));
    assert_eq!(list(&after, "v")[1], item("b", 1, -1, json!({})), "without a limit nothing is noted");
    let (after, subsets) = reserve(&after, &[create("p4"), create("p5")]);
    assert_eq!(subsets, ["a", "b"]);
    assert_eq!(list(&after, "v")[0]["missingReplicas"], 0);
}

#[test]
fn a_pod_that_is_deleted_before_it_was_counted_gives_its_slot_back_at_once() {
    let (before, _) = reserve(&spread(limited(), json!({})), &["p1", "p2", "uuid"].map(create));
    let deletions = [delete("p1", "a"), delete("p1", "a"), deletion("p3", "uuid", "a")];
    let (after, answers) = reserve(&before, &deletions);
    assert_eq!(answers, ["noted", "nothing", "noted"]);
    let leaving = json!({"creatingPods": {"p2": NOW}, "deletingPods": {"p1": NOW, "p3": NOW}});
    assert_eq!(list(&after, "v")[0], item("a", 2, 2, leaving));
    assert_eq!(reserve(&after, &["p4", "p5", "p6"].map(create)).1, ["a", "a", "b"]);
}

#[test]
fn a_pod_that_comes_under_the_name_of_one_that_left_takes_a_slot() {
    let full = spread(limited(), json!({"v": [item("a", 3, 0, json!({})), item("b", 0, -1, json!({}))]}));
    let (after, _) = reserve(&full, &[delete("p1", "a")]);
    let (again, subsets) = reserve(&after, &[create("p1"), create("p4")]);
    assert_eq!(subsets, ["a", "b"]);
    assert_eq!(list(&again, "v")[0], item("a", 2, 0, json!({"creatingPods": {"p1": NOW}})));
    let (taken, subsets) = reserve(&after, &[create("p4"), create("p1")]);
    assert_eq!(subsets, ["a", "b"], "the slot was given to another");
    assert_eq!(list(&taken, "v")[0], item("a", 2, 0, json!({"creatingPods": {"p4": NOW}})));
}

#[test]
fn what_others_refuse_changes_nothing() {
    let running = spread(limited(), json!({"v": [item("a", 2, 1, json!({})), item("b", 0, -1, json!({}))]}));
    for (noted, pod) in [(create("p3"), "p3"), (delete("p1", "a"), "p1")] {
        let (after, _) = reserve(&running, &[noted]);
        let (back, answers) = reserve(&after, &[refusal(pod), refusal("other")]);
        assert_eq!((back, answers), (running.clone(), vec!["noted".to_owned(); 2]));
    }
    let subsets = json!([{"name": "a", "maxReplicas": "50%"}]);
    let counted = spread(subsets, json!({"v": [item("a", 1, 1, json!({}))]}));
    let (after, _) = reserve(&counted, &[create("p3")]);
    assert_eq!(reserve(&after, &[refusal("p3")]).0, counted);
}

#[test]
fn scenario_31_no_slot_is_left() {
    let subsets = json!([{"name": "a", "maxReplicas": 1}, {"name": "b", "maxReplicas": 1}]);
    let full = spread(subsets, json!({"v": [item("a", 1, 0, json!({})), item("b", 1, 0, json!({}))]}));
    assert_eq!(reserve(&full, &[create("p3")]), (full, vec!["full".to_owned()]));
    assert!(Slots::is_refusal(&Answer::Full) && !Slots::is_refusal(&Answer::Noted));
}

#[test]
fn scenario_7_shares_are_rounded_up() {
    let claims = |subsets: Value, replicas: Option<i32>| -> Vec<String> {
        let event = |number: i32| PodEvent::Creation { id: format!("p{number}") };
        let claims: Vec<Claim> = (0..5).map(|number| versioned("v", replicas, event(number))).collect();
        reserve(&spread(subsets, json!({})), &claims).1
    };
    let both = json!([{"name": "a", "maxReplicas": "40%"}, {"name": "b", "maxReplicas": "60%"}]);
    assert_eq!(claims(both.clone(), Some(5)), ["a", "a", "b", "b", "b"]);
    let half = json!([{"name": "a", "maxReplicas": "50%"}, {"name": "b"}]);
    assert_eq!(claims(half, Some(5)), ["a", "a", "a", "b", "b"]);
    assert_eq!(claims(both, None), ["full"; 5], "nothing is known of the workload, nor was anything counted");
}

#[test]
fn a_share_follows_the_workload_before_the_controller_does() {
    let subsets = json!([{"name": "a", "maxReplicas": "50%"}, {"name": "b"}]);
    let counted = spread(subsets, json!({"v": [item("a", 2, 0, json!({})), item("b", 2, -1, json!({}))]}));
    let placed = |replicas: Option<i32>| {
        reserve(&counted, &[versioned("v", replicas, PodEvent::Creation { id: "p".to_owned() })]).1
    };
    assert_eq!(
        (placed(Some(4)), placed(Some(8)), placed(None)),
        (vec!["b".into()], vec!["a".into()], vec!["b".into()])
    );
}

#[test]
fn a_share_is_what_was_counted_where_the_workload_is_not_known() {
    let subsets = json!([{"name": "a", "maxReplicas": "50%"}, {"name": "b", "maxReplicas": "50%"}]);
    let mut counted = spread(subsets, json!({}));
    counted["status"]["subsetStatuses"] = json!([item("a", 1, 1, json!({})), item("b", 3, 0, json!({}))]);
    let pods: Vec<Claim> = ["p1", "p2", "p3"].map(create).to_vec();
    let (after, subsets) = reserve(&counted, &pods);
    assert_eq!(
        subsets,
        ["a", "a", "full"],
        "a version without Pods has the whole quota, as far as it is known"
    );
    assert_eq!(list(&after, "v")[0]["missingReplicas"], 0);
}

#[test]
fn what_takes_no_slot_costs_no_request() {
    let creating = json!({"creatingPods": {"p1": NOW}, "deletingPods": {"p2": NOW}});
    let known = spread(limited(), json!({"v": [item("a", 3, 0, creating), item("b", 1, -1, json!({}))]}));
    let mut reservations = ReservationState::default();
    reservations.watched(&api::Raw::parse(known.to_string()).unwrap());
    reservations.open();
    let decide = |claims: &[Claim]| reservations.decide(&Slots, claims, now());
    assert_eq!(decide(&[create("p9")]), Step::Answer(vec![Answer::Unlimited("b".to_owned())]));
    assert_eq!(decide(&[delete("p2", "a"), delete("p8", "b")]), Step::Answer(vec![Answer::Nothing; 2]));
    for old in [create("p1"), refusal("p9")] {
        assert_eq!(
            decide(std::slice::from_ref(&old)),
            Step::Read,
            "{old:?} may be noted no more, or meanwhile"
        );
        assert_eq!(decide(&[create("p9"), old]), Step::Read);
    }
}

#[test]
fn versions_have_quotas_of_their_own() {
    let first = |number: i32| versioned("one", None, PodEvent::Creation { id: format!("p{number}") });
    let second = |number: i32| versioned("two", None, PodEvent::Creation { id: format!("q{number}") });
    let claims = [first(1), second(1), first(2), second(2)];
    let subsets = json!([{"name": "a", "maxReplicas": 1}, {"name": "b"}]);
    let (after, subsets) = reserve(&spread(subsets, json!({"old": []})), &claims);
    assert_eq!(subsets, ["a", "a", "b", "b"]);
    let versions = after["status"]["versionedSubsetStatuses"].as_object().unwrap();
    assert_eq!(versions.keys().collect::<Vec<_>>(), ["old", "one", "two"]);
}

#[test]
fn a_subset_without_nodes_is_passed_over() {
    let condition = json!({"conditions": [{"type": "Schedulable", "status": "False", "reason": "PodUnschedulable",
        "message": "", "lastTransitionTime": NOW}]});
    let object = spread(limited(), json!({"v": [item("a", 0, 3, condition), item("b", 0, -1, json!({}))]}));
    assert_eq!(reserve(&object, &[create("p")]).1, ["b"]);
}

#[test]
fn subsets_are_those_of_the_spec() {
    let known = json!({"v": [item("gone", 1, 5, json!({})), item("b", 0, -1, json!({}))]});
    let subsets = json!([{"name": "new", "maxReplicas": 1}, {"name": "b", "maxReplicas": 1}]);
    let (after, subsets) = reserve(&spread(subsets, known), &["p1", "p2", "p3"].map(create));
    assert_eq!(subsets, ["new", "b", "full"]);
    let names: Vec<&Value> = list(&after, "v").as_array().unwrap().iter().map(|item| &item["name"]).collect();
    assert_eq!(names, ["new", "b"]);
}

#[test]
fn what_is_no_spread_has_no_slots() {
    let reserved = Slots.reserve("[]", &[create("p"), delete("p", "a")], now());
    assert_eq!(reserved, Reserved { patch: None, answers: vec![Answer::Full, Answer::Nothing] });
}

/// Pods and their subsets as a plain model counts them.
#[derive(Default)]
struct Model {
    running: BTreeMap<String, String>,
    leaving: BTreeSet<String>,
}

proptest! {
    /// Pods come and go in any order, decided in batches, while a controller counts now and then.
    #[test]
    fn no_quota_is_ever_exceeded(
        max in prop::collection::vec(0..4_i32, 1..4),
        steps in prop::collection::vec((0..12_usize, 0..5_u8), 1..60),
    ) {
        let names = |index: usize| format!("s{index}");
        let subsets: Value = max.iter().enumerate().map(|(index, max)| json!({"name": names(index), "maxReplicas": max})).collect();
        let mut object = spread(subsets, json!({}));
        let mut model = Model::default();
        for (number, step) in steps {
            let pod = format!("p{number}");
            let subset = model.running.get(&pod).cloned();
            match (step, subset) {
                (0 | 1, None) => {
                    let (after, answers) = reserve(&object, &[create(&pod)]);
                    object = after;
                    if answers[0] != "full" {
                        model.running.insert(pod, answers[0].clone());
                    } else {
                        // Refused only if nothing is free by the plain count.
                        for (index, max) in max.iter().enumerate() {
                            let taken = model.running.iter().filter(|(pod, subset)| **subset == names(index) && !model.leaving.contains(*pod)).count();
                            prop_assert!(taken as i32 >= *max);
                        }
                    }
                }
                (2, Some(subset)) => {
                    object = reserve(&object, &[delete(&pod, &subset)]).0;
                    model.leaving.insert(pod);
                }
                // It is gone, and another of its name may be created before the controller has reconciled.
                (4, Some(_)) if model.leaving.contains(&pod) => {
                    model.leaving.remove(&pod);
                    model.running.remove(&pod);
                }
                (3, _) => {
                    // Those that leave are gone, and the controller has observed all.
                    model.running.retain(|pod, _| !model.leaving.contains(pod));
                    model.leaving.clear();
                    let items: Value = max.iter().enumerate().map(|(index, max)| {
                        let active = model.running.values().filter(|subset| **subset == names(index)).count() as i32;
                        item(&names(index), active, (max - active).max(0), json!({}))
                    }).collect();
                    object["status"]["versionedSubsetStatuses"]["v"] = items;
                }
                _ => {}
            }
            for (index, max) in max.iter().enumerate() {
                let staying = model.running.iter().filter(|(pod, subset)| **subset == names(index) && !model.leaving.contains(*pod)).count();
                prop_assert!(staying as i32 <= *max, "{staying} of {max} in {}", names(index));
            }
        }
    }

    #[test]
    fn free_slots_follow_the_plain_formula(max in 0..9_i32, active in 0..12_i32, deleting in 0..6_usize, creating in 0..6_usize) {
        let deleting = deleting.min(active as usize);
        let mut model = max;
        for _ in 0..(active as usize - deleting + creating) {
            model = (model - 1).max(0);
        }
        prop_assert_eq!(free_slots(max, active, deleting, creating), model);
    }
}
