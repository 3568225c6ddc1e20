//! Whether a Pod counts as available for a budget: it is ready, and runs what it was given
//! (docs/behaviour/podunavailablebudget.md#available-pods).

use std::collections::{BTreeMap, BTreeSet};

use api::annotations::{
    IN_PLACE_UPDATE_STATE, SIDECARSET_IN_PLACE_UPDATE_STATE, SIDECARSET_INJECTED_LIST,
    SIDECARSET_REPLACED_CONTAINERS,
};
use api::conditions::{IN_PLACE_UPDATE_READY, KRUISE_POD_READY};
use api::environment::IS_INJECTED;
use api::features::FeatureGates;
use api::labels::UNAVAILABLE_POD_PREFIX;
use serde::Deserialize;

use pod::inplace::{Rules, completed};
use pod::observed::{Container, ObservedPod};
use values::hash::fnv1_32;
use values::image_reference::{ImageReference, same_image};
use values::server_version::ServerVersion;

/// How availability is decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Availability {
    rules: Rules,
}

impl Availability {
    pub(crate) fn new(gates: &FeatureGates) -> Self {
        // Whether an update is completed is decided alike for all kinds, and does not hang on the API server.
        Self { rules: Rules::clone_set(gates, ServerVersion::default()) }
    }

    /// The Pod is available: to disturb it costs a unit.
    pub(crate) fn holds_for(&self, pod: &ObservedPod) -> bool {
        self.obstacle(pod).is_none()
    }

    /// Why the Pod is not available.
    pub(crate) fn obstacle(&self, pod: &ObservedPod) -> Option<String> {
        if pod.metadata.deletion_timestamp.is_some() {
            return Some("it is being deleted".to_owned());
        }
        if &*pod.status.phase != "Running" {
            return Some(format!("its phase is {}", pod.status.phase));
        }
        if !pod.is_ready() {
            return Some("it is not ready".to_owned());
        }
        if let Some(label) = unavailable_label(pod) {
            return Some(format!("label {label} takes it out"));
        }
        self.inconsistency(pod)
    }

    /// The Pod runs and is not ready, and nobody has taken it out of service on purpose: who did has taken its unit, and
    /// must be able to finish (docs/behaviour/podunavailablebudget.md#pods-that-are-not-ready).
    pub(crate) fn pod_fails(&self, pod: &ObservedPod) -> bool {
        let is_shut = |gate| pod.condition(gate).is_some_and(|condition| &*condition.status == "False");
        pod.metadata.deletion_timestamp.is_none()
            && &*pod.status.phase == "Running"
            && !pod.is_ready()
            && ![KRUISE_POD_READY, IN_PLACE_UPDATE_READY].into_iter().any(is_shut)
            && unavailable_label(pod).is_none()
            && !is_starting(pod)
            && self.inconsistency(pod).is_none()
    }

    /// Why it can't be said that its containers run what the spec says.
    fn inconsistency(&self, pod: &ObservedPod) -> Option<String> {
        let containers = &pod.spec.containers;
        let by_digest = |container: &&Container| ImageReference::new(&container.image).digest().is_some();
        let other = |container: &&Container| !runs_digest(pod, container);
        if let Some(container) = containers.iter().filter(by_digest).find(other) {
            return Some(format!("container {} does not run its image yet", container.name));
        }
        if containers.iter().all(|container| by_digest(&container)) {
            return None;
        }
        let sidecars = outdated_sidecar(pod);
        let update = || {
            completed(pod, &self.rules).err().map(|problem| format!("its update is not completed: {problem}"))
        };
        sidecars.or_else(update)
    }
}

/// What updates by controllers leave on a Pod, as a number from 1 to 999. A Pod on which that has changed has been
/// updated, and its availability shows how far the update is.
pub(crate) fn trace(pod: &ObservedPod) -> i32 {
    let left = [IN_PLACE_UPDATE_STATE, SIDECARSET_IN_PLACE_UPDATE_STATE, SIDECARSET_REPLACED_CONTAINERS];
    let texts = left.into_iter().map(|key| pod.annotation(key).unwrap_or_default());
    let hash = fnv1_32(texts.flat_map(|text| text.bytes().chain([0])));
    i32::try_from(hash % 999 + 1).unwrap_or_default()
}

/// A container waits to be started with what it was given, for its image for instance, and not because it has failed
/// before.
fn is_starting(pod: &ObservedPod) -> bool {
    let ObservedPod { status, .. } = pod;
    let mut containers = status.init_container_statuses.iter().chain(&status.container_statuses);
    containers.any(|container| {
        container.state.waiting.as_ref().is_some_and(|waiting| &*waiting.reason != "CrashLoopBackOff")
    })
}

/// The label that takes the Pod out, if one does.
fn unavailable_label(pod: &ObservedPod) -> Option<&str> {
    pod.metadata.labels.iter().map(|(key, _)| key).find(|key| is_unavailable_label(key))
}

/// Whether a label takes its Pod out.
pub(crate) fn is_unavailable_label(key: &str) -> bool {
    key.starts_with(UNAVAILABLE_POD_PREFIX)
}

fn runs_digest(pod: &ObservedPod, container: &Container) -> bool {
    let wanted = ImageReference::new(&container.image);
    let status = pod.container_status(&container.name);
    status.is_some_and(|status| {
        let running = status.image_id.split_once("://").map_or(&*status.image_id, |(_, image_id)| image_id);
        let running = ImageReference::new(running);
        running.digest() == wanted.digest() && running.same_repository(&wanted)
    })
}

/// What the update of a SidecarSet left on the Pod, as far as it is read here.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SidecarUpdate {
    last_container_statuses: Option<BTreeMap<String, LastStatus>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LastStatus {
    #[serde(rename = "imageID")]
    image_id: Option<String>,
}

/// A sidecar whose image was changed and that still runs the old one.
fn outdated_sidecar(pod: &ObservedPod) -> Option<String> {
    let sets: BTreeSet<&str> = pod.annotation(SIDECARSET_INJECTED_LIST)?.split(',').collect();
    let text = pod.annotation(SIDECARSET_IN_PLACE_UPDATE_STATE)?;
    let injected = |container: &&Container| {
        container.variable(IS_INJECTED).is_some_and(|variable| &*variable.value == "true")
    };
    let sidecars: Vec<&Container> = pod.spec.containers.iter().filter(injected).collect();
    if sidecars.is_empty() {
        return None;
    }
    let Ok(updates) = serde_json::from_str::<BTreeMap<String, SidecarUpdate>>(text) else {
        return Some(format!("annotation {SIDECARSET_IN_PLACE_UPDATE_STATE} can't be read"));
    };
    let updates = updates.into_iter().filter(|(set, _)| sets.contains(set.as_str()));
    let before: BTreeMap<String, LastStatus> =
        updates.filter_map(|(_, update)| update.last_container_statuses).flatten().collect();
    let outdated = sidecars.into_iter().find(|container| {
        let before = before.get(&*container.name).and_then(|before| before.image_id.as_deref());
        before.zip(pod.container_status(&container.name)).is_some_and(|(before, status)| {
            before == &*status.image_id && !same_image(&container.image, &status.image)
        })
    })?;
    Some(format!("sidecar {} does not run its image yet", outdated.name))
}
