//! The step of the Pod mutation: which subset a new Pod comes into
//! (docs/behaviour/workloadspread.md#choice-of-a-subset).
//!
//! The step knows the WorkloadSpreads and nothing else. Where it needs more, it says so, the webhook finds it out,
//! and the review is decided again with it:
//!
//! ```text
//!   decide --> Needs(Owner)  --read-->   Findings.owners --> decide again
//!          --> Needs(Place)  --claim-->  Findings.place  --> decide again
//!          --> Member        the Pod comes into a subset     Nothing   it stays as it is
//!          --> Refused       it needs a subset, and none takes it
//! ```

use std::borrow::Cow;

use api::annotations::REQUIRE_SUBSET;
use api::features::Feature;
use api::kinds::workloadspread::Subset;
use api::meta::OwnerReference;

use super::custom;
use super::explanation::Reason;
use super::injection::{self, InjectionError};
use super::matching::{Found, Owners, find};
use super::ordinal;
use super::places::{Claim, PodEvent};
use super::record::Matched;
use super::spread::Spread;
use super::spreads::Spreads;
use pod::review::draft::Controller;
use pod::review::{Draft, Reasons, ReviewContext};
use values::json_patch::Patch;
use values::selector::Labels;
use values::verdict::Denial;

/// What has to be found out before the step can be decided.
#[derive(Clone, Debug, PartialEq)]
pub enum Need {
    /// Who manages this object of the Pod's namespace.
    Owner(OwnerReference),
    /// A place in a subset.
    Place(Wanted),
}

/// A place that a Pod wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The WorkloadSpread that gives it.
    pub spread: Spread,
    version: String,
    id: String,
}

impl Wanted {
    /// The claim on the place. `replicas` are those of the workload; they matter where a subset takes a share.
    pub fn claim(&self, replicas: Option<i32>) -> Claim {
        let event = PodEvent::Creation { id: self.id.clone() };
        Claim { version: self.version.clone(), replicas, event }
    }
}

/// What was found out.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Owners that were read.
    pub owners: Owners,
    /// The place: the WorkloadSpread that was asked, and the subset if one takes the Pod.
    pub place: Option<(String, Option<String>)>,
}

/// What becomes of a Pod.
#[derive(Debug)]
pub enum Decision<'s> {
    /// It stays as it is.
    Nothing,
    /// Something has to be found out first.
    Needs(Need),
    /// It comes into a subset.
    Member(Member<'s>),
    /// The Pod is not let through.
    Refused(Denial),
}

/// A Pod that comes into a subset.
#[derive(Debug)]
pub struct Member<'s> {
    subset: &'s Subset,
    matched: Matched,
}

impl Member<'_> {
    /// The Pod as a member of its subset, and the operations that make it one.
    pub fn inject(&self, pod: &str) -> Result<(String, Patch), InjectionError> {
        injection::inject(pod, self.subset, &self.matched)
    }
}

/// Decides the step for a Pod that is to be created.
pub fn decide<'s>(
    draft: &Draft<'_>,
    context: &ReviewContext<'_>,
    spreads: &'s Spreads,
    findings: &Findings,
    reasons: &mut Reasons<Reason>,
) -> Decision<'s> {
    let of_namespace = spreads.of(&draft.namespace);
    let Some(controller) = draft.controller.as_ref().filter(|_| !of_namespace.is_empty()) else {
        return Decision::Nothing;
    };
    // A list that can't be read leaves Pods of other kinds alone.
    let custom = spreads.custom().unwrap_or(&custom::NONE);
    let labels = draft.labels.as_slice();
    if !context.gates.enabled(Feature::WorkloadSpread) {
        return Decision::Nothing;
    }
    let found = match find(&reference(controller), labels, of_namespace, custom, &findings.owners) {
        Found::Nothing => None,
        Found::NeedsOwner(owner) => return Decision::Needs(Need::Owner(owner)),
        Found::Spread(spread) => Some(spread),
    };
    if reasons.are_wanted() {
        for other in
            of_namespace.iter().filter(|other| found.is_none_or(|found| found.name() != other.name()))
        {
            reasons.note(other.name(), || Reason::of_other(other, labels));
        }
    }
    let Some(spread) = found else { return Decision::Nothing };
    let mut uid = String::new();
    let subset = if let Some(only) = spread.only_subset() {
        Some(only)
    } else if spread.goes_by_ordinal() {
        ordinal::subset_of(spread, &draft.name)
    } else {
        if draft.name.is_empty() {
            uid = context.moment.random().uuid();
        }
        match &findings.place {
            Some((name, place)) if name == spread.name() => {
                place.as_ref().and_then(|name| spread.subset(name))
            }
            _ => {
                return Decision::Needs(Need::Place(wanted(
                    spread, spreads, draft, controller, &uid, labels,
                )));
            }
        }
    };
    match subset {
        Some(subset) => {
            reasons.note(spread.name(), || Reason::Subset(subset.name.clone()));
            let matched = Matched { name: spread.name().to_owned(), subset: subset.name.clone(), uid };
            Decision::Member(Member { subset, matched })
        }
        None if spread.requires_subset() => {
            reasons.note(spread.name(), || Reason::Required);
            let message = format!(
                "no subset of WorkloadSpread {} takes the Pod, which its annotation {REQUIRE_SUBSET} asks for",
                spread.name()
            );
            Decision::Refused(Denial { code: 403, message })
        }
        None => {
            reasons.note(spread.name(), || Reason::NoPlace);
            Decision::Nothing
        }
    }
}

fn wanted(
    spread: &Spread,
    spreads: &Spreads,
    draft: &Draft<'_>,
    controller: &Controller<'_>,
    uid: &str,
    labels: &(impl Labels + ?Sized),
) -> Wanted {
    let id = if uid.is_empty() { draft.name.to_string() } else { uid.to_owned() };
    let version = spreads.versioned().version(&controller.kind, labels).to_owned();
    Wanted { spread: spread.clone(), version, id }
}

fn reference(controller: &Controller<'_>) -> OwnerReference {
    let Controller { group, version, kind, name, uid } = controller;
    let text = |text: &Cow<'_, str>| text.clone().into_owned();
    let api_version = if group.is_empty() { text(version) } else { format!("{group}/{version}") };
    OwnerReference {
        api_version,
        kind: text(kind),
        name: text(name),
        uid: text(uid),
        controller: Some(true),
        ..OwnerReference::default()
    }
}
