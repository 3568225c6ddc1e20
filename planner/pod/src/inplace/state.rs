//! How far a Pod's update in place is, as its annotation holds it
//! (docs/behaviour/in-place-update.md#state-annotation), so that a restarted controller continues where the
//! last one stopped.

use std::collections::BTreeMap;

use api::annotations::{
    IN_PLACE_UPDATE_GRACE, IN_PLACE_UPDATE_GRACE_OLDER, IN_PLACE_UPDATE_STATE, IN_PLACE_UPDATE_STATE_OLDER,
};
use serde::{Deserialize, Serialize, Serializer};

use super::go_json::{Seconds, null_is_default};
use super::restarts;
use super::spec::{ReferencedMetadata, UpdateSpec};
use crate::observed::{ObservedPod, Resources};
use crate::write::PodWrite;

/// Why the progress of an update is not known: an annotation that nobody of us wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// An annotation that is not the JSON it should be.
    #[error("annotation {annotation} can't be read: {problem}; remove it if the Pod runs what it should")]
    Malformed {
        /// The annotation's key.
        annotation: &'static str,
        /// What the parser says.
        problem: String,
    },
    /// A change waits, but it is not known since when.
    #[error("pod has {IN_PLACE_UPDATE_GRACE} but {IN_PLACE_UPDATE_STATE} not found")]
    GraceWithoutState,
}

/// The annotation `apps.kruise.io/inplace-update-state`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    /// The revision the Pod is updated to.
    #[serde(deserialize_with = "null_is_default")]
    pub revision: String,
    /// When the update began; later batches leave it.
    pub update_timestamp: Seconds,
    /// What ran before in the containers whose images changed; `null` where there are none.
    #[serde(serialize_with = "null_if_empty", deserialize_with = "null_is_default")]
    pub last_container_statuses: BTreeMap<String, LastStatus>,
    /// Some environment changes with labels or annotations.
    #[serde(skip_serializing_if = "std::ops::Not::not", deserialize_with = "null_is_default")]
    pub update_env_from_metadata: bool,
    /// Some requests or limits change.
    #[serde(skip_serializing_if = "std::ops::Not::not", deserialize_with = "null_is_default")]
    pub update_resources: bool,
    /// Some images change.
    #[serde(skip_serializing_if = "std::ops::Not::not", deserialize_with = "null_is_default")]
    pub update_images: bool,
    /// Images of later batches.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    pub next_container_images: BTreeMap<String, String>,
    /// Labels and annotations of later batches.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    pub next_container_ref_metadata: BTreeMap<String, ReferencedMetadata>,
    /// Requests and limits of later batches.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    pub next_container_resources: BTreeMap<String, Resources>,
    /// What must hold before the next batch; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_check_before_next: Option<PreCheck>,
    /// The batches so far.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub container_batches_record: Vec<Batch>,
    /// How often containers had restarted when their images changed, which is recorded beside the state;
    /// of a state that was read it has to be asked for ([`State::recorded_restarts`]).
    #[serde(skip)]
    pub(super) restart_counts: BTreeMap<String, i32>,
}

/// What ran in a container before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct LastStatus {
    /// The image's identity.
    #[serde(rename = "imageID", deserialize_with = "null_is_default")]
    pub image_id: String,
}

/// What must hold before the next batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreCheck {
    /// Containers that must be ready.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub containers_required_ready: Vec<String>,
}

/// Containers that were changed together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Batch {
    /// When.
    pub timestamp: Seconds,
    /// Their names, sorted; none where only metadata changed.
    #[serde(deserialize_with = "null_is_default")]
    pub containers: Vec<String>,
}

fn null_if_empty<S: Serializer>(
    statuses: &BTreeMap<String, LastStatus>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if statuses.is_empty() { serializer.serialize_none() } else { statuses.serialize(serializer) }
}

impl State {
    /// The state of the Pod's last update; `None` where it was never updated in place.
    ///
    /// # Errors
    /// An annotation that is no state.
    pub fn of(pod: &ObservedPod) -> Result<Option<Self>, StateError> {
        read(pod, IN_PLACE_UPDATE_STATE, IN_PLACE_UPDATE_STATE_OLDER)
    }

    /// Containers are left for a later batch.
    pub fn has_next(&self) -> bool {
        !(self.next_container_images.is_empty()
            && self.next_container_ref_metadata.is_empty()
            && self.next_container_resources.is_empty())
    }

    /// Takes the later batches out, as a change of their own.
    pub(super) fn take_next(&mut self) -> UpdateSpec {
        UpdateSpec {
            revision: self.revision.clone(),
            container_images: std::mem::take(&mut self.next_container_images),
            container_ref_metadata: std::mem::take(&mut self.next_container_ref_metadata),
            container_resources: std::mem::take(&mut self.next_container_resources),
            ..UpdateSpec::default()
        }
    }

    /// How often containers had restarted when the update of this state changed them.
    pub(super) fn recorded_restarts(&self, pod: &ObservedPod) -> BTreeMap<String, i32> {
        restarts::recorded(pod, &self.revision, self.update_timestamp)
    }

    /// Writes the state, and removes it under its older key.
    pub(super) fn record(&self, pod: &ObservedPod, write: &mut PodWrite) {
        // Texts and times in maps with text keys only: writing them as JSON cannot fail.
        write.set_annotation(IN_PLACE_UPDATE_STATE, serde_json::to_string(self).unwrap_or_default());
        if pod.annotation(IN_PLACE_UPDATE_STATE_OLDER).is_some() {
            write.remove_annotation(IN_PLACE_UPDATE_STATE_OLDER);
        }
        restarts::record(pod, &self.revision, self.update_timestamp, &self.restart_counts, write);
    }
}

/// True while a change of the Pod waits for the end of its grace period.
pub fn in_grace(pod: &ObservedPod) -> bool {
    [IN_PLACE_UPDATE_GRACE, IN_PLACE_UPDATE_GRACE_OLDER].iter().any(|key| pod.annotation(key).is_some())
}

/// The change that waits.
pub(super) fn waiting(pod: &ObservedPod) -> Result<Option<UpdateSpec>, StateError> {
    read(pod, IN_PLACE_UPDATE_GRACE, IN_PLACE_UPDATE_GRACE_OLDER)
}

/// Lets the change wait.
pub(super) fn wait(pod: &ObservedPod, spec: &UpdateSpec, write: &mut PodWrite) {
    stop_waiting(pod, write);
    write.set_annotation(IN_PLACE_UPDATE_GRACE, serde_json::to_string(spec).unwrap_or_default());
}

/// Ends the grace period.
pub(super) fn stop_waiting(pod: &ObservedPod, write: &mut PodWrite) {
    for key in [IN_PLACE_UPDATE_GRACE, IN_PLACE_UPDATE_GRACE_OLDER] {
        if pod.annotation(key).is_some() {
            write.remove_annotation(key);
        }
    }
}

fn read<T: for<'de> Deserialize<'de>>(
    pod: &ObservedPod,
    key: &'static str,
    older: &'static str,
) -> Result<Option<T>, StateError> {
    let found = pod.annotation(key).map(|text| (key, text));
    let Some((annotation, text)) = found.or_else(|| pod.annotation(older).map(|text| (older, text))) else {
        return Ok(None);
    };
    let malformed =
        |error: serde_json::Error| StateError::Malformed { annotation, problem: error.to_string() };
    serde_json::from_str(text).map(Some).map_err(malformed)
}
