//! Hot upgrade: a sidecar as a pair of twins, of which one works while the other waits with an empty image
//! (docs/behaviour/sidecarset.md#hot-upgrade).

use std::collections::BTreeMap;

use api::annotations::{
    SIDECARSET_VERSION_ALT_PREFIX, SIDECARSET_VERSION_PREFIX, SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER,
};

use super::consistency::{Consistency, is_running_and_ready};
use super::draft::Draft;
use super::record;
use super::set::{RolloutSet, Sidecar};
use crate::sidecarset::records;
use pod::observed::ObservedPod;
use values::json_patch::string;

/// The version of a container that does nothing.
const IDLE: &str = "0";

/// The twins of one sidecar by what they do.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Twins {
    working: String,
    other: String,
}

impl Twins {
    /// As the Pod's annotation says.
    fn of(pod: &ObservedPod, sidecar: &Sidecar) -> Self {
        let [one, two] = sidecar.twins();
        match record::working_twins(pod).get(&*sidecar.name) {
            Some(working) if *working == one => Self { working: one, other: two },
            _ => Self { working: two, other: one },
        }
    }

    /// As [`Twins::of`], but for a Pod that OpenKruise rolled back: there the annotation names the twin with
    /// the image that was given up (docs/behaviour/sidecarset.md#upgrade-step).
    fn of_settled(pod: &ObservedPod, sidecar: &Sidecar, updated: bool) -> Self {
        let Self { working, other } = Self::of(pod, sidecar);
        let rolled_back = updated
            && image(pod, &working) != Some(&sidecar.image)
            && image(pod, &other) == Some(&sidecar.image);
        if rolled_back { Self { working: other, other: working } } else { Self { working, other } }
    }
}

fn image<'p>(pod: &'p ObservedPod, container: &str) -> Option<&'p str> {
    pod.container(container).map(|container| &*container.image)
}

/// The sidecars of hot upgrades and their empty images. One without an empty image, which validation
/// refuses, is left alone.
fn pairs(set: &RolloutSet) -> impl Iterator<Item = (&Sidecar, &str)> {
    let pairs = set.sidecars.iter().filter_map(|sidecar| Some((sidecar, sidecar.empty_image.as_deref()?)));
    pairs.filter(|(_, empty_image)| !empty_image.is_empty())
}

/// True if a twin does nothing: it has the empty image, or got the one of an earlier time. A changed empty
/// image makes Pods not upgradable (docs/behaviour/sidecarset.md#updating-one-pod) and must not restart the
/// idle twins of all of them at once.
fn is_idle(pod: &ObservedPod, twin: &str, empty_image: &str) -> bool {
    image(pod, twin) == Some(empty_image)
        || pod.annotation(&format!("{SIDECARSET_VERSION_PREFIX}{twin}")) == Some(IDLE)
}

/// True if the twins that do not work are idle.
pub(super) fn is_settled(set: &RolloutSet, pod: &ObservedPod) -> bool {
    pairs(set).all(|(sidecar, empty_image)| is_idle(pod, &Twins::of(pod, sidecar).other, empty_image))
}

/// True if an idle twin still has its old image and is not needed any more, since the working ones run and
/// are ready.
pub(super) fn reset_is_due(
    set: &RolloutSet,
    pod: &ObservedPod,
    updated: bool,
    consistency: &Consistency<'_>,
) -> bool {
    let twins: Vec<(Twins, &str)> = pairs(set)
        .map(|(sidecar, empty_image)| (Twins::of_settled(pod, sidecar, updated), empty_image))
        .collect();
    if twins.iter().all(|(twins, empty_image)| is_idle(pod, &twins.other, empty_image)) {
        return false;
    }
    let idle = |name: &str| twins.iter().any(|(twins, _)| twins.other == name);
    let names = set.sidecars.iter().flat_map(Sidecar::names_in_pod).filter(|name| !idle(name));
    let mut statuses = pod.status.container_statuses.iter();
    consistency.holds_for(names)
        && (is_running_and_ready(pod) || statuses.all(|status| status.ready || idle(&status.name)))
}

/// Gives the idle twins their empty images.
pub(super) fn reset(draft: &mut Draft<'_>, updated: bool) {
    let (set, pod) = (draft.set, draft.pod);
    for (sidecar, empty_image) in pairs(set) {
        let twins = Twins::of_settled(pod, sidecar, updated);
        if !is_idle(pod, &twins.other, empty_image) {
            draft.idle(sidecar, &twins, empty_image);
        }
    }
}

/// Gives the sidecar's image to the twin that is not needed now, and makes it the working one.
pub(super) fn upgrade(draft: &mut Draft<'_>, sidecar: &Sidecar, empty_image: &str) {
    let (set, pod) = (draft.set, draft.pod);
    let [one, two] = sidecar.twins();
    let has = |name: &str, wanted: &str| image(pod, name) == Some(wanted);
    let consistency = Consistency::of(set, pod);
    let works = |name: &str| {
        pod.container_status(name).is_some_and(|status| status.ready) && consistency.holds_for([name])
    };
    let (picked, older) = if has(&one, empty_image) {
        (one, two)
    } else if has(&two, empty_image) {
        (two, one)
    } else {
        match (works(&one), works(&two)) {
            (true, false) => (two, one),
            (false, true) => (one, two),
            _ => {
                let Twins { working, other } = Twins::of(pod, sidecar);
                (other, working)
            }
        }
    };
    if has(&older, &sidecar.image) {
        // A rollback to what the older twin runs still: it continues alone
        // (docs/behaviour/sidecarset.md#upgrade-step).
        if !has(&picked, empty_image) && !empty_image.is_empty() {
            draft.idle(sidecar, &Twins { working: older, other: picked }, empty_image);
        }
        return;
    }
    let version = set.resource_version.to_string();
    let version_of_older =
        draft.annotation(&format!("{SIDECARSET_VERSION_PREFIX}{older}")).unwrap_or(IDLE).to_owned();
    draft.set_image(&picked, &sidecar.image);
    draft.set_annotation(format!("{SIDECARSET_VERSION_PREFIX}{picked}"), version.clone());
    draft.set_annotation(format!("{SIDECARSET_VERSION_ALT_PREFIX}{picked}"), version_of_older);
    draft.set_annotation(format!("{SIDECARSET_VERSION_ALT_PREFIX}{older}"), version);
    draft.set_working(sidecar, picked);
}

impl Draft<'_> {
    /// One twin works on, the other gets the empty image.
    fn idle(&mut self, sidecar: &Sidecar, twins: &Twins, empty_image: &str) {
        self.set_image(&twins.other, empty_image);
        self.set_annotation(format!("{SIDECARSET_VERSION_PREFIX}{}", twins.other), IDLE);
        self.set_annotation(format!("{SIDECARSET_VERSION_ALT_PREFIX}{}", twins.working), IDLE);
        self.set_working(sidecar, twins.working.clone());
    }

    fn set_working(&mut self, sidecar: &Sidecar, twin: String) {
        let present = self.annotation(SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER).unwrap_or_default();
        let mut working: BTreeMap<String, String> = serde_json::from_str(present).unwrap_or_default();
        working.insert(sidecar.name.to_string(), twin);
        let members = working.iter().map(|(name, twin)| (name.as_str(), string(twin)));
        self.set_annotation(SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER, records::object(members));
    }
}
