//! Writes to Pods as data: a planner says what to change, `cluster` sends it, a simulation applies it.
//!
//! A write is a strategic merge patch of single fields. It carries the Pod's UID and the version on which
//! it was planned, so that it never hits another Pod of that name nor a state that nobody observed. Lists are
//! written in the order of the Pod's own: Kubernetes gives elements the order that a patch names them in, and
//! refuses a Pod whose containers change places (docs/behaviour/in-place-update.md#order-of-containers).

use std::collections::BTreeMap;

use api::meta::OwnerReference;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use crate::observed::{ConditionText, Container, ObservedPod, Pairs, PodCondition, Resources};
use values::canonical::table;
use values::json_patch::{Patch as JsonPatch, Pointer, string};
use values::moment::rfc3339;
use values::strategic_merge;

#[cfg(test)]
mod tests;

/// The endpoint of the Pod that a write is sent to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The Pod itself.
    #[default]
    Pod,
    /// `pods/status`, where labels, annotations and conditions can be written together.
    Status,
    /// `pods/resize`, where Kubernetes takes changes of resources.
    Resize,
}

/// A change of the owners of a Pod.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnerChange {
    /// The owner with this UID is removed.
    Remove(String),
    /// This owner is added.
    Add(Box<OwnerReference>),
}

/// One write to one Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodWrite {
    /// The endpoint it is sent to.
    pub target: Target,
    /// Labels to set, or to remove where there is no value.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations to set, or to remove where there is no value.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Finalizers to add.
    pub finalizers: Vec<String>,
    /// Finalizers to remove.
    pub removed_finalizers: Vec<String>,
    /// Owners to add and to remove.
    pub owners: Vec<OwnerChange>,
    /// Changes of containers and native sidecars.
    pub containers: Vec<ContainerWrite>,
    /// Conditions to set; each replaces the one of its type.
    pub conditions: Vec<PodCondition>,
    /// When conditions were probed, by their types.
    pub probe_times: BTreeMap<String, Timestamp>,
    /// `status.phase` to set.
    pub phase: Option<String>,
}

/// What changes in one container or native sidecar.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerWrite {
    /// The container's name.
    pub name: String,
    /// Its new image.
    pub image: Option<String>,
    /// Requests and limits to set; others stay.
    pub resources: Resources,
}

impl PodWrite {
    /// A write to `target` that changes nothing yet.
    pub fn to(target: Target) -> Self {
        Self { target, ..Self::default() }
    }

    /// True if nothing would change.
    pub fn is_empty(&self) -> bool {
        *self == Self::to(self.target)
    }

    /// Sets a label.
    pub fn set_label(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.labels.insert(key.into(), Some(value.into()));
    }

    /// Sets an annotation.
    pub fn set_annotation(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.annotations.insert(key.into(), Some(value.into()));
    }

    /// Removes an annotation.
    pub fn remove_annotation(&mut self, key: impl Into<String>) {
        self.annotations.insert(key.into(), None);
    }

    /// The changes of the container `name`.
    pub fn container(&mut self, name: &str) -> &mut ContainerWrite {
        let mut write = ContainerWrite { name: name.to_owned(), ..ContainerWrite::default() };
        if let Some(position) = self.containers.iter().position(|container| container.name == name) {
            write = self.containers.remove(position);
        }
        self.containers.push_mut(write)
    }

    /// The strategic merge patch, which holds for this state of `pod` only.
    pub fn to_json(&self, pod: &ObservedPod) -> String {
        let (spec, status) = (&pod.spec, &pod.status);
        let (sidecars, containers): (Vec<_>, Vec<_>) = self
            .containers
            .iter()
            .partition(|change| position(&spec.init_containers, &change.name).is_some());
        let patches = |changes, present: &[Container]| {
            let ordered = in_order(changes, |change: &ContainerWrite| position(present, &change.name));
            ordered.into_iter().map(ContainerPatch::from).collect()
        };
        let conditions = in_order(self.conditions.iter().collect(), |condition| {
            status.conditions.iter().position(|known| known.kind == condition.kind)
        });
        let patch = Patch {
            metadata: Metadata {
                uid: &pod.metadata.uid,
                resource_version: &pod.metadata.resource_version,
                labels: &self.labels,
                annotations: &self.annotations,
                finalizers: &self.finalizers,
                removed_finalizers: &self.removed_finalizers,
                owner_references: self.owners.iter().map(OwnerPatch::from).collect(),
            },
            spec: (!self.containers.is_empty()).then(|| Spec {
                init_containers: patches(sidecars, &spec.init_containers),
                containers: patches(containers, &spec.containers),
            }),
            status: (!conditions.is_empty() || self.phase.is_some()).then(|| Status {
                phase: self.phase.as_deref(),
                conditions: conditions.into_iter().map(|condition| self.condition_patch(condition)).collect(),
            }),
        };
        // The types hold texts in maps with text keys only: writing them as JSON cannot fail.
        serde_json::to_string(&patch).unwrap_or_default()
    }

    /// The same change as a JSON patch (RFC 6902) that holds for any state of `pod` in which the labels, annotations and
    /// images that it replaces are the ones known here: the kubelet may write the status meanwhile. `None` where something
    /// else changes, or nothing is replaced.
    pub fn to_tested_json(&self, pod: &ObservedPod) -> Option<String> {
        let rest = Self {
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            containers: Vec::new(),
            ..self.clone()
        };
        let resized = |change: &ContainerWrite| change.resources != Resources::default();
        if !rest.is_empty() || self.containers.iter().any(resized) {
            return None;
        }
        let metadata = || Pointer::root().key("metadata");
        let (mut tests, mut changes) = (JsonPatch::default(), JsonPatch::default());
        let maps = [
            ("labels", &pod.metadata.labels, &self.labels),
            ("annotations", &pod.metadata.annotations, &self.annotations),
        ];
        for (map, present, changed) in maps {
            if present.is_empty() && !changed.is_empty() {
                return None;
            }
            for (key, value) in changed {
                let path = || metadata().key(map).key(key);
                if let Some(known) = present.get(key) {
                    tests.test(path(), string(known));
                }
                match value {
                    Some(value) => changes.add(path(), string(value)),
                    None if present.get(key).is_some() => changes.remove(path()),
                    None => {}
                }
            }
        }
        for ContainerWrite { name, image, .. } in &self.containers {
            let Some(image) = image else { continue };
            let place = |list, present| position(present, name).map(|index| (list, index));
            let (list, index) = place("containers", &pod.spec.containers)
                .or_else(|| place("initContainers", &pod.spec.init_containers))?;
            let path = || Pointer::root().key("spec").key(list).index(index);
            tests.test(path().key("name"), string(name));
            tests.test(path().key("image"), string(&pod.container(name)?.image));
            changes.replace(path().key("image"), string(image));
        }
        if tests.is_empty() {
            return None;
        }
        tests.test(metadata().key("uid"), string(&pod.metadata.uid));
        tests.extend(changes);
        Some(tests.to_json())
    }

    /// The patch leaves the containers of `pod` where they are, by Kubernetes' rules; the API server takes no other.
    pub fn keeps_places(&self, pod: &ObservedPod) -> bool {
        if self.containers.is_empty() {
            return true;
        }
        let names = |containers: &[Container]| -> Vec<_> {
            containers.iter().map(|container| json!({"name": container.name})).collect()
        };
        let places = |pod: &ObservedPod| {
            json!({"spec": {"containers": names(&pod.spec.containers),
            "initContainers": names(&pod.spec.init_containers)}})
        };
        let present = places(pod);
        let merged = strategic_merge::merge(&present.to_string(), &self.to_json(pod), &table::POD);
        let after = merged.ok().and_then(|merged| ObservedPod::read(&merged).ok());
        after.is_some_and(|after| places(&after) == present)
    }

    /// Leaves out the labels and annotations that the Pod has, and those to remove that it has not.
    pub fn drop_what_holds(&mut self, pod: &ObservedPod) {
        self.labels.retain(|key, value| pod.label(key) != value.as_deref());
        self.annotations.retain(|key, value| pod.annotation(key) != value.as_deref());
    }

    fn condition_patch<'a>(&self, condition: &'a PodCondition) -> ConditionPatch<'a> {
        let text = |text: &'a str| (!text.is_empty()).then_some(text);
        ConditionPatch {
            kind: &condition.kind,
            status: &condition.status,
            reason: text(&condition.reason),
            message: text(&condition.message),
            last_probe_time: self.probe_times.get(&*condition.kind).copied().map(rfc3339),
            last_transition_time: condition.since().map(rfc3339),
        }
    }

    /// Changes `pod` as the API server would, except for its resource version.
    pub fn apply(&self, pod: &mut ObservedPod) {
        pod.put_times_back();
        let metadata = &mut pod.metadata;
        metadata.labels = merged(&metadata.labels, &self.labels);
        metadata.annotations = merged(&metadata.annotations, &self.annotations);
        let mut finalizers = metadata.finalizers.to_vec();
        finalizers.retain(|known| !self.removed_finalizers.iter().any(|removed| **removed == **known));
        for added in &self.finalizers {
            if !finalizers.iter().any(|known| **known == **added) {
                finalizers.push(added.as_str().into());
            }
        }
        metadata.finalizers = finalizers.into();
        for change in &self.owners {
            let owners = metadata.owner_references.iter();
            metadata.owner_references = match change {
                OwnerChange::Remove(uid) => owners.filter(|owner| owner.uid != *uid).cloned().collect(),
                OwnerChange::Add(added) => owners.chain([&**added]).cloned().collect(),
            };
        }
        for change in &self.containers {
            let ObservedPod { spec, .. } = &mut *pod;
            // Only the list that changes is copied.
            let index = position(&spec.init_containers, &change.name);
            let list = if index.is_some() { &mut spec.init_containers } else { &mut spec.containers };
            let index = index.or_else(|| position(list, &change.name));
            let Some(container) = index.and_then(|index| list.get_mut(index)) else { continue };
            if let Some(image) = &change.image {
                container.image = image.as_str().into();
            }
            let resources = &mut container.resources;
            resources.limits = overlaid(&resources.limits, &change.resources.limits);
            resources.requests = overlaid(&resources.requests, &change.resources.requests);
        }
        let mut conditions = std::mem::take(&mut pod.status.conditions).into_vec();
        for condition in &self.conditions {
            match conditions.iter_mut().find(|known| known.kind == condition.kind) {
                Some(known) => *known = condition.clone(),
                None => conditions.push(condition.clone()),
            }
        }
        pod.status.conditions = conditions.into();
        if let Some(phase) = &self.phase {
            pod.status.phase = phase.as_str().into();
        }
    }
}

/// Elements that the Pod has come first, in its order; new ones keep theirs.
fn in_order<T>(mut changes: Vec<&T>, position: impl Fn(&T) -> Option<usize>) -> Vec<&T> {
    changes.sort_by_key(|change| position(change).unwrap_or(usize::MAX));
    changes
}

fn position(containers: &[Container], name: &str) -> Option<usize> {
    containers.iter().position(|container| *container.name == *name)
}

fn merged(pairs: &Pairs, changes: &BTreeMap<String, Option<String>>) -> Pairs {
    let kept = pairs.iter().filter(|(key, _)| !changes.contains_key(*key));
    let set = changes.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_deref()?)));
    kept.chain(set).collect()
}

fn overlaid(pairs: &Pairs, over: &Pairs) -> Pairs {
    pairs.iter().chain(over.iter()).collect()
}

#[derive(Serialize)]
struct Patch<'a> {
    metadata: Metadata<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<Spec<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    uid: &'a str,
    resource_version: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: &'a BTreeMap<String, Option<String>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<String, Option<String>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    finalizers: &'a [String],
    #[serde(rename = "$deleteFromPrimitiveList/finalizers", skip_serializing_if = "<[String]>::is_empty")]
    removed_finalizers: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    owner_references: Vec<OwnerPatch<'a>>,
}

/// Lists of owners are merged by UID.
#[derive(Serialize)]
#[serde(untagged)]
enum OwnerPatch<'a> {
    Removed {
        #[serde(rename = "$patch")]
        patch: &'static str,
        uid: &'a str,
    },
    Added(&'a OwnerReference),
}

impl<'a> From<&'a OwnerChange> for OwnerPatch<'a> {
    fn from(change: &'a OwnerChange) -> Self {
        match change {
            OwnerChange::Remove(uid) => Self::Removed { patch: "delete", uid },
            OwnerChange::Add(owner) => Self::Added(owner),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<ContainerPatch<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<ContainerPatch<'a>>,
}

#[derive(Serialize)]
struct ContainerPatch<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<&'a Resources>,
}

impl<'a> From<&'a ContainerWrite> for ContainerPatch<'a> {
    fn from(write: &'a ContainerWrite) -> Self {
        let resources = &write.resources;
        Self {
            name: &write.name,
            image: write.image.as_deref(),
            resources: (!resources.limits.is_empty() || !resources.requests.is_empty()).then_some(resources),
        }
    }
}

#[derive(Serialize)]
struct Status<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<ConditionPatch<'a>>,
}

/// Every field is written, for one that is left out keeps what it was; only what is probed has a time of that.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConditionPatch<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    status: &'a str,
    reason: Option<&'a str>,
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_probe_time: Option<String>,
    last_transition_time: Option<String>,
}

/// A condition that changed at `now`.
pub fn condition(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> PodCondition {
    let text = ConditionText {
        kind: kind.into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
    };
    PodCondition { text: text.into(), last_transition_time: Some(now.into()) }
}
