//! What a kind of workload brings so that everything else of this module, the controllers, the simulation and
//! the command line can work with it.

use std::fmt::{Debug, Display};
use std::sync::Arc;

use api::features::Feature;
use api::kinds::{Object, ObjectMeta};
use api::meta::LabelSelector;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::action::{Action, Part};
use super::children::Claim;
use super::conditions::Condition;
use super::owner::Owner;
use super::plan::Plan;
use super::revision::StoredRevision;
use super::snapshot::Snapshot;
use super::status::{FAILED_SCALE, FAILED_UPDATE};
use pod::node_fit::NodeFacts;
use pod::observed::ObservedPod;
use values::event::Event;
use values::moment::Moment;

/// What every object has.
pub trait Parts {
    /// Its `status`.
    type Status;

    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Its metadata, to be changed.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// Its status.
    fn status(&self) -> &Self::Status;
}

impl<Spec, Status> Parts for Object<Spec, Status> {
    type Status = Status;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn status(&self) -> &Status {
        &self.status
    }
}

/// A kind of workload, as it is stored.
pub trait Workload:
    Parts<Status: WorkloadStatus> + DeserializeOwned + Clone + PartialEq + Debug + Send + Sync + 'static
{
    /// Group and version in which it is stored, `apps.kruise.io/v1beta1`.
    const API_VERSION: &'static str;
    /// The kind.
    const KIND: &'static str;
    /// The plural in request paths.
    const PLURAL: &'static str;
    /// Its Pods and claims have names that end with an ordinal, by which they are found: they need no owner
    /// reference for that.
    const HAS_ORDINALS: bool = false;
    /// It has a Pod on each Node that suits it.
    const HAS_POD_PER_NODE: bool = false;
    /// Its Pods have places of their own, ordinals or Nodes: where one is refused, others are still tried.
    const HAS_PLACES: bool = Self::HAS_ORDINALS || Self::HAS_POD_PER_NODE;
    /// The gate with which the images of an update are pulled ahead of it.
    const PRE_DOWNLOAD: Feature = Feature::PreDownloadImageForInPlaceUpdate;

    /// The owner reference that its children carry.
    fn owner(&self) -> Owner<'_> {
        Owner::of(Self::API_VERSION, Self::KIND, self.metadata())
    }

    /// Which Pods belong to it.
    fn selector(&self) -> &LabelSelector;

    /// How many Pods it wants, where it uses their deletion costs when there are too many.
    fn wants_by_cost(&self) -> Option<i32> {
        None
    }

    /// A plan for so many Pods reads the Nodes.
    fn reads_nodes(&self, pods: usize) -> bool;

    /// A change of the Node of this name makes a difference to a plan, for kinds with
    /// [a Pod on each Node](Self::HAS_POD_PER_NODE). Without a state the Node was not, or is not any more.
    fn is_concerned(&self, name: &str, old: Option<&NodeFacts>, new: Option<&NodeFacts>) -> bool {
        let (_, _, _) = (name, old, new);
        false
    }

    /// The name of the Pod that this claim belongs to, for kinds whose Pods have claims.
    fn pod_of_claim(&self, claim: &Claim) -> Option<String> {
        let _ = claim;
        None
    }

    /// What the names of its claims begin with, before the ordinal, claims of older revisions included.
    fn claim_stems(&self, pods: &[Arc<ObservedPod>], revisions: &[Arc<StoredRevision>]) -> Vec<String> {
        let (_, _) = (pods, revisions);
        Vec::new()
    }

    /// The Pod belongs to nobody, and could belong to a workload of this kind.
    fn could_adopt(pod: &ObservedPod) -> bool {
        Self::HAS_PLACES && pod.controller().is_none()
    }

    /// The Event to record once this part of an action is done.
    fn success(&self, action: &Action, part: Part<'_>) -> Option<Event> {
        if part == Part::Itself { action.success() } else { None }
    }

    /// The Event to record where this part of an action failed.
    fn failure(&self, action: &Action, part: Part<'_>, error: &dyn Display) -> Option<Event> {
        action.failure(part, error)
    }

    /// Decides what to do. A pure function: the same snapshot, in whatever order its lists are, and the same
    /// moment give the same plan.
    fn plan(snapshot: &Snapshot<'_, Self>, moment: Moment) -> Plan<Self::Status>;
}

/// What of a workload's `status` is read and written for all kinds alike.
pub trait WorkloadStatus:
    Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// Fields that the schema requires: a patch always has them, for the stored status may lack them all.
    const REQUIRED: &'static [&'static str];

    /// The type of the condition that reports the last failure of the scale step, and what its message begins
    /// with.
    const FAILED_SCALE: (&'static str, &'static str) = (FAILED_SCALE, "");
    /// The same of the update step.
    const FAILED_UPDATE: (&'static str, &'static str) = (FAILED_UPDATE, "");

    /// It says which generation of the spec it is about.
    const TELLS_GENERATION: bool = true;

    /// It was written before: where nothing differs it need not be written again.
    fn is_written(&self) -> bool {
        self.observed_generation().is_some() && !self.update_revision().is_empty()
            || !self.conditions().is_empty()
    }

    /// The generation of the spec that it speaks of.
    fn observed_generation(&self) -> Option<i64> {
        None
    }

    /// The revision that Pods go to, for kinds with revisions.
    fn update_revision(&self) -> &str {
        ""
    }

    /// The revision that Pods come from.
    fn current_revision(&self) -> &str {
        ""
    }

    /// How often names of revisions were taken.
    fn collision_count(&self) -> Option<i32> {
        None
    }

    /// The conditions, for kinds that leave it to others to write some.
    fn conditions(&self) -> Vec<Condition> {
        Vec::new()
    }

    /// Replaces the conditions.
    fn set_conditions(&mut self, _conditions: Vec<Condition>) {}
}
