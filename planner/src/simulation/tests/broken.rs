//! Planners that break a rule on purpose: the rules must notice each of them, or they watch nothing.

use std::sync::Arc;

use api::kinds::cloneset::CloneSet;
use api::kinds::shared::{IntOrString, PodUpdatePolicy};
use api::labels::SPECIFIED_DELETE;

use super::*;
use crate::cloneset::{Action, DeleteReason, Seen, WriteReason};
use crate::pod_write::PodWrite;

/// Histories within which a broken planner must be noticed.
const ENOUGH: u64 = 3_000;

/// The real planner, asked about another CloneSet.
fn plan_with(snapshot: &Snapshot<'_>, moment: Moment, change: impl FnOnce(&mut CloneSet)) -> Plan {
    let mut set = snapshot.set.clone();
    change(&mut set);
    plan(&Snapshot { set: &set, ..*snapshot }, moment)
}

fn noticed(rules: &[&str], planner: Planner<'_>) {
    let (seed, failure) = first_failure(0..ENOUGH, planner).expect("nobody notices");
    let known = rules.iter().any(|rule| failure.starts_with(&format!("{rule}:")));
    assert!(known, "history {seed} breaks another rule than {rules:?}: {failure}");
}

#[test]
fn a_planner_that_ignores_max_unavailable_is_noticed() {
    noticed(&["Budget"], &|snapshot, moment| {
        plan_with(snapshot, moment, |set| {
            set.spec.update_strategy.rolling_update.max_unavailable = Some(IntOrString::Int(100));
        })
    });
}

#[test]
fn a_planner_that_rounds_max_unavailable_up_with_surge_is_noticed() {
    noticed(&["Budget"], &|snapshot, moment| {
        plan_with(snapshot, moment, |set| {
            let replicas = set.spec.replicas.unwrap_or(1);
            let rolling = &mut set.spec.update_strategy.rolling_update;
            let limit = crate::percent::max_unavailable(rolling.max_unavailable.as_ref(), replicas, 0);
            rolling.max_unavailable = Some(IntOrString::Int(limit));
        })
    });
}

#[test]
fn a_planner_that_ignores_partition_is_noticed() {
    noticed(&["Partition"], &|snapshot, moment| {
        plan_with(snapshot, moment, |set| set.spec.update_strategy.rolling_update.partition = None)
    });
}

#[test]
fn a_planner_that_adds_to_max_surge_is_noticed() {
    noticed(&["Surge", "Partition"], &|snapshot, moment| {
        plan_with(snapshot, moment, |set| {
            set.spec.update_strategy.rolling_update.max_surge = Some(IntOrString::Int(2));
        })
    });
}

#[test]
fn a_planner_that_ignores_a_pause_is_noticed() {
    noticed(&["Held", "Surge"], &|snapshot, moment| {
        plan_with(snapshot, moment, |set| set.spec.update_strategy.rolling_update.paused = false)
    });
}

#[test]
fn a_planner_that_does_not_see_who_is_named_is_noticed() {
    noticed(&["Named first", "Rest", "Partition"], &|snapshot, moment| {
        let pods: Vec<_> = snapshot
            .pods
            .iter()
            .map(|pod| {
                let mut write = PodWrite::default();
                write.labels.insert(SPECIFIED_DELETE.to_owned(), None);
                let mut pod = (**pod).clone();
                write.apply(&mut pod);
                Arc::new(pod)
            })
            .collect();
        plan(&Snapshot { pods: &pods, ..*snapshot }, moment)
    });
}

#[test]
fn a_planner_that_creates_one_pod_too_many_is_noticed() {
    noticed(&["Surge", "Partition"], &|snapshot, moment| {
        let mut plan = plan(snapshot, moment);
        let creation = plan.scale.iter().find(|action| matches!(action, Action::CreatePod { .. })).cloned();
        if let Some(Action::CreatePod { instance_id, revision, json, claims, name }) = creation {
            let other = if instance_id == "twin2" { "twin3" } else { "twin2" };
            plan.scale.push(Action::CreatePod {
                name: name.replace(&instance_id, other),
                json: json.replace(&instance_id, other),
                instance_id: other.to_owned(),
                revision,
                claims,
            });
        }
        plan
    });
}

#[test]
fn a_planner_that_chooses_one_pod_too_many_is_noticed() {
    noticed(&["Once", "Budget", "Partition"], &|snapshot, moment| {
        let mut plan = plan(snapshot, moment);
        let scales_in =
            |action: &Action| matches!(action, Action::DeletePod { reason: DeleteReason::ScaleIn, .. });
        let chosen: Vec<&str> = plan.scale.iter().map(Action::object).collect();
        let other =
            snapshot.pods.iter().find(|pod| pod.is_active() && !chosen.contains(&&*pod.metadata.name));
        if let Some(other) = other.filter(|_| plan.scale.iter().any(scales_in)) {
            let pod = Seen::pod(other);
            plan.scale.push(Action::DeletePod { pod, claims: Vec::new(), reason: DeleteReason::ScaleIn });
        }
        plan
    });
}

#[test]
fn a_planner_that_forgets_claims_is_noticed() {
    noticed(&["Rest"], &|snapshot, moment| {
        let mut plan = plan(snapshot, moment);
        plan.release
            .retain(|action| !matches!(action, Action::DeleteClaim(_) | Action::HandOverClaim { .. }));
        for action in &mut plan.scale {
            if let Action::DeletePod { claims, .. } = action {
                claims.clear();
            }
        }
        plan
    });
}

#[test]
fn a_planner_that_recreates_what_can_be_changed_is_noticed() {
    noticed(&["In place"], &|snapshot, moment| {
        plan_with(snapshot, moment, |set| {
            set.spec.update_strategy.rolling_update.pod_update_policy = Some(PodUpdatePolicy::ReCreate);
        })
    });
}

#[test]
fn a_planner_that_changes_all_containers_at_once_is_noticed() {
    noticed(&["Order"], &|snapshot, moment| {
        let pods: Vec<_> = snapshot
            .pods
            .iter()
            .map(|pod| {
                let mut pod = (**pod).clone();
                for container in Arc::make_mut(&mut pod.spec.containers) {
                    container.env = Default::default();
                }
                Arc::new(pod)
            })
            .collect();
        plan(&Snapshot { pods: &pods, ..*snapshot }, moment)
    });
}

#[test]
fn a_planner_that_never_ends_an_update_is_noticed() {
    noticed(&["Rest"], &|snapshot, moment| {
        let mut plan = plan(snapshot, moment);
        plan.update
            .retain(|action| !matches!(action, Action::WritePod { reason: WriteReason::Progress, .. }));
        plan
    });
}

#[test]
fn a_planner_that_plans_without_its_own_deletions_is_noticed() {
    // As if the store did not take in what deletes return.
    noticed(&["Once", "Budget", "Partition", "Rest"], &|snapshot, moment| {
        let pods: Vec<_> = snapshot
            .pods
            .iter()
            .map(|pod| {
                let mut pod = (**pod).clone();
                pod.metadata.deletion_timestamp = None;
                Arc::new(pod)
            })
            .collect();
        plan(&Snapshot { pods: &pods, ..*snapshot }, moment)
    });
}
