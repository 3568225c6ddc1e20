//! Pulling the images of the update revision before Pods are updated to it (spec 30 §16).

use api::features::Feature;
use api::kinds::cloneset::{API_VERSION, KIND};
use api::kinds::shared::{IntOrString, PodUpdatePolicy};
use api::labels::CONTROLLER_HASH;

use super::Working;
use super::action::Seen;
use super::counting::{is_on_delete, replicas};
use crate::pod::inplace;
use crate::text::percent::{Rounding, scaled};
use crate::workload::compared_template;
use crate::workload::pre_download::{self, PullJob, Rollout, Settings, is_worthwhile};
use crate::workload::revision::workload::StoredRevision;

/// What to do about ImagePullJobs. Failures are only logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PreDownload {
    /// Nothing.
    #[default]
    Nothing,
    /// The rollout is over: delete the ImagePullJobs of the namespace that the CloneSet controls.
    Clear,
    /// Create these jobs, then send this merge patch to the revision, whatever came of the jobs.
    Record {
        /// The jobs; one that exists is as good as created.
        jobs: Vec<PullJob>,
        /// The revision.
        revision: Seen,
        /// The merge patch.
        patch: String,
    },
}

pub(super) fn plan(working: &Working<'_>) -> PreDownload {
    let set = working.set();
    let gates = working.snapshot.gates;
    let enabled = [Feature::KruiseDaemon, Feature::PreDownloadImageForInPlaceUpdate];
    if !working.snapshot.settings.pull_jobs || !enabled.into_iter().all(|gate| gates.enabled(gate)) {
        return PreDownload::Nothing;
    }
    let (current, update) = (working.current, working.update);
    if current.name() == update.name() {
        return PreDownload::Clear;
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
        settings: &Settings::of_strategy(strategy),
        updated_ready: if is_known { set.status.updated_ready_replicas } else { 0 },
        worthwhile: is_worthwhile_for(working, current, update),
    };
    let record = |jobs, mark: pre_download::Mark| PreDownload::Record {
        jobs,
        revision: super::seen_revision(update),
        patch: mark.to_json(update),
    };
    match pre_download::plan(&rollout) {
        Ok(pre_download::Plan::Create(jobs, mark)) => record(jobs, mark),
        Ok(pre_download::Plan::Ignore(mark)) => record(Vec::new(), mark),
        // A template that can't be read is told of where Pods are updated.
        Ok(pre_download::Plan::Nothing) | Err(_) => PreDownload::Nothing,
    }
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
