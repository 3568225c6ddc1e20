//! What a rule looks at: what a plan was made from, and the Pods as they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::features::FeatureGates;

use super::{Violation, count, is_available};
use crate::pod::observed::ObservedPod;
use crate::simulation::controller::View;
use crate::simulation::kind::{Bounds, Simulated};
use crate::simulation::server::Server;
use crate::simulation::timeline::Actor;
use crate::text::selector::Selector;
use crate::workload::action::{DeleteReason, WriteReason};

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
    server: &'a Server<W>,
    lost_by: &'a BTreeMap<Box<str>, Actor>,
    bounds: Bounds,
}

impl<'a, W: Simulated> Scene<'a, W> {
    pub(super) fn new(
        view: &'a View<W>,
        server: &'a Server<W>,
        lost_by: &'a BTreeMap<Box<str>, Actor>,
    ) -> Self {
        Self { bounds: view.workload.bounds(), view, server, lost_by }
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
    pub fn seen(&self) -> impl Iterator<Item = &'a Arc<ObservedPod>> {
        self.view.pods.iter().filter(|pod| self.owns(pod))
    }

    /// All Pods as they are.
    pub fn pods(&self) -> impl Iterator<Item = &'a Arc<ObservedPod>> {
        self.server.pods.values()
    }

    /// What the revision of this name holds.
    pub(super) fn revision(&self, is_meant: impl Fn(&str) -> bool) -> Option<&'a str> {
        let mut revisions = self.server.revisions.iter();
        revisions.find(|(name, _)| is_meant(name)).map(|(_, revision)| revision.data.get())
    }

    /// How many of the workload's Pods are as `counts` says.
    pub fn left(&self, counts: impl Fn(&ObservedPod) -> bool) -> i64 {
        count(self.server.pods.values(), |pod| self.owns(pod) && counts(pod))
    }

    /// How many Pods the plan saw as `counts` says that are so no longer, because of others than the
    /// controller.
    pub fn taken(&self, counts: impl Fn(&ObservedPod) -> bool) -> i64 {
        count(self.view.pods.iter(), |seen| {
            let counted = |pod: &ObservedPod| self.owns(pod) && counts(pod);
            let now = self.server.pod(&seen.metadata.name, &seen.metadata.uid);
            counted(seen)
                && !now.is_some_and(|pod| counted(pod))
                && self.lost_by.get(&seen.metadata.uid) != Some(&Actor::Kutter)
        })
    }

    /// Rule 1, after an available Pod was taken away.
    pub(super) fn budget(&self, what: &str) -> Option<Violation> {
        let (left, taken) =
            (self.left(|pod| self.is_available(pod)), self.taken(|pod| self.is_available(pod)));
        let Bounds { replicas, max_unavailable, .. } = self.bounds;
        (left + taken < self.bounds.floor()).then(|| {
            let text = format!(
                "{what}: {left} Pods are left available, and {taken} more but for others, of {replicas} \
                 with maxUnavailable {max_unavailable}"
            );
            Violation::new("Budget", text)
        })
    }
}

/// The Pod is active and belongs to the workload.
pub(super) fn owns<W: Simulated>(workload: &W, selector: Option<&Selector>, pod: &ObservedPod) -> bool {
    pod.is_active()
        && pod.controller().is_some_and(|owner| owner.uid == workload.metadata().uid)
        && selector.is_some_and(|selector| selector.matches(&pod.metadata.labels))
}
