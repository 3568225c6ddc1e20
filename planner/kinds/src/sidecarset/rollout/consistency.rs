//! Whether containers run what they were given.

use std::collections::BTreeMap;

use super::record::{self, LastStatus, Replaced};
use super::set::RolloutSet;
use pod::observed::{Container, ContainerStatus, ObservedPod};
use values::image_reference::{ImageReference, same_image};

/// Phase `Running`, ready and not being deleted.
pub(super) fn is_running_and_ready(pod: &ObservedPod) -> bool {
    &*pod.status.phase == "Running" && pod.is_ready() && pod.metadata.deletion_timestamp.is_none()
}

/// Whether containers run what they were given.
///
/// Completion is seen from outside: the runtime reports another image, or the image that was asked for
/// however it spells it, or the container that ran before is gone. The last one also ends an update to a new
/// tag of the same content (docs/behaviour/sidecarset.md#consistent-containers).
pub(super) struct Consistency<'p> {
    pod: &'p ObservedPod,
    /// What containers ran before; an error where it can't be read.
    pub(super) states: Result<Option<BTreeMap<String, LastStatus>>, serde_json::Error>,
    replaced: BTreeMap<String, Replaced>,
}

impl<'p> Consistency<'p> {
    pub(super) fn of(set: &RolloutSet, pod: &'p ObservedPod) -> Self {
        let states = record::in_place_state(pod, &set.name);
        let states = states.map(|state| state.map(|state| state.last_container_statuses.unwrap_or_default()));
        Self { pod, states, replaced: record::replaced(pod) }
    }

    /// True if every container has a status, and those named run what they were given.
    pub(super) fn holds_for<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> bool {
        self.pod.spec.containers.len() == self.pod.status.container_statuses.len()
            && names.into_iter().all(|name| {
                self.pod.container(name.as_ref()).is_none_or(|container| self.holds_for_container(container))
            })
    }

    fn holds_for_container(&self, container: &Container) -> bool {
        let wanted = ImageReference::new(&container.image);
        let status = self.pod.container_status(&container.name);
        let replaced = self.replaced.get(&*container.name).zip(status);
        let replaced = replaced.is_some_and(|(replaced, ContainerStatus { container_id: now, .. })| {
            replaced.image == *container.image && !now.is_empty() && *now != *replaced.container_id
        });
        if replaced {
            return true;
        }
        if wanted.digest().is_some() {
            let image_id = status.map_or("", |status| &status.image_id);
            let image_id = image_id.split_once("://").map_or(image_id, |(_, image_id)| image_id);
            let running = ImageReference::new(image_id);
            return running.digest() == wanted.digest() && running.same_repository(&wanted);
        }
        match (&self.states, status) {
            (Err(_), _) => false,
            (Ok(Some(states)), Some(status)) => {
                let before = states.get(&*container.name).map_or("", |before| &before.image_id);
                before.is_empty()
                    || before != &*status.image_id
                    || same_image(&container.image, &status.image)
            }
            (Ok(_), _) => true,
        }
    }
}
