//! Runs one Pod on every node that fits, as the built-in DaemonSet does, and adds gradual rollouts by
//! partition and node selector, pausing, surge, and updates in place.

use serde::{Deserialize, Serialize};

use super::Object;
use super::shared::{Condition, IntOrString, Lifecycle, UpdateStrategyType};
use crate::Raw;
use crate::meta::LabelSelector;

/// Kind of a DaemonSet.
pub const KIND: &str = "DaemonSet";
/// Plural of a DaemonSet in request paths.
pub const PLURAL: &str = "daemonsets";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// A DaemonSet.
pub type DaemonSet = Object<Spec, Status>;

objects! {
    /// `spec`: the Pod to run on each node, and how it is updated.
    pub struct Spec {
        /// How many Pods are created, deleted or updated in place in one pass: a number, or a percentage of
        /// the desired Pods, rounded down. Default 250.
        pub burst_replicas: Option<IntOrString>,
        /// Hooks with which another program can hold a Pod back. Here only preDelete has an effect.
        pub lifecycle: Lifecycle,
        /// Seconds that a Pod must be ready before it counts as available. Default 0.
        pub min_ready_seconds: Option<i32>,
        /// How many older revisions are kept for a rollback. Default 10.
        pub revision_history_limit: Option<i32>,
        /// How Pods are added.
        pub scale_strategy: ScaleStrategy,
        /// The Pods that belong to this DaemonSet. Must match the labels of the template, must not be empty,
        /// and cannot be changed.
        required pub selector: LabelSelector,
        /// The Pod to run on each node, with metadata and spec. Its nodeSelector, affinity and tolerations
        /// decide which nodes fit.
        pub template: Option<Raw>,
        /// How Pods of an older revision come to the newest one.
        pub update_strategy: UpdateStrategy,
    }

    /// `spec.scaleStrategy`: how Pods are added.
    pub struct ScaleStrategy {
        /// Apply the partition of the update strategy to the creation of Pods as well, so that new nodes get
        /// Pods gradually too. Default false.
        pub partitioned_scaling: bool,
    }

    /// `spec.updateStrategy`: how Pods of an older revision come to the newest one.
    pub struct UpdateStrategy {
        /// Settings of type RollingUpdate.
        pub rolling_update: RollingUpdate,
        /// RollingUpdate replaces old Pods step by step. OnDelete waits until somebody deletes them. Default
        /// RollingUpdate.
        #[serde(rename = "type")]
        pub kind: Option<UpdateStrategyType>,
    }

    /// `spec.updateStrategy.rollingUpdate`: settings of type RollingUpdate.
    pub struct RollingUpdate {
        /// How many nodes may run the new Pod beside the old one: a number, or a percentage of the fitting
        /// nodes, rounded up. Not together with a maxUnavailable above 0. Default 0.
        pub max_surge: Option<IntOrString>,
        /// How many nodes may be without an available Pod during an update: a number, or a percentage of the
        /// fitting nodes, rounded up. Default 1 when maxSurge is not set either.
        pub max_unavailable: Option<IntOrString>,
        /// How many nodes are kept at the older revision: a number, or a percentage of the desired Pods,
        /// rounded down. Default 0.
        pub partition: Option<IntOrString>,
        /// Update no Pods. Pods are still created for new nodes and removed from unfit ones. Default false.
        pub paused: bool,
        /// Standard deletes and creates Pods. InPlaceIfPossible changes the running Pod where only images,
        /// metadata or other changeable parts differ, and recreates it otherwise. Default Standard.
        pub rolling_update_type: Option<RollingUpdateType>,
        /// Update Pods only on nodes with these labels. Unset means on all nodes.
        pub selector: Option<LabelSelector>,
    }

    /// `status`: what the controller last observed. Written by the controller only, through the status
    /// subresource.
    pub struct Status {
        /// How often the name of a new ControllerRevision was already taken. It goes into the hash of the
        /// next name, so that a free one is found.
        pub collision_count: Option<i32>,
        /// Findings about the DaemonSet. The controller writes none at present.
        pub conditions: Vec<Condition>,
        /// The number of nodes that should run a Pod and have one.
        required pub current_number_scheduled: i32,
        /// The number of nodes that should run a Pod.
        required pub desired_number_scheduled: i32,
        /// The number of nodes whose Pod has been ready for minReadySeconds.
        pub number_available: Option<i32>,
        /// The number of nodes that run a Pod although they should not.
        required pub number_misscheduled: i32,
        /// The number of nodes whose Pod is ready.
        required pub number_ready: i32,
        /// The number of nodes that should run a Pod and have no available one.
        pub number_unavailable: Option<i32>,
        /// The metadata.generation that this status was computed from. When it is lower than
        /// metadata.generation the controller has not handled the newest spec yet.
        pub observed_generation: Option<i64>,
        /// The hash of the newest revision, which updated Pods carry in label controller-revision-hash.
        pub update_revision: String,
        /// The number of nodes whose Pod is at the newest revision.
        required pub updated_number_scheduled: i32,
    }
}

/// How one Pod is updated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum RollingUpdateType {
    /// Delete it and create a new one.
    #[default]
    #[serde(alias = "")]
    Standard,
    /// Change the running Pod where that is possible, and recreate it otherwise.
    InPlaceIfPossible,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}
