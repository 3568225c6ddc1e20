use super::*;
use crate::podprobemarker::validation::review;

/// A sound marker with these changes, a merge patch.
fn object(change: &Value) -> String {
    let mut object = json!({"metadata": {"name": "game", "namespace": "shop"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}}, "probes": [sound()]}});
    json_patch::merge(&mut object, change);
    object.to_string()
}

fn sound() -> Value {
    json!({"name": "idle", "containerName": "main", "podConditionType": "game.example.com/idle",
        "probe": {"exec": {"command": ["check"]}, "periodSeconds": 5},
        "markerPolicy": [{"state": "Succeeded", "labels": {"idle": "true"}}]})
}

fn probe(change: &Value) -> Value {
    let mut probe = sound();
    json_patch::merge(&mut probe, change);
    probe
}

fn message(object: &str, old: Option<&str>) -> String {
    let verdict = review(object, old);
    let denial = verdict.denial().unwrap_or_else(|| panic!("{object} is allowed"));
    assert_eq!(denial.code, 400);
    denial.message.clone()
}

/// The message about one probe that is changed like this.
fn refused(change: &Value) -> String {
    message(&object(&json!({"spec": {"probes": [probe(change)]}})), None)
}

#[test]
fn scenario_1_what_a_probe_may_not_say_is_refused() {
    for (change, expected) in [
        (json!({"name": "a#b"}), "spec.probes: Invalid value: \"a#b\": probe name can't contains '#'."),
        (json!({"name": ""}), "probe name can't be empty in PodProbeMarker."),
        (json!({"containerName": ""}), "probe containerName can't be empty in PodProbeMarker."),
        (json!({"name": "Ready"}), "probe name can't be Ready"),
        (json!({"name": "InPlaceUpdateReady"}), "probe name can't be InPlaceUpdateReady"),
        (json!({"probe": {"exec": null}}), "spec.probe: Required value: must specify a handler type"),
        (json!({"probe": null}), "spec.probe: Required value: must specify a handler type"),
        (json!({"probe": {"exec": null, "grpc": {"port": 1}}}), "must specify a handler type"),
        (
            json!({"probe": {"tcpSocket": {"port": 1}}}),
            "spec.probe.tcpSocket: Forbidden: may not specify more than 1 handler type",
        ),
        (json!({"probe": {"exec": {"command": []}}}), "spec.probe.exec.command: Required value"),
        (
            json!({"probe": {"exec": null, "tcpSocket": {"port": 1, "host": "a"}}}),
            "spec.probe.tcpSocket.host: Forbidden: host field in probes is not allowed",
        ),
        (
            json!({"probe": {"exec": null, "httpGet": {"port": 1, "path": "/", "host": "a"}}}),
            "spec.probe.httpGet.host: Forbidden: host field in probes is not allowed",
        ),
        (json!({"probe": {"exec": null, "httpGet": {"port": 1}}}), "spec.probe.httpGet.path: Required value"),
        (
            json!({"probe": {"exec": null, "httpGet": {"port": 1, "path": "/", "scheme": "FTP"}}}),
            "spec.probe.httpGet.scheme: Unsupported value: \"FTP\": supported values: \"HTTP\", \"HTTPS\"",
        ),
        (
            json!({"probe": {"exec": null, "tcpSocket": {"port": 0}}}),
            "spec.probe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (
            json!({"probe": {"periodSeconds": -1}}),
            "spec.probe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            json!({"podConditionType": null, "markerPolicy": null}),
            "podConditionType and markerPolicy cannot be empty at the same time",
        ),
        (json!({"podConditionType": "Ready"}), "podConditionType can't be Ready"),
        (json!({"podConditionType": "a b"}), "spec: Invalid value: \"a b\": "),
        (
            json!({"markerPolicy": [{"state": "Unknown", "labels": {"a": "b"}}]}),
            "spec.markerPolicy.state: Invalid value: \"Unknown\": marker policy state must be 'True' or 'False'",
        ),
        (
            json!({"markerPolicy": [{"state": "Failed"}]}),
            "marker policy annotations or labels can't be both empty",
        ),
        (
            json!({"markerPolicy": [{"state": "Failed", "labels": {"a": "b"}}, {"state": "Failed", "labels": {"a": "c"}}]}),
            "marker policy state must be unique.",
        ),
        (
            json!({"markerPolicy": [{"state": "Failed", "labels": {"a b": "c"}}]}),
            "spec.markerPolicy.labels: Invalid value: \"a b\": ",
        ),
    ] {
        let message = refused(&change);
        assert!(message.contains(expected), "{change}: {message}");
    }
}

#[test]
fn probes_and_conditions_are_named_once() {
    let twice =
        |change: &Value| message(&object(&json!({"spec": {"probes": [sound(), probe(change)]}})), None);
    assert!(twice(&json!({})).ends_with("probe name must be unique in PodProbeMarker."));
    let expected = "podConditionType game.example.com/idle must be unique in podProbeMarker";
    assert!(twice(&json!({"name": "other"})).ends_with(expected));
    let none = message(&object(&json!({"spec": {"probes": []}})), None);
    assert!(none.contains("empty probes is not valid for PodProbeMarker."), "{none}");
}

#[test]
fn a_selector_is_needed() {
    let none = message(&object(&json!({"spec": {"selector": null}})), None);
    assert!(none.contains("empty Selector is not valid for PodProbeMarker."), "{none}");
    let empty = message(&object(&json!({"spec": {"selector": {"matchLabels": null}}})), None);
    assert!(empty.contains("empty selector is not valid for podProbeMarker."), "{empty}");
    let near = json!([{"key": "a", "operator": "Near"}]);
    let broken = message(&object(&json!({"spec": {"selector": {"matchExpressions": near}}})), None);
    assert!(broken.contains("not a valid selector operator"), "{broken}");
    let odd = json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x y"]}]});
    let odd = object(&json!({"spec": {"selector": odd}}));
    let text = message(&odd, None);
    assert!(text.contains("spec.selector.matchExpressions[0].values[0]: Invalid value: \"x y\""), "{text}");
    let mut next: Value = serde_json::from_str(&odd).unwrap();
    next["spec"]["probes"][0]["containerName"] = json!("other");
    assert!(review(&next.to_string(), Some(&odd)).is_allowed(), "what is stored goes on");
}

#[test]
fn scenario_2_the_selector_stays_as_it_is() {
    let other = object(&json!({"spec": {"selector": {"matchLabels": {"app": "db"}}}}));
    let message = message(&other, Some(&object(&json!({}))));
    assert!(message.starts_with("selector: Invalid value: "), "{message}");
    assert!(message.ends_with(": selector must be immutable"), "{message}");
}

#[test]
fn what_is_sound_passes() {
    let http = json!({"exec": null, "httpGet": {"path": "/health", "port": "http"}});
    for change in [
        json!({}),
        json!({"probe": http}),
        json!({"podConditionType": null}),
        json!({"markerPolicy": null}),
        json!({"probe": {"terminationGracePeriodSeconds": -1}}),
    ] {
        let object = object(&json!({"spec": {"probes": [probe(&change)]}}));
        assert!(review(&object, None).is_allowed(), "{change}");
    }
}

#[test]
fn what_was_stored_earlier_can_be_changed_in_other_parts() {
    let ready = |period: u32| {
        let probe = probe(&json!({"podConditionType": "Ready", "probe": {"periodSeconds": period}}));
        object(&json!({"spec": {"probes": [probe]}}))
    };
    assert!(review(&ready(2), Some(&ready(1))).is_allowed());
    assert!(message(&ready(2), Some(&object(&json!({})))).ends_with("podConditionType can't be Ready"));
    // Its finalizer must come off, whatever is wrong with it.
    let broken = object(&json!({"spec": {"probes": []}}));
    let labelled = object(&json!({"metadata": {"labels": {"a": "b"}}, "spec": {"probes": []}}));
    assert!(review(&labelled, Some(&broken)).is_allowed());
}
