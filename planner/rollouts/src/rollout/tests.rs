use api::kinds::rollout::Strategy;
use serde_json::{Value, json};

use super::*;

fn strategy(text: &Value) -> Strategy {
    serde_json::from_value(text.clone()).unwrap()
}

#[test]
fn the_hash_ignores_pauses_and_thresholds_and_nothing_else() {
    for style in ["canary", "blueGreen"] {
        let base = json!({style: {"steps": [{"replicas": 1, "traffic": "5%"}], "trafficRoutings": [{"service": "web"}]}});
        let hash = |pointer: &str, value: Value| {
            let mut changed = base.clone();
            let (parent, member) = pointer.rsplit_once('/').unwrap();
            changed.pointer_mut(parent).unwrap()[member] = value;
            strategy_hash(&strategy(&changed))
        };
        let unchanged = strategy_hash(&strategy(&base));
        assert_eq!(unchanged.len(), 64);
        let step = format!("/{style}/steps/0");
        assert_eq!(hash("/paused", json!(true)), unchanged);
        assert_eq!(hash(&format!("{step}/pause"), json!({"duration": 5})), unchanged);
        assert_eq!(hash(&format!("/{style}/failureThreshold"), json!("10%")), unchanged);
        assert_ne!(hash(&format!("{step}/replicas"), json!(2)), unchanged);
        assert_ne!(hash(&format!("{step}/traffic"), json!("6%")), unchanged);
        assert_ne!(hash(&format!("/{style}/trafficRoutings"), json!([])), unchanged);
    }
}

fn status(text: &Value) -> Status {
    serde_json::from_value(text.clone()).unwrap()
}

#[test]
fn counts_and_waits_are_written_later_than_states() {
    let base = json!({"phase": "Progressing", "message": "a", "conditions": [{"type": "Progressing", "message": "a"}],
        "canaryStatus": {"currentStepState": "StepUpgrade", "canaryReplicas": 1, "observedWorkloadGeneration": 1, "message": "a"}});
    let is_urgent = |pointer: &str, value: Value| {
        let mut changed = base.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        is_urgent(&status(&base), &status(&changed))
    };
    for pointer in ["/message", "/conditions/0/message", "/canaryStatus/message"] {
        assert!(!is_urgent(pointer, json!("b")), "{pointer}");
    }
    assert!(!is_urgent("/canaryStatus/canaryReplicas", json!(2)));
    assert!(!is_urgent("/canaryStatus/observedWorkloadGeneration", json!(2)));
    assert!(is_urgent("/phase", json!("Healthy")));
    assert!(is_urgent("/canaryStatus/currentStepState", json!("StepPaused")));
    assert!(is_urgent("/conditions/0/type", json!("Stalled")));
}

#[test]
fn a_plan_asks_for_the_workload_first() {
    let rollout: Rollout = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"workloadRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"}},
    }))
    .unwrap();
    let settings = Settings {
        gates: api::features::FeatureGates::parse("", "").unwrap(),
        namespace: "kutter".to_owned(),
    };
    let moment = Moment { now: jiff::Timestamp::UNIX_EPOCH, seed: 1 };
    let unread = plan(&rollout, &View::default(), &settings, &moment).unwrap_err();
    assert!(matches!(unread, Unread::Object(name) if name.kind == "CloneSet"));
}

#[test]
fn states_of_steps_and_results_of_releases_are_measured() {
    use measures::{result, step_state};
    let at = |phase: &str, reason: &str, state: &str, succeeded: &str| {
        status(&json!({"phase": phase, "currentStepIndex": 2, "currentStepState": state, "conditions": [
            {"type": "Progressing", "reason": reason}, {"type": "Succeeded", "status": succeeded}]}))
    };
    let running = |reason| at("Progressing", reason, "StepPaused", "");
    assert_eq!(step_state(&running("InRolling")), Some((2, "StepPaused")));
    assert_eq!(step_state(&running("Paused")), Some((2, "StepPaused")));
    assert_eq!(step_state(&running("Cancelling")), None);
    assert_eq!(step_state(&at("Progressing", "InRolling", "invented by a user", "")), None);
    assert_eq!(step_state(&at("Healthy", "InRolling", "StepPaused", "True")), None);
    let healthy = |succeeded| at("Healthy", "Completed", "Completed", succeeded);
    for (before, after, expected) in [
        (running("Finalising"), healthy("True"), Some("succeeded")),
        (running("Finalising"), running("Initializing"), Some("succeeded")),
        (running("Cancelling"), healthy("False"), Some("rolled_back")),
        (running("Cancelling"), running("Initializing"), Some("rolled_back")),
        (running("InRolling"), running("Initializing"), Some("replaced")),
        (running("InRolling"), at("Terminating", "InRolling", "StepPaused", ""), Some("removed")),
        (running("InRolling"), running("Finalising"), None),
        (running("Initializing"), running("InRolling"), None),
        (healthy("True"), running("Initializing"), None),
        (healthy("True"), healthy("True"), None),
    ] {
        assert_eq!(result(&before, &after), expected, "{before:?} {after:?}");
    }
}
