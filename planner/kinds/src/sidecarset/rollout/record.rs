//! What a Pod's annotations say about the sidecars that were put into it
//! (docs/behaviour/pod-mutation.md#the-record-on-the-pod and docs/behaviour/sidecarset.md#updating-one-pod).

use std::collections::BTreeMap;

use api::annotations::{
    SIDECARSET_HASH, SIDECARSET_IN_PLACE_UPDATE_STATE, SIDECARSET_REPLACED_CONTAINERS,
    SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::workload::revision::StoredRevision;
use pod::observed::ObservedPod;

/// An entry of a hash annotation, as far as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::sidecarset) struct Injected {
    pub(in crate::sidecarset) hash: Option<String>,
    pub(in crate::sidecarset) controller_revision: Option<String>,
}

/// The entry of a SidecarSet in a hash annotation, in the present form or as a plain hash.
pub(in crate::sidecarset) fn injected(pod: &ObservedPod, annotation: &str, set: &str) -> Injected {
    let entries = entries(pod.annotation(annotation).unwrap_or_default());
    let Some(entry) = entries.get(set) else { return Injected::default() };
    match serde_json::from_str::<String>(entry.get()) {
        Ok(hash) => Injected { hash: Some(hash), controller_revision: None },
        Err(_) => serde_json::from_str(entry.get()).unwrap_or_default(),
    }
}

/// The revision of a SidecarSet whose sidecars a Pod has: the one that it names. A Pod that came before its
/// revision was written names an older one or none; its is the newest with the hash that it has.
pub(in crate::sidecarset) fn given<'a>(
    pod: &ObservedPod,
    set: &str,
    revisions: impl IntoIterator<Item = &'a StoredRevision, IntoIter: Clone>,
) -> Option<&'a StoredRevision> {
    let Injected { hash, controller_revision } = injected(pod, SIDECARSET_HASH, set);
    let revisions = revisions.into_iter();
    let recorded = |revision: &'a StoredRevision| {
        revision.metadata.annotations.get(SIDECARSET_HASH).filter(|hash| !hash.is_empty())
    };
    let named = revisions.clone().find(|revision| Some(revision.name()) == controller_revision.as_deref());
    // One that records no hash contradicts none.
    if named.is_some_and(|named| recorded(named).is_none_or(|known| hash.as_ref() == Some(known))) {
        return named;
    }
    let fits =
        |revision: &&'a StoredRevision| recorded(revision).is_some_and(|known| hash.as_ref() == Some(known));
    revisions.filter(fits).max_by_key(|revision| revision.revision).or(named)
}

/// The members of an annotation that holds an object; none where it holds anything else.
pub(in crate::sidecarset) fn entries(text: &str) -> BTreeMap<String, &RawValue> {
    serde_json::from_str(text).unwrap_or_default()
}

/// An entry of the in-place state: what the sidecars ran before they were updated.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::sidecarset) struct InPlaceState {
    pub(in crate::sidecarset) revision: Option<String>,
    pub(in crate::sidecarset) update_timestamp: Option<String>,
    pub(in crate::sidecarset) last_container_statuses: Option<BTreeMap<String, LastStatus>>,
}

/// What a container ran.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(in crate::sidecarset) struct LastStatus {
    #[serde(rename = "imageID", skip_serializing_if = "String::is_empty")]
    pub(in crate::sidecarset) image_id: String,
}

/// The in-place state of a SidecarSet.
///
/// # Errors
/// Where the annotation can't be read.
pub(in crate::sidecarset) fn in_place_state(
    pod: &ObservedPod,
    set: &str,
) -> Result<Option<InPlaceState>, serde_json::Error> {
    let Some(text) = pod.annotation(SIDECARSET_IN_PLACE_UPDATE_STATE) else { return Ok(None) };
    let states: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
    states.get(set).map(|state| serde_json::from_str(state.get())).transpose()
}

/// The image that a container got last, and the container that ran before.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(in crate::sidecarset) struct Replaced {
    pub(in crate::sidecarset) image: String,
    #[serde(rename = "containerID")]
    pub(in crate::sidecarset) container_id: String,
}

/// What is known of the containers that were replaced, by name.
pub(in crate::sidecarset) fn replaced(pod: &ObservedPod) -> BTreeMap<String, Replaced> {
    pod.annotation(SIDECARSET_REPLACED_CONTAINERS)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// For each sidecar of a hot upgrade, the twin that works; empty where the Pod does not say.
pub(super) fn working_twins(pod: &ObservedPod) -> BTreeMap<String, String> {
    let text = pod.annotation(SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER).unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}
