//! The scale step (docs/behaviour/daemonset.md#scale-step): creates the Pods that Nodes lack, and deletes those that
//! failed, that are too many, or that are on Nodes where they do not belong.

use jiff::Timestamp;

use super::pod;
use super::working::{DaemonPod, NodeSlot, Working};
use crate::workload::action::{Action, DeleteReason};
use crate::workload::deletion::delete;
use values::event::{Event, warning};
use values::moment::Random;

/// What the step comes to.
#[derive(Debug, Default)]
pub(super) struct Scale {
    pub(super) actions: Vec<Action>,
    /// Nodes that lack a Pod.
    pub(super) missing: usize,
    /// Of these, such as stay without one since the partition keeps them so.
    pub(super) unpopulated: usize,
    /// Why not all Pods are created.
    pub(super) problem: Option<String>,
    pub(super) events: Vec<Event>,
    /// When to reconcile again.
    pub(super) again: Option<Timestamp>,
}

impl Scale {
    fn requeue_at(&mut self, time: Timestamp) {
        self.again = [self.again, Some(time)].into_iter().flatten().min();
    }
}

/// What is to be done on the Nodes.
#[derive(Default)]
struct Wanted<'w, 'a> {
    /// Nodes that lack a Pod, by name.
    nodes: Vec<&'a str>,
    deletions: Vec<(&'w DaemonPod<'a>, DeleteReason)>,
}

pub(super) fn plan(working: &Working<'_>, random: &mut Random) -> Scale {
    let (mut scale, mut wanted) = (Scale::default(), Wanted::default());
    for (node, slot) in &working.slots {
        plan_node(working, node, slot, &mut wanted, &mut scale);
    }
    let lost = working.lost.iter().filter(|pod| !pod.is_terminating());
    wanted.deletions.extend(lost.map(|pod| (pod, DeleteReason::Misplaced)));
    scale.missing = wanted.nodes.len();
    if let Some(unpopulated) = working.settings.unpopulated {
        let is_populated = |slot: &&NodeSlot<'_>| slot.pair().is_some_and(|pair| pair.new.is_some());
        let populated = working.slots.values().filter(is_populated).count();
        let limit = working.desired().saturating_sub(populated).saturating_sub(unpopulated);
        scale.unpopulated = wanted.nodes.len().saturating_sub(limit);
        wanted.nodes.truncate(limit);
    }
    // Where a Pod was refused, it is tried again after all others: after a failure no others are tried.
    wanted.nodes.sort_by_key(|node| working.snapshot.refused.contains(*node));
    let burst = working.settings.burst;
    scale.actions = create(working, random, wanted.nodes.into_iter().take(burst), &mut scale.problem);
    let hooks = &working.set().spec.lifecycle;
    let deletions = wanted.deletions.into_iter();
    let deletions = deletions.filter_map(|(pod, reason)| delete(pod.pod(), hooks, reason, working.now));
    let deletions: Vec<Action> = within_burst(deletions, burst).collect();
    scale.events = deletions.iter().filter_map(|action| failed_pod(working, action)).collect();
    scale.actions.extend(deletions);
    scale
}

/// Creates Pods on these Nodes.
pub(super) fn create<'n>(
    working: &Working<'_>,
    random: &mut Random,
    nodes: impl Iterator<Item = &'n str>,
    problem: &mut Option<String>,
) -> Vec<Action> {
    let mut created = Vec::new();
    for node in nodes {
        match pod::create(working, node, random) {
            Ok(action) => created.push(action),
            Err(error) => drop(problem.get_or_insert(error)),
        }
    }
    created
}

/// No more than `burst` deletions; writes that notify hooks are not limited.
pub(super) fn within_burst(
    actions: impl Iterator<Item = Action>,
    burst: usize,
) -> impl Iterator<Item = Action> {
    let mut deleted = 0_usize;
    actions.filter(move |action| {
        let is_deletion = matches!(action, Action::DeletePod { .. });
        deleted += usize::from(is_deletion);
        !is_deletion || deleted <= burst
    })
}

/// What is to be done on one Node.
fn plan_node<'w, 'a>(
    working: &'w Working<'a>,
    node: &'a str,
    slot: &'w NodeSlot<'a>,
    wanted: &mut Wanted<'w, 'a>,
    scale: &mut Scale,
) {
    if !slot.fit.may_stay {
        wanted.deletions.extend(slot.alive().map(|pod| (pod, DeleteReason::Misplaced)));
        return;
    }
    // A Pod that is adopted now is considered once it belongs here.
    let lacks_pod = slot.fit.should_run && !working.awaited.contains(node);
    let mut running = Vec::new();
    let mut is_replaced = false;
    for pod in slot.alive() {
        if pod.member.is_preparing_delete() {
            wanted.deletions.push((pod, DeleteReason::Released));
        } else if pod.has_failed() {
            // One at a time: each makes the pause grow.
            if !std::mem::replace(&mut is_replaced, true) {
                replace_failed(working, node, pod, wanted, scale);
            }
        } else {
            running.push(pod);
        }
    }
    // Creation times are whole seconds: of Pods of one age it is not the one that serves that is too many.
    running.sort_by_key(|pod| !pod.member.is_serving);
    if !working.settings.surges {
        // A Pod that ends keeps the place until it is gone.
        if lacks_pod && slot.pods.is_empty() {
            wanted.nodes.push(node);
        }
        wanted.deletions.extend(running.into_iter().skip(1).map(|pod| (pod, DeleteReason::ScaleIn)));
        return;
    }
    // A Node on which new Pods fail gets the next one when the last one gives way.
    let fails = |pod: &DaemonPod<'_>| pod.has_failed() && working.is_at_hash(pod);
    match running.len() {
        0 if lacks_pod && !slot.alive().any(fails) => wanted.nodes.push(node),
        0 | 1 => {}
        _ => finish_surge(working, &running, wanted),
    }
}

/// A Pod that failed gives way, at once the first time and after growing pauses then.
fn replace_failed<'w, 'a>(
    working: &'w Working<'a>,
    node: &str,
    pod: &'w DaemonPod<'a>,
    wanted: &mut Wanted<'w, 'a>,
    scale: &mut Scale,
) {
    let generation = working.set().status.observed_generation;
    if let Some(due) = working.snapshot.failures.due(node, generation, working.now) {
        scale.requeue_at(due);
        return;
    }
    wanted.deletions.push((pod, DeleteReason::Ended));
}

/// Reports a failed Pod that is deleted.
fn failed_pod(working: &Working<'_>, action: &Action) -> Option<Event> {
    let Action::DeletePod { pod, reason: DeleteReason::Ended, .. } = action else { return None };
    let known = working.pods().find(|known| known.name() == pod.name)?;
    let (namespace, node) = (&working.set().metadata.namespace, known.pod().spec.node().unwrap_or_default());
    let message =
        format!("Found failed daemon pod {namespace}/{} on node {node}, will try to kill it", pod.name);
    Some(warning("FailedDaemonPod", message))
}

/// A Node with several Pods keeps one at the present revision and one other, until the first is available or the other
/// is not ready.
fn finish_surge<'w, 'a>(working: &Working<'a>, running: &[&'w DaemonPod<'a>], wanted: &mut Wanted<'w, 'a>) {
    let new = running.iter().find(|pod| working.is_at_hash(pod));
    let old = running.iter().find(|pod| !working.is_at_hash(pod));
    let is_kept = |pod: &DaemonPod<'_>| new.into_iter().chain(old).any(|kept| kept.name() == pod.name());
    let surplus = running.iter().filter(|pod| !is_kept(pod));
    wanted.deletions.extend(surplus.map(|pod| (*pod, DeleteReason::ScaleIn)));
    if let (Some(new), Some(old)) = (new, old)
        && (!old.pod().is_ready() || new.member.is_available)
    {
        wanted.deletions.push((old, DeleteReason::Recreate));
    }
}
