//! A newer update of a Pod before the last one has come to its end: nothing of the older one may be lost. What
//! both change gets the newer value; what only the older one changes still has to be changed, or to be
//! waited for.

use std::collections::BTreeMap;

use super::completion;
use super::rules::Rules;
use super::spec::{ReferencedMetadata, UpdateSpec};
use super::state::State;
use crate::observed::{ObservedPod, Pairs, Resources};

/// Adds to `spec` and `state`, which begin a newer update, what the last one has not come to.
pub(super) fn take_over(pod: &ObservedPod, rules: &Rules, spec: &mut UpdateSpec, state: &mut State) {
    // One that can't be read is overwritten: nobody would ever know how far it came.
    let Ok(Some(mut last)) = State::of(pod) else { return };
    if !last.has_next() && completion::batch_completed(pod, &last, rules).is_ok() {
        return;
    }
    state.update_images |= last.update_images;
    state.update_resources |= last.update_resources;
    state.update_env_from_metadata |= last.update_env_from_metadata;
    // An image that changes again is compared with what runs now.
    let is_kept = |name: &String| !spec.container_images.contains_key(name);
    let counts = last.recorded_restarts(pod);
    state.restart_counts = counts.into_iter().filter(|(name, _)| is_kept(name)).collect();
    let statuses = std::mem::take(&mut last.last_container_statuses).into_iter();
    state.last_container_statuses = statuses.filter(|(name, _)| is_kept(name)).collect();
    let check = last.pre_check_before_next.take();
    let earlier = check.map_or_else(
        || state.last_container_statuses.keys().cloned().collect(),
        |check| check.containers_required_ready,
    );
    let waiting = last.take_next();
    for (name, image) in waiting.container_images {
        spec.container_images.entry(name).or_insert(image);
    }
    for (name, resources) in waiting.container_resources {
        let newer = spec.container_resources.entry(name).or_default();
        *newer = Resources {
            limits: merged(&resources.limits, &newer.limits),
            requests: merged(&resources.requests, &newer.requests),
        };
    }
    let patch = spec.metadata_patch.clone().unwrap_or_default();
    for (name, metadata) in waiting.container_ref_metadata {
        let newer = spec.container_ref_metadata.entry(name).or_default();
        add_missing(&mut newer.labels, metadata.labels, &patch.labels);
        add_missing(&mut newer.annotations, metadata.annotations, &patch.annotations);
    }
    spec.container_ref_metadata.retain(|_, metadata| *metadata != ReferencedMetadata::default());
    // Those of the batch in progress continue before those of lower priority, though nothing more changes in them.
    for name in earlier {
        spec.container_ref_metadata.entry(name).or_default();
    }
    spec.update_env_from_metadata |= state.update_env_from_metadata;
}

/// Adds to `newer` what neither it nor `patched` says otherwise.
fn add_missing(
    newer: &mut BTreeMap<String, String>,
    older: BTreeMap<String, String>,
    patched: &BTreeMap<String, Option<String>>,
) {
    for (key, value) in older.into_iter().filter(|(key, _)| !patched.contains_key(key)) {
        newer.entry(key).or_insert(value);
    }
}

/// Both, where `newer` counts first.
fn merged(older: &Pairs, newer: &Pairs) -> Pairs {
    older.iter().chain(newer.iter()).collect()
}
