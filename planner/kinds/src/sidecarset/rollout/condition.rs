//! Condition `SidecarSetUpgradable` of a Pod: for each of its SidecarSets, whether it can be updated in place
//! (docs/behaviour/sidecarset.md#condition-sidecarsetupgradable).

use std::collections::BTreeMap;

use api::conditions::SIDECARSET_UPGRADABLE;
use jiff::Timestamp;

use super::set::RolloutSet;
use pod::observed::ObservedPod;
use pod::write::{self, PodWrite, Target};

/// What the condition says of a SidecarSet.
pub(super) fn of(pod: &ObservedPod, set: &str) -> Option<bool> {
    said(pod).get(set).copied()
}

fn said(pod: &ObservedPod) -> BTreeMap<String, bool> {
    let message = pod.condition(SIDECARSET_UPGRADABLE).map_or("", |condition| &condition.message);
    serde_json::from_str(message).unwrap_or_default()
}

/// The write that makes the condition say so; `None` where it does already.
pub(super) fn write(
    set: &RolloutSet,
    pod: &ObservedPod,
    upgradable: bool,
    now: Timestamp,
) -> Option<PodWrite> {
    let mut said = said(pod);
    if said.insert(set.name.to_string(), upgradable) == Some(upgradable) {
        return None;
    }
    let (status, reason) = if said.values().all(|upgradable| *upgradable) {
        ("True", "AllSidecarsetUpgradable")
    } else {
        ("False", "UpdateImmutableField")
    };
    // A map of texts and truth values: writing it as JSON cannot fail.
    let message = serde_json::to_string(&said).unwrap_or_default();
    let mut condition = write::condition(SIDECARSET_UPGRADABLE, status, reason, &message, now);
    let known = pod.condition(SIDECARSET_UPGRADABLE).filter(|known| &*known.status == status);
    if let Some(since) = known.and_then(|known| known.last_transition_time) {
        condition.last_transition_time = Some(since);
    }
    let mut write = PodWrite::to(Target::Status);
    write.conditions.push(condition);
    Some(write)
}
