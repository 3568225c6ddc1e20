//! What clients make of the status: when a rollout is over, and for which generation the numbers hold.

use api::kinds::cloneset::Status;
use api::kinds::shared::{IntOrString, PodUpdatePolicy};
use proptest::prelude::*;
use serde_json::json;

use crate::cloneset::fixture::Fleet;
use crate::cloneset::{CloneSet, Limits};
use crate::workload::status::StatusPlan;
use pod::write::PodWrite;

/// The rule of `kubectl kruise rollout status`.
fn is_over(set: &CloneSet) -> bool {
    let rolling = &set.spec.update_strategy.rolling_update;
    let replicas = set.spec.replicas.unwrap_or(1);
    let in_place = matches!(
        rolling.pod_update_policy,
        Some(PodUpdatePolicy::InPlaceIfPossible | PodUpdatePolicy::InPlaceOnly)
    );
    // A percentage counts as no partition there.
    let partition = match &rolling.partition {
        Some(IntOrString::Int(partition)) => *partition,
        _ => 0,
    };
    let observed = set.status.observed_generation.unwrap_or(0);
    (!in_place || set.status.updated_replicas >= replicas - partition)
        && observed != 0
        && observed >= set.metadata.generation.unwrap_or(0)
        && set.status.ready_replicas >= replicas
}

#[test]
fn a_rollout_is_over_for_clients_in_every_finished_state() {
    let in_place = |more| Fleet::rolling("InPlaceIfPossible", more);
    let edit = |spec| json!({"spec": spec});
    let states = [
        ("in place", in_place(json!({"maxUnavailable": 1})), json!({})),
        ("recreated", Fleet::rolling("ReCreate", json!({"maxUnavailable": 2})), json!({})),
        ("with surge", Fleet::rolling("ReCreate", json!({"maxSurge": 1, "maxUnavailable": 0})), json!({})),
        ("a part", in_place(json!({"partition": 2, "maxUnavailable": 1})), json!({})),
        ("nothing but the partition", in_place(json!({"partition": 3})), json!({})),
        ("grown", in_place(json!({})), edit(json!({"replicas": 5}))),
        ("shrunk", in_place(json!({})), edit(json!({"replicas": 1}))),
        ("empty", in_place(json!({})), edit(json!({"replicas": 0}))),
        ("available later", in_place(json!({})), edit(json!({"minReadySeconds": 30}))),
        ("held", json!({"updateStrategy": {"type": "OnDelete"}}), json!({})),
    ];
    for (name, spec, edit) in states {
        let mut fleet = Fleet::running(3, spec);
        fleet.image("nginx:2");
        assert!(!is_over(&fleet.set()), "{name}: the change is not observed yet");
        fleet.edit(edit);
        for _ in 0..6 {
            fleet.settle();
            fleet.later(60);
        }
        assert!(is_over(&fleet.set()), "{name}: {:?}", fleet.status());
        assert!(fleet.plan().is_idle(), "{name}");
        let expected = fleet.status().expected_updated_replicas.unwrap_or(0);
        assert!(name == "held" || fleet.status().updated_replicas >= expected, "{name}");
    }
}

#[test]
fn new_pods_are_not_available_before_their_hook() {
    let mut fleet =
        Fleet::new(json!({"replicas": 2, "lifecycle": {"preNormal": {"labelsHandler": {"checked": "yes"}}}}));
    fleet.settle();
    let state = |fleet: &Fleet, index: usize| {
        fleet.pods[index].label("lifecycle.apps.kruise.io/state").unwrap_or_default().to_owned()
    };
    assert_eq!((fleet.status().ready_replicas, fleet.status().available_replicas), (2, 0));
    assert_eq!([state(&fleet, 0), state(&fleet, 1)], ["PreparingNormal"; 2]);
    let name = fleet.name(0);
    let mut write = PodWrite::default();
    write.set_label("checked", "yes");
    write.apply(fleet.pod_mut(&name));
    fleet.settle();
    assert_eq!((fleet.status().ready_replicas, fleet.status().available_replicas), (2, 1));
    assert_eq!([state(&fleet, 0), state(&fleet, 1)], ["Normal", "PreparingNormal"]);
}

#[test]
fn a_rollout_that_stands_still_is_not_over_for_clients() {
    let mut fleet = Fleet::running(3, Fleet::rolling("InPlaceIfPossible", json!({"maxUnavailable": 1})));
    fleet.image("nginx:broken");
    fleet.step();
    fleet.step();
    fleet.later(3600);
    fleet.step();
    assert!(!is_over(&fleet.set()), "{:?}", fleet.status());
}

/// The numbers are those of the generation that they are reported for: `expectedUpdatedReplicas` by its spec,
/// `updatedReplicas` by its template.
fn holds_for_its_generation(fleet: &Fleet, status: Option<&StatusPlan<Status>>) -> bool {
    let Some(status) = status.map(StatusPlan::status) else { return true };
    let set = fleet.set();
    if status.observed_generation != set.metadata.generation {
        return status == &set.status || status.observed_generation == set.status.observed_generation;
    }
    let limits = Limits::of(&set.spec);
    let image = fleet.object.pointer("/spec/template/spec/containers/0/image").unwrap();
    let revision = fleet.revisions.iter().find(|revision| revision.name() == status.update_revision);
    let expected = i64::from(status.expected_updated_replicas.unwrap_or(0));
    expected == limits.replicas - limits.partition
        && revision.is_some_and(|revision| revision.data.get().contains(&image.to_string()))
        && usize::try_from(status.replicas) == Ok(fleet.pods.len())
        && usize::try_from(status.updated_replicas) == Ok(fleet.with_image(image.as_str().unwrap()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_observed_generation_is_never_ahead_of_the_numbers(
        moves in prop::collection::vec((0..7_u8, 0..4_i32), 1..25),
    ) {
        // Recreated, so that the image shows the revision of a Pod.
        let rolling = json!({"maxUnavailable": 1, "maxSurge": 1});
        let mut fleet = Fleet::running(3, Fleet::rolling("ReCreate", rolling));
        for (kind, number) in moves {
            match kind {
                0 => fleet.image(&format!("nginx:{}", number + 1)),
                1 => fleet.edit(json!({"spec": {"replicas": number}})),
                2 => fleet.edit(json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": number}}}})),
                3 => fleet.kubelet(),
                4 => { fleet.step(); }
                5 => { fleet.settled_plan(); }
                _ => fleet.later(5),
            }
            let plan = fleet.plan();
            prop_assert!(plan.revision.is_none() || plan.status.is_none(), "{}", plan);
            prop_assert!(holds_for_its_generation(&fleet, plan.status.as_ref()), "{:?}", plan.status);
        }
    }
}
