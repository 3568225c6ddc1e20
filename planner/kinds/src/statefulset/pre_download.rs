//! Pulling the images of the update revision before Pods are updated to it.

use api::kinds::statefulset::{API_VERSION, KIND};
use api::labels::CONTROLLER_HASH;

use super::update::policy;
use super::working::Working;
use crate::workload::action::Action;
use crate::workload::owner::Owner;
use crate::workload::pre_download::{self, PreDownloadSettings, Rollout, is_worthwhile};

/// What to do about ImagePullJobs.
pub(super) fn plan(working: &Working<'_>) -> Vec<Action> {
    let set = working.set();
    if !pre_download::is_enabled(working.snapshot) {
        return Vec::new();
    }
    let (current, update) = (working.current, working.update);
    if current.name() == update.name() {
        return pre_download::clear(working.snapshot.children);
    }
    let settings = &working.settings;
    let replicas = i32::try_from(settings.replicas).unwrap_or(i32::MAX);
    let partition = i32::try_from(settings.partition).unwrap_or(i32::MAX);
    let max_unavailable = i32::try_from(settings.max_unavailable).unwrap_or(i32::MAX);
    let in_place = !settings.on_delete && policy(working).is_possible_from(current);
    let strategy = &set.spec.update_strategy.rolling_update.in_place_update_strategy;
    let is_known = set.status.update_revision == update.name();
    let rollout = Rollout {
        owner: Owner::of(API_VERSION, KIND, &set.metadata),
        namespace: &set.metadata.namespace,
        selector: &set.spec.selector,
        hash_label: CONTROLLER_HASH,
        old: &[current],
        update,
        settings: &PreDownloadSettings::of_annotations(&set.metadata.annotations, strategy, replicas),
        updated_ready: if is_known { set.status.updated_ready_replicas.unwrap_or(0) } else { 0 },
        worthwhile: is_worthwhile(replicas, partition, max_unavailable, in_place),
    };
    // A template that can't be read is told of where Pods are updated.
    pre_download::plan(&rollout).unwrap_or_default()
}
