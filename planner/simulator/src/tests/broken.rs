//! Planners that break a rule on purpose: the rules must notice each of them, or they watch nothing.

use std::sync::Arc;

use api::kinds::shared::{IntOrString, PodUpdatePolicy};
use api::labels::SPECIFIED_DELETE;

use super::*;
use kinds::workload::action::{Action, DeleteReason, WriteReason};
use kinds::workload::object_version::ObjectVersion;
use kinds::workload::revision::Author;
use pod::revision_labels::short_hash;
use pod::write::PodWrite;

/// Histories within which a broken planner must be noticed.
const ENOUGH: u64 = 3_000;

fn noticed(rules: &[&str], planner: Planner<'_, CloneSet>) {
    super::noticed(cloneset::history, (0..ENOUGH, rules), planner);
}

#[test]
fn a_planner_that_ignores_max_unavailable_is_noticed() {
    noticed(&["Budget"], &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| {
            spec.update_strategy.rolling_update.max_unavailable = Some(IntOrString::Int(100));
        })
    });
}

#[test]
fn a_planner_that_rounds_max_unavailable_up_with_surge_is_noticed() {
    noticed(&["Budget"], &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| {
            let replicas = spec.replicas.unwrap_or(1);
            let rolling = &mut spec.update_strategy.rolling_update;
            let limit = values::percent::max_unavailable(rolling.max_unavailable.as_ref(), replicas, 0);
            rolling.max_unavailable = Some(IntOrString::Int(limit));
        })
    });
}

#[test]
fn a_planner_that_ignores_partition_is_noticed() {
    noticed(&["Partition"], &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| spec.update_strategy.rolling_update.partition = None)
    });
}

#[test]
fn a_planner_that_adds_to_max_surge_is_noticed() {
    noticed(&["Surge", "Partition"], &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| {
            spec.update_strategy.rolling_update.max_surge = Some(IntOrString::Int(2));
        })
    });
}

#[test]
fn a_planner_that_ignores_a_pause_is_noticed() {
    noticed(&["Held", "Surge"], &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| spec.update_strategy.rolling_update.paused = false)
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
            let pod = ObjectVersion::pod(other);
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
fn a_planner_that_forgets_claims_that_could_be_reused_is_noticed() {
    noticed(&["Rest"], &|snapshot, moment| {
        let mut plan = plan(snapshot, moment);
        for action in &mut plan.scale {
            if let Action::DeletePod { claims, .. } = action
                && snapshot.workload.spec.scale_strategy.enable_pvc_reuse
            {
                claims.clear();
            }
        }
        plan.release
            .retain(|action| !matches!(action, Action::DeleteClaim(_) | Action::HandOverClaim { .. }));
        plan
    });
}

#[test]
fn a_planner_that_marks_one_pod_too_many_is_noticed() {
    noticed(&["Partition"], &|snapshot, moment| {
        let mut plan = plan(snapshot, moment);
        let rolling = &snapshot.workload.spec.update_strategy.rolling_update;
        let marks =
            |action: &&Action| matches!(action, Action::WritePod { reason: WriteReason::Recreate, .. });
        let recreates = rolling.pod_update_policy == Some(PodUpdatePolicy::ReCreate);
        if let Some(Action::WritePod { writes, revision, .. }) =
            plan.update.iter().find(marks).filter(|_| recreates).cloned()
        {
            let hash = |pod: &ObservedPod| {
                pod.label("controller-revision-hash").map(|label| short_hash(label).to_owned())
            };
            let other = snapshot.pods.iter().find(|pod| {
                pod.is_active()
                    && pod.label(SPECIFIED_DELETE).is_none()
                    && hash(pod).is_some_and(|hash| hash != short_hash(&revision))
                    && !plan.update.iter().any(|action| *action.object() == *pod.metadata.name)
            });
            let reason = WriteReason::Recreate;
            let more =
                other.map(|pod| Action::WritePod { pod: ObjectVersion::pod(pod), writes, reason, revision });
            plan.update.extend(more);
        }
        plan
    });
}

#[test]
fn a_planner_that_leads_one_pod_too_many_back_is_noticed() {
    noticed(&["Partition"], &|snapshot, moment| {
        let mut plan = plan(snapshot, moment);
        let other = plan_with(snapshot, moment, |spec| {
            let replicas = spec.replicas.unwrap_or(1);
            let rolling = &mut spec.update_strategy.rolling_update;
            let partition = values::percent::partition(rolling.partition.as_ref(), replicas);
            rolling.partition = Some(IntOrString::Int(partition + 1));
        });
        let newest = plan.status.as_ref().map(|status| status.status().update_revision.clone());
        let goes_back = |action: &Action| match action {
            Action::WritePod {
                reason: WriteReason::UpdateInPlace | WriteReason::Recreate, revision, ..
            } => Some(revision) != newest.as_ref(),
            _ => false,
        };
        if other.update.iter().any(goes_back) {
            plan.update = other.update;
        }
        plan
    });
}

#[test]
fn a_planner_that_does_not_wait_for_the_hook_before_a_deletion_is_noticed() {
    noticed(&["Held"], &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| spec.lifecycle.pre_delete = None)
    });
}

#[test]
fn a_planner_that_calls_a_pod_named_which_is_not_is_noticed() {
    noticed(&["Named first", "Budget"], &|snapshot, moment| {
        let mut plan = plan(snapshot, moment);
        for action in &mut plan.scale {
            if let Action::DeletePod { reason, .. } = action {
                *reason = DeleteReason::Specified;
            }
        }
        plan
    });
}

#[test]
fn a_planner_that_drops_batches_which_wait_is_noticed() {
    noticed(&["Rest", "Order"], &|snapshot, moment| {
        let mut plan = plan(snapshot, moment);
        for action in &mut plan.update {
            if let Action::WritePod { writes, .. } = action {
                for state in writes.iter_mut().filter_map(|write| {
                    write.annotations.get_mut(api::annotations::IN_PLACE_UPDATE_STATE)?.as_mut()
                }) {
                    let mut changed: serde_json::Value = serde_json::from_str(state).unwrap();
                    changed.as_object_mut().unwrap().remove("nextContainerImages");
                    *state = changed.to_string();
                }
            }
        }
        plan
    });
}

#[test]
fn a_planner_that_recreates_what_can_be_changed_is_noticed() {
    noticed(&["In place"], &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| {
            spec.update_strategy.rolling_update.pod_update_policy = Some(PodUpdatePolicy::ReCreate);
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
                for container in pod.spec.containers.iter_mut() {
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

#[test]
fn a_planner_that_does_not_know_the_revisions_of_open_kruise_is_noticed() {
    noticed(&["Rest", "Partition"], &|snapshot, moment| {
        let known = snapshot.revisions.iter().filter(|revision| revision.author() == Author::Kutter);
        let revisions: Vec<_> = known.cloned().collect();
        plan(&Snapshot { revisions: &revisions, ..*snapshot }, moment)
    });
}
