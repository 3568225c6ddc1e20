//! Scaling: which Pods are created, deleted or created again (docs/behaviour/cloneset.md#scale-step and
//! docs/behaviour/cloneset.md#acceptance-scenarios).

use std::sync::Arc;

use serde_json::json;

use super::super::fixture::{Fleet, template};
use super::super::*;
use super::{claims, created, deleted, names, specify};
use ::pod::write::PodWrite;

#[test]
fn scenario_2_scaling_in_takes_the_claims_along() {
    let mut fleet = Fleet::running(3, claims());
    for replicas in [5, 2] {
        fleet.edit(json!({"spec": {"replicas": replicas}}));
        fleet.settle();
        assert_eq!((fleet.pods.len(), fleet.claims.len()), (replicas, replicas));
        assert_eq!(usize::try_from(fleet.status().replicas), Ok(replicas));
    }
}

#[test]
fn scenario_39_labels_say_which_pods_go_first() {
    let mut fleet = Fleet::running(4, json!({}));
    let all = names(&fleet);
    for (name, release) in all.iter().zip(["a", "b", "a", "b"]) {
        let labels = &mut fleet.pod_mut(name).metadata.labels;
        *labels = labels.iter().chain([("release", release)]).collect();
    }
    fleet.object["metadata"]["annotations"]["kutter.io/scale-in-order"] = json!("release=b");
    fleet.edit(json!({"spec": {"replicas": 2}}));
    fleet.settle();
    assert_eq!(names(&fleet), [all[0].clone(), all[2].clone()]);
}

#[test]
fn scenario_3_the_named_pod_goes_and_its_name_too() {
    let mut fleet = Fleet::running(3, json!({}));
    let named = fleet.name(1);
    fleet.edit(json!({"spec": {"replicas": 2, "scaleStrategy": {"podsToDelete": [named]}}}));
    let before = names(&fleet);
    fleet.settle();
    let left: Vec<String> = before.into_iter().filter(|name| *name != named).collect();
    assert_eq!(names(&fleet), left);
    assert_eq!(fleet.object["spec"]["scaleStrategy"]["podsToDelete"], json!([]));
}

#[test]
fn scenario_4_a_named_pod_is_replaced() {
    let mut fleet = Fleet::running(3, Fleet::rolling("ReCreate", json!({"maxUnavailable": 1})));
    let named = fleet.name(0);
    fleet.edit(json!({"spec": {"scaleStrategy": {"podsToDelete": [named]}}}));
    fleet.settle();
    assert!(fleet.pods.len() == 3 && !names(&fleet).contains(&named));
}

#[test]
fn scenario_5_surge_comes_before_a_ready_pod_goes() {
    let fleet = |unavailable: i32| {
        let rolling = json!({"maxUnavailable": unavailable, "maxSurge": 1});
        let mut fleet = Fleet::running(3, Fleet::rolling("ReCreate", rolling));
        fleet.break_pod(0);
        fleet
    };
    let mut tight = fleet(1);
    let ready = specify(&mut tight, 1);
    let first = tight.step();
    assert_eq!((created(&first), deleted(&first)), (1, vec![]));
    tight.kubelet_of(3);
    tight.step();
    tight.kubelet_of(3);
    assert_eq!(deleted(&tight.step()), [ready]);

    let mut roomy = fleet(2);
    let ready = specify(&mut roomy, 1);
    assert_eq!(deleted(&roomy.step()), [ready]);

    let mut broken = fleet(1);
    let name = specify(&mut broken, 0);
    assert!(deleted(&broken.step()).contains(&name.as_str()));
}

#[test]
fn scenario_15_creation_is_limited() {
    let spec = json!({"replicas": 3, "minReadySeconds": 10, "scaleStrategy": {"maxUnavailable": 1}});
    let mut fleet = Fleet::new(spec);
    for expected in 1..=3 {
        for _ in 0..4 {
            fleet.step();
            fleet.kubelet();
            fleet.later(1);
        }
        assert_eq!(fleet.pods.len(), expected);
        fleet.later(10);
    }
    let limited: Vec<_> = fleet.events.iter().filter(|event| event.reason == "ScaleUpLimited").collect();
    let message = "scaleUp is limited because of scaleStrategy.maxUnavailable, limit: 1";
    assert_eq!(limited.iter().map(|event| event.message.as_str()).collect::<Vec<_>>(), [message; 2]);
}

#[test]
fn scenario_24_a_pod_that_waits_for_deletion_comes_back() {
    for marks in [false, true] {
        let hook = json!({"labelsHandler": {"hold": "yes"}, "markPodNotReady": marks});
        let mut labelled = template("nginx:1");
        labelled["metadata"]["labels"]["hold"] = "yes".into();
        let spec = json!({"lifecycle": {"preDelete": hook}, "template": labelled});
        let mut fleet = Fleet::running(3, spec);
        let before = names(&fleet);
        fleet.edit(json!({"spec": {"replicas": 2}}));
        fleet.step();
        let preparing = |fleet: &Fleet| {
            let state = |pod: &&Arc<ObservedPod>| {
                pod.label("lifecycle.apps.kruise.io/state") == Some("PreparingDelete")
            };
            fleet.pods.iter().filter(state).map(|pod| pod.metadata.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!((preparing(&fleet).len(), fleet.pods.len()), (1, 3));
        fleet.settle();
        let held = preparing(&fleet);
        assert_eq!((held.len(), fleet.pods.len()), (1, 3), "the hook holds it");
        let plan = fleet.plan();
        assert!(plan.explanation.to_string().contains("remove label hold=yes from it"), "{plan}");
        fleet.edit(json!({"spec": {"replicas": 3}}));
        fleet.settle();
        if marks {
            assert_eq!(preparing(&fleet), held);
            let mut release = PodWrite::default();
            release.labels.insert("hold".to_owned(), None);
            release.apply(fleet.pod_mut(&held[0]));
            fleet.settle();
            assert!(!names(&fleet).contains(&held[0]));
        } else {
            assert!(preparing(&fleet).is_empty());
            assert_eq!(names(&fleet), before);
        }
        assert_eq!(fleet.pods.len(), 3);
    }
}

#[test]
fn scenario_25_pods_that_wait_for_deletion_may_be_left_out() {
    for exclude in [false, true] {
        let mut labelled = template("nginx:1");
        labelled["metadata"]["labels"]["hold"] = "yes".into();
        let mut fleet = Fleet::running(
            2,
            json!({"lifecycle": {"preDelete": {"labelsHandler": {"hold": "yes"}}}, "template": labelled,
                "scaleStrategy": {"excludePreparingDelete": exclude}}),
        );
        specify(&mut fleet, 0);
        fleet.settle();
        assert_eq!(fleet.pods.len(), if exclude { 3 } else { 2 });
    }
}

#[test]
fn scenario_29_a_pod_that_is_not_selected_is_let_go() {
    let mut fleet = Fleet::running(2, json!({}));
    let name = fleet.name(0);
    let mut relabel = PodWrite::default();
    relabel.set_label("app", "debug");
    relabel.apply(fleet.pod_mut(&name));
    let plan = fleet.step();
    assert_eq!((plan.release.len(), created(&plan)), (1, 1), "{plan}");
    fleet.settle();
    assert!(fleet.pod_mut(&name).controller().is_none());
    assert_eq!(fleet.pods.len(), 3);
}

#[test]
fn minimum_ready_seconds_do_not_hold_scaling_in_up() {
    let mut fleet = Fleet::running(5, Fleet::rolling("ReCreate", json!({"maxUnavailable": 1})));
    fleet.edit(json!({"spec": {"replicas": 3, "minReadySeconds": 3600}}));
    assert_eq!(deleted(&fleet.step()).len(), 2);
}

#[test]
fn sharp_edge_7_missing_pods_do_not_hold_deletions_up() {
    let mut fleet = Fleet::running(4, json!({"scaleStrategy": {"maxUnavailable": 1}}));
    fleet.break_pod(0);
    fleet.break_pod(1);
    let broken = specify(&mut fleet, 0);
    fleet.edit(json!({"spec": {"replicas": 6}}));
    let plan = fleet.settled_plan();
    assert_eq!((created(&plan), deleted(&plan)), (0, vec![broken.as_str()]), "{plan}");
}
