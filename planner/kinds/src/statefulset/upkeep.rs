//! What keeps Pods and claims what they are, whatever is scaled or updated: whose they are, how they are labelled,
//! which claims they have (docs/behaviour/statefulset.md#identity).

use api::Raw;
use api::kinds::statefulset::StatefulSet;

use super::identity;
use super::working::{Numbered, Working};
use crate::workload::action::{Action, WriteReason};
use crate::workload::membership::Membership;
use crate::workload::recipe::{claim_names, claim_volumes};

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

/// Claim templates, and their names.
type NamedTemplates = (Option<Raw>, Vec<String>);

/// The claim templates of the revisions.
struct Templates<'a> {
    working: &'a Working<'a>,
    of_revisions: Vec<(&'a str, NamedTemplates)>,
    present: NamedTemplates,
}

impl<'a> Templates<'a> {
    fn of(working: &'a Working<'a>) -> Self {
        let named = |claims: Option<Raw>| {
            let names = claim_names(claims.as_ref());
            (claims, names)
        };
        let cookbook = working.cookbook();
        let known = working
            .history
            .iter()
            .filter_map(|revision| Some((revision.name(), named(Some(cookbook.claims_of(revision)?)))));
        let present = named(working.set().spec.volume_claim_templates.clone());
        Self { working, of_revisions: known.collect(), present }
    }

    /// Those of the revision of this Pod; the present ones where nothing decides.
    fn of_pod(&self, pod: &Numbered<'_>) -> &NamedTemplates {
        let labels = self.working.rules.labels;
        let known = self.of_revisions.iter().find(|(revision, _)| labels.is_at(pod.pod(), revision));
        known.map_or(&self.present, |(_, templates)| templates)
    }
}

/// Labels, claims and their owners.
pub(super) fn identity(working: &Working<'_>) -> Upkeep {
    let mut upkeep = Upkeep::default();
    let templates = Templates::of(working);
    for pod in working.placed().filter(|pod| !pod.is_terminating()) {
        if &*pod.pod().status.phase == "Pending" {
            create_claims(working, pod, templates.of_pod(pod), &mut upkeep);
        }
        correct_owners(working, pod, false, &mut upkeep);
        let repair = identity::repair(pod.pod(), pod.ordinal, working.snapshot.gates);
        if let Some(write) = repair.filter(|_| !pod.has_ended()) {
            upkeep.actions.push(Action::write_pod(pod.pod(), vec![write], WriteReason::KeepIdentity));
        }
        let has = |volume: &str| claim_volumes(pod.pod()).any(|known| known == volume);
        let (_, names) = templates.of_pod(pod);
        if let Some(volume) = names.iter().find(|name| !has(name)) {
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
fn create_claims(
    working: &Working<'_>,
    pod: &Numbered<'_>,
    (templates, _): &(Option<Raw>, Vec<String>),
    upkeep: &mut Upkeep,
) {
    let claims = match identity::claims(working.set(), templates.as_ref(), pod.ordinal) {
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
