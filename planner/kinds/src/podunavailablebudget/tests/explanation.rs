use api::Raw;
use serde_json::{Value, json};

use super::fixture::{ago, budget_json, gates, now, pod};
use crate::podunavailablebudget::explanation::{Report, State, explain};

fn report(over: &Value) -> Report {
    let budget = Raw::parse(budget_json(over).to_string()).unwrap();
    let pods = [
        pod("web-2", &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})),
        pod("web-0", &json!({"metadata": {"annotations": {"pub.kruise.io/no-protect": "true"}}})),
        pod("web-1", &json!({})),
        pod("db-0", &json!({"metadata": {"labels": {"app": "db"}}})),
        pod("old", &json!({"status": {"phase": "Succeeded"}})),
    ];
    explain("pub", &[budget], &pods, &gates(""), now()).unwrap()
}

#[test]
fn a_budget_says_who_uses_it_up_and_when_it_gives_again() {
    let status = json!({"observedGeneration": 1, "totalReplicas": 3, "currentAvailable": 1, "desiredAvailable": 2,
        "unavailableAllowed": 0, "disruptedPods": {"web-1": ago(5)}});
    let report = report(&json!({"status": status}));
    assert_eq!(
        (report.state, &*report.counted),
        (State::Exhausted, &["web-0", "web-1", "web-2"].map(String::from)[..])
    );
    let expected = "\
1 of 3 Pods available, 2 needed: 0 more may become unavailable
  limit: holds DELETE, UPDATE (its gate is off), EVICT, RESIZE (its gate is off)
  limit: always pass: web-0
  waits: Pod web-1 uses a unit: its deletion or eviction was admitted, since 2026-11-22T09:59:55Z; if it stays available, it counts again from 2026-11-22T10:00:15Z
  waits: Pod web-2 is not available: it is not ready; it counts when it is
";
    assert_eq!(report.explanation.to_string(), expected);
}

#[test]
fn the_annotation_that_decides_about_pods_that_are_not_ready_is_named() {
    let limits = |word: &str| {
        let over = json!({"metadata": {"annotations": {"kutter.io/unhealthy-pods": word}}});
        report(&over).explanation.limits.join("\n")
    };
    assert!(limits("Protect").contains(
        "annotation kutter.io/unhealthy-pods holds Pods that are not ready like available ones: web-2"
    ));
    assert!(
        limits("Release")
            .contains("annotation kutter.io/unhealthy-pods lets Pods that are not ready pass: web-2")
    );
    assert!(!limits("other").contains("unhealthy-pods"), "a word that says nothing decides nothing");
}

#[test]
fn a_budget_that_holds_nothing_says_so() {
    let new = report(&json!({}));
    assert_eq!(new.state, State::WithoutEffect);
    assert!(new.explanation.summary.contains("has not counted yet"));
    let status = json!({"observedGeneration": 1, "desiredAvailable": 2, "currentAvailable": 3, "unavailableAllowed": 1});
    let open = report(&json!({"metadata": {"generation": 2}, "status": status}));
    assert!(open.state == State::Open && open.explanation.is_complete);
    assert!(open.explanation.limits.iter().any(|limit| limit.contains("older spec")));
    assert!(explain("other", &[], &[], &gates(""), now()).is_none());
}
