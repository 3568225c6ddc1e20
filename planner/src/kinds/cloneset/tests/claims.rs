//! Claims: whose they are, and what becomes of them (spec 31 §12, §17).

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::fixture::Fleet;
use super::super::*;
use super::{claims, created, in_place, names, with};

use api::features::FeatureGates;

#[test]
fn scenario_1_pods_and_claims_share_an_id() {
    let fleet = Fleet::running(3, claims());
    assert_eq!(fleet.claims.len(), 3);
    for pod in &fleet.pods {
        let id = pod.label("apps.kruise.io/cloneset-instance-id").unwrap();
        assert_eq!(*pod.metadata.name, *format!("web-{id}"));
        let claim =
            fleet.claims.iter().find(|claim| *claim.metadata.name == *format!("data-web-{id}")).unwrap();
        assert_eq!(claim.metadata.labels.get("apps.kruise.io/cloneset-instance-id"), Some(id));
        assert_eq!(claim.metadata.labels.get("app"), Some("web"));
        assert!(pod.has_readiness_gate("InPlaceUpdateReady"));
        assert_eq!(pod.label("lifecycle.apps.kruise.io/state"), Some("Normal"));
    }
}

#[test]
fn scenario_16_without_reuse_the_claim_goes_with_the_pod() {
    let mut fleet = Fleet::running(2, claims());
    let name = fleet.name(0);
    fleet.lingering = true;
    fleet.remove(&name);
    let plan = fleet.settled_plan();
    let [Action::HandOverClaim { pod, patch, .. }] = plan.release.as_slice() else { panic!("{plan}") };
    assert_eq!(*pod, name);
    let patch: Value = serde_json::from_str(patch).unwrap();
    assert_eq!(patch["metadata"]["ownerReferences"][0], json!({"$patch": "delete", "uid": "set-uid"}));
    let owner = &patch["metadata"]["ownerReferences"][1];
    assert_eq!((&owner["kind"], &owner["controller"]), (&json!("Pod"), &json!(true)));
    assert!(owner["blockOwnerDeletion"].is_null(), "that would need rights to the finalizers of Pods");
    assert_eq!(created(&plan), 1, "the replacement does not wait");
    fleet.step();
    assert_eq!(fleet.claims.len(), 3, "that of the replacement is new");
}

#[test]
fn scenario_17_with_reuse_the_replacement_takes_over_name_and_claim() {
    let reuse = with(claims(), json!({"scaleStrategy": {"enablePVCReuse": true}}));
    let mut fleet = Fleet::running(2, reuse);
    let (before, claims) = (names(&fleet), fleet.claims.clone());
    let name = fleet.name(0);
    fleet.lingering = true;
    fleet.remove(&name);
    let plan = fleet.step();
    assert!(plan.release.is_empty() && created(&plan) == 0, "the name is not free yet: {plan}");
    assert!(plan.explanation.blockers.iter().any(|blocker| blocker.reason == "ClaimInUse"), "{plan}");
    fleet.lingering = false;
    fleet.remove(&name);
    fleet.settle();
    assert_eq!(names(&fleet), before);
    assert_eq!(fleet.claims, claims);
}

#[test]
fn scenario_18_recreation_renews_claims() {
    let mut fleet = Fleet::running(2, claims());
    let old: Vec<_> = fleet.claims.iter().map(|claim| claim.metadata.uid.clone()).collect();
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!((fleet.pods.len(), fleet.claims.len(), fleet.with_image("nginx:2")), (2, 2, 2));
    assert!(fleet.claims.iter().all(|claim| !old.contains(&claim.metadata.uid)));
}

#[test]
fn scenario_19_claim_templates_count_only_with_the_gate() {
    for gate in [false, true] {
        let mut fleet = Fleet::running(2, with(in_place(json!({})), claims()));
        fleet.gates = FeatureGates::default().with(Feature::RecreatePodWhenChangeVCTInCloneSetGate, gate);
        let before = names(&fleet);
        let mut bigger = claims();
        bigger["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
        fleet.edit(json!({"spec": bigger}));
        fleet.settle();
        assert!(fleet.revisions.len() == 1 && names(&fleet) == before, "claims alone make no revision");
        fleet.image("nginx:2");
        fleet.settle();
        assert_eq!(fleet.with_image("nginx:2"), 2);
        assert_eq!(names(&fleet) == before, !gate);
    }
}

#[test]
fn a_pod_that_is_let_go_keeps_its_name_and_its_claim() {
    let reuse = json!({"scaleStrategy": {"enablePVCReuse": true}});
    for set in [claims(), with(claims(), reuse)] {
        let mut fleet = Fleet::running(2, set);
        let (name, before) = (fleet.name(0), fleet.claims.clone());
        let mut relabel = PodWrite::default();
        relabel.set_label("app", "debug");
        relabel.apply(fleet.pod_mut(&name));
        let plan = fleet.step();
        let [Action::HandOverClaim { pod, .. }] = plan.release.as_slice() else { panic!("{plan}") };
        assert_eq!((pod, created(&plan)), (&name, 1), "{plan}");
        fleet.settle();
        assert!(fleet.pod_mut(&name).controller().is_none());
        assert_eq!((fleet.pods.len(), fleet.claims.len()), (3, 3));
        assert!(
            before
                .iter()
                .all(|known| fleet.claims.iter().any(|claim| claim.metadata.uid == known.metadata.uid))
        );
    }
}

#[test]
fn sharp_edge_18_refused_pods_keep_their_claims() {
    let mut fleet = Fleet::new(with(claims(), json!({"replicas": 1})));
    let plan = fleet.settled_plan();
    let [Action::CreatePod { instance_id, claims, .. }] = plan.scale.as_slice() else { panic!("{plan}") };
    // The claim was created, the Pod refused.
    fleet.claims.push(Arc::new(Claim::read(&claims[0].json).unwrap()));
    assert!(matches!(fleet.plan().release.as_slice(), [Action::DeleteClaim(_)]));
    fleet.refused.insert(instance_id.clone());
    let again = fleet.plan();
    let [Action::CreatePod { instance_id: id, claims, .. }] = again.scale.as_slice() else {
        panic!("{again}")
    };
    assert!(id == instance_id && claims.is_empty() && again.release.is_empty());
}
