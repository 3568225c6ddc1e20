//! What keeps Pods and claims what they are, whatever is scaled or updated: whose they are, how they are labelled,
//! which claims they have (docs/behaviour/statefulset.md#identity).

use api::kinds::statefulset::{API_VERSION, KIND};
use api::meta::OwnerReference;
use serde_json::{Map, json};

use super::identity;
use super::working::{Numbered, Working};
use crate::pod::write::{OwnerChange, PodWrite};
use crate::workload::action::{Action, CONTROLLER_REVISION, WriteReason};
use crate::workload::metadata;
use crate::workload::revision::StoredRevision;
use crate::workload::seen::Seen;

/// What the step comes to.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    pub(super) actions: Vec<Action>,
    pub(super) problem: Option<String>,
}

/// Pods that go and Pods that come; revisions that come.
pub(super) fn membership(working: &Working<'_>) -> Vec<Action> {
    let metadata = &working.set().metadata;
    let write = |pod, write: PodWrite, reason| Action::WritePod {
        pod: Seen::pod(pod),
        writes: vec![write],
        reason,
        revision: String::new(),
    };
    let release = working.strangers.iter().map(|pod| {
        let removed =
            PodWrite { owners: vec![OwnerChange::Remove(metadata.uid.clone())], ..PodWrite::default() };
        write(pod, removed, WriteReason::Release)
    });
    let owner = OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let adopt = working.adoptable.iter().map(|pod| {
        let added =
            PodWrite { owners: vec![OwnerChange::Add(Box::new(owner.clone()))], ..PodWrite::default() };
        write(pod, added, WriteReason::Adopt)
    });
    let orphans = working.history.iter().filter(|revision| revision.metadata.controller().is_none());
    let adopt_revisions = orphans.map(|revision| adopt_revision(revision, &owner));
    release.chain(adopt).chain(adopt_revisions).collect()
}

fn adopt_revision(revision: &StoredRevision, owner: &OwnerReference) -> Action {
    let known = &revision.metadata;
    let owners: Vec<&OwnerReference> = known.owner_references.iter().chain([owner]).collect();
    let patch = metadata::patch(known, Map::from_iter([("ownerReferences".to_owned(), json!(owners))]));
    Action::AdoptChild { kind: CONTROLLER_REVISION, child: Seen::object(known), patch }
}

/// Labels, claims and their owners.
pub(super) fn identity(working: &Working<'_>) -> Upkeep {
    let mut upkeep = Upkeep::default();
    for pod in working.placed().filter(|pod| !pod.is_terminating()) {
        if &*pod.pod().status.phase == "Pending" {
            create_claims(working, pod, &mut upkeep);
        }
        correct_owners(working, pod, false, &mut upkeep);
        let repair = identity::repair(pod.pod(), pod.ordinal, working.snapshot.gates);
        if let Some(write) = repair.filter(|_| !pod.has_ended()) {
            upkeep.actions.push(Action::WritePod {
                pod: Seen::pod(pod.pod()),
                writes: vec![write],
                reason: WriteReason::KeepIdentity,
                revision: String::new(),
            });
        }
        if let Some(volume) = working.claims.lacks_volume(pod.pod(), pod.ordinal) {
            let name = pod.name();
            upkeep.problem.get_or_insert(format!(
                "pod {name} has no volume of claim template {volume:?}: delete it, and the new one will have it"
            ));
        }
    }
    // Those that end already as well: the policy may change as long as they are there.
    for pod in &working.condemned {
        correct_owners(working, pod, true, &mut upkeep);
    }
    upkeep
}

fn correct_owners(working: &Working<'_>, pod: &Numbered<'_>, is_out: bool, upkeep: &mut Upkeep) {
    if let Some(retention) = working.settings.retention {
        let numbered = (&**pod.pod(), pod.ordinal);
        upkeep.actions.extend(working.claims.correct_owners(numbered, is_out, retention));
    }
}

/// The claims that a Pod lacks which has not started.
fn create_claims(working: &Working<'_>, pod: &Numbered<'_>, upkeep: &mut Upkeep) {
    let claims = match identity::claims(working.set(), pod.ordinal) {
        Ok(claims) => claims,
        Err(error) => {
            upkeep.problem.get_or_insert(error.to_string());
            return;
        }
    };
    for claim in claims {
        match working.claims.named(&claim.name) {
            None => upkeep.actions.push(Action::CreateClaim { pod: pod.name().to_owned(), claim }),
            Some(known) if known.metadata.deletion_timestamp.is_some() => {
                upkeep.problem.get_or_insert(format!("pvc {} is to be deleted", claim.name));
            }
            Some(_) => {}
        }
    }
}
