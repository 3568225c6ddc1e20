use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::cloneset::fixture::Fleet;
use crate::workload::failures::Failures;
use crate::workload::storage_class::StorageClasses;
use values::moment::Moment;

fn fleet(reuse: bool) -> Fleet {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    Fleet::running(2, json!({"volumeClaimTemplates": [claim], "scaleStrategy": {"enablePVCReuse": reuse}}))
}

#[test]
fn a_pod_that_failed_keeps_its_claim_and_is_replaced_under_another_name() {
    for reuse in [false, true] {
        let mut fleet = fleet(reuse);
        let name = fleet.name(0);
        fleet.pod_mut(&name).status.phase = "Failed".into();
        let plan = fleet.settled_plan();
        let [Action::CreatePod { name: created, claims, .. }] = plan.scale.as_slice() else {
            panic!("{plan}")
        };
        assert!(*created != name && claims.len() == 1, "{plan}");
        assert_eq!(plan.release.len(), usize::from(!reuse), "without reuse it goes with the Pod: {plan}");
    }
}

#[test]
fn claims_of_others_are_left_alone() {
    let mut fleet = fleet(false);
    let mut foreign = (*fleet.claims[0]).clone();
    foreign.metadata.labels = [(CLONESET_INSTANCE_ID, "other")].into_iter().collect();
    foreign.metadata.owner_references[0].uid = "another".to_owned();
    fleet.claims.push(Arc::new(foreign));
    assert!(fleet.settled_plan().release.is_empty());
}

#[test]
fn new_ids_are_new_and_the_same_for_the_same_seed() {
    let fleet = fleet(false);
    let set = fleet.set();
    let refused = BTreeSet::new();
    let nodes = BTreeMap::new();
    let snapshot = Snapshot {
        workload: &set,
        pods: &fleet.pods,
        orphans: &[],
        storage_classes: &StorageClasses::default(),
        children: &[],
        claims: &fleet.claims,
        revisions: &fleet.revisions,
        nodes: &nodes,
        refused: &refused,
        held: &BTreeMap::new(),
        costs: &BTreeMap::new(),
        failures: &Failures::default(),
        collision_count: None,
        gates: &fleet.gates,
        environment: fleet.environment,
    };
    let moment = Moment { now: fleet.now, seed: 9 };
    let (claims, taken) = (Claims::of(&snapshot), TakenIds::of(&snapshot));
    let ids = || instance_ids(&snapshot, &claims, &taken, 50, &mut moment.random()).ids;
    assert_eq!(ids(), ids());
    let distinct: BTreeSet<String> = ids().into_iter().collect();
    assert!(distinct.len() == 50 && distinct.iter().all(|id| id.len() == 5 && !taken.has(id)));
}

/// With reuse, scaled in by one as far as the claim's mark: the Pod to delete.
fn marked() -> (Fleet, String) {
    let mut fleet = fleet(true);
    fleet.edit(json!({"spec": {"replicas": 1}}));
    let plan = fleet.step();
    let [Action::HandOverClaim { pod, .. }] = plan.scale.as_slice() else { panic!("{plan}") };
    (fleet, pod.clone())
}

#[test]
fn a_claim_that_could_be_reused_goes_with_its_pod_whatever_happens_in_between() {
    // Undisturbed.
    let (mut fleet, going) = marked();
    let plan = fleet.step();
    let [Action::DeletePod { pod, claims, .. }] = plan.scale.as_slice() else { panic!("{plan}") };
    assert_eq!((&pod.name, claims.len(), fleet.claims.len()), (&going, 1, 1));
    // The controller dies right after it deleted the Pod, which ends.
    let (mut fleet, going) = marked();
    fleet.lingering = true;
    fleet.remove(&going);
    let plan = fleet.settled_plan();
    let [Action::HandOverClaim { pod, patch, .. }] = plan.release.as_slice() else { panic!("{plan}") };
    assert!(*pod == going && patch.contains("ownerReferences"), "{plan}");
    // Or which is gone, and even if another is needed by then: it gets a claim of its own.
    let (mut fleet, going) = marked();
    fleet.remove(&going);
    fleet.edit(json!({"spec": {"replicas": 2}}));
    let plan = fleet.settled_plan();
    let [Action::DeleteClaim(claim)] = plan.release.as_slice() else { panic!("{plan}") };
    let [Action::CreatePod { name, claims, .. }] = plan.scale.as_slice() else { panic!("{plan}") };
    assert!(claim.name.ends_with(&going) && *name != going && claims.len() == 1, "{plan}");
}

#[test]
fn a_pod_that_stays_after_all_keeps_its_claim_for_reuse() {
    let (mut fleet, name) = marked();
    fleet.edit(json!({"spec": {"replicas": 2}}));
    let plan = fleet.step();
    let [Action::HandOverClaim { pod, .. }] = plan.release.as_slice() else { panic!("{plan}") };
    assert!(pod.is_empty() && plan.scale.is_empty(), "{plan}");
    assert!(fleet.settled_plan().is_idle(), "{}", fleet.plan());
    let claims = fleet.claims.len();
    fleet.remove(&name);
    fleet.settle();
    assert!(fleet.pods.iter().any(|pod| *pod.metadata.name == *name), "its claim was reused");
    assert_eq!(fleet.claims.len(), claims);
}
