//! The Pod mutating webhook, decided: the steps of `/mutate-pod` in their fixed order.
//!
//! ```text
//!   review --read once--> Draft --step--> Draft --step--> ... --> edits + warnings
//!                           |               ^
//!                           +---- World ----+   (what is known of the cluster)
//! ```
//!
//! A step gets the part of the world that its kind owns, and never the whole.
//!
//! Invariants:
//! 1. Only operations are emitted: what no step edits stays as it came, byte for byte.
//! 2. A second review of the result gives the same Pod again.
//! 3. The answer depends on the Pod, the world, the gates and the moment, and on nothing else.

use api::features::FeatureGates;

use super::silence;
use super::world::World;
use kinds::workload::namespace::Namespace;
use kinds::workloadspread::step::{Decision, Findings, Need};
use kinds::{persistentpodstate, podprobemarker, podunavailablebudget, sidecarset, workloadspread};
use pod::review::{Draft, Halt, Operation, Pod, PodReview, Reasons, ReviewContext};
use pod::{enhanced_liveness, launch_priority, readiness_gate};
use values::json_patch::{self, Patch};
use values::moment::Moment;
use values::verdict::Verdict;

pub mod explanation;

use explanation::Explanation;

/// What a review comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The answer.
    Decided(Verdict),
    /// The answer hangs on the Pod's Namespace, which the world does not have. Read it
    /// and ask again with it, or with [`Namespace::missing`] where it does not exist.
    NeedsNamespace,
    /// The answer hangs on what a WorkloadSpread needs. Find it out and ask again with it.
    NeedsForSpread(Box<Need>),
}

/// What the caller found out, since the world does not have it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// The Pod's Namespace, asked for by [`Outcome::NeedsNamespace`]; what the world holds goes first.
    pub namespace: Option<&'a Namespace>,
    /// What [`Outcome::NeedsForSpread`] has asked for.
    pub spread: Option<&'a Findings>,
}

impl From<Halt> for Outcome {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Deny(denial) => Self::Decided(Verdict::Deny(denial)),
            Halt::NeedsNamespace => Self::NeedsNamespace,
        }
    }
}

/// What a review is decided from, beside the Pod.
#[derive(Debug)]
struct Inputs<'a> {
    world: &'a World,
    known: Known<'a>,
    context: ReviewContext<'a>,
    /// Filled only where somebody asks why.
    explanations: Option<Vec<Explanation>>,
}

impl<'a> Inputs<'a> {
    fn new(
        world: &'a World,
        known: Known<'a>,
        gates: &'a FeatureGates,
        moment: Moment,
        explanations: Option<Vec<Explanation>>,
    ) -> Self {
        let context = ReviewContext { gates, moment, random: moment.random() };
        Self { world, known, context, explanations }
    }

    /// Where a step of a kind notes its reasons.
    fn reasons<R>(&self) -> Reasons<R> {
        Reasons::new(self.explanations.is_some())
    }

    /// Takes over what a step noted.
    fn explain<R>(&mut self, reasons: Reasons<R>, explanation: impl Fn(String, R) -> Explanation) {
        if let Some(explanations) = &mut self.explanations {
            explanations.extend(reasons.into_noted().map(|(name, reason)| explanation(name, reason)));
        }
    }
}

type Step = fn(&mut Draft<'_>, &mut Inputs<'_>) -> Result<(), Halt>;

/// The steps before a WorkloadSpread puts the Pod into a subset ([`spread`]): the subset may change labels that
/// SidecarSets select, and anything else that later steps read.
const BEFORE_SPREAD: &[Step] = &[|draft, inputs| readiness_gate::mutate(draft, &inputs.context)];

/// The steps behind it in their order: injected sidecars take part in the launch order, and the test for a single
/// container counts them; their liveness probes move too, and markers may be meant for them.
const STEPS: &[Step] = &[
    inject_sidecars,
    |draft, inputs| launch_priority::mutate(draft, &mut inputs.context),
    mark_budget,
    lead_back,
    |draft, inputs| enhanced_liveness::mutate(draft, &inputs.context),
    write_probes,
];

fn inject_sidecars(draft: &mut Draft<'_>, inputs: &mut Inputs<'_>) -> Result<(), Halt> {
    let mut reasons = inputs.reasons();
    let (inventory, namespace) = (inputs.world.inventory(), inputs.known.namespace);
    let done = sidecarset::injection::mutate(draft, &mut inputs.context, inventory, namespace, &mut reasons);
    inputs.explain(reasons, |name, reason| Explanation::SidecarSet { name, reason });
    done
}

fn mark_budget(draft: &mut Draft<'_>, inputs: &mut Inputs<'_>) -> Result<(), Halt> {
    let mut reasons = inputs.reasons();
    podunavailablebudget::mark::mutate(draft, &inputs.context, inputs.world.budgets(), &mut reasons);
    inputs.explain(reasons, |name, reason| Explanation::PodUnavailableBudget { name, reason });
    Ok(())
}

fn lead_back(draft: &mut Draft<'_>, inputs: &mut Inputs<'_>) -> Result<(), Halt> {
    let mut reasons = inputs.reasons();
    let done = persistentpodstate::injection::mutate(draft, inputs.world.pod_states(), &mut reasons);
    inputs.explain(reasons, |name, reason| Explanation::PersistentPodState { name, reason });
    done
}

fn write_probes(draft: &mut Draft<'_>, inputs: &mut Inputs<'_>) -> Result<(), Halt> {
    let mut reasons = inputs.reasons();
    podprobemarker::injection::mutate(draft, &inputs.context, inputs.world.markers(), &mut reasons);
    inputs.explain(reasons, |name, reason| Explanation::PodProbeMarker { name, reason });
    Ok(())
}

/// Decides a review of a Pod that is text.
pub fn mutate(
    review: &PodReview<'_>,
    world: &World,
    known: Known<'_>,
    gates: &FeatureGates,
    moment: Moment,
) -> Outcome {
    match Pod::read(review.object) {
        Ok(pod) => decide(review.of(pod), world, known, gates, moment),
        Err(denial) => Outcome::Decided(denial.into()),
    }
}

/// Decides a review; `known` is what the caller found out after an earlier outcome.
pub fn decide(
    review: PodReview<'_, Pod<'_>>,
    world: &World,
    known: Known<'_>,
    gates: &FeatureGates,
    moment: Moment,
) -> Outcome {
    run(review, &mut Inputs::new(world, known, gates, moment, None))
}

/// Decides a review as [`mutate`] does, and tells what every object that might concern the Pod is to it, and
/// why.
pub fn explain(
    review: &PodReview<'_>,
    world: &World,
    known: Known<'_>,
    gates: &FeatureGates,
    moment: Moment,
) -> (Outcome, Vec<Explanation>) {
    let mut inputs = Inputs::new(world, known, gates, moment, Some(Vec::new()));
    let outcome = match Pod::read(review.object) {
        Ok(pod) => run(review.of(pod), &mut inputs),
        Err(denial) => Outcome::Decided(denial.into()),
    };
    (outcome, inputs.explanations.unwrap_or_default())
}

fn run(review: PodReview<'_, Pod<'_>>, inputs: &mut Inputs<'_>) -> Outcome {
    let (pod, namespace) = (review.object.text(), review.namespace);
    let mut draft = match Draft::new(review.object.0, namespace) {
        Ok(draft) => draft,
        Err(denial) => return Outcome::Decided(denial.into()),
    };
    if review.operation != Operation::Create || !review.subresource.is_empty() || review.resource != "pods" {
        return Outcome::Decided(Verdict::allow());
    }
    if review.dry_run {
        silence::answer(&mut draft);
    }
    for step in BEFORE_SPREAD {
        if let Err(halt) = step(&mut draft, inputs) {
            return halt.into();
        }
    }
    // What is taken from a WorkloadSpread would be lost on a dry run.
    let decision = if review.dry_run { Decision::Nothing } else { spread(&draft, inputs) };
    match decision {
        Decision::Nothing => finish(draft, Patch::default(), inputs),
        Decision::Needs(need) => Outcome::NeedsForSpread(Box::new(need)),
        Decision::Refused(denial) => Halt::Deny(denial).into(),
        Decision::Member(member) => {
            let edited = match draft.finish() {
                Verdict::Allow { edits, .. } => json_patch::apply(pod, &edits)
                    .map_err(|error| error.to_string())
                    .and_then(|pod| Ok((member.inject(&pod).map_err(|error| error.to_string())?, edits))),
                refused => return Outcome::Decided(refused),
            };
            let ((pod, injected), mut edits) = match edited {
                Ok(edited) => edited,
                Err(problem) => return Halt::failed(problem).into(),
            };
            edits.extend(injected);
            match Pod::read(&pod).and_then(|pod| Draft::new(pod.0, namespace)) {
                Ok(draft) => finish(draft, edits, inputs),
                Err(denial) => Outcome::Decided(denial.into()),
            }
        }
    }
}

/// Does the steps that follow; `edits` were made before.
fn finish(mut draft: Draft<'_>, mut edits: Patch, inputs: &mut Inputs<'_>) -> Outcome {
    for step in STEPS {
        if let Err(halt) = step(&mut draft, inputs) {
            return halt.into();
        }
    }
    let mut verdict = draft.finish();
    if let Verdict::Allow { edits: later, .. } = &mut verdict
        && !edits.is_empty()
    {
        edits.extend(std::mem::take(later));
        *later = edits;
    }
    Outcome::Decided(verdict)
}

/// What a WorkloadSpread does to the Pod.
fn spread<'w>(draft: &Draft<'_>, inputs: &mut Inputs<'w>) -> Decision<'w> {
    let mut reasons = inputs.reasons();
    let (spreads, nothing) = (inputs.world.spreads(), Findings::default());
    let findings = inputs.known.spread.unwrap_or(&nothing);
    let decision = workloadspread::step::decide(draft, &inputs.context, spreads, findings, &mut reasons);
    inputs.explain(reasons, |name, reason| Explanation::WorkloadSpread { name, reason });
    decision
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
