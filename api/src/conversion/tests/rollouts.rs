//! The rows of the tables of docs/behaviour/rollouts.md#kinds.

use serde_json::{Value, json};

use super::{CONVERTED_FIELDS, assert_flips, flip, object, visible};

const ALPHA: &str = "rollouts.kruise.io/v1alpha1";
const BETA: &str = "rollouts.kruise.io/v1beta1";
const NONE: Value = Value::Null;
const STYLE: &str = "rollouts.kruise.io/rolling-style";
const ROUTING: &str = "rollouts.kruise.io/trafficrouting";

fn workload() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
}

fn annotated(annotations: &Value) -> Value {
    if *annotations == json!({}) { json!({}) } else { json!({"annotations": annotations}) }
}

fn alpha(annotations: &Value, strategy: Value) -> Value {
    let mut spec = json!({"objectRef": {"workloadRef": workload()}});
    spec["strategy"] = strategy;
    object(ALPHA, "Rollout", annotated(annotations), spec, NONE)
}

fn beta(annotations: &Value, strategy: Value) -> Value {
    let mut spec = json!({"workloadRef": workload()});
    spec["strategy"] = strategy;
    object(BETA, "Rollout", annotated(annotations), spec, NONE)
}

fn partition() -> Value {
    json!({STYLE: "partition"})
}

#[track_caller]
fn assert_nothing_is_noted(object: &Value) {
    let flipped = flip(object);
    assert_eq!(visible(flipped.clone()), flipped);
}

#[test]
fn the_style_is_an_annotation_whose_absence_means_a_second_deployment() {
    for (annotations, canary) in [
        (json!({}), json!({"enableExtraWorkloadForCanary": true})),
        (json!({STYLE: "canary"}), json!({"enableExtraWorkloadForCanary": true})),
        (json!({STYLE: "partition"}), json!({})),
        (json!({STYLE: "Partition"}), json!({})),
    ] {
        let old = alpha(&annotations, json!({"canary": {}, "paused": true}));
        assert_flips(&old, &beta(&annotations, json!({"canary": canary, "paused": true})));
        assert_nothing_is_noted(&old);
    }
    assert_flips(&beta(&json!({}), json!({"canary": {}})), &alpha(&partition(), json!({"canary": {}})));
    let edited = beta(&partition(), json!({"canary": {"enableExtraWorkloadForCanary": true}}));
    assert_flips(&edited, &alpha(&json!({STYLE: "canary"}), json!({"canary": {}})));
}

#[test]
fn a_weight_is_traffic_and_where_replicas_are_not_given_the_share_of_pods() {
    let steps = |steps: Value| json!({"canary": {"steps": steps}});
    let old = alpha(
        &partition(),
        steps(json!([{"weight": 20}, {"weight": 0, "replicas": 3}, {"replicas": "50%"}])),
    );
    let new = beta(
        &partition(),
        steps(
            json!([{"traffic": "20%", "replicas": "20%"}, {"traffic": "0%", "replicas": 3}, {"replicas": "50%"}]),
        ),
    );
    assert_flips(&old, &new);
    let old = alpha(
        &partition(),
        steps(json!([{"weight": 20, "replicas": "20%"}, {"weight": 0, "replicas": 3}, {"replicas": "50%"}])),
    );
    assert_flips(&new, &old);
    assert_nothing_is_noted(&new);
    let odd = beta(&partition(), steps(json!([{"traffic": "20", "replicas": 1}])));
    assert_flips(&odd, &alpha(&partition(), steps(json!([{"replicas": 1}]))));
}

#[test]
fn matches_keep_path_and_query_out_of_sight_and_the_service_switch_in_sight() {
    let canary = |condition: Value| {
        let steps =
            json!([{"replicas": 1, "matches": [condition, {"headers": [{"name": "b", "value": "2"}]}]}]);
        json!({"canary": {"disableGenerateCanaryService": true, "steps": steps}})
    };
    let new = json!({"path": {"value": "/a"}, "headers": [{"name": "a", "value": "1"}], "queryParams": [{"name": "q", "value": "2"}]});
    let old = json!({"headers": [{"name": "a", "value": "1"}]});
    assert_flips(&beta(&partition(), canary(new)), &alpha(&partition(), canary(old)));
}

#[test]
fn the_traffic_routing_is_an_annotation_in_both_versions() {
    let both = json!({STYLE: "partition", ROUTING: "chain"});
    let old = alpha(&both, json!({"canary": {}}));
    let new = beta(&both, json!({"canary": {"trafficRoutingRef": "chain"}}));
    assert_flips(&old, &new);
    assert_nothing_is_noted(&old);
    assert_flips(&new, &old);
    assert_flips(&beta(&partition(), json!({"canary": {"trafficRoutingRef": "chain"}})), &old);
    let conflict = beta(&both, json!({"canary": {"trafficRoutingRef": "other"}}));
    assert_flips(&conflict, &old);
}

#[test]
fn a_deprecated_identity_survives() {
    let mut old = alpha(&partition(), json!({"canary": {}}));
    old["spec"]["rolloutID"] = "7".into();
    assert_flips(&old, &beta(&partition(), json!({"canary": {}})));
}

#[test]
fn scenario_18_blue_green_comes_back_from_v1alpha1_as_it_was() {
    let status = json!({"phase": "Progressing", "currentStepIndex": 1, "currentStepState": "StepPaused",
        "blueGreenStatus": {"currentStepIndex": 1, "currentStepState": "StepPaused", "updatedReplicas": 3}});
    let strategy = json!({"blueGreen": {"steps": [{"replicas": "100%", "traffic": "0%"}]}});
    let mut new = beta(&json!({}), strategy);
    new["status"] = status;
    let mut old = alpha(&json!({}), json!({}));
    old["status"] = json!({"phase": "Progressing"});
    assert_flips(&new, &old);

    let mut written = flip(&new);
    written["spec"]["disabled"] = true.into();
    written["status"]["phase"] = "Disabling".into();
    new["spec"]["disabled"] = true.into();
    new["status"]["phase"] = "Disabling".into();
    assert_eq!(flip(&written), new);
}

#[test]
fn a_style_that_a_client_writes_takes_the_place_of_blue_green() {
    let mut written = flip(&beta(&json!({}), json!({"blueGreen": {"steps": [{"replicas": 1}]}})));
    written["metadata"]["annotations"][STYLE] = "partition".into();
    written["spec"]["strategy"]["canary"] = json!({"steps": [{"replicas": 2}]});
    let new = visible(flip(&written));
    assert_eq!(new["spec"]["strategy"], json!({"canary": {"steps": [{"replicas": 2}]}}));
    let both = beta(&json!({}), json!({"blueGreen": {"steps": []}, "canary": {"steps": [{"replicas": 2}]}}));
    assert_flips(&both, &alpha(&json!({}), json!({})));
}

#[test]
fn mirrors_of_the_release_are_made_and_taken_away() {
    let with = |mut object: Value, status: Value| {
        object["status"] = status;
        object
    };
    let release = json!({"currentStepIndex": 2, "currentStepState": "StepPaused", "canaryRevision": "v2"});
    let old =
        with(alpha(&partition(), json!({"canary": {}})), json!({"message": "m", "canaryStatus": release}));
    let new = json!({"message": "m", "currentStepIndex": 2, "currentStepState": "StepPaused", "canaryStatus": release});
    let new = with(beta(&partition(), json!({"canary": {}})), new);
    assert_flips(&old, &new);
    assert_nothing_is_noted(&old);
    assert_flips(&new, &old);

    let mut approved = flip(&new);
    approved["status"]["canaryStatus"]["currentStepState"] = "StepReady".into();
    let status = visible(flip(&approved))["status"].clone();
    assert_eq!(status["currentStepState"], "StepReady");
    assert_eq!(status["canaryStatus"]["currentStepState"], "StepReady");

    let empty = with(alpha(&partition(), json!({"canary": {}})), json!({}));
    let zero = json!({"currentStepIndex": 0, "currentStepState": ""});
    assert_flips(&empty, &with(beta(&partition(), json!({"canary": {}})), zero));
}

#[test]
fn parts_that_are_absent_or_null_are_no_trouble() {
    for (old, new) in [
        (
            json!({"objectRef": {"workloadRef": null}, "strategy": {"canary": null}}),
            json!({"strategy": {"canary": null}}),
        ),
        (json!({"objectRef": {}, "strategy": {}}), json!({"strategy": {}})),
        (json!({"objectRef": null, "strategy": null}), json!({"strategy": null})),
        (json!({}), json!({})),
    ] {
        let of = |api_version: &str, spec: Value| object(api_version, "Rollout", json!({}), spec, NONE);
        assert_flips(&of(ALPHA, old), &of(BETA, new));
    }
}

#[test]
fn a_batch_release_names_its_workload_and_its_style_elsewhere() {
    let plan = |style: Value| {
        let mut plan = json!({"enableExtraWorkloadForCanary": false, "batches": [{"canaryReplicas": 1}], "batchPartition": 0});
        if !style.is_null() {
            plan["rollingStyle"] = style;
        }
        plan
    };
    let of = |api_version: &str, annotations: Value, style: Value| {
        let reference = if api_version == ALPHA { "targetReference" } else { "workloadRef" };
        let workload = if api_version == ALPHA { json!({"workloadRef": workload()}) } else { workload() };
        let spec = json!({"releasePlan": plan(style), reference: workload});
        object(
            api_version,
            "BatchRelease",
            annotated(&annotations),
            spec,
            json!({"phase": "Progressing", "message": "m"}),
        )
    };
    for (text, style) in [("partition", "Partition"), ("Canary", "Canary"), ("bluegreen", "BlueGreen")] {
        let (old, new) =
            (of(ALPHA, json!({STYLE: text}), NONE), of(BETA, json!({STYLE: text}), json!(style)));
        assert_flips(&old, &new);
        assert_flips(&new, &of(ALPHA, json!({STYLE: text}), json!(style)));
        assert_nothing_is_noted(&new);
    }
    let written = of(ALPHA, json!({STYLE: "bluegreen"}), json!("BlueGreen"));
    assert_flips(&of(BETA, json!({}), json!("BlueGreen")), &written);
    let plain = of(ALPHA, json!({}), NONE);
    assert_flips(&plain, &of(BETA, json!({}), NONE));
    assert!(!flip(&plain).to_string().contains(CONVERTED_FIELDS));
}

#[test]
fn kinds_of_one_version_and_of_other_groups_are_not_converted() {
    for (kind, api_version) in
        [("TrafficRouting", ALPHA), ("RolloutHistory", ALPHA), ("Rollout", "apps.kruise.io/v1alpha1")]
    {
        let text = object(api_version, kind, json!({}), json!({}), NONE).to_string();
        let message = super::convert(&text, BETA).unwrap_err().to_string();
        assert_eq!(message, format!("no kind \"{kind}\" is registered for version \"{api_version}\""));
    }
}
