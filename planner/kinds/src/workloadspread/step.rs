//! The step of the Pod mutation: which subset a new Pod comes into
//! (docs/behaviour/workloadspread.md#choice-of-a-subset).
//!
//! The webhook finds the placement out before the steps run, and the step carries it out:
//!
//! ```text
//!   choose --> Owner   who manages this object?  --read-->  choose again
//!          --> Slot    which subset has one?     --claim--> Placement
//!          --> Known   nothing has to be asked              Placement, or none
//!   place  --> the Pod comes into the subset, stays as it is, or is refused
//! ```

use std::borrow::Cow;

use api::annotations::REQUIRE_SUBSET;
use api::features::Feature;
use api::kinds::workloadspread::Subset;
use api::meta::OwnerReference;

use super::custom;
use super::explanation::Reason;
use super::injection::{self, InjectionError};
use super::matching::{Match, Owners, find};
use super::ordinal;
use super::record::Matched;
use super::slots::{Claim, PodEvent};
use super::spread::Spread;
use super::spreads::Spreads;
use pod::review::draft::Controller;
use pod::review::{Draft, Reasons, ReviewContext};
use values::json_patch::Patch;
use values::verdict::Denial;

/// Where a Pod is placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The WorkloadSpread that divides the Pod.
    spread: String,
    /// The subset that takes it, if any does.
    subset: Option<String>,
    /// What a Pod without a name is known by.
    uid: String,
}

/// What is known of a Pod's placement.
#[derive(Debug)]
pub enum Choice<'s> {
    /// The placement; `None` where no WorkloadSpread divides the Pod.
    Known(Option<Placement>),
    /// It hangs on who manages this object of the Pod's namespace.
    Owner(OwnerReference),
    /// It hangs on which subset has a slot.
    Slot(SlotRequest<'s>),
}

/// A slot that a Pod needs in some subset.
#[derive(Debug)]
pub struct SlotRequest<'s> {
    /// The WorkloadSpread that gives it.
    pub spread: &'s Spread,
    version: String,
    name: String,
    uid: String,
}

impl SlotRequest<'_> {
    /// The claim on the slot. `replicas` are those of the workload; they matter where a subset takes a share.
    pub fn claim(&self, replicas: Option<i32>) -> Claim {
        let id = if self.name.is_empty() { &self.uid } else { &self.name };
        Claim { version: self.version.clone(), replicas, event: PodEvent::Creation { id: id.clone() } }
    }

    /// The placement by the subset that gave one, if any did.
    pub fn placement(self, subset: Option<String>) -> Placement {
        Placement { spread: self.spread.name().to_owned(), subset, uid: self.uid }
    }
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

/// Whether a WorkloadSpread may divide the Pod.
pub fn concerns(draft: &Draft<'_>, context: &ReviewContext<'_>, spreads: &Spreads) -> bool {
    draft.controller.is_some()
        && !spreads.of(&draft.namespace).is_empty()
        && context.gates.enabled(Feature::WorkloadSpread)
}

/// Chooses the placement of a Pod that is to be created, as far as it is known with these owners.
pub fn choose<'s>(
    draft: &Draft<'_>,
    context: &ReviewContext<'_>,
    spreads: &'s Spreads,
    owners: &Owners,
) -> Choice<'s> {
    let Some(controller) = draft.controller.as_ref().filter(|_| concerns(draft, context, spreads)) else {
        return Choice::Known(None);
    };
    // A list that can't be read leaves Pods of other kinds alone.
    let custom = spreads.custom().unwrap_or(&custom::NONE);
    let labels = draft.labels.as_slice();
    let spread = match find(&reference(controller), labels, spreads.of(&draft.namespace), custom, owners) {
        Match::Nothing => return Choice::Known(None),
        Match::NeedsOwner(owner) => return Choice::Owner(owner),
        Match::Spread(spread) => spread,
    };
    let subset = if let Some(only) = spread.only_subset() {
        Some(only)
    } else if spread.goes_by_ordinal() {
        ordinal::subset_of(spread, &draft.name)
    } else {
        let version = spreads.versioned.version(&controller.kind, labels).to_owned();
        let uid = if draft.name.is_empty() { context.moment.random().uuid() } else { String::new() };
        return Choice::Slot(SlotRequest { spread, version, name: draft.name.to_string(), uid });
    };
    Choice::Known(Some(Placement {
        spread: spread.name().to_owned(),
        subset: subset.map(|subset| subset.name.clone()),
        uid: String::new(),
    }))
}

/// Carries out the placement; `None` where the Pod stays as it is.
///
/// # Errors
/// No subset takes the Pod, which needs one.
pub fn place<'s>(
    draft: &Draft<'_>,
    context: &ReviewContext<'_>,
    spreads: &'s Spreads,
    placement: Option<&Placement>,
    reasons: &mut Reasons<Reason>,
) -> Result<Option<Member<'s>>, Denial> {
    if reasons.are_wanted() && concerns(draft, context, spreads) {
        let is_other = |other: &&Spread| placement.is_none_or(|placement| placement.spread != other.name());
        for other in spreads.of(&draft.namespace).iter().filter(is_other) {
            reasons.note(other.name(), || Reason::of_other(other, draft.labels.as_slice()));
        }
    }
    let Some(Placement { spread, subset, uid }) = placement else { return Ok(None) };
    // One that is gone since divides nothing.
    let Some(spread) = spreads.get(&draft.namespace, spread) else { return Ok(None) };
    match subset.as_ref().and_then(|name| spread.subset(name)) {
        Some(subset) => {
            reasons.note(spread.name(), || Reason::Subset(subset.name.clone()));
            let matched =
                Matched { name: spread.name().to_owned(), subset: subset.name.clone(), uid: uid.clone() };
            Ok(Some(Member { subset, matched }))
        }
        None if spread.requires_subset() => {
            reasons.note(spread.name(), || Reason::Required);
            let name = spread.name();
            let message = format!(
                "no subset of WorkloadSpread {name} takes the Pod, which its annotation {REQUIRE_SUBSET} asks for"
            );
            Err(Denial::new(403, message))
        }
        None => {
            reasons.note(spread.name(), || Reason::NoSlot);
            Ok(None)
        }
    }
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
