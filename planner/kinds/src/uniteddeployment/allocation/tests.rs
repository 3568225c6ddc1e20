use api::kinds::uniteddeployment::UnitedDeployment;
use proptest::prelude::{Strategy as Arbitrary, *};
use serde_json::{Value, json};

use super::*;

fn spec(total: i32, subsets: &[(&str, Value)], strategy: &Value) -> Spec {
    let subsets: Vec<Value> = subsets
        .iter()
        .map(|(name, more)| {
            let mut subset = more.clone();
            subset["name"] = (*name).into();
            subset
        })
        .collect();
    let spec = json!({"replicas": total, "topology": {"subsets": subsets, "scheduleStrategy": strategy}});
    let united: UnitedDeployment = serde_json::from_value(json!({"spec": spec})).unwrap();
    united.spec
}

fn shares(spec: &Spec, present: &[(&str, Present)]) -> Result<Vec<i32>, String> {
    let shares = allocate(spec, &present.iter().copied().collect())?;
    Ok(spec.topology.subsets.iter().map(|subset| shares[&subset.name]).collect())
}

fn having(replicas: i32) -> Present {
    Present { replicas, ready: replicas, ..Present::default() }
}

#[test]
fn fixed_shares_come_first_and_the_rest_is_divided() {
    let none = json!({});
    let all = |total, subsets: &[(&str, Value)], present: &[(&str, Present)]| {
        shares(&spec(total, subsets, &json!({})), present)
    };
    let free = [("a", none.clone()), ("b", none.clone()), ("c", none.clone())];
    assert_eq!(all(7, &free, &[]), Ok(vec![2, 2, 3]));
    assert_eq!(all(10, &free, &[("a", having(2)), ("b", having(2)), ("c", having(3))]), Ok(vec![3, 3, 4]));
    assert_eq!(all(8, &free, &[("a", having(2)), ("b", having(3)), ("c", having(2))]), Ok(vec![2, 3, 3]));
    let one = [("a", none.clone()), ("b", json!({"replicas": 5})), ("c", none.clone())];
    assert_eq!(all(10, &one, &[]), Ok(vec![2, 5, 3]));
    let mixed = [("a", json!({"replicas": 1})), ("b", json!({"replicas": "50%"})), ("c", none.clone())];
    assert_eq!(all(6, &mixed, &[]), Ok(vec![1, 3, 2]));
    assert_eq!(all(5, &[("a", json!({"replicas": "30%"})), ("b", none)], &[]), Ok(vec![2, 3]));
    let fixed = [("a", json!({"replicas": 2})), ("b", json!({"replicas": 2}))];
    assert!(all(3, &fixed, &[]).unwrap_err().contains("(4) is greater than UnitedDeployment replica (3)"));
    assert!(all(5, &fixed, &[]).unwrap_err().contains("(4) is less than UnitedDeployment replica (5)"));
    assert_eq!(all(5, &[], &[]), Ok(vec![]));
}

#[test]
fn percentages_that_round_to_too_many_or_too_few_are_made_up_for() {
    let half = json!({"replicas": "50%"});
    let third = json!({"replicas": "33%"});
    let both = |total| shares(&spec(total, &[("a", half.clone()), ("b", half.clone())], &json!({})), &[]);
    assert_eq!(both(5), Ok(vec![3, 2]));
    assert_eq!(both(1), Ok(vec![1, 0]));
    let three = [("a", third.clone()), ("b", third.clone()), ("c", third)];
    assert_eq!(shares(&spec(10, &three, &json!({})), &[]), Ok(vec![3, 3, 4]));
}

#[test]
fn least_and_most_are_filled_in_order() {
    let subsets = [
        ("a", json!({"minReplicas": 1, "maxReplicas": 3})),
        ("b", json!({"minReplicas": 2, "maxReplicas": 4})),
        ("c", json!({"minReplicas": 0})),
    ];
    for (total, expected) in [(0, [0, 0, 0]), (2, [1, 1, 0]), (5, [3, 2, 0]), (10, [3, 4, 3])] {
        assert_eq!(shares(&spec(total, &subsets, &json!({})), &[]), Ok(expected.to_vec()), "{total}");
    }
    let wrong = [("a", json!({"minReplicas": 3, "maxReplicas": 1}))];
    let error = shares(&spec(5, &wrong, &json!({})), &[]).unwrap_err();
    assert_eq!(error, "subset[0].maxReplicas(1) must be more than or equal to minReplicas(3)");
}

#[test]
fn pods_without_room_go_to_later_subsets() {
    let adaptive = json!({"type": "Adaptive"});
    let full = |ready| Present { replicas: 4, ready, is_unschedulable: true, ..Present::default() };
    let subsets = [("a", json!({"maxReplicas": 4})), ("b", json!({}))];
    assert_eq!(shares(&spec(6, &subsets, &adaptive), &[("a", full(1))]), Ok(vec![1, 5]));
    let settled = [("a", having(1)), ("b", having(5))];
    assert_eq!(shares(&spec(6, &subsets, &adaptive), &settled), Ok(vec![1, 5]));
    assert_eq!(shares(&spec(9, &subsets, &adaptive), &settled), Ok(vec![4, 5]));
    let least = [("a", json!({"minReplicas": 2})), ("b", json!({}))];
    assert_eq!(shares(&spec(5, &least, &adaptive), &[("a", full(1))]), Ok(vec![2, 3]));
}

#[test]
fn waiting_pods_stay_and_have_others_beside_them() {
    let strategy = json!({"type": "Adaptive", "adaptive": {"reserveUnschedulablePods": true}});
    let free = [("a", json!({})), ("b", json!({})), ("c", json!({}))];
    let reserved = |replicas, reserved| Present {
        replicas,
        ready: replicas - reserved,
        reserved,
        is_unschedulable: true,
        was_marked: false,
    };
    let shared = |total, present: &[(&str, Present)]| shares(&spec(total, &free, &strategy.clone()), present);
    assert_eq!(shared(3, &[("a", reserved(3, 2))]), Ok(vec![3, 2, 0]));
    assert_eq!(shared(3, &[("a", reserved(3, 2)), ("b", reserved(2, 2))]), Ok(vec![3, 2, 2]));
    assert_eq!(shared(3, &[("a", having(3)), ("b", having(2))]), Ok(vec![3, 0, 0]));
    assert_eq!(shared(5, &[("a", reserved(3, 2)), ("b", having(2))]), Ok(vec![3, 4, 0]));
    let recovered = Present { was_marked: true, ..having(3) };
    assert_eq!(shared(5, &[("a", recovered), ("b", having(2))]), Ok(vec![5, 2, 0]));
}

fn present() -> impl Arbitrary<Value = Present> {
    (0..9_i32, 0..9_i32, any::<bool>(), any::<bool>()).prop_map(
        |(replicas, ready, is_unschedulable, was_marked)| {
            let ready = ready.min(replicas);
            Present { replicas, ready, reserved: replicas - ready, is_unschedulable, was_marked }
        },
    )
}

proptest! {
    /// All replicas are given out, or all that the subsets may have; a subset is between its least and its most.
    #[test]
    fn all_pods_are_divided(
        total in 0..30_i32,
        bounds in prop::collection::vec((0..6_i32, 0..9_i32), 1..5),
        known in prop::collection::vec(present(), 0..5),
        adaptive in any::<bool>(),
    ) {
        let names = ["a", "b", "c", "d", "e"];
        let last = bounds.len() - 1;
        let subsets: Vec<_> = bounds.iter().enumerate().map(|(at, (least, more))| {
            let most = (at < last).then_some(least + more);
            (names[at], json!({"minReplicas": least, "maxReplicas": most}))
        }).collect();
        let strategy = if adaptive { json!({"type": "Adaptive"}) } else { json!({}) };
        let present: Vec<_> = names.into_iter().zip(known).collect();
        let divided = shares(&spec(total, &subsets, &strategy), &present).unwrap();
        let open = present.iter().find(|(name, _)| *name == names[last]).is_none_or(|known| !known.1.is_unschedulable);
        let sum: i32 = divided.iter().sum();
        prop_assert!(sum <= total);
        if !adaptive || open {
            prop_assert_eq!(sum, total);
        }
        for ((share, (least, more)), at) in divided.iter().zip(&bounds).zip(0..) {
            if at < last {
                prop_assert!(*share <= least + more);
            }
        }
    }

    /// Nothing that can be written makes it panic.
    #[test]
    fn no_numbers_are_too_odd(
        total in any::<i32>(),
        values in prop::collection::vec(any::<(Option<i32>, Option<i32>, Option<i32>)>(), 0..4),
        known in prop::collection::vec(any::<(i32, i32, i32, bool, bool)>(), 0..4),
        kind in 0..3_usize,
    ) {
        let names = ["a", "b", "c", "d"];
        let subsets: Vec<_> = names.into_iter().zip(values).map(|(name, (replicas, least, most))| {
            (name, json!({"replicas": replicas, "minReplicas": least, "maxReplicas": most}))
        }).collect();
        let strategy = [json!({}), json!({"type": "Adaptive"}),
            json!({"type": "Adaptive", "adaptive": {"reserveUnschedulablePods": true}})][kind].clone();
        let present: Vec<_> = names.into_iter().zip(known).map(|(name, (replicas, ready, reserved, is_unschedulable, was_marked))| {
            (name, Present { replicas, ready, reserved, is_unschedulable, was_marked })
        }).collect();
        drop(shares(&spec(total, &subsets, &strategy), &present));
    }
}
