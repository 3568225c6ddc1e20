//! What a kind of workload brings so that everything else of this floor, the controllers, the simulation and
//! the command line can work with it.

use std::fmt::Debug;

use api::kinds::ObjectMeta;
use api::meta::LabelSelector;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::children::Claim;
use super::conditions::Condition;
use super::plan::Plan;
use super::snapshot::Snapshot;
use crate::text::moment::Moment;

/// A kind of workload, as it is stored.
pub trait Workload: DeserializeOwned + Clone + PartialEq + Debug + Send + Sync + 'static {
    /// Group and version in which it is stored, `apps.kruise.io/v1beta1`.
    const API_VERSION: &'static str;
    /// The kind.
    const KIND: &'static str;
    /// The plural in request paths.
    const PLURAL: &'static str;
    /// Its `status`.
    type Status: WorkloadStatus;

    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Its metadata, to be changed.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// Which Pods belong to it.
    fn selector(&self) -> &LabelSelector;

    /// Its status.
    fn status(&self) -> &Self::Status;

    /// A plan reads labels of nodes to choose among so many Pods.
    fn reads_nodes(&self, pods: usize) -> bool;

    /// The name of the Pod that this claim belongs to.
    fn pod_of_claim(&self, claim: &Claim) -> Option<String>;

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

    /// The generation of the spec that it speaks of.
    fn observed_generation(&self) -> Option<i64>;

    /// The revision that Pods go to.
    fn update_revision(&self) -> &str;

    /// The revision that Pods come from.
    fn current_revision(&self) -> &str;

    /// The conditions.
    fn conditions(&self) -> Vec<Condition>;

    /// Replaces the conditions.
    fn set_conditions(&mut self, conditions: Vec<Condition>);
}
