//! Pulling the images of the present revision before Pods are updated to it
//! (docs/behaviour/daemonset.md#image-pre-download).

use api::kinds::shared::InPlaceUpdateStrategy;
use api::labels::CONTROLLER_REVISION_HASH;

use super::working::Working;
use crate::workload::action::Action;
use crate::workload::kind::Workload;
use crate::workload::pre_download::{self, PreDownloadSettings, Rollout};
use crate::workload::revision::StoredRevision;
use pod::revision_labels::short_hash;

/// What to do about ImagePullJobs.
pub(super) fn plan(working: &Working<'_>) -> Vec<Action> {
    if !pre_download::is_enabled(working.snapshot) {
        return Vec::new();
    }
    let (set, settings) = (working.set(), &working.settings);
    let status = &set.status;
    let desired = working.desired();
    if usize::try_from(status.updated_number_scheduled) == Ok(desired)
        && status.update_revision == short_hash(working.update.name())
    {
        return pre_download::clear(working.snapshot.children);
    }
    // A partition that can't be read is reported where Pods are updated.
    if settings.problem.is_some() {
        return Vec::new();
    }
    let old: Vec<&StoredRevision> =
        working.history.iter().copied().filter(|revision| revision.name() != working.update.name()).collect();
    // Only these annotations are read; how many Pods are updated already makes no difference.
    let mut wanted =
        PreDownloadSettings::of_annotations(&set.metadata.annotations, &InPlaceUpdateStrategy::default(), 0);
    wanted.min_updated_ready_pods = 0;
    let in_one_batch = settings.partition == 0 && settings.max_unavailable >= desired;
    let rollout = Rollout {
        owner: set.owner(),
        namespace: &set.metadata.namespace,
        selector: &set.spec.selector,
        hash_label: CONTROLLER_REVISION_HASH,
        old: &old,
        update: working.update,
        settings: &wanted,
        updated_ready: 0,
        // The first Pods are pulled for as they are created.
        worthwhile: !in_one_batch && !old.is_empty(),
    };
    // A template that can't be read is reported where Pods are updated.
    pre_download::plan(&rollout).unwrap_or_default()
}
