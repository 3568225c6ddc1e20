use std::sync::Arc;

use serde_json::{Value, json};

use super::fixture::{gates, known, pod, pod_json};
use crate::podunavailablebudget::budget::{Budget, protecting};
use crate::podunavailablebudget::check::{Assessment, check};
use crate::podunavailablebudget::terms::Operation;
use crate::workload::namespaced::{Entry, Namespaced};
use pod::disruption::Disruption;

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
