use super::*;
use crate::workload::storage_class::StorageClass;
use pod::write::condition;
use values::event::warning;

fn resizing(replicas: i32, more: serde_json::Value) -> Fleet {
    let mut spec = in_place(json!({}));
    merge(&mut spec, claims("1Gi"));
    merge(
        &mut spec,
        json!({"replicas": replicas, "volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"}}),
    );
    merge(&mut spec, more);
    let mut fleet = Fleet::with_gates(spec, gates("StatefulSetAutoResizePVCGate=true"));
    fleet.storage_classes.apply(class("fast", true));
    fleet.settle();
    fleet
}

fn class(name: &str, allows_expansion: bool) -> StorageClass {
    StorageClass { name: name.into(), allows_expansion, is_default: false, created: None }
}

fn sizes(fleet: &Fleet) -> Vec<String> {
    let size = |claim: &std::sync::Arc<Claim>| {
        claim.spec.resources.requests.get("storage").unwrap_or_default().to_owned()
    };
    let mut claims: Vec<_> = fleet.claims.iter().collect();
    claims.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    claims.into_iter().map(size).collect()
}

/// The storage system does what claims ask for.
fn expand(fleet: &mut Fleet) {
    for name in ["www-web-0", "www-web-1", "www-web-2"] {
        let claim = fleet.claim_mut(name);
        claim.status.capacity = claim.spec.resources.requests.clone();
    }
}

fn resize(fleet: &mut Fleet, size: &str) {
    fleet.edit(json!({"spec": claims(size)}));
}

/// A rollout of another image and size, of which the partition keeps one Pod.
fn partly_resized() -> Fleet {
    let rolling = json!({"updateStrategy": {"rollingUpdate": {"partition": 1}}});
    let mut fleet = resizing(3, rolling);
    fleet.edit(json!({"spec": {"template": in_place_template("nginx:2")}}));
    resize(&mut fleet, "2Gi");
    for _ in 0..6 {
        fleet.settle();
        expand(&mut fleet);
    }
    assert_eq!(sizes(&fleet), ["1Gi", "2Gi", "2Gi"]);
    assert_eq!(counters(&fleet), (2, 2));
    fleet
}

/// To the image from before, and no Pod is kept any more.
fn take_image_back(fleet: &mut Fleet) {
    let rolling = json!({"rollingUpdate": {"partition": 0}});
    fleet.edit(json!({"spec": {"template": in_place_template("nginx:1"), "updateStrategy": rolling}}));
}

fn counters(fleet: &Fleet) -> (i32, i32) {
    let claims = &fleet.set_status().volume_claims[0];
    (claims.compatible_replicas, claims.compatible_ready_replicas)
}

#[test]
fn scenario_27_claims_grow_before_their_pods_change() {
    let mut fleet = resizing(3, json!({}));
    fleet.edit(json!({"spec": {"template": in_place_template("nginx:2")}}));
    resize(&mut fleet, "2Gi");
    fleet.settle();
    assert_eq!(sizes(&fleet), ["1Gi", "1Gi", "2Gi"]);
    assert_eq!(fleet.running_image("nginx:2"), [0; 0], "its claim is not ready");
    let owned = fleet.claims.iter().find(|claim| &*claim.metadata.name == "www-web-2").unwrap();
    assert_eq!(owned.metadata.annotations.get("apps.kruise.io/owned-by-asts"), Some("web"));
    for _ in 0..6 {
        expand(&mut fleet);
        fleet.settle();
    }
    assert_eq!(sizes(&fleet), ["2Gi"; 3]);
    assert_eq!(fleet.running_image("nginx:2"), [0, 1, 2]);
    assert_eq!(counters(&fleet), (3, 3));
}

#[test]
fn claims_of_templates_alone_grow_without_new_pods() {
    let mut fleet = resizing(3, json!({}));
    let before = fleet.uid("web-2");
    resize(&mut fleet, "2Gi");
    fleet.settle();
    assert_eq!(sizes(&fleet), ["1Gi", "1Gi", "2Gi"], "one after another");
    for _ in 0..6 {
        expand(&mut fleet);
        fleet.settle();
    }
    assert_eq!(sizes(&fleet), ["2Gi"; 3]);
    assert_eq!(fleet.uid("web-2"), before);
}

#[test]
fn sharp_edge_17_a_file_system_that_grows_with_a_new_pod_gets_one() {
    let mut fleet = resizing(3, json!({}));
    let before = fleet.uid("web-2");
    resize(&mut fleet, "2Gi");
    fleet.settle();
    fleet.later(60);
    let now = fleet.now;
    let pending = condition("FileSystemResizePending", "True", "", "", now);
    fleet.claim_mut("www-web-2").status.conditions = Some(Box::new([pending]));
    fleet.settle();
    assert_eq!(fleet.uid("web-2"), before, "it may grow by itself");
    let wait = fleet.plan().requeue_after.unwrap();
    assert!((60.0..60.1).contains(&wait.as_secs_f64()), "{wait:?}");
    fleet.later(61);
    fleet.settle();
    let after = fleet.uid("web-2");
    assert_ne!(after, before);
    assert_eq!(sizes(&fleet), ["1Gi", "1Gi", "2Gi"]);
    fleet.claim_mut("www-web-2").status.conditions = None;
    expand(&mut fleet);
    fleet.settle();
    assert_eq!(
        (fleet.uid("web-2"), sizes(&fleet)),
        (after, vec!["1Gi".to_owned(), "2Gi".to_owned(), "2Gi".to_owned()])
    );
}

#[test]
fn a_class_without_expansion_is_reported_and_holds_up_nothing_else() {
    for (classes, message) in [
        (vec![class("fast", false)], "storage class fast for web-2 does not support volume expansion"),
        (vec![], "could not get sc fast for web-2 when checking PVC spec: it does not exist"),
    ] {
        let mut fleet = resizing(3, json!({}));
        fleet.storage_classes = Default::default();
        classes.into_iter().for_each(|class| fleet.storage_classes.apply(class));
        resize(&mut fleet, "2Gi");
        let plan = fleet.step();
        assert_eq!(plan.problems.update.as_deref(), Some(message));
        assert_eq!(sizes(&fleet), ["1Gi"; 3]);
        fleet.edit(json!({"spec": {"replicas": 4}}));
        fleet.settle();
        assert_eq!(fleet.ordinals(), [0, 1, 2, 3]);
    }
}

#[test]
fn sharp_edge_18_a_claim_of_another_shape_is_reported_and_its_pod_counts_as_available() {
    let mut fleet = resizing(3, json!({}));
    let mut other = claims("2Gi");
    other["volumeClaimTemplates"][0]["spec"]["accessModes"] = json!(["ReadWriteMany"]);
    fleet.edit(json!({"spec": other}));
    let plan = fleet.step();
    let expected =
        "can not patch pvc www-web-2: contains diff other than spec resource, wait pvc to be deleted";
    assert_eq!(plan.problems.update.as_deref(), Some(expected));
    let event = plan.events.iter().find(|event| event.message.contains("www-web-2"));
    let expected =
        "failed to update pvc www-web-2: contains diff other than spec resource, wait pvc to be deleted";
    assert_eq!(event, Some(&warning("FailedUpdatePVC", expected.to_owned())));
    assert!(!plan.explanation.is_moving);
}

#[test]
fn scenario_43_the_rest_grows_where_the_image_alone_is_taken_back() {
    let mut fleet = partly_resized();
    take_image_back(&mut fleet);
    for _ in 0..6 {
        fleet.settle();
        expand(&mut fleet);
    }
    assert_eq!(sizes(&fleet), ["2Gi"; 3]);
    assert_eq!(counters(&fleet), (3, 3));
    assert_eq!(fleet.running_image("nginx:1"), [0, 1, 2]);
}

#[test]
fn scenario_43_partition_keeps_claims_and_nothing_shrinks() {
    let mut fleet = partly_resized();
    resize(&mut fleet, "1Gi");
    take_image_back(&mut fleet);
    fleet.settle();
    assert_eq!(sizes(&fleet), ["1Gi", "2Gi", "2Gi"]);
    assert_eq!(counters(&fleet), (3, 3));
    resize(&mut fleet, "3Gi");
    fleet.edit(json!({"spec": {"volumeClaimUpdateStrategy": {"type": "OnDelete"}, "template": in_place_template("nginx:3")}}));
    fleet.settle();
    assert_eq!(fleet.running_image("nginx:3"), [0, 1, 2]);
    assert_eq!(counters(&fleet).0, 0);
}
