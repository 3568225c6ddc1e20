use serde_json::{Value, json};

use super::*;

fn read(text: &Value) -> Rollout {
    serde_json::from_value(text.clone()).unwrap()
}

fn release() -> ReleaseStatus {
    ReleaseStatus {
        current_step_index: 2,
        current_step_state: StepState::StepPaused,
        next_step_index: 3,
        pod_template_hash: "new".to_owned(),
        revision: "v2".to_owned(),
        replicas: 3,
        ready_replicas: 1,
        ..ReleaseStatus::default()
    }
}

#[test]
fn each_style_has_its_own_names_for_the_new_version() {
    for (kind, block, prefix) in [
        (StrategyKind::Canary, "canaryStatus", "canary"),
        (StrategyKind::BlueGreen, "blueGreenStatus", "updated"),
    ] {
        let mut status = Status::default();
        *status.release_mut(kind) = Some(release());
        let written = serde_json::to_value(&status).unwrap();
        let expected = json!({"currentStepIndex": 2, "currentStepState": "StepPaused", "nextStepIndex": 3,
            "finalisingStep": "", "podTemplateHash": "new", format!("{prefix}Revision"): "v2",
            format!("{prefix}Replicas"): 3, format!("{prefix}ReadyReplicas"): 1});
        assert_eq!(written, json!({"currentStepIndex": 0, "currentStepState": "", block: expected}));
        let back: Status = serde_json::from_value(written).unwrap();
        assert_eq!(back, status);
        assert_eq!(back.release(kind), Some(&release()));
    }
}

#[test]
fn a_block_without_numbers_reads_as_zero_and_without_a_release_as_none() {
    let status: Status =
        serde_json::from_value(json!({"canaryStatus": {"canaryReplicas": null, "observedRolloutID": "7"},
        "blueGreenStatus": null}))
        .unwrap();
    let expected = ReleaseStatus { observed_rollout_id: "7".to_owned(), ..ReleaseStatus::default() };
    assert_eq!(status.release(StrategyKind::Canary), Some(&expected));
    assert_eq!(status.release(StrategyKind::BlueGreen), None);
}

#[test]
fn both_blocks_of_a_strategy_are_read_alike() {
    let block = json!({"steps": [{"replicas": "20%", "traffic": "5%", "pause": {"duration": 0}}], "failureThreshold": 2,
        "trafficRoutings": [{"service": "web"}], "trafficRoutingRef": "chain", "disableGenerateCanaryService": true});
    for (name, kind) in [("canary", StrategyKind::Canary), ("blueGreen", StrategyKind::BlueGreen)] {
        let strategy = read(&json!({"spec": {"strategy": {name: block}}})).spec.strategy;
        assert_eq!(strategy.kind(), Some(kind));
        assert_eq!(strategy.steps().len(), 1);
        assert_eq!(strategy.steps()[0].pause, Pause { duration: Some(0) });
        assert_eq!(strategy.steps()[0].traffic.as_deref(), Some("5%"));
        assert_eq!(strategy.traffic_routings()[0].service, "web");
        assert_eq!(strategy.failure_threshold(), Some(&IntOrString::Int(2)));
        assert_eq!(strategy.traffic_routing_ref(), "chain");
        assert!(strategy.disable_generate_canary_service());
    }
}

#[test]
fn a_strategy_with_both_blocks_or_none_is_of_no_style() {
    for strategy in [json!({}), json!({"canary": {}, "blueGreen": {}})] {
        let strategy = read(&json!({"spec": {"strategy": strategy}})).spec.strategy;
        assert_eq!(strategy.kind(), None);
        assert_eq!((strategy.steps().len(), strategy.traffic_routing_ref()), (0, ""));
    }
}

#[test]
fn what_is_not_said_about_traffic_has_a_default() {
    let routing: TrafficRoutingRef =
        serde_json::from_value(json!({"service": "web", "ingress": {"name": "i"}})).unwrap();
    assert_eq!((routing.grace_period(), routing.ingress.unwrap().class()), (3, "nginx"));
    let routing: TrafficRoutingRef =
        serde_json::from_value(json!({"gracePeriodSeconds": 0, "ingress": {"classType": "mse"}})).unwrap();
    assert_eq!((routing.grace_period(), routing.ingress.unwrap().class()), (0, "mse"));
}

/// The word as it is written.
fn word(value: impl Serialize) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
}

#[test]
fn words_are_those_of_the_api() {
    use FinalisingStep::*;
    let steps = [
        (RestoreStableService, "RestoreStableService"),
        (RouteTrafficToStable, "FinalisingStepRouteTrafficToStable"),
        (RouteTrafficToNew, "FinalisingStepRouteTrafficToNew"),
        (RemoveCanaryService, "RemoveCanaryService"),
        (ResumeWorkload, "ResumeWorkload"),
        (ReleaseWorkloadControl, "ReleaseWorkloadControl"),
        (End, "END"),
        (Unset, ""),
        (Other("x".to_owned()), "x"),
    ];
    for (step, text) in steps {
        assert_eq!(word(&step), text);
        assert_eq!(serde_json::from_value::<FinalisingStep>(json!(text)).unwrap(), step);
    }
    assert_eq!(serde_json::from_value::<StepState>(json!("StepReady")).unwrap(), StepState::StepReady);
    assert_eq!(serde_json::from_value::<Phase>(json!("Disabling")).unwrap(), Phase::Disabling);
    assert_eq!(serde_json::from_value::<Reason>(json!("InRolling")).unwrap(), Reason::InRolling);
    let condition = Condition { kind: ConditionType::Succeeded, ..Condition::default() };
    assert_eq!(
        serde_json::to_value(&condition).unwrap(),
        json!({"type": "Succeeded", "status": "Unknown", "reason": "", "message": ""})
    );
}
