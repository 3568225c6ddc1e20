//! Courses of events at whose end a Pod or a claim could be left behind.

use super::*;
use crate::workload::snapshot::Refusal;
use pod::write::condition;

fn state(fleet: &Fleet, pod: &str) -> String {
    fleet.pods[fleet.at(pod)].label("lifecycle.apps.kruise.io/state").unwrap_or_default().to_owned()
}

fn hooked(hook: &str, mut spec: serde_json::Value) -> serde_json::Value {
    merge(&mut spec, json!({"lifecycle": {hook: {"labelsHandler": {"serving": "yes"}}}}));
    spec
}

#[test]
fn a_pod_that_waits_for_its_hook_to_be_replaced_for_its_claim_is_left_in_peace() {
    let mut spec = hooked("preDelete", in_place(json!({})));
    merge(&mut spec, claims("1Gi"));
    merge(&mut spec, json!({"replicas": 1, "volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"}}));
    let mut fleet = Fleet::with_gates(spec, gates("StatefulSetAutoResizePVCGate=true"));
    fleet.settle();
    fleet.labelled("web-0", "serving", Some("yes"));
    fleet.later(60);
    let pending = condition("FileSystemResizePending", "True", "", "", fleet.now);
    let claim = fleet.claim_mut("www-web-0");
    claim.status.conditions = Some(Box::new([pending]));
    claim.spec.resources.requests = [("storage", "2Gi")].into_iter().collect();
    fleet.edit(json!({"spec": claims("2Gi")}));
    fleet.later(120);
    fleet.settle();
    assert_eq!(state(&fleet, "web-0"), "PreparingDelete");
    assert!(fleet.settled_plan().is_idle());
}

#[test]
fn the_gate_of_a_pod_whose_update_is_refused_opens_again() {
    let mut fleet = Fleet::running(2, in_place(json!({})));
    let uid = fleet.uid("web-1");
    let closed = condition("InPlaceUpdateReady", "False", "StartInPlaceUpdate", "", fleet.now);
    let conditions = &mut fleet.pod_mut("web-1").status.conditions;
    let others = conditions.iter().filter(|known| &*known.kind != "InPlaceUpdateReady").cloned();
    *conditions = others.chain([closed]).collect();
    fleet.held.insert(uid.into(), Refusal { message: "no".into(), since: fleet.now });
    fleet.edit(json!({"spec": {"template": in_place_template("nginx:2")}}));
    fleet.step();
    let gate = fleet.pods[fleet.at("web-1")].condition("InPlaceUpdateReady").cloned().unwrap();
    assert_eq!(&*gate.status, "True");
}

fn retaining(when_scaled: &str) -> serde_json::Value {
    let mut spec = parallel(
        json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": when_scaled}}),
    );
    merge(&mut spec, claims("1Gi"));
    spec
}

fn owners(fleet: &Fleet, claim: &str) -> usize {
    let claim = fleet.claims.iter().find(|known| &*known.metadata.name == claim).unwrap();
    claim.metadata.owner_references.len()
}

#[test]
fn claims_of_pods_that_end_already_follow_the_policy() {
    let mut fleet = Fleet::running(2, retaining("Delete"));
    fleet.lingering = true;
    fleet.edit(json!({"spec": {"replicas": 1}}));
    fleet.settle();
    assert_eq!(owners(&fleet, "www-web-1"), 1, "it goes with its Pod");
    fleet.edit(json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Retain"}}}));
    fleet.settle();
    assert_eq!(owners(&fleet, "www-web-1"), 0, "it is kept after all");
}

#[test]
fn a_claim_that_was_to_go_with_a_pod_that_is_gone_is_kept_before_the_next_one_comes() {
    let mut fleet = Fleet::running(2, retaining("Delete"));
    fleet.edit(json!({"spec": {"replicas": 1}}));
    fleet.settle();
    fleet.edit(
        json!({"spec": {"replicas": 2, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Retain"}}}),
    );
    fleet.step();
    assert_eq!((owners(&fleet, "www-web-1"), fleet.ordinals()), (0, vec![0]));
    fleet.settle();
    assert_eq!(fleet.ordinals(), [0, 1]);
}

#[test]
fn ordered_pods_are_deleted_one_at_a_time_whatever_asks_for_it() {
    let mut fleet = Fleet::running(3, json!({"podManagementPolicy": "OrderedReady"}));
    for name in ["web-0", "web-1", "web-2"] {
        fleet.labelled(name, "apps.kruise.io/specified-delete", Some("true"));
    }
    let plan = fleet.settled_plan();
    assert_eq!(plan.update.iter().map(Action::object).collect::<Vec<_>>(), ["web-2"]);
}

#[test]
fn a_pod_that_prepares_for_an_update_that_does_not_come_goes_back() {
    for change in [json!({"partition": 1}), json!({"partition": 3})] {
        let mut fleet = Fleet::running(1, hooked("inPlaceUpdate", in_place(json!({}))));
        fleet.labelled("web-0", "serving", Some("yes"));
        fleet.edit(json!({"spec": {"template": in_place_template("nginx:2")}}));
        fleet.settle();
        assert_eq!(state(&fleet, "web-0"), "PreparingUpdate");
        fleet.edit(json!({"spec": {"updateStrategy": {"rollingUpdate": change}}}));
        fleet.settle();
        assert_eq!(state(&fleet, "web-0"), "Normal");
    }
}

#[test]
fn a_pod_that_was_to_be_recreated_stays_while_the_set_is_paused() {
    let mut fleet = Fleet::running(1, hooked("preDelete", parallel(json!({}))));
    fleet.labelled("web-0", "serving", Some("yes"));
    fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
    fleet.settle();
    assert_eq!(state(&fleet, "web-0"), "PreparingDelete");
    fleet.edit(json!({"spec": {"updateStrategy": {"rollingUpdate": {"paused": true}}}}));
    fleet.settle();
    assert_eq!(state(&fleet, "web-0"), "Normal");
}

#[test]
fn a_pod_that_has_ended_behind_a_used_up_budget_is_replaced() {
    let mut fleet = Fleet::running(3, parallel(json!({"scaleStrategy": {"maxUnavailable": 1}})));
    fleet.break_pod(0);
    let uid = fleet.uid("web-2");
    fleet.pod_mut("web-2").status.phase = "Failed".into();
    fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
    for _ in 0..20 {
        fleet.step();
    }
    assert!(!fleet.pods.iter().any(|pod| *pod.metadata.uid == *uid), "it is gone");
}
