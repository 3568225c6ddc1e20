use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{gates, known, merge, now, pod, pod_json};
use crate::podunavailablebudget::budget::{Budget, protecting};
use crate::podunavailablebudget::check::{Assessment, budget_of, check};
use crate::podunavailablebudget::reserve::{Answer, Claim, Rules};
use crate::podunavailablebudget::terms::Operation;
use crate::workload::namespaced::{Entry, Namespaced};
use pod::disruption::Disruption;
use values::reservation::Reservable;

fn delete(over: &Value, budgets: &[Budget]) -> String {
    let pod = pod_json("web-0", over).to_string();
    match check(Disruption::Delete { pod: &pod }, false, None, budgets, &gates("")) {
        Ok(Assessment::Claims { budget, claim, pod }) => {
            assert_eq!(
                (&*claim.pod, claim.operation, &*pod.metadata.name),
                ("web-0", Operation::Delete, "web-0")
            );
            budget.name().to_owned()
        }
        Ok(Assessment::Allowed) => String::new(),
        Ok(Assessment::NeedsPod) => panic!("the request has the Pod"),
        Err(denial) => denial.message,
    }
}

#[test]
fn what_makes_a_pod_pass() {
    let budget = [known(&json!({"spec": {"ignoredPodSelector": {"matchLabels": {"force": "true"}}}}))];
    assert_eq!(delete(&json!({}), &budget), "pub");
    let annotated = |text: &str| json!({"metadata": {"annotations": {"pub.kruise.io/no-protect": text}}});
    for text in ["1", "t", "T", "true", "TRUE", "True"] {
        assert_eq!(delete(&annotated(text), &budget), "", "{text}");
    }
    for text in ["", "false", "0", "yes"] {
        assert_eq!(delete(&annotated(text), &budget), "pub", "{text}");
    }
    for over in [
        json!({"metadata": {"labels": {"force": "true"}}}),
        json!({"metadata": {"labels": {"app": "db"}}}),
        json!({"status": {"phase": "Pending"}}),
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    ] {
        assert_eq!(delete(&over, &budget), "", "{over}");
    }
    assert_eq!(delete(&json!({}), &[]), "");
    let expression = json!([{"key": "force", "operator": "Near"}]);
    let broken = [known(&json!({"spec": {"ignoredPodSelector": {"matchExpressions": expression}}}))];
    assert!(delete(&json!({}), &broken).contains("not a valid label selector operator"));
}

fn says(word: &str) -> Value {
    json!({"metadata": {"annotations": {"kutter.io/unhealthy-pods": word}}})
}

fn ready(status: &str) -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": status}]}})
}

#[test]
fn the_annotation_decides_about_pods_that_are_not_ready() {
    for (budget, expected) in
        [(json!({}), ""), (says("Release"), ""), (says("protect"), ""), (says("Protect"), "pub")]
    {
        assert_eq!(delete(&ready("False"), &[known(&budget)]), expected, "{budget}");
        assert_eq!(delete(&json!({}), &[known(&budget)]), "pub", "{budget}");
    }
    let mut ignoring = says("Protect");
    merge(&mut ignoring, &json!({"spec": {"ignoredPodSelector": {"matchLabels": {"force": "true"}}}}));
    let protect = [known(&ignoring)];
    for over in [
        json!({"metadata": {"labels": {"force": "true"}}}),
        json!({"metadata": {"labels": {"app": "db"}}}),
        json!({"metadata": {"annotations": {"pub.kruise.io/no-protect": "true"}}}),
        // A Pod that must be able to end, or has not begun.
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        json!({"status": {"phase": "Pending"}}),
    ] {
        let mut unready = ready("False");
        merge(&mut unready, &over);
        assert_eq!(delete(&unready, &protect), "", "{over}");
    }
}

#[test]
fn evictions_and_changes_of_pods_that_are_not_ready_are_held_too() {
    let evicted = pod("web-0", &ready("False"));
    let old = pod_json("web-0", &ready("False"));
    let mut new = old.clone();
    merge(&mut new, &json!({"spec": {"activeDeadlineSeconds": 5}}));
    let (old, new) = (old.to_string(), new.to_string());
    for word in ["Protect", "Release"] {
        let budgets = [known(&says(word))];
        let gates = gates("PodUnavailableBudgetUpdateGate=true");
        for disruption in [Disruption::Evict, Disruption::Update { old: &old, new: &new }] {
            let assessment = check(disruption, false, Some(&evicted), &budgets, &gates).unwrap();
            assert_eq!(matches!(assessment, Assessment::Claims { .. }), word == "Protect", "{disruption:?}");
        }
    }
}

#[test]
fn each_gate_has_its_operations() {
    let budgets = [known(&json!({}))];
    let old = pod_json("web-0", &json!({})).to_string();
    let new = pod_json("web-0", &json!({"spec": {"activeDeadlineSeconds": 5}})).to_string();
    let evicted = pod("web-0", &json!({}));
    let claims = |flags: &str, disruption: Disruption<'_>, evicted: Option<&Arc<_>>| match check(
        disruption,
        true,
        evicted.map(|pod| &**pod),
        &budgets,
        &gates(flags),
    )
    .unwrap()
    {
        Assessment::Claims { claim, .. } => {
            assert!(claim.dry_run);
            Some(claim.operation)
        }
        Assessment::Allowed => None,
        Assessment::NeedsPod => panic!("the Pod was read"),
    };
    let (update, delete) = (Disruption::Update { old: &old, new: &new }, Disruption::Delete { pod: &old });
    let other = "PodUnavailableBudgetDeleteGate=false,PodUnavailableBudgetUpdateGate=true";
    assert_eq!(claims("", update, None), None);
    assert_eq!(claims(other, update, None), Some(Operation::Update));
    assert_eq!(claims("", delete, None), Some(Operation::Delete));
    assert_eq!(claims(other, delete, None), None);
    assert_eq!(claims("", Disruption::Evict, Some(&evicted)), Some(Operation::Evict));
    assert_eq!(claims(other, Disruption::Evict, None), None);
    assert!(matches!(check(Disruption::Evict, false, None, &budgets, &gates("")), Ok(Assessment::NeedsPod)));
    assert!(matches!(check(Disruption::Evict, false, None, &[], &gates("")), Ok(Assessment::Allowed)));
}

fn named(name: &str, created: &str, spec: &Value) -> Budget {
    let mut over =
        json!({"metadata": {"name": name, "creationTimestamp": created}, "spec": {"selector": null}});
    super::fixture::merge(&mut over, &json!({"spec": spec}));
    known(&over)
}

fn target(kind: &str, name: &str) -> Value {
    json!({"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": kind, "name": name}})
}

#[test]
fn the_budget_of_a_pod_is_the_one_that_it_names_if_that_is_right() {
    let app = |app: &str| json!({"selector": {"matchLabels": {"app": app}}});
    let budgets = [
        named("by-target", "2026-01-03T00:00:00Z", &target("CloneSet", "web")),
        named("older", "2026-01-01T00:00:00Z", &app("web")),
        named("younger", "2026-01-02T00:00:00Z", &app("web")),
        named("db", "2026-01-01T00:00:00Z", &app("db")),
        named("db-set", "2026-01-01T00:00:00Z", &target("CloneSet", "db")),
        named("rollout", "2026-01-01T00:00:00Z", &target("Rollout", "web")),
    ];
    let mut shared = Arc::default();
    for budget in &budgets {
        let name = budget.name().to_owned();
        Namespaced::apply::<()>(&mut shared, "shop", &name, Ok(budget.clone())).unwrap();
    }
    let budgets = shared.of("shop");
    let of = |mark: &str, over: &Value| {
        let mut pod_over = json!({"metadata": {"annotations": {"pub.kruise.io/related-pub": mark}}});
        super::fixture::merge(&mut pod_over, over);
        protecting(budgets, &pod("web-0", &pod_over)).map_or("", Entry::name)
    };
    let bare = json!({"metadata": {"ownerReferences": []}});
    let owner = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "of-rollout", "uid": "o",
        "controller": true});
    let other_set = json!({"metadata": {"ownerReferences": [owner]}});
    for (mark, over, expected) in [
        ("", json!({}), "by-target"),
        ("younger", json!({}), "younger"),
        ("gone", json!({}), "by-target"),
        ("db", json!({}), "by-target"),
        ("db-set", json!({}), "by-target"),
        // What owns the CloneSet is known to the controller only; the budget of the CloneSet itself comes first.
        ("rollout", json!({}), "by-target"),
        ("rollout", other_set.clone(), "rollout"),
        ("", other_set, "older"),
        ("rollout", bare.clone(), "older"),
        ("", bare, "older"),
        ("", json!({"metadata": {"labels": {"app": "x"}, "ownerReferences": []}}), ""),
    ] {
        assert_eq!(of(mark, &over), expected, "{mark} {over}");
    }
    let older_mark = json!({"metadata": {"annotations": {"kruise.io/related-pub": "younger"}}});
    assert_eq!(of("", &older_mark), "younger");
}

/// A Pod in some state, and whether it is available, and fails.
fn any_pod() -> impl Strategy<Value = (Value, bool, bool)> {
    let phase = prop::sample::select(vec!["Pending", "Running", "Failed"]);
    let gate = prop::sample::select(vec!["", "KruisePodReady", "InPlaceUpdateReady"]);
    (phase, any::<bool>(), any::<bool>(), any::<bool>(), gate).prop_map(
        |(phase, is_ready, is_leaving, is_out, gate)| {
            let mut conditions =
                vec![json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }})];
            if !gate.is_empty() {
                conditions.push(json!({"type": gate, "status": "False"}));
            }
            let mut pod = json!({"status": {"phase": phase, "conditions": conditions}});
            if is_leaving {
                merge(&mut pod, &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
            }
            if is_out {
                merge(&mut pod, &json!({"metadata": {"labels": {"unavailable-pod.kruise.io/x": ""}}}));
            }
            let runs = phase == "Running" && !is_leaving && !is_out;
            (pod, runs && is_ready, runs && !is_ready && gate.is_empty())
        },
    )
}

proptest! {
    /// Whatever the annotation says, available Pods need a unit; `Protect` adds those that fail, and no others.
    #[test]
    fn protection_adds_pods_that_fail_and_takes_none_away((over, is_available, fails) in any_pod()) {
        let pod = pod("web-0", &over);
        let needs = |budget: &Value| budget_of(&pod, &[known(budget)], &gates("")).unwrap().is_some();
        prop_assert_eq!(needs(&json!({})), is_available);
        prop_assert_eq!(needs(&says("Release")), is_available);
        prop_assert_eq!(needs(&says("protect")), is_available);
        prop_assert_eq!(needs(&says("Protect")), is_available || fails);
    }

    /// Of Pods that need a unit as many are disturbed as there are units, ready or not; the others pass.
    #[test]
    fn protected_pods_get_no_more_units_than_there_are(
        pods in prop::collection::vec((any_pod(), any::<bool>()), 0..8),
        left in 0..5_usize,
        is_protected in any::<bool>(),
    ) {
        let mut over = json!({"status": {"observedGeneration": 1, "totalReplicas": 10, "currentAvailable": 5 + left,
            "desiredAvailable": 5, "unavailableAllowed": left}});
        merge(&mut over, &says(if is_protected { "Protect" } else { "Release" }));
        let budgets = [known(&over)];
        let (mut claims, mut needing): (Vec<Claim>, usize) = (Vec::new(), 0);
        for (number, ((over, is_available, fails), is_evicted)) in pods.iter().enumerate() {
            let name = format!("web-{number}");
            let (evicted, text) = (pod(&name, over), pod_json(&name, over).to_string());
            let deletion = Disruption::Delete { pod: &text };
            let disruption = if *is_evicted { Disruption::Evict } else { deletion };
            if let Assessment::Claims { claim, .. } =
                check(disruption, false, Some(&evicted), &budgets, &gates("")).unwrap()
            {
                claims.push(claim);
            }
            needing += usize::from(*is_available || *fails && is_protected);
        }
        prop_assert_eq!(claims.len(), needing);
        let reserved = Rules::new(&gates("")).reserve(budgets[0].object.get(), &claims, now());
        let granted = reserved.answers.iter().filter(|answer| **answer == Answer::Granted).count();
        prop_assert_eq!(granted, needing.min(left));
    }
}
