//! The status of a StatefulSet (docs/behaviour/statefulset.md#status).

use std::collections::BTreeMap;

use api::kinds::statefulset::{Status, VolumeClaimStatus};

use super::working::{Numbered, Working};
use crate::workload::status::{StatusPlan, selector_text};

/// Counts Pods and claims. `leaving_current` Pods of the current revision are on their way to another one.
pub(super) fn observe(working: &Working<'_>, leaving_current: i32) -> StatusPlan<Status> {
    let set = working.set();
    let count = |counts: &dyn Fn(&Numbered<'_>) -> bool| {
        i32::try_from(working.pods().filter(|pod| counts(pod)).count()).unwrap_or(i32::MAX)
    };
    let created = |pod: &Numbered<'_>| !pod.pod().status.phase.is_empty();
    let ready = |pod: &Numbered<'_>| &*pod.pod().status.phase == "Running" && pod.pod().is_ready();
    let is_at = |pod: &Numbered<'_>, revision: &str| working.rules.labels.is_at(pod.pod(), revision);
    let updated = |pod: &Numbered<'_>| pod.member.is_updated;
    let stays = |pod: &Numbered<'_>| created(pod) && !pod.is_terminating();
    let (current, update) = (working.current.name(), working.update.name());
    let at_current = count(&|pod| stays(pod) && is_at(pod, current));
    let mut new = Status {
        observed_generation: set.metadata.generation,
        replicas: count(&created),
        ready_replicas: count(&ready),
        available_replicas: count(&|pod| pod.member.is_available),
        current_replicas: at_current.saturating_sub(leaving_current).max(0),
        updated_replicas: count(&|pod| stays(pod) && updated(pod)),
        updated_ready_replicas: Some(count(&|pod| ready(pod) && updated(pod))),
        updated_available_replicas: Some(count(&|pod| pod.member.is_available && updated(pod))),
        current_revision: current.to_owned(),
        update_revision: update.to_owned(),
        collision_count: Some(working.snapshot.collisions(set.status.collision_count)),
        label_selector: selector_text(&set.spec.selector),
        volume_claims: volume_claims(working),
        conditions: set.status.conditions.clone(),
    };
    let wanted = i32::try_from(working.settings.replicas).unwrap_or(i32::MAX);
    let finished = !working.settings.on_delete
        && [new.updated_replicas, new.ready_replicas, new.replicas].iter().all(|count| *count == wanted);
    if finished {
        new.current_revision = update.to_owned();
        new.current_replicas = new.updated_replicas;
    }
    StatusPlan::new(set, new, working.now)
}

/// How many claims of each template are as large as that asks for.
fn volume_claims(working: &Working<'_>) -> Vec<VolumeClaimStatus> {
    let is_ending = working.set().metadata.deletion_timestamp.is_some();
    let slots = working.slots.iter().map(|slot| slot.ordinal);
    let condemned = working.condemned.iter().filter(|_| is_ending).map(|pod| pod.ordinal);
    let mut counts: BTreeMap<&str, (i32, i32)> = BTreeMap::new();
    for ordinal in slots.chain(condemned) {
        for (template, claim) in working.claims.of_ordinal(ordinal) {
            let fit = template.fit(claim);
            let (compatible, ready) = counts.entry(&template.name).or_default();
            *compatible += i32::from(fit.compatible);
            *ready += i32::from(fit.compatible && fit.ready);
        }
    }
    let entry = |name: &str| {
        let (compatible, ready) = counts.get(name).copied().unwrap_or_default();
        VolumeClaimStatus {
            volume_claim_name: name.to_owned(),
            compatible_replicas: compatible,
            compatible_ready_replicas: ready,
        }
    };
    working.claims.templates().iter().map(|template| entry(&template.name)).collect()
}
