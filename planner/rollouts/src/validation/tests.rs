use api::kinds::rollout::Phase;
use serde_json::{Value, json};

use super::*;

fn rollout(strategy: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "Rollout", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"workloadRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"},
            "strategy": strategy},
    })
}

fn canary(steps: &Value) -> Value {
    json!({"canary": {"steps": steps}})
}

fn sound() -> Value {
    rollout(&canary(&json!([{"replicas": "20%", "traffic": "20%"}, {"replicas": "100%"}])))
}

fn routed(routings: &Value, step: &Value) -> Value {
    rollout(&json!({"canary": {"trafficRoutings": routings, "steps": [step]}}))
}

fn verdict(new: &Value, old: Option<&Value>, others: &[Arc<Rollout>]) -> Verdict {
    let scripts = Scripts::default();
    let context = Context {
        others,
        partition_percent_limit: PARTITION_PERCENT_LIMIT,
        filter_workload_type: true,
        scripts: &scripts,
    };
    review(&new.to_string(), old.map(Value::to_string).as_deref(), &context)
}

fn refusal(new: &Value) -> String {
    let verdict = verdict(new, None, &[]);
    let denial = verdict.denial().unwrap_or_else(|| panic!("{new} is let in"));
    assert_eq!(denial.code, 422);
    denial.message.clone()
}

#[track_caller]
fn assert_sound(new: &Value) {
    assert_eq!(verdict(new, None, &[]), Verdict::allow());
}

#[test]
fn values_of_annotations_that_do_nothing_are_warned_of_once() {
    let annotated = |seconds: &str, share: &str| {
        let mut rollout = sound();
        rollout["metadata"]["annotations"] = json!({
            "kutter.io/rollback-after-seconds": seconds, "kutter.io/rollback-failure-share": share,
        });
        rollout
    };
    let warned = annotated("0", "some");
    let Verdict::Allow { warnings, .. } = verdict(&warned, Some(&sound()), &[]) else {
        panic!("it is let in")
    };
    let expected = [
        r#"metadata.annotations[kutter.io/rollback-after-seconds]: "0" is no positive number of seconds and has no effect"#,
        r#"metadata.annotations[kutter.io/rollback-failure-share]: "some" is no share such as 20% and has no effect"#,
    ];
    assert_eq!(warnings, expected);
    assert_eq!(verdict(&warned, Some(&warned), &[]), Verdict::allow());
    assert_sound(&annotated("90", "20%"));
}

#[test]
fn a_rollout_has_exactly_one_style() {
    assert_sound(&sound());
    let neither = refusal(&rollout(&json!({})));
    assert!(
        neither.contains("Spec.Strategy: ") && neither.contains("Canary and BlueGreen cannot both be empty"),
        "{neither}"
    );
    let steps = json!({"steps": [{"replicas": 1}]});
    let both = refusal(&rollout(&json!({"canary": steps, "blueGreen": steps})));
    assert!(both.contains("Canary and BlueGreen cannot both be set"), "{both}");
}

#[test]
fn only_known_kinds_are_released() {
    let of = |api_version: &str, kind: &str, strategy: &str| {
        let mut rollout = rollout(&json!({strategy: {"steps": [{"replicas": 1}]}}));
        rollout["spec"]["workloadRef"] = json!({"apiVersion": api_version, "kind": kind, "name": "web"});
        rollout
    };
    for (api_version, kind) in [
        ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("apps.kruise.io/v1alpha1", "CloneSet"),
        ("apps.kruise.io/v1beta1", "CloneSet"),
        ("apps.kruise.io/v1beta1", "StatefulSet"),
        ("apps.kruise.io/v1alpha1", "DaemonSet"),
    ] {
        assert_sound(&of(api_version, kind, "canary"));
        let green = verdict(&of(api_version, kind, "blueGreen"), None, &[]);
        assert_eq!(green.is_allowed(), matches!(kind, "Deployment" | "CloneSet"), "{kind}");
    }
    for (api_version, kind) in [("batch/v1", "Job"), ("apps/v1", "CloneSet"), ("example.com/v1", "Game")] {
        let message = refusal(&of(api_version, kind, "canary"));
        assert!(
            message.contains("Spec.ObjectRef.WorkloadRef")
                && message.contains("WorkloadRef kind is not supported")
        );
    }
    let message = refusal(&of("apps/v1", "StatefulSet", "blueGreen"));
    assert!(message.contains("WorkloadRef kind is not supported for bluegreen style"), "{message}");
    let scripts = Scripts::default();
    let context =
        Context { others: &[], partition_percent_limit: 50, filter_workload_type: false, scripts: &scripts };
    let game = of("example.com/v1", "Game", "canary");
    assert!(review(&game.to_string(), None, &context).is_allowed());
    assert!(!review(&of("example.com/v1", "Game", "blueGreen").to_string(), None, &context).is_allowed());
}

#[test]
fn a_workload_must_be_named() {
    let mut nameless = sound();
    nameless["spec"]["workloadRef"]["name"] = "".into();
    assert!(refusal(&nameless).contains("apiVersion, kind and name of the workload must be set"));
    nameless["spec"].as_object_mut().unwrap().remove("workloadRef");
    assert!(refusal(&nameless).contains("Spec.ObjectRef.WorkloadRef: Required value"));
}

#[test]
fn steps_say_how_many_pods_are_new() {
    assert!(refusal(&rollout(&canary(&json!([])))).contains("Spec.Strategy.Canary.Steps: "));
    let missing = refusal(&rollout(&canary(&json!([{"traffic": "5%"}]))));
    assert!(
        missing.contains("Spec.Strategy.Canary.Steps[0].Replicas")
            && missing.contains("replicas cannot be empty")
    );
    for replicas in [json!(0), json!(-1), json!("0%"), json!("101%"), json!("20"), json!("many"), json!("")] {
        let message = refusal(&rollout(&canary(&json!([{"replicas": replicas}]))));
        let expected =
            r#"replicas must be positive number, or a percentage with "0%" < canaryReplicas <= "100%""#;
        assert!(message.contains(expected), "{replicas}: {message}");
    }
    for replicas in [json!(1), json!(1000), json!("1%"), json!("100%")] {
        assert_sound(&rollout(&canary(&json!([{"replicas": replicas}]))));
    }
}

#[test]
fn steps_never_go_back_between_neighbours_of_a_type() {
    for (steps, is_sound) in [
        (json!([{"replicas": 2}, {"replicas": 1}]), false),
        (json!([{"replicas": "20%"}, {"replicas": "10%"}]), false),
        (json!([{"replicas": 5}, {"replicas": "10%"}, {"replicas": 3}]), true),
        (json!([{"replicas": 2}, {"replicas": 2}, {"replicas": 3}]), true),
    ] {
        let verdict = verdict(&rollout(&canary(&steps)), None, &[]);
        assert_eq!(verdict.is_allowed(), is_sound, "{steps}");
        if let Some(denial) = verdict.denial() {
            assert!(denial.message.contains("Steps.CanaryReplicas must be a non decreasing sequence"));
            assert!(denial.message.contains("Steps[1].Replicas"), "{}", denial.message);
        }
    }
}

#[test]
fn batches_with_traffic_leave_half_of_the_pods() {
    let step = |step: &Value| rollout(&canary(&json!([step])));
    let matches = json!([{"headers": [{"name": "user", "value": "me"}]}]);
    for large in
        [json!({"replicas": "51%", "traffic": "10%"}), json!({"replicas": "51%", "matches": matches})]
    {
        let message = refusal(&step(&large));
        let expected = "step[x].replicas must not greater than partition-percent-limit if traffic specified";
        assert!(message.contains(expected), "{message}");
    }
    for small in [
        json!({"replicas": "50%", "traffic": "10%"}),
        json!({"replicas": 1000, "traffic": "10%"}),
        json!({"replicas": "51%"}),
    ] {
        assert_sound(&step(&small));
    }
    // A second Deployment takes no old Pod away.
    let mut extra = rollout(&json!({"canary": {"enableExtraWorkloadForCanary": true,
        "steps": [{"replicas": "80%", "traffic": "10%"}]}}));
    assert!(!verdict(&extra, None, &[]).is_allowed(), "a CloneSet has no second one");
    extra["spec"]["workloadRef"] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    assert_sound(&extra);
}

#[test]
fn traffic_is_a_share() {
    for (traffic, in_canary, in_blue_green) in [
        ("0%", false, true),
        ("1%", true, true),
        ("100%", true, true),
        ("101%", false, false),
        ("-1%", false, false),
        ("20", false, false),
        ("", false, false),
    ] {
        for (style, is_sound) in [("canary", in_canary), ("blueGreen", in_blue_green)] {
            let rollout = rollout(&json!({style: {"steps": [{"replicas": 1, "traffic": traffic}]}}));
            let verdict = verdict(&rollout, None, &[]);
            assert_eq!(verdict.is_allowed(), is_sound, "{style} {traffic}");
            if let Some(denial) = verdict.denial() {
                assert!(denial.message.contains("traffic must be percentage with "), "{}", denial.message);
            }
        }
    }
}

#[test]
fn traffic_takes_one_service_and_a_provider() {
    let step = json!({"replicas": 1, "traffic": "10%"});
    let ingress = json!({"service": "web", "ingress": {"name": "web"}});
    assert_sound(&routed(&json!([ingress]), &step));
    for (routings, expected) in [
        (json!([ingress, ingress]), "Rollout currently only support single TrafficRouting."),
        (json!([{"ingress": {"name": "web"}}]), "TrafficRoutings[0].Service: Required value"),
        (json!([{"service": "web"}]), "TrafficRoutings are not set"),
        (json!([{"service": "web", "ingress": {}}]), "Ingress.Name: Required value"),
        (json!([{"service": "web", "gateway": {}}]), "Gateway.HTTPRouteName: Required value"),
        (
            json!([{"service": "web", "ingress": {"name": "web"}, "gracePeriodSeconds": -1}]),
            "GracePeriodSeconds",
        ),
    ] {
        let message = refusal(&routed(&routings, &step));
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn matches_that_an_ingress_cannot_express_are_refused() {
    let matches = json!([{"queryParams": [{"name": "user", "value": "me"}]}]);
    let step = json!({"replicas": 1, "matches": matches});
    let message = refusal(&routed(&json!([{"service": "web", "ingress": {"name": "web"}}]), &step));
    assert!(message.contains("Steps[0].Matches"), "{message}");
    assert_sound(&routed(&json!([{"service": "web", "gateway": {"httpRouteName": "web"}}]), &step));
}

fn other(name: &str, api_version: &str) -> Arc<Rollout> {
    let mut other: Rollout = serde_json::from_value(sound()).unwrap();
    other.metadata.name = name.to_owned();
    other.spec.workload_ref.api_version = api_version.to_owned();
    Arc::new(other)
}

#[test]
fn a_workload_has_one_rollout_whatever_version_they_name() {
    for api_version in ["apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"] {
        let verdict = verdict(&sound(), None, &[other("web", api_version), other("late", api_version)]);
        let message =
            "This rollout conflict with Rollout(shop/late), one workload only have less than one Rollout";
        let denial = verdict.denial().unwrap();
        assert!(
            denial.message.starts_with("Conflict Checker: ") && denial.message.contains(message),
            "{}",
            denial.message
        );
    }
    assert!(verdict(&sound(), None, &[other("late", "apps/v1")]).is_allowed());
}

fn in_phase(rollout: &Value, phase: &Phase) -> Value {
    let mut rollout = rollout.clone();
    rollout["status"] = json!({"phase": phase});
    rollout
}

#[test]
fn a_running_release_keeps_its_workload_traffic_style_and_number_of_steps() {
    let routings = json!([{"service": "web", "ingress": {"name": "web"}}]);
    let old = routed(&routings, &json!({"replicas": 1}));
    let changed = |pointer: &str, value: Value| {
        let mut new = old.clone();
        *new.pointer_mut(pointer).unwrap() = value;
        new
    };
    let steps = "/spec/strategy/canary/steps";
    let mut extra = old.clone();
    extra["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"] = true.into();
    for (new, expected) in [
        (changed("/spec/workloadRef/name", json!("api")), "Rollout 'ObjectRef' field is immutable"),
        (changed(steps, json!([{"replicas": 1}, {"replicas": 2}])), "Amount of Rollout steps are immutable"),
        (
            changed("/spec/strategy/canary/trafficRoutings/0/service", json!("api")),
            "Rollout 'Strategy.Canary.TrafficRoutings' field is immutable",
        ),
        (
            changed("/spec/strategy", json!({"blueGreen": {"steps": [{"replicas": 1}]}})),
            "Rollout style and enableExtraWorkloadForCanary are immutable",
        ),
        (extra, "Rollout style and enableExtraWorkloadForCanary are immutable"),
    ] {
        for phase in [Phase::Progressing, Phase::Terminating] {
            let verdict = verdict(&new, Some(&in_phase(&old, &phase)), &[]);
            assert!(verdict.denial().is_some_and(|denial| denial.message.contains(expected)), "{expected}");
        }
        for phase in [Phase::Healthy, Phase::Disabled] {
            assert!(verdict(&new, Some(&in_phase(&old, &phase)), &[]).is_allowed(), "{expected}");
        }
    }
    let running = in_phase(&old, &Phase::Progressing);
    for allowed in [
        changed(steps, json!([{"replicas": 2}])),
        changed("/spec/workloadRef/apiVersion", json!("apps.kruise.io/v1beta1")),
    ] {
        assert!(verdict(&allowed, Some(&running), &[]).is_allowed());
    }
}

#[test]
fn an_update_is_refused_for_what_it_makes_wrong() {
    let bad = rollout(&canary(&json!([{"replicas": 0}])));
    let mut labelled = bad.clone();
    labelled["metadata"]["labels"] = json!({"team": "shop"});
    assert!(verdict(&labelled, Some(&bad), &[]).is_allowed());
    let mut paused = bad.clone();
    paused["spec"]["strategy"]["paused"] = true.into();
    assert!(verdict(&paused, Some(&bad), &[]).is_allowed());
    paused["spec"]["strategy"]["canary"]["steps"] = json!([]);
    assert!(!verdict(&paused, Some(&bad), &[]).is_allowed());
}

#[test]
fn the_older_version_obeys_the_same_rules() {
    let older = json!({
        "apiVersion": "rollouts.kruise.io/v1alpha1", "kind": "Rollout",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"objectRef": {"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
            "strategy": {"canary": {"steps": [{"weight": 20}, {"weight": 10}]}}},
    });
    assert!(refusal(&older).contains("Steps.CanaryReplicas must be a non decreasing sequence"));
    let mut empty = older.clone();
    empty["spec"]["strategy"] = json!({});
    assert!(refusal(&empty).contains("Canary and BlueGreen cannot both be empty"));
    let mut nothing = older;
    nothing["spec"] = json!({"strategy": {"canary": {"steps": [{"weight": 20}]}}});
    assert!(refusal(&nothing).contains("Spec.ObjectRef.WorkloadRef: Required value"));
}
