use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::stored;
use crate::podunavailablebudget::terms::{
    Operation, UnhealthyPods, desired_available, given_total, protected_operations,
};

fn desired(limit: &Value, total: i32) -> i32 {
    let mut budget = stored(&json!({}));
    budget.spec.max_unavailable = None;
    let spec = serde_json::to_value(&budget.spec).unwrap();
    let mut spec = spec;
    super::fixture::merge(&mut spec, limit);
    desired_available(&serde_json::from_value(spec).unwrap(), total).unwrap()
}

#[test]
fn both_percentages_are_rounded_up() {
    for (limit, total, expected) in [
        (json!({"maxUnavailable": 3}), 10, 7),
        (json!({"maxUnavailable": 30}), 10, 0),
        (json!({"maxUnavailable": "30%"}), 10, 7),
        (json!({"maxUnavailable": "10%"}), 15, 13),
        (json!({"maxUnavailable": "0%"}), 15, 15),
        (json!({"maxUnavailable": "100%"}), 15, 0),
        (json!({"minAvailable": "50%"}), 5, 3),
        (json!({"minAvailable": 100}), 10, 100),
        (json!({"minAvailable": 0}), 10, 0),
        (json!({"maxUnavailable": 1, "minAvailable": 9}), 5, 4),
        (json!({}), 10, 0),
    ] {
        assert_eq!(desired(&limit, total), expected, "{limit} of {total}");
    }
    let broken = stored(&json!({"spec": {"maxUnavailable": "many"}}));
    assert!(desired_available(&broken.spec, 10).is_err());
}

#[test]
fn operations_come_from_the_spec_then_from_the_annotation() {
    use Operation::{Delete, Evict, Resize, Update};
    let protected = |over: &Value, vertical: bool| {
        let mut operations = protected_operations(&stored(over), vertical);
        operations.sort();
        operations.dedup();
        operations
    };
    let spec = |operations: &[&str]| json!({"spec": {"protectOperations": operations}});
    let annotation =
        |text: &str| json!({"metadata": {"annotations": {"kruise.io/pub-protect-operations": text}}});
    for (over, vertical, expected) in [
        (json!({}), false, vec![Delete, Update, Evict, Resize]),
        (json!({}), true, vec![Delete, Update, Evict]),
        (spec(&["RESIZE"]), true, vec![Resize]),
        (spec(&["RESIZE"]), false, vec![Resize]),
        (spec(&["UPDATE"]), true, vec![Update]),
        (spec(&["UPDATE"]), false, vec![Update, Resize]),
        (spec(&["EVICT"]), false, vec![Evict]),
        (spec(&["KILL"]), false, vec![]),
        (annotation("EVICT, DELETE"), true, vec![Delete, Evict]),
        (annotation("KILL"), true, vec![]),
        (annotation(" , "), true, vec![Delete, Update, Evict]),
    ] {
        assert_eq!(protected(&over, vertical), expected, "{over}");
    }
    let mut both = spec(&["EVICT"]);
    super::fixture::merge(&mut both, &annotation("DELETE"));
    assert_eq!(protected(&both, false), [Evict]);
}

#[test]
fn the_total_comes_from_the_spec_then_from_the_annotation() {
    let annotation = json!({"metadata": {"annotations": {"pub.kruise.io/protect-total-replicas": "15"}}});
    assert_eq!(given_total(&stored(&json!({}))), None);
    assert_eq!(given_total(&stored(&annotation)), Some(15));
    let mut both = json!({"spec": {"protectTotalReplicas": 3}});
    super::fixture::merge(&mut both, &annotation);
    assert_eq!(given_total(&stored(&both)), Some(3));
}

#[test]
fn pods_that_are_not_ready_are_protected_where_the_annotation_says_that_word() {
    let given = |word: &str| {
        UnhealthyPods::given(&stored(
            &json!({"metadata": {"annotations": {"kutter.io/unhealthy-pods": word}}}),
        ))
    };
    assert_eq!(given("Protect"), Some(UnhealthyPods::Protect));
    assert_eq!(given("Release"), Some(UnhealthyPods::Release));
    for word in ["", "protect", " Protect", "Always"] {
        assert_eq!(given(word), None, "{word}");
    }
    assert_eq!(UnhealthyPods::given(&stored(&json!({}))), None);
    assert_eq!(UnhealthyPods::default(), UnhealthyPods::Release);
}

proptest! {
    /// Against long division.
    #[test]
    fn shares_are_exact(share in 0..=100_i64, total in 0..20_000_i64) {
        let up = (0..).find(|pods: &i64| pods * 100 >= share * total).unwrap();
        let max = desired(&json!({"maxUnavailable": format!("{share}%")}), total as i32);
        let min = desired(&json!({"minAvailable": format!("{share}%")}), total as i32);
        prop_assert_eq!(i64::from(max), total - up);
        prop_assert_eq!(i64::from(min), up);
    }
}
