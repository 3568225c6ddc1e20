//! The counts in the status of a SidecarSet (docs/behaviour/sidecarset.md#status).

use serde::Serialize;

use super::Snapshot;
use super::rollout_pod::RolloutPod;

/// The members that change; the counts that the schema requires always come along.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Change<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
    matched_pods: i32,
    updated_pods: i32,
    ready_pods: i32,
    /// `null` removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_ready_pods: Option<Option<i32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_revision: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collision_count: Option<i32>,
}

/// The JSON merge patch that brings the status up to date; `None` where it is.
pub(super) fn patch(snapshot: &Snapshot<'_>, standings: &[RolloutPod]) -> Option<String> {
    let Snapshot { set, latest_revision, collision_count, .. } = snapshot;
    let present = &set.status;
    let count = |counts: &dyn Fn(&RolloutPod) -> bool| {
        i32::try_from(standings.iter().filter(|standing| counts(standing)).count()).unwrap_or(i32::MAX)
    };
    let works = |standing: &RolloutPod| standing.view.consistent && standing.view.ready;
    let matched_pods = count(&|_| true);
    let updated_pods = count(&|standing| standing.view.updated);
    let ready_pods = count(&works);
    let updated_ready = count(&|standing| standing.view.updated && works(standing));
    let updated_ready_pods = (present.updated_ready_pods.unwrap_or(0) != updated_ready)
        .then_some((updated_ready > 0).then_some(updated_ready));
    let other = present.observed_generation != Some(set.generation);
    // A larger one was left by a SidecarSet that had the name before.
    let observed_generation = other.then_some(set.generation);
    let renamed = !latest_revision.is_empty() && present.latest_revision != *latest_revision;
    let latest_revision = renamed.then_some(*latest_revision);
    let collision_count = Some(*collision_count).filter(|count| present.collision_count != Some(*count));
    let changed = (present.matched_pods, present.updated_pods, present.ready_pods)
        != (matched_pods, updated_pods, ready_pods)
        || updated_ready_pods.is_some()
        || observed_generation.is_some()
        || latest_revision.is_some()
        || collision_count.is_some();
    let change = Change {
        observed_generation,
        matched_pods,
        updated_pods,
        ready_pods,
        updated_ready_pods,
        latest_revision,
        collision_count,
    };
    // Numbers and texts: writing them as JSON cannot fail.
    changed.then(|| format!(r#"{{"status":{}}}"#, serde_json::to_string(&change).unwrap_or_default()))
}
