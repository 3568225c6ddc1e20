//! The Pod mutating webhook, decided: the steps of `/mutate-pod` in their fixed order.
//!
//! ```text
//!   request --begin--> Review --decide: step after step--> edits + warnings
//!                        |                    ^
//!                        | awaits?            +-- World      (what is known of the cluster)
//!                        +---- webhook -------+-- Resolved   (what it lacks, found out first)
//! ```
//!
//! A step gets the part of the world that its kind owns, and never the whole.
//!
//! Invariants:
//! 1. Only operations are emitted: what no step edits stays as it came, byte for byte.
//! 2. A second review of the result gives the same Pod again.
//! 3. The answer depends on the Pod, the world, what was resolved, the gates and the moment, and on nothing else.

use std::sync::Arc;

use api::features::FeatureGates;

use super::silence;
use super::world::World;
use kinds::workload::namespace::Namespace;
use kinds::workloadspread::matching::Owners;
use kinds::workloadspread::step::{self, Choice, Member, Placement};
use kinds::{persistentpodstate, podprobemarker, podunavailablebudget, sidecarset};
use pod::review::{Draft, Operation, Pod, PodReview, Reasons, ReviewContext};
use pod::{enhanced_liveness, launch_priority, readiness_gate};
use values::json_patch::{self, Patch};
use values::moment::Moment;
use values::verdict::{Denial, Verdict};

pub mod explanation;

use explanation::Explanation;

/// What the webhook has found out before a review is decided, since the world does not have it.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The Pod's Namespace, where the world lacks it; `None` where it does not exist. One that can't be read refuses the
    /// Pods for which its labels decide.
    pub namespace: Result<Option<Arc<Namespace>>, Denial>,
    /// The WorkloadSpread that divides the Pod, and the subset that takes it.
    pub placement: Option<Placement>,
}

impl Default for Resolved {
    fn default() -> Self {
        Self { namespace: Ok(None), placement: None }
    }
}

/// A review of a Pod that is to be created, behind the steps that nothing has to be found out for.
#[derive(Debug)]
pub struct Review<'a> {
    draft: Draft<'a>,
    /// The Pod as it came.
    text: &'a str,
    namespace: &'a str,
    dry_run: bool,
    context: ReviewContext<'a>,
}

/// What the later steps are decided from, beside the Pod.
#[derive(Debug)]
struct Inputs<'a> {
    world: &'a World,
    resolved: &'a Resolved,
    context: ReviewContext<'a>,
    /// Filled only where somebody asks why.
    explanations: Option<Vec<Explanation>>,
}

impl Inputs<'_> {
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

type Step = fn(&mut Draft<'_>, &mut Inputs<'_>) -> Result<(), Denial>;

/// The steps behind a WorkloadSpread in their order: a subset may change labels that SidecarSets select, and anything else
/// that later steps read. Injected sidecars take part in the launch order, and the test for a single container counts
/// them; their liveness probes move too, and markers may be meant for them.
const STEPS: &[Step] = &[
    inject_sidecars,
    |draft, inputs| launch_priority::mutate(draft, &mut inputs.context),
    mark_budget,
    inject_pod_state,
    |draft, inputs| enhanced_liveness::mutate(draft, &inputs.context),
    write_probes,
];

fn inject_sidecars(draft: &mut Draft<'_>, inputs: &mut Inputs<'_>) -> Result<(), Denial> {
    let mut reasons = inputs.reasons();
    let namespace = inputs.resolved.namespace.as_ref().map(Option::as_deref);
    let inventory = inputs.world.inventory();
    let done = sidecarset::injection::mutate(draft, &mut inputs.context, inventory, namespace, &mut reasons);
    inputs.explain(reasons, |name, reason| Explanation::SidecarSet { name, reason });
    done
}

fn mark_budget(draft: &mut Draft<'_>, inputs: &mut Inputs<'_>) -> Result<(), Denial> {
    let mut reasons = inputs.reasons();
    podunavailablebudget::mark::mutate(draft, &inputs.context, inputs.world.budgets(), &mut reasons);
    inputs.explain(reasons, |name, reason| Explanation::PodUnavailableBudget { name, reason });
    Ok(())
}

fn inject_pod_state(draft: &mut Draft<'_>, inputs: &mut Inputs<'_>) -> Result<(), Denial> {
    let mut reasons = inputs.reasons();
    let done = persistentpodstate::injection::mutate(draft, inputs.world.pod_states(), &mut reasons);
    inputs.explain(reasons, |name, reason| Explanation::PersistentPodState { name, reason });
    done
}

fn write_probes(draft: &mut Draft<'_>, inputs: &mut Inputs<'_>) -> Result<(), Denial> {
    let mut reasons = inputs.reasons();
    podprobemarker::injection::mutate(draft, &inputs.context, inputs.world.markers(), &mut reasons);
    inputs.explain(reasons, |name, reason| Explanation::PodProbeMarker { name, reason });
    Ok(())
}

impl<'a> Review<'a> {
    /// Begins a review at this moment.
    ///
    /// # Errors
    /// The answer to what is no Pod, and to requests that create none.
    pub fn begin(request: PodReview<'a>, gates: &'a FeatureGates, moment: Moment) -> Result<Self, Verdict> {
        let PodReview { operation, dry_run, subresource, resource, namespace, object } = request;
        let (text, context) = (object.text(), ReviewContext::new(gates, moment));
        let mut draft = Draft::new(object.0, namespace)?;
        if operation != Operation::Create || !subresource.is_empty() || resource != "pods" {
            return Err(Verdict::allow());
        }
        if dry_run {
            silence::answer(&mut draft);
        }
        readiness_gate::mutate(&mut draft, &context)?;
        Ok(Self { draft, text, namespace, dry_run, context })
    }

    /// The Pod's namespace.
    pub fn namespace(&self) -> &str {
        &self.draft.namespace
    }

    /// Whether anything has to be resolved before the review is decided.
    pub fn awaits(&self, world: &World) -> bool {
        self.may_be_placed(world) || world.inventory().lacks_namespace(self.namespace())
    }

    /// What is known of the placement with these owners.
    pub fn choose<'w>(&self, world: &'w World, owners: &Owners) -> Choice<'w> {
        if !self.may_be_placed(world) {
            return Choice::Known(None);
        }
        step::choose(&self.draft, &self.context, world.spreads(), owners)
    }

    /// What is taken from a WorkloadSpread would be lost on a dry run.
    fn may_be_placed(&self, world: &World) -> bool {
        !self.dry_run && step::concerns(&self.draft, &self.context, world.spreads())
    }

    /// Decides the review.
    pub fn decide(self, world: &World, resolved: &Resolved) -> Verdict {
        self.run(world, resolved, None).0
    }

    /// Decides the review, and says what every object that might concern the Pod is to it, and why.
    pub fn explain(self, world: &World, resolved: &Resolved) -> (Verdict, Vec<Explanation>) {
        self.run(world, resolved, Some(Vec::new()))
    }

    fn run(
        self,
        world: &World,
        resolved: &Resolved,
        explanations: Option<Vec<Explanation>>,
    ) -> (Verdict, Vec<Explanation>) {
        let Self { draft, text, namespace, context, .. } = self;
        let mut inputs = Inputs { world, resolved, context, explanations };
        let decided = match member(&draft, &mut inputs) {
            Ok(None) => finish(draft, Patch::default(), &mut inputs),
            Ok(Some(member)) => finish_member(draft, &member, text, namespace, &mut inputs),
            Err(denial) => Err(denial),
        };
        (decided.unwrap_or_else(Verdict::from), inputs.explanations.unwrap_or_default())
    }
}

/// The Pod as a WorkloadSpread changes it, if one does.
fn member<'w>(draft: &Draft<'_>, inputs: &mut Inputs<'w>) -> Result<Option<Member<'w>>, Denial> {
    let mut reasons = inputs.reasons();
    let (spreads, placement) = (inputs.world.spreads(), inputs.resolved.placement.as_ref());
    let member = step::place(draft, &inputs.context, spreads, placement, &mut reasons);
    inputs.explain(reasons, |name, reason| Explanation::WorkloadSpread { name, reason });
    member
}

/// Does the later steps on the Pod as a member of its subset.
fn finish_member(
    draft: Draft<'_>,
    member: &Member<'_>,
    text: &str,
    namespace: &str,
    inputs: &mut Inputs<'_>,
) -> Result<Verdict, Denial> {
    let (mut edits, _) = draft.finish();
    let pod = json_patch::apply(text, &edits).map_err(|error| Denial::failed(error.to_string()))?;
    let (pod, injected) = member.inject(&pod).map_err(|error| Denial::failed(error.to_string()))?;
    edits.extend(injected);
    finish(Draft::new(Pod::read(&pod)?.0, namespace)?, edits, inputs)
}

/// Does the later steps; `edits` were made before.
fn finish(mut draft: Draft<'_>, mut edits: Patch, inputs: &mut Inputs<'_>) -> Result<Verdict, Denial> {
    for step in STEPS {
        step(&mut draft, inputs)?;
    }
    let (later, warnings) = draft.finish();
    edits.extend(later);
    Ok(Verdict::Allow { edits, warnings })
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
