//! The Pod mutating webhook, decided: the steps of `/mutate-pod` in their fixed order (spec 10 §1, §2).
//!
//! ```text
//!   review --read once--> Draft --step--> Draft --step--> ... --> edits + warnings
//!                           |               ^
//!                           +---- World ----+   (what is known of the cluster)
//! ```
//!
//! Invariants:
//! 1. Only operations are emitted: what no step edits stays as it came, byte for byte.
//! 2. A second review of the result gives the same Pod again.
//! 3. The answer depends on the Pod, the world, the gates and the moment, and on nothing else.

use api::features::FeatureGates;
use serde::Deserialize;

use crate::kinds::{podprobemarker, podunavailablebudget, sidecarset};
use crate::pod::{enhanced_liveness, launch_priority, readiness_gate};
use crate::server::world::{Namespace, World};
use crate::text::json::{self, Spanned};
use crate::text::moment::{Moment, Random};
use crate::text::verdict::{Denial, Verdict};

pub(crate) mod draft;
pub mod explanation;
pub(crate) mod lens;

pub(crate) use draft::Draft;
use draft::not_a_pod;
use explanation::Explanation;
use lens::{Object, PodLens};

/// The operation of an admission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `CREATE`
    Create,
    /// `UPDATE`
    Update,
    /// `DELETE`
    Delete,
    /// `CONNECT`
    Connect,
}

/// What the rules read of a Pod.
#[derive(Clone, Debug, Deserialize)]
pub struct Pod<'a>(#[serde(borrow)] PodText<'a>);

type PodText<'a> = Spanned<'a, Object<PodLens<'a>>>;

impl<'a> Pod<'a> {
    /// Reads a Pod that is a document by itself.
    ///
    /// # Errors
    /// A denial with code 400 for whatever is not a Pod.
    pub fn read(text: &'a str) -> Result<Self, Denial> {
        json::from_str(text).map_err(|error| not_a_pod(&error))
    }

    /// The JSON text that it was read from.
    pub fn text(&self) -> &'a str {
        self.0.text
    }
}

/// An admission request for a Pod, which comes as JSON text or read already.
#[derive(Clone, Copy, Debug)]
pub struct PodReview<'a, O = &'a str> {
    /// What is asked for.
    pub operation: Operation,
    /// Nothing will be stored. No step of today has effects that a dry run would have to skip.
    pub dry_run: bool,
    /// The subresource; empty for the Pod itself.
    pub subresource: &'a str,
    /// The resource, `pods`.
    pub resource: &'a str,
    /// The request's namespace.
    pub namespace: &'a str,
    /// The Pod.
    pub object: O,
}

impl<'a> PodReview<'a> {
    fn of<O>(&self, object: O) -> PodReview<'a, O> {
        let Self { operation, dry_run, subresource, resource, namespace, .. } = *self;
        PodReview { operation, dry_run, subresource, resource, namespace, object }
    }
}

/// What a review comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer.
    Decided(Verdict),
    /// The answer hangs on the Pod's Namespace, which the world does not have (spec 10 §13.3). Read it
    /// and ask again with it, or with [`Namespace::missing`] where it does not exist.
    NeedsNamespace,
}

/// Why a review ends before its last step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    Deny(Denial),
    NeedsNamespace,
}

impl Halt {
    /// A step that fails denies with code 500 (spec 10 §1).
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Deny(Denial { code: 500, message: message.into() })
    }

    /// A field that a step reads has the wrong type: the object is no Pod.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::Deny(Denial { code: 400, message: message.into() })
    }
}

impl From<Halt> for Outcome {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Deny(denial) => Self::Decided(Verdict::Deny(denial)),
            Halt::NeedsNamespace => Self::NeedsNamespace,
        }
    }
}

/// What the steps of one review share, beside the Pod.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) world: &'a World,
    pub(crate) gates: &'a FeatureGates,
    /// The Namespace as the caller read it, for when the world does not have it.
    pub(crate) namespace: Option<&'a Namespace>,
    pub(crate) moment: Moment,
    pub(crate) random: Random,
    /// Filled only where somebody asks why.
    pub(crate) explanations: Option<Vec<Explanation>>,
}

type Step = fn(&mut Draft<'_>, &mut Context<'_>) -> Result<(), Halt>;

/// The steps of spec 10 §2 in its order: injected sidecars take part in the launch order, and the test
/// for a single container counts them; their liveness probes move too, and markers may be meant for them.
/// What WorkloadSpread does to a Pod belongs behind the readiness gate, since it may change labels that
/// SidecarSets select; what PersistentPodState does belongs behind the budget's mark.
const STEPS: &[Step] = &[
    readiness_gate::mutate,
    sidecarset::injection::mutate,
    launch_priority::mutate,
    podunavailablebudget::mark::mutate,
    enhanced_liveness::mutate,
    podprobemarker::mutate,
];

/// Decides a review of a Pod that is text.
pub fn mutate(
    review: &PodReview<'_>,
    world: &World,
    namespace: Option<&Namespace>,
    gates: &FeatureGates,
    moment: Moment,
) -> Outcome {
    match Pod::read(review.object) {
        Ok(pod) => decide(review.of(pod), world, namespace, gates, moment),
        Err(denial) => Outcome::Decided(denial.into()),
    }
}

/// Decides a review.
///
/// `namespace` is the Pod's Namespace as the caller read it after [`Outcome::NeedsNamespace`]; what the
/// world holds goes first.
pub fn decide(
    review: PodReview<'_, Pod<'_>>,
    world: &World,
    namespace: Option<&Namespace>,
    gates: &FeatureGates,
    moment: Moment,
) -> Outcome {
    run(review, &mut Context { world, gates, namespace, moment, random: moment.random(), explanations: None })
}

/// Decides a review as [`mutate`] does, and tells what every object that might concern the Pod is to it, and
/// why.
pub fn explain(
    review: &PodReview<'_>,
    world: &World,
    namespace: Option<&Namespace>,
    gates: &FeatureGates,
    moment: Moment,
) -> (Outcome, Vec<Explanation>) {
    let explanations = Some(Vec::new());
    let mut context = Context { world, gates, namespace, moment, random: moment.random(), explanations };
    let outcome = match Pod::read(review.object) {
        Ok(pod) => run(review.of(pod), &mut context),
        Err(denial) => Outcome::Decided(denial.into()),
    };
    (outcome, context.explanations.unwrap_or_default())
}

fn run(review: PodReview<'_, Pod<'_>>, context: &mut Context<'_>) -> Outcome {
    let mut draft = match Draft::new(review.object.0, review.namespace) {
        Ok(draft) => draft,
        Err(denial) => return Outcome::Decided(denial.into()),
    };
    if review.operation != Operation::Create || !review.subresource.is_empty() || review.resource != "pods" {
        return Outcome::Decided(Verdict::allow());
    }
    for step in STEPS {
        if let Err(halt) = step(&mut draft, context) {
            return halt.into();
        }
    }
    Outcome::Decided(draft.finish())
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
