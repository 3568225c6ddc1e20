//! What the steps of one plan share: the Nodes, and the Pods of the job on each of them
//! (docs/behaviour/broadcastjob.md#pods).

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kinds::broadcastjob::BroadcastJob;
use jiff::Timestamp;

use super::fit::{Misfit, Requirements};
use crate::workload::snapshot::Snapshot;
use pod::observed::ObservedPod;
use values::percent::{Rounding, scaled};

/// What a Pod counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Succeeded,
    Failed,
    /// It restarted more often than it may, and continues.
    Broken,
    /// It ends before it has come to an end of its own.
    Ending,
    Active,
}

/// A Pod of the job.
#[derive(Clone, Debug)]
pub(super) struct JobPod<'a> {
    pub(super) pod: &'a Arc<ObservedPod>,
    pub(super) class: Class,
}

/// A Node, and the Pods on it and for it.
#[derive(Clone, Debug)]
pub(super) struct NodeSlot<'a> {
    /// Why the Node does not suit.
    pub(super) misfit: Option<Misfit>,
    /// By name.
    pub(super) pods: Vec<JobPod<'a>>,
}

impl NodeSlot<'_> {
    /// The Node is to have a Pod, or has one that is to come to its end.
    pub(super) fn is_desired(&self) -> bool {
        let is_there = |pod: &JobPod<'_>| {
            let has_ended = matches!(pod.class, Class::Succeeded | Class::Failed);
            has_ended || !pod.pod.spec.node_name.is_empty()
        };
        self.misfit.is_none() || self.pods.iter().any(is_there)
    }

    /// A Pod has come to its end here.
    pub(super) fn is_done(&self) -> bool {
        self.pods.iter().any(|pod| matches!(pod.class, Class::Succeeded | Class::Failed | Class::Broken))
    }
}

/// What the steps of one plan share.
pub(super) struct Working<'a> {
    pub(super) snapshot: &'a Snapshot<'a, BroadcastJob>,
    pub(super) now: Timestamp,
    /// The Nodes by name.
    pub(super) slots: BTreeMap<&'a str, NodeSlot<'a>>,
    /// Pods on Nodes that are gone, for Nodes that do not exist, or for none.
    pub(super) elsewhere: Vec<JobPod<'a>>,
}

impl<'a> Working<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot<'a, BroadcastJob>,
        requirements: &Requirements,
        now: Timestamp,
    ) -> Self {
        let job = snapshot.workload;
        let mut slots: BTreeMap<&str, NodeSlot<'_>> = BTreeMap::new();
        for (name, node) in snapshot.nodes {
            slots.insert(name, NodeSlot { misfit: requirements.misfit(name, node), pods: Vec::new() });
        }
        let mut elsewhere = Vec::new();
        let is_own =
            |pod: &&Arc<ObservedPod>| pod.controller().is_some_and(|owner| owner.uid == job.metadata.uid);
        let mut pods: Vec<_> = snapshot.pods.iter().filter(is_own).collect();
        pods.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        let limit = job.spec.failure_policy.restart_limit.unwrap_or(0);
        for pod in pods {
            let own = JobPod { pod, class: classify(pod, limit) };
            match pod.spec.node().and_then(|node| slots.get_mut(node)) {
                Some(slot) => slot.pods.push(own),
                None => elsewhere.push(own),
            }
        }
        Self { snapshot, now, slots, elsewhere }
    }

    pub(super) fn job(&self) -> &'a BroadcastJob {
        self.snapshot.workload
    }

    /// All Pods.
    pub(super) fn pods(&self) -> impl Iterator<Item = &JobPod<'a>> {
        self.slots.values().flat_map(|slot| &slot.pods).chain(&self.elsewhere)
    }

    /// How many Pods are of one of these classes.
    pub(super) fn count(&self, classes: &[Class]) -> usize {
        self.pods().filter(|pod| classes.contains(&pod.class)).count()
    }

    /// How many Pods run or are about to.
    pub(super) fn active(&self) -> usize {
        self.count(&[Class::Active])
    }

    /// How many Nodes are to have a Pod, or have one.
    pub(super) fn desired(&self) -> usize {
        self.slots.values().filter(|slot| slot.is_desired()).count()
    }

    /// How many Pods may run at a time; `None` where `parallelism` can't be read.
    pub(super) fn parallelism(&self) -> Option<usize> {
        let desired = i32::try_from(self.desired()).unwrap_or(i32::MAX);
        let limit = self.job().spec.parallelism.as_ref();
        let limit = limit.map_or(Some(i32::MAX), |limit| scaled(limit, desired, Rounding::Up))?;
        Some(usize::try_from(limit).unwrap_or(0))
    }

    /// The Nodes that lack a Pod, by name.
    pub(super) fn lacking(&self) -> impl Iterator<Item = &'a str> {
        let lacks = |slot: &NodeSlot<'_>| slot.misfit.is_none() && slot.pods.is_empty();
        self.slots.iter().filter(move |(_, slot)| lacks(slot)).map(|(name, _)| *name)
    }

    /// Every Node that is to have a Pod has one that came to its end. Without any the job waits for one.
    pub(super) fn is_complete(&self) -> bool {
        let mut desired = self.slots.values().filter(|slot| slot.is_desired()).peekable();
        desired.peek().is_some() && desired.all(NodeSlot::is_done)
    }

    /// Pods that are for a Node that does not suit any more, and not there yet. One that is there comes to its end.
    pub(super) fn misplaced(&self) -> impl Iterator<Item = &JobPod<'a>> {
        let unfit = self.slots.values().filter(|slot| slot.misfit.is_some()).flat_map(|slot| &slot.pods);
        let is_waiting = |pod: &&JobPod<'_>| {
            pod.class == Class::Active && pod.pod.spec.node_name.is_empty() && pod.pod.spec.node().is_some()
        };
        unfit.chain(&self.elsewhere).filter(is_waiting)
    }

    /// Pods on a Node that has one before them, with its name.
    pub(super) fn duplicates(&self) -> impl Iterator<Item = (&'a str, &JobPod<'a>)> {
        self.slots.iter().flat_map(|(name, slot)| {
            let stays = slot.pods.iter().filter(|pod| pod.class != Class::Ending);
            stays.skip(1).map(move |pod| (*name, pod))
        })
    }
}

fn classify(pod: &ObservedPod, restart_limit: i32) -> Class {
    // The kubelet writes how a Pod ended that is being deleted, and only then is it gone: that is no end of its own.
    if pod.metadata.deletion_timestamp.is_some() {
        return Class::Ending;
    }
    match &*pod.status.phase {
        "Succeeded" => return Class::Succeeded,
        "Failed" => return Class::Failed,
        _ => {}
    }
    let statuses = pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
    let counted = statuses.filter(|status| {
        let mut containers = pod.spec.init_containers.iter().chain(&*pod.spec.containers);
        &*pod.spec.restart_policy == "OnFailure"
            || containers.any(|it| *it.name == *status.name && &*it.restart_policy == "OnFailure")
    });
    let restarts = counted.map(|status| i64::from(status.restart_count)).reduce(|sum, more| sum + more);
    let is_broken = restarts.is_some_and(|restarts| restarts > i64::from(restart_limit));
    if is_broken { Class::Broken } else { Class::Active }
}
