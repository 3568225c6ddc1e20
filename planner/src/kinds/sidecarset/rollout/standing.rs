//! Where one Pod stands in the rollout of a SidecarSet (spec 20 §6.3 to §6.5).

use std::collections::BTreeMap;
use std::sync::Arc;

use api::annotations::{SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE};

use super::condition;
use super::hot;
use super::record::{self, LastStatus, Replaced};
use super::set::{RolloutSet, Sidecar};
use crate::pod::observed::{Container, ObservedPod};
use crate::text::image_reference::{ImageReference, same_image};

/// A Pod and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) pod: Arc<ObservedPod>,
    pub(super) view: View,
}

/// Everything about a Pod that decides whether and how it is updated, but for its place in the order. Two
/// states of a Pod with equal views need no new plan.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    /// It was given the present sidecars.
    pub(super) updated: bool,
    /// Its sidecars differ from the present ones in images alone.
    pub(super) upgradable: bool,
    /// Its sidecars run what they were given.
    pub(super) consistent: bool,
    /// It is ready, and no hot upgrade is under way.
    pub(super) ready: bool,
    /// `spec.updateStrategy.selector` matches.
    pub(super) selected: bool,
    /// A sidecar that is ready and has not started with what it was given.
    pub(super) updating: Option<Box<str>>,
    /// An idle twin must get its empty image.
    pub(super) reset_due: bool,
    /// What condition `SidecarSetUpgradable` says of the SidecarSet.
    pub(super) condition: Option<bool>,
    /// The SidecarSet updated it in place once.
    pub(super) updated_in_place: bool,
}

impl Standing {
    /// Where a Pod of the SidecarSet stands.
    pub(super) fn of(set: &RolloutSet, pod: &Arc<ObservedPod>) -> Self {
        Self { pod: pod.clone(), view: View::of(set, pod) }
    }
}

impl View {
    pub(super) fn of(set: &RolloutSet, pod: &ObservedPod) -> Self {
        let hash = |annotation| record::injected(pod, annotation, &set.name).hash.unwrap_or_default();
        let updated = *hash(SIDECARSET_HASH) == *set.hash;
        let consistency = Consistency::of(set, pod);
        let mut sidecars = set.sidecars.iter().flat_map(Sidecar::names_in_pod);
        let updating = sidecars.find(|name| {
            pod.container_status(name).is_some_and(|status| status.ready) && !consistency.holds_for([name])
        });
        Self {
            updated,
            upgradable: *hash(SIDECARSET_HASH_WITHOUT_IMAGE) == *set.hash_without_image,
            consistent: consistency.holds_for(set.sidecars.iter().flat_map(Sidecar::names_in_pod)),
            ready: is_running_and_ready(pod) && hot::is_settled(set, pod),
            selected: match &set.strategy.selector {
                None => true,
                Some(selector) => {
                    selector.as_ref().is_some_and(|selector| selector.matches(&pod.metadata.labels))
                }
            },
            updating: updating.map(String::into),
            reset_due: hot::reset_is_due(set, pod, updated, &consistency),
            condition: condition::of(pod, &set.name),
            updated_in_place: consistency.states.is_ok_and(|states| states.is_some()),
        }
    }

    /// It waits for an update that can't be made in place.
    pub(super) fn is_not_upgradable(&self) -> bool {
        !self.updated && self.selected && !self.upgradable
    }

    /// It is updated and does not work yet.
    pub(super) fn is_busy(&self) -> bool {
        self.updated && !(self.consistent && self.ready)
    }
}

/// Phase `Running`, ready and not being deleted.
pub(super) fn is_running_and_ready(pod: &ObservedPod) -> bool {
    &*pod.status.phase == "Running" && pod.is_ready() && pod.metadata.deletion_timestamp.is_none()
}

/// Tells whether containers run what they were given.
///
/// Completion is seen from outside: the runtime reports another image, or the image that was asked for
/// however it spells it, or the container that ran before is gone. The last one also ends an update to a
/// new tag of the same content (spec 20 §12.6).
pub(super) struct Consistency<'p> {
    pod: &'p ObservedPod,
    /// What containers ran before; an error where it can't be read.
    states: Result<Option<BTreeMap<String, LastStatus>>, serde_json::Error>,
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
        let replaced = self.replaced.get(&*container.name).is_some_and(|replaced| {
            let now = status.map_or("", |status| &status.container_id);
            replaced.image == *container.image && !now.is_empty() && replaced.container_id != now
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
