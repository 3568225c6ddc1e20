//! A write to one Pod while it is put together: images, and the annotations that record them.

use std::collections::BTreeMap;

use api::annotations::{
    SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE, SIDECARSET_IN_PLACE_UPDATE_STATE,
    SIDECARSET_REPLACED_CONTAINERS,
};
use jiff::Timestamp;

use super::record::{self, InPlaceState, LastStatus, Replaced};
use super::set::RolloutSet;
use crate::sidecarset::records;
use pod::observed::ObservedPod;
use pod::write::{PodWrite, Target};
use values::json_patch::string;
use values::moment::rfc3339;

/// A write to one Pod while it is put together.
pub(super) struct Draft<'d> {
    pub(super) set: &'d RolloutSet,
    pub(super) pod: &'d ObservedPod,
    now: Timestamp,
    write: PodWrite,
}

impl<'d> Draft<'d> {
    pub(super) fn new(set: &'d RolloutSet, pod: &'d ObservedPod, now: Timestamp) -> Self {
        Self { set, pod, now, write: PodWrite::to(Target::Pod) }
    }

    /// The value that an annotation will have.
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        match self.write.annotations.get(key) {
            Some(value) => value.as_deref(),
            None => self.pod.annotation(key),
        }
    }

    /// Sets an annotation, unless it has this value.
    pub(super) fn set_annotation(&mut self, key: impl Into<String>, value: impl Into<String>) {
        let (key, value) = (key.into(), value.into());
        if self.annotation(&key) != Some(&value) {
            self.write.set_annotation(key, value);
        }
    }

    /// Gives a container another image. An empty one, which the API server would refuse, is left out.
    pub(super) fn set_image(&mut self, container: &str, image: &str) {
        let present = self.pod.container(container).map(|container| &*container.image);
        if !image.is_empty() && present.is_some_and(|present| present != image) {
            self.write.container(container).image = Some(image.to_owned());
        }
    }

    /// The write, with what is recorded of the containers that change.
    pub(super) fn finish(mut self) -> PodWrite {
        if !self.write.containers.is_empty() {
            self.record_in_place_state();
            self.record_replaced();
        }
        self.write
    }

    /// Notes that the Pod has the present sidecars.
    pub(super) fn set_hash(&mut self, latest_revision: &str) {
        let time = rfc3339(self.now);
        for key in [SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE] {
            let present = self.pod.annotation(key).unwrap_or_default();
            let mut entries: BTreeMap<String, String> = BTreeMap::new();
            let mut converted = false;
            for (name, entry) in record::entries(present) {
                // A plain hash, as old versions wrote it.
                let plain = serde_json::from_str::<String>(entry.get());
                converted |= plain.is_ok();
                let entry = match plain {
                    Ok(hash) => old_entry(&time, &hash, &self.set.name),
                    Err(_) => entry.get().to_owned(),
                };
                entries.insert(name, entry);
            }
            if key == SIDECARSET_HASH {
                let sidecars: Vec<&str> = self.set.sidecar_list.iter().map(AsRef::as_ref).collect();
                let entry = records::entry(&time, &self.set.hash, &self.set.name, &sidecars, latest_revision);
                entries.insert(self.set.name.to_string(), entry);
            } else if !converted {
                continue;
            }
            let members = entries.iter().map(|(name, entry)| (name.as_str(), entry.as_str()));
            self.set_annotation(key, records::object(members));
        }
    }

    /// Notes what the containers that change run now.
    fn record_in_place_state(&mut self) {
        let name: &str = &self.set.name;
        let mut state =
            record::in_place_state(self.pod, name).ok().flatten().unwrap_or_else(|| InPlaceState {
                revision: Some(self.set.hash.to_string()),
                update_timestamp: Some(rfc3339(self.now)),
                last_container_statuses: None,
            });
        let before = state.last_container_statuses.get_or_insert_default();
        for changed in &self.write.containers {
            let status = self.pod.container_status(&changed.name);
            let image_id = status.map_or_else(String::new, |status| status.image_id.to_string());
            before.insert(changed.name.clone(), LastStatus { image_id });
        }
        // Texts in maps with text keys only: writing them as JSON cannot fail.
        let state = serde_json::to_string(&state).unwrap_or_default();
        let present = self.pod.annotation(SIDECARSET_IN_PLACE_UPDATE_STATE).unwrap_or_default();
        let mut states: BTreeMap<String, String> = record::entries(present)
            .into_iter()
            .map(|(name, state)| (name, state.get().to_owned()))
            .collect();
        states.insert(name.to_owned(), state);
        let members = states.iter().map(|(name, state)| (name.as_str(), state.as_str()));
        self.set_annotation(SIDECARSET_IN_PLACE_UPDATE_STATE, records::object(members));
    }

    /// Notes which containers must go, so that their end is observed even where the image's ID stays.
    fn record_replaced(&mut self) {
        let mut replaced = record::replaced(self.pod);
        replaced.retain(|name, _| self.pod.container(name).is_some());
        for changed in &self.write.containers {
            let status = self.pod.container_status(&changed.name);
            let container_id = status.map(|status| status.container_id.to_string()).unwrap_or_default();
            let image = changed.image.clone().unwrap_or_default();
            if container_id.is_empty() {
                replaced.remove(&changed.name);
            } else {
                replaced.insert(changed.name.clone(), Replaced { image, container_id });
            }
        }
        let text = serde_json::to_string(&replaced).unwrap_or_default();
        self.set_annotation(SIDECARSET_REPLACED_CONTAINERS, text);
    }

    /// Patches the annotations as `spec.patchPodMetadata` says.
    ///
    /// # Errors
    /// Why an annotation can't be patched.
    pub(super) fn patch_annotations(&mut self) -> Result<(), String> {
        let set = self.set;
        for patch in &set.patches {
            for (key, value) in &patch.annotations {
                let patched = records::patched(patch.policy, self.annotation(key), value).map_err(|problem| {
                    format!("spec.patchPodMetadata merges JSON into annotation {key}, which is not possible: {problem}")
                })?;
                if let Some(value) = patched {
                    self.set_annotation(key.as_str(), value);
                }
            }
        }
        Ok(())
    }
}

/// An entry of the old form in the new one. OpenKruise writes the name of the SidecarSet that is updated
/// into it, whosever it is.
fn old_entry(time: &str, hash: &str, set: &str) -> String {
    format!(
        r#"{{"updateTimestamp":{},"hash":{},"sidecarSetName":{},"sidecarList":null}}"#,
        string(time),
        string(hash),
        string(set)
    )
}
