//! The ControllerRevisions of a SidecarSet: which one is current, what to write so that there is one, and
//! which are not needed any more (docs/behaviour/sidecarset.md#revisions).
//!
//! Data is compared by meaning and names are made from the bytes that OpenKruise would store, so an
//! installation of OpenKruise is taken over, and handed back, without a new revision
//! (docs/behaviour/sidecarset.md#revisions).

use std::collections::BTreeSet;
use std::sync::Arc;

use api::annotations::LAST_APPLIED;
use api::labels::{CONTROLLER_HASH, SIDECARSET_CUSTOM_VERSION, SIDECARSET_NAME};
use api::sidecarset::{API_VERSION, KIND};

use super::revision::data_of_spec;
use super::rollout::{RolloutSet, record};
use crate::workload::object_version::ObjectVersion;
use crate::workload::owner::Owner;
use crate::workload::revision::{Limit, RevisionStep, StoredRevision, Wanted, choose, obsolete, sorted};
use pod::observed::ObservedPod;
use values::canonical::CanonicalError;

/// How many revisions are kept where the SidecarSet does not say.
const DEFAULT_LIMIT: i32 = 10;

/// What to do so that the present sidecars have their revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// The name of the current revision; that of a new one may be taken.
    pub latest: String,
    /// What to write: the current revision, or a change of it that makes it the newest or labels it with the
    /// custom version.
    pub step: Option<RevisionStep>,
    /// Revisions to delete, oldest first.
    pub obsolete: Vec<ObjectVersion>,
}

/// Plans the registration of the present sidecars. `stored` are the ControllerRevisions of `namespace`,
/// where Kutter is installed, that are labelled with the SidecarSet's name; `pods` those that name it.
/// `None` while the SidecarSet is being deleted: what is written then would only be collected again.
///
/// # Errors
/// The path and the problem, where a sidecar does not decode into its Go type.
pub fn plan(
    set: &RolloutSet,
    stored: &[StoredRevision],
    pods: &[Arc<ObservedPod>],
    namespace: &str,
) -> Result<Option<Registration>, CanonicalError> {
    if set.deleting {
        return Ok(None);
    }
    let named = stored.iter().filter(|revision| {
        revision.metadata.labels.get(SIDECARSET_NAME).is_some_and(|name| **name == *set.name)
    });
    let history = sorted(named, &set.uid);
    let recorded = &set.recorded;
    let custom_version = Some(&*recorded.custom_version).filter(|version| !version.is_empty());
    let label = custom_version.map(|version| (SIDECARSET_CUSTOM_VERSION, version));
    let mut labels = recorded.labels.clone();
    labels.insert(SIDECARSET_NAME.to_owned(), set.name.to_string());
    labels.extend(label.map(|(key, version)| (key.to_owned(), version.to_owned())));
    let mut annotations = recorded.annotations.clone();
    // It would only double the size of each revision.
    annotations.remove(LAST_APPLIED);
    let wanted = Wanted {
        data: data_of_spec(recorded.spec.get())?,
        owner: Owner::new(API_VERSION, KIND, &set.name, &set.uid),
        namespace,
        labels,
        annotations,
        hash_label: CONTROLLER_HASH,
        collision_count: set.status.collision_count.unwrap_or(0),
        label_of_current: label,
        annotation_of_newest: None,
        claims: None,
        must_be_owned: false,
    };
    let choice = choose(wanted, &history);
    let latest = choice.name().to_owned();
    let used = used(set, &history, &latest, pods);
    let limit = recorded.limit.unwrap_or(DEFAULT_LIMIT).max(1);
    // A new revision is one of those that are kept.
    let limit = Limit::All(if choice.stored.is_some() { limit } else { limit - 1 });
    let in_use = |revision: &StoredRevision| used.contains(revision.name());
    Ok(Some(Registration { latest, step: choice.step, obsolete: obsolete(&history, in_use, limit) }))
}

/// Names of the revisions that are in use: the current one, those that Pods were given, and the one that
/// injection is pinned to.
fn used(
    set: &RolloutSet,
    history: &[&StoredRevision],
    latest: &str,
    pods: &[Arc<ObservedPod>],
) -> BTreeSet<String> {
    let given = pods.iter().filter_map(|pod| record::given(pod, &set.name, history.iter().copied()));
    let mut used: BTreeSet<String> =
        given.map(|revision| revision.name().to_owned()).chain([latest.to_owned()]).collect();
    if let Some(pin) = &set.recorded.pin {
        used.extend(pin.revision_name.clone());
        let version = pin.custom_version.as_deref().filter(|version| !version.is_empty());
        let labelled = |revision: &&&StoredRevision| {
            let label = revision.metadata.labels.get(SIDECARSET_CUSTOM_VERSION);
            version.is_some() && label.map(String::as_str) == version
        };
        let others = history.iter().rev().filter(|revision| revision.name() != latest);
        used.extend(others.into_iter().find(labelled).map(|revision| revision.name().to_owned()));
    }
    used
}

#[cfg(test)]
mod tests;
