use std::sync::Arc;

use super::*;
use pod::observed::{ObservedPod, Part};

/// Everything belongs to nobody, as after a deletion that leaves orphans.
fn orphaned(mut fleet: Fleet) -> Fleet {
    for pod in &mut fleet.pods {
        Arc::make_mut(pod).metadata.owner_references = Part::default();
    }
    for revision in &mut fleet.revisions {
        Arc::make_mut(revision).metadata.owner_references.clear();
    }
    fleet.object["status"] = json!({});
    fleet
}

#[test]
fn scenario_37_pods_and_revisions_are_adopted() {
    let before = Fleet::running(3, parallel(json!({})));
    let (uid, revision) = (before.uid("web-1"), before.set_status().update_revision);
    let mut fleet = orphaned(before);
    fleet.settle();
    assert_eq!((fleet.ordinals(), fleet.uid("web-1")), (vec![0, 1, 2], uid));
    assert_eq!((fleet.revisions.len(), fleet.set_status().update_revision), (1, revision));
    let owners = fleet.pods.iter().filter_map(|pod| pod.controller());
    assert_eq!(owners.filter(|owner| owner.uid == "set-uid").count(), 3);
    assert!(fleet.revisions[0].metadata.controller().is_some());
}

#[test]
fn scenario_41_a_pod_without_the_labels_goes_and_comes_back() {
    let mut fleet = Fleet::running(2, parallel(json!({})));
    let uid = fleet.uid("web-1");
    fleet.labelled("web-1", "app", None);
    fleet.settle();
    let pod = &fleet.pods[fleet.at("web-1")];
    assert!(pod.controller().is_none());
    assert_eq!(fleet.set_status().replicas, 1);
    let plan = fleet.settled_plan();
    assert!(plan.is_idle());
    let problem = plan.problems.scale.unwrap();
    assert!(problem.starts_with("pods \"web-1\" already exists"), "{problem}");
    fleet.labelled("web-1", "app", Some("web"));
    fleet.settle();
    assert_eq!((fleet.uid("web-1"), fleet.set_status().replicas), (uid, 2));
    assert!(fleet.set_status().conditions.is_empty());
}

#[test]
fn a_label_that_is_lost_comes_back() {
    let mut fleet = Fleet::running(1, parallel(json!({})));
    fleet.labelled("web-0", "statefulset.kubernetes.io/pod-name", None);
    fleet.labelled("web-0", "apps.kubernetes.io/pod-index", None);
    fleet.settle();
    assert_eq!(fleet.pods[0].label("statefulset.kubernetes.io/pod-name"), Some("web-0"));
    assert_eq!(fleet.pods[0].label("apps.kubernetes.io/pod-index"), Some("0"));
    assert_eq!(fleet.reasons(), ["SuccessfulUpdate"]);
    fleet.labelled("web-0", "apps.kubernetes.io/pod-index", None);
    assert!(fleet.settled_plan().is_idle(), "that one alone is no reason");
}

#[test]
fn sharp_edge_31_a_name_with_leading_zeros_is_left_alone() {
    let mut fleet = Fleet::running(1, parallel(json!({})));
    let mut twin = ObservedPod::clone(&fleet.pods[0]);
    twin.metadata.name = "web-00".into();
    twin.metadata.uid = "twin".into();
    fleet.pods.push(Arc::new(twin));
    fleet.settle();
    assert_eq!(fleet.pods.len(), 2);
    assert!(fleet.settled_plan().is_idle());
}
