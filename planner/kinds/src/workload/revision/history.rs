//! The revisions of one owner, and those that can go.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::stored::StoredRevision;
use crate::workload::object_version::ObjectVersion;
use pod::observed::ObservedPod;
use pod::revision_labels::RevisionLabels;
use values::selector::Selector;

/// The revisions of a workload, oldest first: those that its selector matches and that belong to it or to
/// nobody.
pub fn history<'a>(
    revisions: impl IntoIterator<Item = &'a StoredRevision>,
    selector: &Selector,
    uid: &str,
) -> Vec<&'a StoredRevision> {
    sorted(revisions.into_iter().filter(|revision| selector.matches(&revision.metadata.labels)), uid)
}

/// Those of `revisions` that belong to the owner with this UID or to nobody, oldest first.
pub fn sorted<'a>(
    revisions: impl IntoIterator<Item = &'a StoredRevision>,
    uid: &str,
) -> Vec<&'a StoredRevision> {
    let ours =
        |revision: &&StoredRevision| revision.metadata.controller().is_none_or(|owner| owner.uid == uid);
    let mut revisions: Vec<_> = revisions.into_iter().filter(ours).collect();
    revisions.sort_by_cached_key(|revision| revision.age());
    revisions
}

/// The revision from which Pods are updated: the one that status names; else the caller takes the update
/// revision.
pub fn current<'a>(history: &[&'a StoredRevision], name: &str) -> Option<&'a StoredRevision> {
    history.iter().find(|revision| revision.metadata.name == name).copied()
}

/// Revisions beside those in use that are kept where a workload does not say.
pub(crate) const HISTORY_LIMIT: i32 = 10;

/// How many revisions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// So many that nobody uses, beside those in use.
    Unused(i32),
    /// So many in all, if not more are in use.
    All(i32),
}

/// The revisions to delete, oldest first: such as are not `in_use`, beyond the limit.
pub fn obsolete(
    history: &[&StoredRevision],
    in_use: impl Fn(&StoredRevision) -> bool,
    limit: Limit,
) -> Vec<ObjectVersion> {
    let unused = || history.iter().filter(|revision| !in_use(revision));
    let (count, limit) = match limit {
        Limit::Unused(limit) => (unused().count(), limit),
        Limit::All(limit) => (history.len(), limit),
    };
    let surplus = count.saturating_sub(usize::try_from(limit).unwrap_or(0));
    unused().take(surplus).map(|revision| ObjectVersion::object(&revision.metadata)).collect()
}

/// The revisions to delete of a workload that is at the `live` ones: such as none of `pods` is at, beyond the limit.
pub(crate) fn unused<'a>(
    history: &[&StoredRevision],
    live: &[&StoredRevision],
    labels: RevisionLabels,
    pods: impl Iterator<Item = &'a Arc<ObservedPod>>,
    limit: Limit,
) -> Vec<ObjectVersion> {
    let used: BTreeSet<&str> = pods.filter_map(|pod| labels.revision_of(pod)).collect();
    let in_use = |revision: &StoredRevision| {
        live.iter().any(|live| live.name() == revision.name())
            || used.iter().any(|used| labels.same(used, revision.name()))
    };
    obsolete(history, in_use, limit)
}
