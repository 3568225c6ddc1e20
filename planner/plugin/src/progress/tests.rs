use serde_json::json;

use super::*;

fn clone_set(strategy: &Value, status: &Value) -> Progress {
    let mut whole = json!({"observedGeneration": 2, "updateRevision": "web-1"});
    whole.as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
    let object = json!({"apiVersion": "apps.kruise.io/v1beta1", "metadata": {"name": "web", "generation": 2},
        "spec": {"replicas": 5, "updateStrategy": strategy}, "status": whole});
    progress(WorkloadKind::CloneSet, &object).unwrap()
}

#[test]
fn a_rollout_of_a_clone_set_goes_through_its_messages() {
    let in_place = json!({"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "partition": "50%"}});
    let waiting = |text: &str| Progress::Waiting(text.to_owned());
    let found = clone_set(&in_place, &json!({"observedGeneration": 1}));
    assert_eq!(found, waiting("Waiting for CloneSet spec update to be observed..."));
    let found = clone_set(&in_place, &json!({"updatedReplicas": 1}));
    assert_eq!(
        found,
        waiting("Waiting for partitioned roll out to finish: 1 out of 2 new pods have been updated...")
    );
    let found =
        clone_set(&in_place, &json!({"updatedReplicas": 2, "updatedReadyReplicas": 1, "readyReplicas": 4}));
    assert_eq!(found, waiting("Waiting for 1 pods to be ready..."));
    let done =
        json!({"updatedReplicas": 2, "updatedReadyReplicas": 2, "readyReplicas": 5, "availableReplicas": 5});
    assert_eq!(
        clone_set(&in_place, &done),
        Progress::Done("partitioned roll out complete: 2 new pods have been updated...".to_owned())
    );
    let all =
        json!({"updatedReplicas": 5, "updatedReadyReplicas": 5, "readyReplicas": 5, "availableReplicas": 5});
    assert_eq!(
        clone_set(&json!({}), &all),
        Progress::Done("CloneSet rolling update complete 5 pods at revision web-1...".to_owned())
    );
    let late = json!({"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]});
    assert_eq!(
        clone_set(&json!({}), &late),
        Progress::Failed(r#"cloneset "web" exceeded its progress deadline"#.to_owned())
    );
}

#[test]
fn other_kinds_have_their_own_words() {
    let set = json!({"metadata": {"name": "db", "generation": 1}, "spec": {"replicas": 3},
        "status": {"observedGeneration": 1, "updatedReplicas": 1}});
    let found = progress(WorkloadKind::AdvancedStatefulSet, &set).unwrap();
    assert_eq!(
        found.message(),
        "Waiting for partitioned roll out to finish:1 out of 3 new pods has been updated..."
    );
    let set = json!({"metadata": {"name": "log", "generation": 1}, "spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 3, "updatedNumberScheduled": 2, "numberAvailable": 2}});
    let found = progress(WorkloadKind::AdvancedDaemonSet, &set).unwrap();
    assert_eq!(
        found.message(),
        r#"Waiting for advanced daemon set "log" rollout to finish: 2 of 3 updated pods are available..."#
    );
    // Half of five Nodes are two that keep their Pod, as its controller counts.
    let half = json!({"metadata": {"name": "log", "generation": 1}, "spec": {"updateStrategy": {"rollingUpdate": {"partition": "50%"}}},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 5, "updatedNumberScheduled": 2, "numberAvailable": 5}});
    let found = progress(WorkloadKind::AdvancedDaemonSet, &half).unwrap();
    assert!(found.message().contains("2 out of 3 new pods have been updated"), "{found:?}");
    let united = json!({"metadata": {"name": "web", "generation": 1}, "spec": {"replicas": 3},
        "status": {"observedGeneration": 1, "updatedReplicas": 2, "updatedReadyReplicas": 2, "readyReplicas": 3,
            "subsetStatuses": [{"partition": 1}]}});
    let found = progress(WorkloadKind::UnitedDeployment, &united).unwrap();
    assert_eq!(found, Progress::Done(r#"uniteddeployment "web" successfully rolled out"#.to_owned()));
    assert_eq!(progress(WorkloadKind::BroadcastJob, &json!({})), None);
    let chosen = json!({"metadata": {"name": "log", "generation": 1}, "spec": {"updateStrategy": {"rollingUpdate": {"selector": {}}}},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 5, "updatedNumberScheduled": 2, "numberAvailable": 5}});
    let found = progress(WorkloadKind::AdvancedDaemonSet, &chosen).unwrap();
    let expected =
        r#"advanced daemon set "log": 2 of 5 pods are updated, and its strategy leaves others as they are"#;
    assert_eq!(found, Progress::Done(expected.to_owned()));
}

#[test]
fn what_is_updated_on_deletion_has_no_rollout() {
    let object = json!({"spec": {"updateStrategy": {"type": "OnDelete"}}});
    for kind in [WorkloadKind::CloneSet, WorkloadKind::AdvancedStatefulSet, WorkloadKind::AdvancedDaemonSet] {
        assert_eq!(progress(kind, &object), Some(Progress::Failed(ROLLING_ONLY.to_owned())), "{kind:?}");
    }
}

#[test]
fn a_rollout_that_waits_for_a_person_is_held() {
    let strategy = json!({"spec": {"updateStrategy": {"rollingUpdate": {"paused": true}}}});
    assert!(is_held(WorkloadKind::CloneSet, &strategy) && !is_held(WorkloadKind::Rollout, &strategy));
    assert!(is_paused(WorkloadKind::Rollout, &json!({"spec": {"strategy": {"paused": true}}})));
    assert!(is_paused(WorkloadKind::Deployment, &json!({"spec": {"paused": true}})));
    let step = |state: &str| json!({"status": {"canaryStatus": {"currentStepState": state}}});
    assert!(is_held(WorkloadKind::Rollout, &step("StepPaused")));
    assert!(!is_held(WorkloadKind::Rollout, &step("StepUpgrade")));
}

#[test]
fn sidecars_and_deployments_are_followed() {
    let found = |kind: WorkloadKind, spec: &Value, mut status: Value| {
        status["observedGeneration"] = 1.into();
        let object = json!({"metadata": {"name": "a", "generation": 1}, "spec": spec, "status": status});
        progress(kind, &object).unwrap().message().to_owned()
    };
    let set = |strategy: &Value, updated: i64, ready: i64| {
        let status = json!({"matchedPods": 4, "updatedPods": updated, "updatedReadyPods": ready});
        found(WorkloadKind::SidecarSet, &json!({"updateStrategy": strategy}), status)
    };
    let half = json!({"partition": "50%"});
    assert!(set(&half, 1, 1).contains("1 out of 2 pods have been updated"));
    assert_eq!(set(&half, 2, 1), "Waiting for 1 pods to be ready...");
    assert_eq!(set(&half, 2, 2), r#"sidecarset "a" successfully rolled out"#);
    let held = set(&json!({"type": "NotUpdate"}), 1, 1);
    assert!(held.contains("1 of 4 pods are updated, and its strategy leaves others as they are"), "{held}");
    let deployment = |status: Value| found(WorkloadKind::Deployment, &json!({"replicas": 3}), status);
    let text = deployment(json!({"updatedReplicas": 1}));
    assert!(text.contains("1 out of 3 new replicas have been updated..."), "{text}");
    let text = deployment(json!({"updatedReplicas": 3, "replicas": 4}));
    assert!(text.contains("1 old replicas are pending termination..."), "{text}");
    let text = deployment(json!({"updatedReplicas": 3, "replicas": 3, "availableReplicas": 2}));
    assert!(text.contains("2 of 3 updated replicas are available..."), "{text}");
    let text = deployment(json!({"updatedReplicas": 3, "replicas": 3, "availableReplicas": 3}));
    assert_eq!(text, r#"deployment "a" successfully rolled out"#);
    let late = json!({"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]});
    assert_eq!(deployment(late), r#"deployment "a" exceeded its progress deadline"#);
}

#[test]
fn updated_pods_are_known_by_their_readiness() {
    let set = json!({"metadata": {"uid": "u"}, "status": {"updateRevision": "web-7d"}});
    let pod = |name: &str, uid: &str, hash: &str, ready: &str| {
        json!({"metadata": {"name": name, "labels": {"controller-revision-hash": hash}, "ownerReferences": [{"uid": uid, "controller": true}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    };
    let pods = [
        pod("b", "u", "7d", "True"),
        pod("a", "u", "web-7d", "True"),
        pod("c", "u", "7d", "False"),
        pod("d", "u", "old", "True"),
        pod("e", "x", "7d", "True"),
    ];
    assert_eq!(updated_pods(&set, &pods), (vec!["a", "b"], vec!["c"]));
}

#[test]
fn a_bar_shows_what_is_updated() {
    let set = json!({"spec": {"replicas": 4}, "status": {"updatedReplicas": 1, "readyReplicas": 3, "availableReplicas": 9}});
    let bar = |kind| super::bar(kind, &set);
    let expected = "[#####---------------] 1/4 updated, 3 ready, 4 available";
    assert_eq!(bar(WorkloadKind::CloneSet).as_deref(), Some(expected));
    assert_eq!(bar(WorkloadKind::BroadcastJob), None);
    let none = "[--------------------] 0/0 updated, 0 ready, 0 available";
    assert_eq!(bar(WorkloadKind::AdvancedDaemonSet).as_deref(), Some(none));
}

#[test]
fn each_kind_is_paused_in_its_place() {
    let beta = json!({"apiVersion": "apps.kruise.io/v1beta1"});
    assert_eq!(pause_pointer(WorkloadKind::CloneSet, &beta), Ok("/spec/updateStrategy/rollingUpdate/paused"));
    assert_eq!(pause_pointer(WorkloadKind::BroadcastJob, &beta), Ok("/spec/paused"));
    let alpha = json!({"apiVersion": "apps.kruise.io/v1alpha1"});
    assert_eq!(pause_pointer(WorkloadKind::CloneSet, &alpha), Ok("/spec/updateStrategy/paused"));
    let on_delete = json!({"spec": {"updateStrategy": {"type": "OnDelete"}}});
    assert!(pause_pointer(WorkloadKind::AdvancedDaemonSet, &on_delete).is_err());
    assert_eq!(pause_pointer(WorkloadKind::SidecarSet, &beta), Err("pausing is not supported"));
}

#[test]
fn a_rollout_of_its_own_kind_is_followed_to_its_end() {
    let found = |status: Value| {
        progress(
            WorkloadKind::Rollout,
            &json!({"metadata": {"name": "web", "generation": 1}, "status": status}),
        )
        .unwrap()
    };
    let paused = json!({"observedGeneration": 1, "phase": "Progressing", "canaryStatus": {"currentStepIndex": 2, "currentStepState": "StepPaused"}});
    assert_eq!(
        found(paused),
        Progress::Waiting(
            r#"Waiting for rollout "web": phase Progressing, step 2, StepPaused..."#.to_owned()
        )
    );
    let over = |succeeded: &str| json!({"observedGeneration": 1, "phase": "Healthy", "conditions": [{"type": "Succeeded", "status": succeeded}]});
    assert_eq!(found(over("True")), Progress::Done(r#"rollout "web" successfully rolled out"#.to_owned()));
    assert_eq!(found(over("False")), Progress::Failed(r#"rollout "web" was canceled"#.to_owned()));
    assert!(matches!(found(json!({})), Progress::Waiting(_)));
    let mut stalled = json!({"observedGeneration": 1, "phase": "Progressing", "canaryStatus": {},
        "conditions": [{"type": "Stalled", "status": "True"}]});
    let expected = r#"rollout "web" exceeded its progress deadline"#.to_owned();
    assert_eq!(found(stalled.clone()), Progress::Failed(expected));
    stalled["conditions"][0]["status"] = "False".into();
    assert!(matches!(found(stalled), Progress::Waiting(_)));
    let first = json!({"observedGeneration": 1, "phase": "Healthy"});
    assert!(matches!(found(first), Progress::Done(_)));
    let begun = json!({"observedGeneration": 1, "phase": "Healthy", "conditions": [{"type": "Progressing", "status": "True"}]});
    assert!(matches!(found(begun), Progress::Waiting(_)));
    for (phase, message) in
        [("Disabled", r#"rollout "web" is disabled"#), ("Terminating", r#"rollout "web" is being deleted"#)]
    {
        let status = json!({"observedGeneration": 1, "phase": phase});
        assert_eq!(found(status), Progress::Failed(message.to_owned()));
    }
}

#[test]
fn a_rollout_is_not_over_whose_workload_is_held_for_a_further_release() {
    let rollout = |phase: &str| json!({"metadata": {"name": "web"}, "status": {"phase": phase}});
    let workload = |annotations: Value| json!({"metadata": {"generation": 4, "annotations": annotations}});
    let waits = |phase: &str, workload: Value| awaits_workload(&rollout(phase), &workload).is_some();
    assert!(waits("Healthy", workload(json!({IN_PROGRESSING: "{}"}))));
    assert!(!waits("Healthy", workload(json!({}))));
    assert!(!waits("Healthy", json!({})));
    assert!(!waits("Disabled", workload(json!({IN_PROGRESSING: "{}"}))));
}
