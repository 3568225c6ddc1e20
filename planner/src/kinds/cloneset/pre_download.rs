//! Pulling the images of the update revision before Pods are updated to it (spec 30 §16).

use api::features::Feature;
use api::kinds::cloneset::{API_VERSION, KIND};
use api::kinds::shared::{IntOrString, PodUpdatePolicy};
use api::labels::CONTROLLER_HASH;

use super::Working;
use super::counting::{is_on_delete, replicas};
use crate::pod::inplace;
use crate::text::percent::{Rounding, scaled};
use crate::workload::action::Action;
use crate::workload::compared_template;
use crate::workload::pre_download::{self, PreDownloadSettings, Rollout, is_worthwhile};
use crate::workload::revision::StoredRevision;

/// What to do about ImagePullJobs.
pub(super) fn plan(working: &Working<'_>) -> Vec<Action> {
    let set = working.set();
    let gates = working.snapshot.gates;
    let enabled = [Feature::KruiseDaemon, Feature::PreDownloadImageForInPlaceUpdate];
    if !working.snapshot.environment.pull_jobs || !enabled.into_iter().all(|gate| gates.enabled(gate)) {
        return Vec::new();
    }
    let (current, update) = (working.current, working.update);
    if current.name() == update.name() {
        return pre_download::clear(working.snapshot.children);
    }
    let strategy = &set.spec.update_strategy.rolling_update.in_place_update_strategy;
    let is_known = set.status.update_revision == update.name();
    let rollout = Rollout {
        api_version: API_VERSION,
        kind: KIND,
        metadata: &set.metadata,
        selector: &set.spec.selector,
        hash_label: CONTROLLER_HASH,
        old: &[current],
        update,
        settings: &PreDownloadSettings::of_strategy(strategy),
        updated_ready: if is_known { set.status.updated_ready_replicas } else { 0 },
        worthwhile: is_worthwhile_for(working, current, update),
    };
    // A template that can't be read is told of where Pods are updated.
    pre_download::plan(&rollout).unwrap_or_default()
}

fn is_worthwhile_for(working: &Working<'_>, current: &StoredRevision, update: &StoredRevision) -> bool {
    let spec = &working.set().spec;
    let rolling = &spec.update_strategy.rolling_update;
    let policy = rolling.pod_update_policy.clone().unwrap_or_default();
    let in_place = matches!(policy, PodUpdatePolicy::InPlaceIfPossible | PodUpdatePolicy::InPlaceOnly)
        && !is_on_delete(spec)
        && can_update_in_place(working, current, update, policy == PodUpdatePolicy::InPlaceOnly);
    let replicas = replicas(spec);
    let default = IntOrString::String("20%".to_owned());
    let unavailable = rolling.max_unavailable.as_ref().unwrap_or(&default);
    let unavailable = scaled(unavailable, replicas, Rounding::Down).unwrap_or(0);
    let partition = i32::try_from(working.limits.partition).unwrap_or(i32::MAX);
    is_worthwhile(replicas, partition, unavailable, in_place)
}

fn can_update_in_place(
    working: &Working<'_>,
    current: &StoredRevision,
    update: &StoredRevision,
    only_in_place: bool,
) -> bool {
    let claims_count =
        working.snapshot.gates.enabled(Feature::RecreatePodWhenChangeVCTInCloneSetGate) && !only_in_place;
    let claims_differ = claims_count && !current.claims_agree_with(update);
    let options = working.rules.options(update.name(), 0, claims_differ);
    match (compared_template::of_revision(current), compared_template::of_revision(update)) {
        (Ok(old), Ok(new)) => inplace::decide(&old, &new, &options).is_ok(),
        _ => false,
    }
}
