//! What a kind brings to its simulation beside its plan: how its users edit it, and which rules hold for it.

use std::fmt::Debug;
use std::sync::Arc;

use api::features::FeatureGates;
use api::kinds::Object;
use api::kinds::shared::{Lifecycle, PodUpdatePolicy};
use serde::Serialize;
use serde::de::DeserializeOwned;

use kinds::workload::kind::Workload;
use kinds::workload::plan::Plan;
use pod::node_fit::Nodes;
use pod::observed::ObservedPod;
use values::json_patch::Patch;
use values::verdict::Denial;

mod scene;

pub use scene::{Deed, End, Scene, Violation};
pub(super) use scene::{
    View, count, is_at, is_available, is_ended, is_preparing_delete, is_ready, is_serving, owns,
};

/// A kind of workload whose life can be simulated.
///
/// The rules that hold for every kind are in `checks`. The rules of one kind are its `judge`
/// functions and [`Simulated::unrest`]: the simulation calls them after each plan, after each thing that the
/// controller does to a Pod, and at the end.
pub trait Simulated: Workload {
    /// The type of `spec`.
    type Spec: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync;
    /// What users do to the object, beside giving it another spec.
    type Edit: Clone + Debug;

    /// Its Pods run to an end of their own: in the end none is left that runs.
    const PODS_END: bool = false;
    /// Pods that are scaled in and available count against `max_unavailable`.
    const SCALES_IN_WITHIN_BUDGET: bool = true;

    /// The object by its parts.
    fn object(&self) -> &Object<Self::Spec, Self::Status>;

    /// The object by its parts, to be changed.
    fn object_mut(&mut self) -> &mut Object<Self::Spec, Self::Status>;

    /// What admission adds to `object`, written in this version of the API. `old` is what is stored, in the same version.
    ///
    /// # Errors
    /// It is no object of this kind.
    fn defaults(
        object: &str,
        old: Option<&str>,
        version: &str,
        gates: &FeatureGates,
    ) -> Result<Patch, Denial>;

    /// A user changes the spec to this one; what an [`edit`](Self::edit) named in it stays.
    fn amend(&mut self, spec: Self::Spec) {
        self.object_mut().spec = spec;
    }

    /// A user does something else to the object. `pods` are its Pods that have not ended, in alphabetical
    /// order. Says what happens, or `None` where there is nothing to do.
    fn edit(&mut self, edit: &Self::Edit, pods: &[Arc<ObservedPod>]) -> Option<String>;

    /// The hooks of its Pods' lifecycle.
    fn lifecycle(&self) -> &Lifecycle;

    /// How many Pods it asks for in a cluster with these Nodes, and how far their number may differ.
    fn bounds(&self, nodes: &Nodes) -> Bounds;

    /// How its Pods come to another revision.
    fn update_policy(&self) -> Option<&PodUpdatePolicy>;

    /// How many revisions that no Pod uses are kept.
    fn revision_history_limit(&self) -> usize;

    /// The Pod counts where Pods are created.
    fn is_counted(&self, _pod: &ObservedPod) -> bool {
        true
    }

    /// The rollout that the plan carries on leads away from the revision of the Pod: where it serves, it did so before.
    fn is_left(pod: &ObservedPod, scene: &Scene<'_, Self>) -> bool {
        !is_at(pod, scene.update_revision())
    }

    /// Judges a plan before it is carried out.
    fn judge_plan(plan: &Plan<Self::Status>, scene: &Scene<'_, Self>, broken: &mut Vec<Violation>);

    /// Judges what the controller has just done to a Pod.
    fn judge_deed(deed: &Deed<'_>, scene: &Scene<'_, Self>, broken: &mut Vec<Violation>);

    /// What is not as the object asks for, when nothing happens any more.
    fn unrest(end: &End<'_, Self>) -> Vec<String>;
}

/// How many Pods a workload asks for, and how far their number may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Pods wanted.
    pub replicas: i64,
    /// Pods that may be unavailable.
    pub max_unavailable: i64,
    /// Pods that may exist beyond `replicas`.
    pub max_surge: i64,
    /// Seconds that a Pod must be ready before it counts as available.
    pub min_ready_seconds: i32,
}

impl Bounds {
    /// As few Pods as may be available.
    pub fn floor(&self) -> i64 {
        self.replicas - self.max_unavailable
    }

    /// As many Pods as may exist.
    pub fn ceiling(&self) -> i64 {
        self.replicas + self.max_surge
    }
}
