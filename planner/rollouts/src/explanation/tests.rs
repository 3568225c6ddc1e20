use serde_json::json;

use super::*;

fn explained(status: &serde_json::Value, paused: bool) -> Vec<String> {
    let rollout: Rollout = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"workloadRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"},
            "strategy": {"paused": paused, "canary": {"steps":
                [{"replicas": "20%"}, {"replicas": 3, "traffic": "40%"}, {"replicas": "100%", "matches": [{}, {}]}]}}},
        "status": status,
    }))
    .unwrap();
    let mut view = View::default();
    let cloneset = json!({
        "metadata": {"name": "web", "uid": "w", "annotations": {"rollouts.kruise.io/in-progressing": "{}"}},
        "spec": {"replicas": 5},
        "status": {"replicas": 5, "updatedReplicas": 1, "updatedReadyReplicas": 1,
            "currentRevision": "web-old", "updateRevision": "web-new"},
    });
    view.has_object(ObjectName::new("apps.kruise.io/v1alpha1", "CloneSet", "shop", "web"), Some(cloneset));
    view.has_object(ObjectName::new(batchrelease::API_VERSION, batchrelease::KIND, "shop", "web"), None);
    explain(&rollout, &view).unwrap()
}

fn running(state: &str, index: i32) -> serde_json::Value {
    json!({"phase": "Progressing", "message": "the wait", "conditions":
        [{"type": "Progressing", "status": "True", "reason": "InRolling"},
            {"type": "Stalled", "status": "True", "message": "no Pod comes"}],
        "canaryStatus": {"currentStepIndex": index, "currentStepState": state}})
}

#[test]
fn a_running_release_says_where_it_stands_and_what_would_move_it() {
    assert_eq!(
        explained(&running("StepPaused", 1), false),
        [
            "Progressing, InRolling: releases CloneSet web in batches",
            "pods: 1 of 5 have new version new, 1 of these ready; old version old; the workload is held by a release",
            "step: 1 of 3 (20% of pods new), StepPaused",
            "batches: no BatchRelease",
            "waits: the wait",
            "stalled: no Pod comes",
            "remedy: kubectl kruise rollout approve rollout/web",
            "then: step 2 (3 pods new, 40% of requests)",
        ]
    );
}

#[test]
fn the_remedy_of_a_pause_is_to_end_it_and_after_the_last_step_comes_the_end() {
    let lines = explained(&running("StepUpgrade", 3), true);
    assert!(
        lines.contains(&"step: 3 of 3 (100% of pods new, requests by 2 matches), StepUpgrade".to_owned())
    );
    let end = [
        "remedy: set strategy.paused to false",
        "then: all pods get the new version, and the network is as before",
    ];
    assert_eq!(lines[lines.len() - 2..], end);
}

#[test]
fn between_releases_little_is_said() {
    let lines = explained(&json!({"phase": "Healthy"}), false);
    assert_eq!((lines.len(), lines[0].as_str()), (2, "Healthy: releases CloneSet web in batches"));
    assert!(explained(&json!({}), false)[0].starts_with("not looked at yet: "));
}
