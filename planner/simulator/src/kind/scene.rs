//! What a rule reads: what a plan was made from, and the Pods as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use api::conditions::IN_PLACE_UPDATE_READY;
use api::features::FeatureGates;
use api::labels::{CONTROLLER_REVISION_HASH, LIFECYCLE_STATE};
use jiff::Timestamp;

use super::{Bounds, Simulated};
use crate::timeline::Actor;
use kinds::workload::action::{DeleteReason, WriteReason};
use kinds::workload::children::Claim;
use kinds::workload::revision::StoredRevision;
use pod::node_fit::Nodes;
use pod::observed::ObservedPod;
use pod::revision_labels::short_hash;
use values::selector::Selector;

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule, by the word that begins its description.
    pub rule: &'static str,
    /// What happened.
    pub text: String,
}

impl Violation {
    pub(crate) fn new(rule: &'static str, text: String) -> Self {
        Self { rule, text }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.rule, self.text)
    }
}

/// What a plan was made from.
#[derive(Debug)]
pub(crate) struct View<W> {
    pub(crate) workload: Arc<W>,
    /// The workload's selector, if it can be used.
    pub(crate) selector: Option<Selector>,
    pub(crate) pods: Vec<Arc<ObservedPod>>,
    pub(crate) nodes: Arc<Nodes>,
    /// Pods whose update was refused and is held up, by their identity.
    pub(crate) held: BTreeSet<Box<str>>,
    /// The revision of the template that was observed; empty while there is none.
    pub(crate) update_revision: String,
    pub(crate) gates: FeatureGates,
    pub(crate) now: Timestamp,
}

/// What the controller has just done to a Pod.
#[derive(Clone, Copy, Debug)]
pub enum Deed<'a> {
    /// It created the Pod.
    Create(&'a ObservedPod),
    /// It deleted the Pod.
    Delete {
        /// The Pod as it was.
        pod: &'a ObservedPod,
        /// Why.
        reason: DeleteReason,
    },
    /// It wrote to the Pod.
    Write {
        /// The Pod as it was.
        pod: &'a ObservedPod,
        /// Why.
        reason: WriteReason,
        /// The revision to which an update leads.
        revision: &'a str,
    },
}

/// What a plan was made from, and the cluster as it is.
pub struct Scene<'a, W> {
    view: &'a View<W>,
    pods: &'a BTreeMap<Box<str>, Arc<ObservedPod>>,
    revisions: &'a BTreeMap<Box<str>, Arc<StoredRevision>>,
    /// Who last made a Pod serve, exist, or stay where it is no longer, by its identity.
    lost_by: &'a BTreeMap<Box<str>, Actor>,
    bounds: Bounds,
}

impl<'a, W: Simulated> Scene<'a, W> {
    pub(crate) fn new(
        view: &'a View<W>,
        pods: &'a BTreeMap<Box<str>, Arc<ObservedPod>>,
        revisions: &'a BTreeMap<Box<str>, Arc<StoredRevision>>,
        lost_by: &'a BTreeMap<Box<str>, Actor>,
    ) -> Self {
        Self { bounds: view.workload.bounds(&view.nodes), view, pods, revisions, lost_by }
    }

    /// The workload as the plan saw it.
    pub fn workload(&self) -> &'a W {
        &self.view.workload
    }

    /// What it asks for.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The feature gates.
    pub fn gates(&self) -> &'a FeatureGates {
        &self.view.gates
    }

    /// The revision of the template that the plan saw; empty while there is none.
    pub fn update_revision(&self) -> &'a str {
        &self.view.update_revision
    }

    /// The Pod is active and belongs to the workload.
    pub fn owns(&self, pod: &ObservedPod) -> bool {
        owns(self.workload(), self.view.selector.as_ref(), pod)
    }

    /// The Pod counted as available when the plan was made.
    pub fn is_available(&self, pod: &ObservedPod) -> bool {
        is_available(pod, self.bounds.min_ready_seconds, self.view.now)
    }

    /// The workload's Pods as the plan saw them.
    pub fn observed(&self) -> impl Iterator<Item = &'a Arc<ObservedPod>> {
        self.view.pods.iter().filter(|pod| self.owns(pod))
    }

    /// The Pods as the plan saw them, those that have ended or end among them.
    pub fn all_seen(&self) -> impl Iterator<Item = &'a Arc<ObservedPod>> {
        self.view.pods.iter()
    }

    /// The Nodes as the plan saw them.
    pub fn nodes(&self) -> &'a Nodes {
        &self.view.nodes
    }

    /// The update of the Pod was refused, and is held up.
    pub fn is_held(&self, pod: &ObservedPod) -> bool {
        self.view.held.contains(&pod.metadata.uid)
    }

    /// The Pod was taken away by others than the controller since the plan saw it.
    pub fn is_taken_by_others(&self, observed: &ObservedPod) -> bool {
        self.lost_by.get(&observed.metadata.uid) != Some(&Actor::Kutter)
    }

    /// When the plan was made.
    pub fn now(&self) -> Timestamp {
        self.view.now
    }

    /// All Pods as they are.
    pub fn pods(&self) -> impl Iterator<Item = &'a Arc<ObservedPod>> {
        self.pods.values()
    }

    /// What the revision of this name holds.
    pub(crate) fn revision(&self, is_meant: impl Fn(&str) -> bool) -> Option<&'a str> {
        let mut revisions = self.revisions.iter();
        revisions.find(|(name, _)| is_meant(name)).map(|(_, revision)| revision.data.get())
    }

    /// How many of the workload's Pods are as `counts` says.
    pub fn left(&self, counts: impl Fn(&ObservedPod) -> bool) -> i64 {
        count(self.pods.values(), |pod| self.owns(pod) && counts(pod))
    }

    /// How many Pods the plan saw as `counts` says that are so no longer, because of others than the
    /// controller.
    pub fn taken(&self, counts: impl Fn(&ObservedPod) -> bool) -> i64 {
        count(self.view.pods.iter(), |observed| {
            let counted = |pod: &ObservedPod| self.owns(pod) && counts(pod);
            let now = self.pods.get(&observed.metadata.name);
            counted(observed)
                && !now.is_some_and(|pod| pod.metadata.uid == observed.metadata.uid && counted(pod))
                && self.lost_by.get(&observed.metadata.uid) != Some(&Actor::Kutter)
        })
    }
}

/// The cluster when nothing happens any more.
pub struct End<'a, W> {
    /// The workload.
    pub workload: &'a W,
    /// The Nodes.
    pub nodes: &'a Nodes,
    /// Its active Pods.
    pub pods: Vec<&'a Arc<ObservedPod>>,
    /// Its Pods that have come to an end of their own.
    pub ended: Vec<&'a Arc<ObservedPod>>,
    /// How many of them are available.
    pub available: i64,
    /// All claims.
    pub claims: Vec<&'a Claim>,
    /// The newest revision.
    pub update_revision: String,
    /// Pods that the controller deleted, as they were.
    pub deleted: &'a [Arc<ObservedPod>],
    /// The feature gates.
    pub gates: &'a FeatureGates,
}

impl<W> End<'_, W> {
    /// How many of the Pods are as `counts` says.
    pub fn count(&self, counts: impl Fn(&ObservedPod) -> bool) -> i64 {
        count(self.pods.iter().copied(), counts)
    }
}

/// The Pod is active and belongs to the workload.
pub(crate) fn owns<W: Simulated>(workload: &W, selector: Option<&Selector>, pod: &ObservedPod) -> bool {
    pod.is_active()
        && pod.controller().is_some_and(|owner| owner.uid == workload.metadata().uid)
        && selector.is_some_and(|selector| selector.matches(&pod.metadata.labels))
}

/// The Pod counts as available: it serves, and has been ready for so long.
pub(crate) fn is_available(pod: &ObservedPod, min_ready_seconds: i32, now: Timestamp) -> bool {
    is_serving(pod) && pod.is_ready_for(min_ready_seconds, now)
}

/// Available but for `minReadySeconds`.
pub(crate) fn is_serving(pod: &ObservedPod) -> bool {
    is_ready(pod) && matches!(pod.label(LIFECYCLE_STATE), None | Some("" | "Normal"))
}

/// Running and ready, whatever its lifecycle state is.
pub(crate) fn is_ready(pod: &ObservedPod) -> bool {
    pod.is_active()
        && &*pod.status.phase == "Running"
        && pod.is_ready()
        && pod.condition(IN_PLACE_UPDATE_READY).is_none_or(|condition| &*condition.status == "True")
}

/// The Pod has come to an end of its own.
pub(crate) fn is_ended(pod: &ObservedPod) -> bool {
    matches!(&*pod.status.phase, "Succeeded" | "Failed")
}

pub(crate) fn is_preparing_delete(pod: &ObservedPod) -> bool {
    pod.label(LIFECYCLE_STATE) == Some("PreparingDelete")
}

/// The Pod is at the revision of this name.
pub(crate) fn is_at(pod: &ObservedPod, revision: &str) -> bool {
    pod.label(CONTROLLER_REVISION_HASH).is_some_and(|label| short_hash(label) == short_hash(revision))
}

pub(crate) fn count<'p>(
    pods: impl Iterator<Item = &'p Arc<ObservedPod>>,
    counts: impl Fn(&ObservedPod) -> bool,
) -> i64 {
    i64::try_from(pods.filter(|pod| counts(pod)).count()).unwrap_or(i64::MAX)
}
