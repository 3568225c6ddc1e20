use api::Raw;
use api::kinds::podunavailablebudget::PodUnavailableBudget;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{ago, budget_json, entry, gates, merge, now};
use crate::podunavailablebudget::reserve::{Answer, Claim, Foreseen, Refusal, Rules};
use crate::podunavailablebudget::terms::Operation;
use values::reservation::{Reservable, Reserved};

const GRANTED: Answer = Answer::Granted;
const NOTHING_LEFT: Answer = Answer::Refused(Refusal::NothingLeft);

fn claim(pod: &str, operation: Operation) -> Claim {
    let created = ago(3600).parse::<Timestamp>().ok();
    Claim {
        pod: pod.to_owned(),
        uid: pod.to_owned(),
        created,
        operation,
        dry_run: false,
        trace: 7,
        by_controller: false,
    }
}

fn deletions(pods: &[&str]) -> Vec<Claim> {
    pods.iter().map(|pod| claim(pod, Operation::Delete)).collect()
}

/// A budget of ten Pods with so many units left.
fn budget(left: i32, over: &Value) -> Value {
    let status = json!({"observedGeneration": 1, "totalReplicas": 10, "currentAvailable": 10,
        "desiredAvailable": 10 - left, "unavailableAllowed": left});
    let mut budget = budget_json(&json!({"status": status}));
    merge(&mut budget, over);
    budget
}

fn reserve(budget: &Value, claims: &[Claim]) -> Reserved<Answer> {
    Rules::new(&gates("")).reserve(&budget.to_string(), claims, now())
}

fn patch(reserved: &Reserved<Answer>) -> Value {
    reserved.patch.as_ref().map_or(Value::Null, |patch| serde_json::from_str(patch).unwrap())
}

#[test]
fn units_are_taken_until_nothing_is_left() {
    let reserved = reserve(&budget(2, &json!({})), &deletions(&["a", "b", "a", "c"]));
    assert_eq!(reserved.answers, [GRANTED, GRANTED, GRANTED, NOTHING_LEFT]);
    let expected = json!({
        "metadata": {"uid": "b", "resourceVersion": "7"},
        "status": {
            "observedGeneration": 1, "totalReplicas": 10, "currentAvailable": 8, "desiredAvailable": 8,
            "unavailableAllowed": 0, "disruptedPods": {"a": entry("a", 0), "b": entry("b", 0)},
        },
    });
    assert_eq!(patch(&reserved), expected);
    let denial = Refusal::NothingLeft.denial("web-pub");
    assert_eq!(
        (denial.code, denial.message.as_str()),
        (
            403,
            "podunavailablebudget.policy.kruise.io \"web-pub\" is forbidden: pub unavailable allowed is negative"
        )
    );
}

#[test]
fn updates_and_resizes_are_recorded_apart() {
    let claims = [Operation::Delete, Operation::Evict, Operation::Update, Operation::Resize]
        .map(|operation| claim(operation.name(), operation));
    let patch = patch(&reserve(&budget(4, &json!({})), &claims));
    assert_eq!(
        patch["status"]["disruptedPods"],
        json!({"DELETE": entry("DELETE", 0), "EVICT": entry("EVICT", 0)})
    );
    assert_eq!(
        patch["status"]["unavailablePods"],
        json!({"UPDATE": entry("UPDATE", 0), "RESIZE": entry("RESIZE", 0)})
    );
}

#[test]
fn a_dry_run_decides_and_takes_nothing() {
    let dry = |pod| Claim { dry_run: true, ..claim(pod, Operation::Evict) };
    let one = reserve(&budget(1, &json!({})), &[dry("a"), dry("b")]);
    assert_eq!((one.patch, one.answers), (None, vec![GRANTED, GRANTED]));
    let none = reserve(&budget(0, &json!({"status": {"desiredAvailable": 5}})), &[dry("a")]);
    assert_eq!((none.patch, none.answers), (None, vec![NOTHING_LEFT]));
}

#[test]
fn what_needs_no_unit_changes_nothing() {
    let deleting = json!({"metadata": {"deletionTimestamp": ago(1)}});
    for over in [
        json!({"status": {"desiredAvailable": 0}}),
        json!({"spec": {"protectOperations": ["EVICT"]}}),
        json!({"status": {"disruptedPods": {"a": ago(4)}}}),
        json!({"status": {"disruptedPods": {"a": entry("a", 4)}}}),
        json!({"status": {"unavailablePods": {"a": ago(9)}, "disruptedPods": {"a": ago(2)}}}),
        deleting,
    ] {
        let reserved = reserve(&budget(0, &over), &deletions(&["a"]));
        assert_eq!((reserved.patch, reserved.answers), (None, vec![GRANTED]), "{over}");
    }
    let over = json!({"status": {"unavailablePods": {"a": ago(2)}}});
    let changed = reserve(&budget(0, &over), &[claim("a", Operation::Update)]);
    assert_eq!((changed.patch, changed.answers), (None, vec![GRANTED]));
    let new = reserve(&budget_json(&json!({})), &deletions(&["a"]));
    assert_eq!((new.patch, new.answers), (None, vec![GRANTED]), "its first status is not written");
}

#[test]
fn nobody_relies_on_the_entry_of_an_update_that_has_happened() {
    let update = Claim { by_controller: true, ..claim("a", Operation::Update) };
    let mut one = budget(1, &json!({}));
    let reserved = reserve(&one, std::slice::from_ref(&update));
    json_patch::merge(&mut one, &patch(&reserved));
    one["metadata"]["resourceVersion"] = json!("7");
    let later = Claim { trace: update.trace + 1, by_controller: false, ..update.clone() };
    assert_eq!(reserve(&one, &[update, later]).answers, [GRANTED, NOTHING_LEFT]);
}

#[test]
fn an_entry_that_ends_soon_is_renewed_without_a_unit() {
    for over in [
        json!({"status": {"disruptedPods": {"a": ago(5)}}}),
        json!({"status": {"disruptedPods": {"a": ago(30)}}}),
        json!({"status": {"unavailablePods": {"a": ago(3)}}}),
        // It may be deleted later than a change is forgotten.
        json!({"status": {"unavailablePods": {"a": ago(0)}}}),
    ] {
        let reserved = reserve(&budget(0, &over), &deletions(&["a"]));
        assert_eq!(reserved.answers, [GRANTED], "{over}");
        let status = patch(&reserved)["status"].clone();
        assert_eq!(
            (&status["disruptedPods"], &status["unavailableAllowed"]),
            (&json!({"a": entry("a", 0)}), &json!(0))
        );
    }
    let moved =
        reserve(&budget(0, &json!({"status": {"unavailablePods": {"a": ago(5)}}})), &deletions(&["a"]));
    assert_eq!(patch(&moved)["status"]["unavailablePods"], json!({"a": null}));
    let over = json!({"status": {"disruptedPods": {"a": ago(5)}}});
    let kept = reserve(&budget(0, &over), &[claim("a", Operation::Update)]);
    assert_eq!(patch(&kept)["status"]["disruptedPods"], json!({"a": entry("a", 0)}));
    // The spec wants more by now: the unit is not held any longer than it was taken for.
    let over = json!({"status": {"disruptedPods": {"a": ago(5)}, "desiredAvailable": 11}});
    assert_eq!(reserve(&budget(0, &over), &deletions(&["a"])).answers, [NOTHING_LEFT]);
}

#[test]
fn only_what_is_granted_without_a_write_passes() {
    let passes = |left: i32, over: &Value, claim: &Claim| {
        let budget = Raw::parse(budget(left, over).to_string()).unwrap();
        Rules::new(&gates("")).foresee(&budget, claim, now()) == Foreseen::Free
    };
    let deletion = claim("a", Operation::Delete);
    let recorded = |seconds| json!({"status": {"disruptedPods": {"a": entry("a", seconds)}}});
    assert!(passes(0, &recorded(1), &deletion));
    assert!(passes(1, &json!({}), &Claim { dry_run: true, ..deletion.clone() }));
    for (left, over) in [(0, json!({})), (1, json!({})), (1, recorded(9))] {
        assert!(!passes(left, &over, &deletion), "{left} {over}");
    }
}

#[test]
fn an_entry_of_an_earlier_pod_of_that_name_does_not_count() {
    let over = json!({"status": {"disruptedPods": {"a": ago(9)}}});
    let young = Claim { created: ago(5).parse().ok(), ..claim("a", Operation::Delete) };
    assert_eq!(reserve(&budget(0, &over), std::slice::from_ref(&young)).answers, [NOTHING_LEFT]);
    let taken = reserve(&budget(1, &over), &[young]);
    assert_eq!(patch(&taken)["status"]["disruptedPods"], json!({"a": entry("a", 0)}));
}

#[test]
fn nothing_is_recorded_in_place_of_another_pod_of_that_name() {
    let over = json!({"status": {"disruptedPods": {"a": entry("another", 1)}}});
    for age in [3600, 1] {
        let claim = Claim { created: ago(age).parse().ok(), ..claim("a", Operation::Delete) };
        let reserved = reserve(&budget(1, &over), &[claim]);
        assert_eq!((reserved.patch, reserved.answers), (None, vec![NOTHING_LEFT]));
    }
}

#[test]
fn not_too_many_pods_are_recorded() {
    let entries: serde_json::Map<String, Value> =
        (0..2001).map(|number| (format!("p{number}"), json!(ago(1)))).collect();
    let over = json!({"status": {"disruptedPods": entries, "unavailableAllowed": 5}});
    let reserved = reserve(&budget(5, &over), &deletions(&["p0", "a"]));
    assert_eq!(reserved.answers, [GRANTED, Answer::Refused(Refusal::TooManyRecorded)]);
    let message = Refusal::TooManyRecorded.denial("p").message;
    assert!(message.ends_with("too many unavailable not confirmed by PUB controller"), "{message}");
}

#[test]
fn a_changed_spec_counts_at_once() {
    let changed = |spec: Value| json!({"metadata": {"generation": 2}, "spec": spec});
    let left = |over: &Value, claims: &[&str]| reserve(&budget(3, over), &deletions(claims)).answers;
    assert_eq!(left(&changed(json!({"maxUnavailable": 1})), &["a", "b"]), [GRANTED, NOTHING_LEFT]);
    let more = left(&changed(json!({"maxUnavailable": "50%"})), &["a", "b", "c", "d", "e", "f"]);
    assert_eq!(more.iter().filter(|answer| **answer == GRANTED).count(), 5);
    // Two of three units were taken before the change.
    let mut taken = changed(json!({"maxUnavailable": 2}));
    merge(
        &mut taken,
        &json!({"status": {"unavailableAllowed": 1, "disruptedPods": {"x": ago(1), "y": ago(1)}}}),
    );
    assert_eq!(left(&taken, &["a"]), [NOTHING_LEFT]);
    let total =
        left(&changed(json!({"maxUnavailable": 1, "protectTotalReplicas": 8})), &["a", "b", "c", "d"]);
    assert_eq!(total, [GRANTED, GRANTED, GRANTED, NOTHING_LEFT]);
}

#[test]
fn what_can_not_be_read_refuses() {
    let reserved = Rules::new(&gates("")).reserve(r#"{"spec":1}"#, &deletions(&["a", "b"]), now());
    assert_eq!(reserved.answers.len(), 2);
    let Answer::Refused(refusal) = &reserved.answers[0] else { panic!("granted") };
    assert_eq!(refusal.denial("pub").code, 400);
}

proptest! {
    /// Against counting by hand: a request that is recorded or gets one of the units passes.
    #[test]
    fn no_more_units_are_given_than_there_are(
        left in 0..5_i32,
        recorded in prop::collection::vec((0..8_usize, 0..40_i64, any::<bool>()), 0..6),
        claims in prop::collection::vec((0..8_usize, any::<bool>()), 0..12),
    ) {
        let name = |number: usize| format!("p{number}");
        let mut status = json!({"disruptedPods": {}, "unavailablePods": {}, "desiredAvailable": 5});
        for (pod, age, leaves) in &recorded {
            status[if *leaves { "disruptedPods" } else { "unavailablePods" }][name(*pod)] = json!(ago(*age));
        }
        let budget = budget(left, &json!({"status": status}));
        let wanted: Vec<Claim> = claims
            .iter()
            .map(|(pod, dry_run)| Claim { dry_run: *dry_run, ..claim(&name(*pod), Operation::Evict) })
            .collect();
        let reserved = reserve(&budget, &wanted);
        let mut out: std::collections::BTreeSet<usize> = recorded.iter().map(|(pod, ..)| *pod).collect();
        let mut units = left;
        for ((pod, dry_run), answer) in claims.iter().zip(&reserved.answers) {
            let free = out.contains(pod);
            prop_assert_eq!(*answer == GRANTED, free || units > 0);
            if *answer == GRANTED && !dry_run && !free {
                units -= 1;
                out.insert(*pod);
            }
        }
        if let Some(patch) = &reserved.patch {
            let mut after = budget;
            json_merge(&mut after, &serde_json::from_str(patch).unwrap());
            let after: PodUnavailableBudget = serde_json::from_value(after).unwrap();
            prop_assert_eq!(after.status.unavailable_allowed, units);
            let mut names: std::collections::BTreeSet<String> = after.status.disrupted_pods.into_keys().collect();
            names.extend(after.status.unavailable_pods.into_keys());
            prop_assert_eq!(names, out.into_iter().map(name).collect());
        } else {
            prop_assert_eq!(units, left);
        }
    }
}

/// RFC 7386.
fn json_merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            json_merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}
