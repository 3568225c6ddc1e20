use super::*;
use crate::podprobemarker::probed::probed;
use crate::podprobemarker::results::results;

/// A marker whose probe `idle` writes a condition and labels for both results.
fn game() -> Arc<Marker> {
    let mut probe = exec("idle");
    probe["podConditionType"] = json!("game/idle");
    probe["markerPolicy"] = json!([
        {"state": "Succeeded", "labels": {"idle": "true", "free": "yes"}, "annotations": {"cost": "-1"}},
        {"state": "Failed", "labels": {"idle": "false"}},
    ]);
    marker("game", json!([probe]))
}

fn state(name: &str, state: &str, message: &str) -> Value {
    json!({"name": name, "state": state, "message": message, "lastProbeTime": "2026-01-01T00:00:09Z",
        "lastTransitionTime": "2026-01-01T00:00:05Z"})
}

/// What is written on a Pod, and what is reported; `None` for nothing.
fn written(pod: &Arc<ObservedPod>, markers: &[Arc<Marker>], states: Value) -> Option<(Value, Vec<String>)> {
    let pods = [pod.clone()];
    let probed = probed(&pods, markers, false);
    let results = results(&reported(states), &probed);
    assert!(results.len() <= 1);
    let results = results.first()?;
    let write = serde_json::from_str(&results.write.to_json(pod)).unwrap();
    Some((write, results.conflicts.iter().map(|event| event.message.clone()).collect()))
}

fn patch(pod: &Arc<ObservedPod>, markers: &[Arc<Marker>], states: Value) -> Option<Value> {
    written(pod, markers, states).map(|(patch, _)| patch)
}

#[test]
fn scenario_5_each_result_has_its_condition_and_its_labels() {
    let markers = [game()];
    let fresh = pod("web", |pod| pod["metadata"]["labels"] = json!({"app": "web", "idle": "false"}));
    assert_eq!(
        patch(&fresh, &markers, json!([state("game#idle", "Succeeded", "yes")])).unwrap(),
        json!({
            "metadata": {"uid": "uid-web", "resourceVersion": "7", "labels": {"idle": "true", "free": "yes"},
                "annotations": {"cost": "-1"}},
            "status": {"conditions": [{"type": "game/idle", "status": "True", "reason": null, "message": "yes",
                "lastProbeTime": "2026-01-01T00:00:09Z", "lastTransitionTime": "2026-01-01T00:00:05Z"}]},
        })
    );
    let idle = pod("web", |pod| {
        pod["metadata"]["labels"] = json!({"app": "web", "idle": "true", "free": "yes"});
        pod["metadata"]["annotations"] = json!({"cost": "-1"});
        pod["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(json!({"type": "game/idle", "status": "True", "message": "yes"}));
    });
    assert_eq!(patch(&idle, &markers, json!([state("game#idle", "Succeeded", "yes")])), None);
    let failed = patch(&idle, &markers, json!([state("game#idle", "Failed", "no")])).unwrap();
    assert_eq!(failed["metadata"]["labels"], json!({"idle": "false", "free": null}));
    assert_eq!(failed["metadata"]["annotations"], json!({"cost": null}));
    assert_eq!(failed["status"]["conditions"][0]["status"], "False");
    let unknown = patch(&idle, &markers, json!([state("game#idle", "Unknown", "")])).unwrap();
    assert_eq!(unknown["metadata"], json!({"uid": "uid-web", "resourceVersion": "7"}));
    assert_eq!(unknown["status"]["conditions"][0]["status"], "False");
}

#[test]
fn scenario_6_a_single_policy_takes_its_keys_away() {
    let mut probe = exec("idle");
    probe["markerPolicy"] = json!([{"state": "Succeeded", "labels": {"idle": "true"}}]);
    let markers = [marker("game", json!([probe]))];
    let idle = pod("web", |pod| pod["metadata"]["labels"]["idle"] = json!("true"));
    let failed = patch(&idle, &markers, json!([state("game#idle", "Failed", "")])).unwrap();
    assert_eq!(failed["metadata"]["labels"], json!({"idle": null}));
    assert_eq!(patch(&idle, &markers, json!([state("game#idle", "Unknown", "")])), None);
}

#[test]
fn what_is_set_wins_over_what_is_taken_away() {
    let policy = |state: &str| json!([{"state": state, "labels": {"busy": "yes"}}]);
    let (mut one, mut two) = (exec("one"), exec("two"));
    (one["markerPolicy"], two["markerPolicy"]) = (policy("Succeeded"), policy("Succeeded"));
    let markers = [marker("game", json!([one, two]))];
    for states in [["Succeeded", "Failed"], ["Failed", "Succeeded"]] {
        let states = json!([state("game#one", states[0], ""), state("game#two", states[1], "")]);
        let patch = patch(&pod("web", |_| {}), &markers, states).unwrap();
        assert_eq!(patch["metadata"]["labels"], json!({"busy": "yes"}));
    }
}

#[test]
fn of_two_probes_for_one_condition_the_first_in_the_status_writes_it() {
    let claim = |name: &str| {
        let mut probe = exec("p");
        probe["podConditionType"] = json!("game/idle");
        marker(name, json!([probe]))
    };
    let states = json!([state("b#p", "Failed", "from b"), state("a#p", "Succeeded", "from a")]);
    let (patch, reported) = written(&pod("web", |_| {}), &[claim("a"), claim("b")], states).unwrap();
    let conditions = patch["status"]["conditions"].as_array().unwrap();
    assert_eq!((conditions.len(), &conditions[0]["message"]), (1, &json!("from b")));
    assert_eq!(reported, ["Condition game/idle is written by probe b#p, and so not by probe a#p"]);
}

#[test]
fn results_of_what_is_not_probed_change_nothing() {
    let markers = [game()];
    let web = pod("web", |_| {});
    for name in ["game", "game#gone", "gone#idle", "#idle", "me#idle"] {
        assert_eq!(patch(&web, &markers, json!([state(name, "Succeeded", "")])), None, "{name}");
    }
    assert_eq!(patch(&web, &markers, json!([state("game#idle", "", "")])), None);
    let later = pod("web", |pod| pod["metadata"]["uid"] = json!("another"));
    assert_eq!(patch(&later, &markers, json!([state("game#idle", "Succeeded", "")])), None);
    let other = pod("web", |pod| pod["metadata"]["labels"] = json!({}));
    assert_eq!(patch(&other, &markers, json!([state("game#idle", "Succeeded", "")])), None);
}

#[test]
fn conditions_of_the_kubelet_stay_its_own() {
    let mut probe = exec("p");
    probe["podConditionType"] = json!("Ready");
    let markers = [marker("old", json!([probe]))];
    assert_eq!(patch(&pod("web", |_| {}), &markers, json!([state("old#p", "Failed", "")])), None);
}

#[test]
fn scenario_11_a_platform_s_condition_marks_the_pod() {
    let with = |status: &str| {
        pod("web", |pod| {
            pod["metadata"]["labels"]["free"] = json!("yes");
            pod["status"]["conditions"]
                .as_array_mut()
                .unwrap()
                .push(json!({"type": "game/idle", "status": status}));
        })
    };
    let marks = |status: &str| game().marks(&with(status));
    let patch =
        |status: &str| -> Value { serde_json::from_str(&marks(status).to_json(&with(status))).unwrap() };
    let succeeded = patch("True");
    assert_eq!(succeeded["metadata"]["labels"], json!({"idle": "true"}));
    assert_eq!(succeeded["metadata"]["annotations"], json!({"cost": "-1"}));
    assert_eq!(
        patch("False")["metadata"],
        json!({"uid": "uid-web", "resourceVersion": "7", "labels": {"idle": "false"}})
    );
    assert!(marks("Unknown").is_empty() && game().marks(&pod("web", |_| {})).is_empty());
}
