//! Pulling the images of the update revision before Pods are updated to it.

use super::update::policy;
use super::working::Working;
use crate::workload::action::Action;
use crate::workload::pre_download::{self, PreDownloadSettings, is_worthwhile};

/// What to do about ImagePullJobs.
pub(super) fn plan(working: &Working<'_>) -> Vec<Action> {
    let (set, settings) = (working.set(), &working.settings);
    let replicas = i32::try_from(settings.replicas).unwrap_or(i32::MAX);
    let strategy = &set.spec.update_strategy.rolling_update.in_place_update_strategy;
    let wanted = PreDownloadSettings::of_annotations(&set.metadata.annotations, strategy, replicas);
    let ready = set.status.updated_ready_replicas.unwrap_or(0);
    let revisions = (working.current, working.update);
    pre_download::from_one_revision(working.snapshot, revisions, &wanted, ready, || {
        let partition = i32::try_from(settings.partition).unwrap_or(i32::MAX);
        let max_unavailable = i32::try_from(settings.max_unavailable).unwrap_or(i32::MAX);
        let in_place = !settings.on_delete && policy(working).is_possible_from(working.current);
        is_worthwhile(replicas, partition, max_unavailable, in_place)
    })
}
