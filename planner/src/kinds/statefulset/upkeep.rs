//! What keeps Pods and claims what they are, whatever is scaled or updated: whose they are, how they are labelled,
//! which claims they have (docs/behaviour/statefulset.md#identity).

use api::kinds::statefulset::StatefulSet;

use super::identity;
use super::working::{Numbered, Working};
use crate::workload::action::{Action, WriteReason};
use crate::workload::membership::Membership;
use crate::workload::seen::Seen;

/// What the step comes to.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    pub(super) actions: Vec<Action>,
    pub(super) problem: Option<String>,
}

/// Pods that go and Pods that come; revisions that come.
pub(super) fn membership(working: &Working<'_>) -> Vec<Action> {
    let membership = Membership::of::<StatefulSet>(&working.set().metadata);
    let release = working.strangers.iter().map(|pod| membership.release(pod));
    let adopt = working.adoptable.iter().map(|pod| membership.adopt(pod));
    release.chain(adopt).chain(membership.adopt_revisions(&working.history)).collect()
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
