//! The state of one Pod in the rollout of a SidecarSet (docs/behaviour/sidecarset.md).

use std::sync::Arc;

use api::annotations::{SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE};

use super::condition;
use super::consistency::{Consistency, is_running_and_ready};
use super::hot;
use super::record;
use super::set::{RolloutSet, Sidecar};
use pod::observed::ObservedPod;

/// A Pod and its state.
#[derive(Clone, Debug)]
pub(super) struct RolloutPod {
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
    /// It is ready, and no hot upgrade is in progress.
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

impl RolloutPod {
    /// The state of a Pod of the SidecarSet.
    pub(super) fn of(set: &RolloutSet, pod: &Arc<ObservedPod>) -> Self {
        Self { pod: pod.clone(), view: View::of(set, pod) }
    }
}

/// The Pod was given the present sidecars.
pub(super) fn is_updated(set: &RolloutSet, pod: &ObservedPod) -> bool {
    *given(set, pod, SIDECARSET_HASH) == *set.hash
}

fn given(set: &RolloutSet, pod: &ObservedPod, annotation: &str) -> String {
    record::injected(pod, annotation, &set.name).hash.unwrap_or_default()
}

impl View {
    pub(super) fn of(set: &RolloutSet, pod: &ObservedPod) -> Self {
        let updated = is_updated(set, pod);
        let consistency = Consistency::of(set, pod);
        let mut sidecars = set.sidecars.iter().flat_map(Sidecar::names_in_pod);
        let updating = sidecars.find(|name| {
            pod.container_status(name).is_some_and(|status| status.ready) && !consistency.holds_for([name])
        });
        Self {
            updated,
            upgradable: *given(set, pod, SIDECARSET_HASH_WITHOUT_IMAGE) == *set.hash_without_image,
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

    /// What condition `SidecarSetUpgradable` must say of the SidecarSet from now on, where that is something
    /// else. It is cleared as soon as the Pod is updated or can be.
    pub(super) fn wanted_condition(&self) -> Option<bool> {
        let wanted = if self.is_not_upgradable() {
            Some(false)
        } else if self.condition == Some(false) && (self.updated || self.upgradable) {
            Some(true)
        } else {
            // The update itself was made, and the write behind it was not.
            (self.updated && self.updated_in_place).then_some(true)
        };
        wanted.filter(|wanted| self.condition != Some(*wanted))
    }

    /// It is updated and does not work yet.
    pub(super) fn is_busy(&self) -> bool {
        self.updated && !(self.consistent && self.ready)
    }
}
