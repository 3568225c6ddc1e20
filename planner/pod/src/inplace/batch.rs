//! Applying a change: which containers go first, and what waits for them
//! (docs/behaviour/in-place-update.md#batches-by-launch-priority and
//! docs/behaviour/in-place-update.md#resources).

use std::collections::{BTreeMap, BTreeSet};

use api::environment::CONTAINER_BARRIER;
use jiff::Timestamp;

use super::go_json::Seconds;
use super::rules::Rules;
use super::spec::{MetadataPatch, ReferencedMetadata, UpdateSpec};
use super::state::{Batch, LastStatus, PreCheck, State};
use crate::observed::{Container, ObservedPod, Pairs, Resources};
use crate::write::{PodWrite, Target};
use values::quantity::Quantity;

/// Writes the first batch of `spec` and puts the others into `state`. Returned is the write of resources,
/// where it has an endpoint of its own; it is sent before `write`.
///
/// Guarantees: a container that is not on the Pod, and an image that it has, is left out; no container waits
/// for one that is not changed; every other container of `spec` is either written or waits.
pub(super) fn apply(
    pod: &ObservedPod,
    mut spec: UpdateSpec,
    state: &mut State,
    rules: &Rules,
    now: Timestamp,
    write: &mut PodWrite,
) -> Option<PodWrite> {
    let _ = state.take_next();
    if !rules.vertical_scaling {
        spec.container_resources.clear();
    }
    if let Some(patch) = spec.metadata_patch.take() {
        patch_metadata(patch, write);
    }
    // One that is asked for already restarts nothing: it would be waited for in vain.
    spec.container_images
        .retain(|name, image| pod.container(name).is_some_and(|container| *container.image != **image));
    spec.container_resources.retain(|name, _| pod.container(name).is_some());
    spec.container_ref_metadata.retain(|name, _| pod.container(name).is_some());
    let batch = first_batch(pod, &spec);
    for (name, image) in spec.container_images {
        if !batch.contains(&name) {
            state.next_container_images.insert(name, image);
            continue;
        }
        if let Some(status) = pod.container_status(&name) {
            let last = LastStatus { image_id: status.image_id.as_ref().into() };
            state.last_container_statuses.entry(name.clone()).or_insert(last);
            state.restart_counts.entry(name.clone()).or_insert(status.restart_count);
        }
        write.container(&name).image = Some(image);
    }
    let mut resize = PodWrite::to(Target::Resize);
    for (name, resources) in spec.container_resources {
        if !batch.contains(&name) {
            state.next_container_resources.insert(name, resources);
            continue;
        }
        let Some(container) = pod.container(&name) else { continue };
        let changes = Resources {
            limits: differing(&container.resources.limits, &resources.limits),
            requests: differing(&container.resources.requests, &resources.requests),
        };
        if !(changes.limits.is_empty() && changes.requests.is_empty()) {
            let target = if rules.server.has_resize() { &mut resize } else { &mut *write };
            target.container(&name).resources = changes;
        }
    }
    for (name, metadata) in spec.container_ref_metadata {
        if !batch.contains(&name) {
            state.next_container_ref_metadata.insert(name, metadata);
            continue;
        }
        let some = |(key, value)| (key, Some(value));
        write.labels.extend(metadata.labels.into_iter().map(some));
        write.annotations.extend(metadata.annotations.into_iter().map(some));
    }
    let containers: Vec<String> = batch.into_iter().collect();
    let pre_check = PreCheck { containers_required_ready: containers.clone() };
    state.pre_check_before_next = state.has_next().then_some(pre_check);
    state.container_batches_record.push(Batch { timestamp: Seconds(now), containers });
    (!resize.is_empty()).then_some(resize)
}

fn patch_metadata(patch: MetadataPatch, write: &mut PodWrite) {
    let MetadataPatch { labels, annotations, finalizers, removed_finalizers } = patch;
    write.labels.extend(labels);
    write.annotations.extend(annotations);
    write.finalizers.extend(finalizers);
    write.removed_finalizers.extend(removed_finalizers);
}

/// The containers to change now: those without priority, those of the highest priority, and those that
/// would see a label or an annotation that one of them changes.
fn first_batch(pod: &ObservedPod, spec: &UpdateSpec) -> BTreeSet<String> {
    let affected: BTreeSet<&String> = spec
        .container_images
        .keys()
        .chain(spec.container_resources.keys())
        .chain(spec.container_ref_metadata.keys())
        .collect();
    // Native sidecars have no part in the order of launch.
    let container = |name: &str| pod.spec.containers.iter().find(|container| *container.name == *name);
    let priorities: BTreeMap<&String, Option<i64>> =
        affected.into_iter().map(|name| (name, container(name).and_then(priority))).collect();
    let highest = priorities.values().flatten().max().copied();
    let now = |priority: &Option<i64>| priority.is_none() || *priority == highest;
    let (mut batch, mut later): (BTreeSet<String>, BTreeSet<String>) = Default::default();
    for (name, priority) in priorities {
        if now(&priority) {
            batch.insert(name.clone())
        } else {
            later.insert(name.clone())
        };
    }
    let metadata = |name: &String| spec.container_ref_metadata.get(name);
    let mut stable = false;
    while !stable {
        let shares = |name: &String| {
            let mut others = batch.iter().filter_map(metadata);
            metadata(name).is_some_and(|one: &ReferencedMetadata| others.any(|other| one.overlaps(other)))
        };
        let (joining, rest): (BTreeSet<String>, _) = later.into_iter().partition(shares);
        later = rest;
        stable = joining.is_empty();
        batch.extend(joining);
    }
    batch
}

/// The launch priority that the Pod was created with. A variable that a user wrote by hand and that names
/// no priority counts as none.
fn priority(container: &Container) -> Option<i64> {
    let source = container.variable(CONTAINER_BARRIER)?.value_from.as_ref()?;
    source.config_map_key_ref.as_ref()?.key.strip_prefix("p_")?.parse().ok()
}

/// The wanted amounts of `cpu` and `memory` that the container does not have.
fn differing(present: &Pairs, wanted: &Pairs) -> Pairs {
    let amount = |text: Option<&str>| text.and_then(|text| text.parse::<Quantity>().ok());
    wanted
        .iter()
        .filter(|(name, _)| matches!(*name, "cpu" | "memory"))
        .filter(|(name, value)| amount(present.get(name)) != amount(Some(value)))
        .collect()
}
