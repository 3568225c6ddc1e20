//! DaemonSets in the simulation, and the rules that hold for them alone.
//!
//! 1. *Twice.* A Node gets a Pod only where it has none; with a surge, where no other of that revision stays.
//! 2. *Fit.* A Pod is created only on a Node that suits the template, and none stays where it must not.
//! 3. *Nodes.* A rollout leaves so many Nodes with an available Pod as `maxUnavailable` asks for, whatever `partition`
//!    keeps; with a surge every one. *Served.* Before a Pod is deleted that serves and is not available, Nodes with a
//!    Pod of an older revision that serves count too.
//! 4. *Partition.* A rollout leaves as many Nodes as they are as `partition` asks for.
//! 5. *Held.* Nothing is updated while the DaemonSet is paused or of type OnDelete, but for a surge that has begun.
//! 6. *First.* No Pod that serves is updated while one that does not could be, and stays.
//! 7. *Rest.* In the end each Node that suits has one Pod, and no other Node has any.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::features::FeatureGates;
use api::kinds::Object;
use api::kinds::daemonset::{DaemonSet, Spec, Status};
use api::kinds::shared::{Lifecycle, PodUpdatePolicy};

use super::kind::{Bounds, Deed, End, Scene, Simulated, Violation, is_at, is_preparing_delete, is_serving};
use kinds::daemonset::defaulting;
use kinds::daemonset::fit::{Fit, Requirements};
use kinds::daemonset::settings::Settings;
use kinds::workload::action::{Action, DeleteReason, WriteReason};
use kinds::workload::plan::Plan;
use pod::inplace::in_grace;
use pod::node_fit::Nodes;
use pod::observed::ObservedPod;
use values::json_patch::Patch;
use values::verdict::Denial;

/// What users do to a DaemonSet, beside giving it another spec: nothing.
#[derive(Clone, Debug)]
pub enum Edit {}

impl Simulated for DaemonSet {
    type Spec = Spec;
    type Edit = Edit;
    const SCALES_IN_WITHIN_BUDGET: bool = false;

    fn object(&self) -> &Object<Spec, Status> {
        self
    }

    fn object_mut(&mut self) -> &mut Object<Spec, Status> {
        self
    }

    fn defaults(
        object: &str,
        old: Option<&str>,
        version: &str,
        _gates: &FeatureGates,
    ) -> Result<Patch, Denial> {
        defaulting::default(object, old, version)
    }

    fn edit(&mut self, edit: &Edit, _pods: &[Arc<ObservedPod>]) -> Option<String> {
        match *edit {}
    }

    fn lifecycle(&self) -> &Lifecycle {
        &self.spec.lifecycle
    }

    fn bounds(&self, nodes: &Nodes) -> Bounds {
        let desired = suited(self, nodes).len();
        let settings = Settings::of(&self.spec, desired);
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        Bounds {
            replicas: number(desired),
            max_unavailable: number(settings.max_unavailable.min(desired)),
            max_surge: number(settings.max_surge.min(desired)),
            min_ready_seconds: settings.min_ready_seconds,
        }
    }

    fn update_policy(&self) -> Option<&PodUpdatePolicy> {
        Settings::of(&self.spec, 0).in_place.then_some(&PodUpdatePolicy::InPlaceIfPossible)
    }

    fn revision_history_limit(&self) -> usize {
        usize::try_from(self.spec.revision_history_limit.unwrap_or(10)).unwrap_or(0)
    }

    /// Rules of its own count Nodes.
    fn is_counted(&self, _pod: &ObservedPod) -> bool {
        false
    }

    fn judge_plan(plan: &Plan<Status>, scene: &Scene<'_, Self>, broken: &mut Vec<Violation>) {
        judge_order(plan, scene, broken);
        let settings = settings(scene);
        if !settings.paused && !settings.on_delete {
            return;
        }
        let begins = |action: &&Action| {
            let creates_or_deletes = matches!(
                action,
                Action::CreatePod { .. } | Action::DeletePod { reason: DeleteReason::Recreate, .. }
            );
            action.updated_pod().is_some() || creates_or_deletes
        };
        if let Some(action) = plan.update.iter().find(begins) {
            broken.push(Violation::new("Held", action.to_string()));
        }
    }

    fn judge_deed(deed: &Deed<'_>, scene: &Scene<'_, Self>, broken: &mut Vec<Violation>) {
        match *deed {
            Deed::Create(pod) => judge_creation(scene, pod, broken),
            Deed::Delete { pod, reason } => judge_deletion(scene, pod, reason, broken),
            Deed::Write { pod, reason: WriteReason::UpdateInPlace, .. } => judge_update(scene, pod, broken),
            Deed::Write { .. } => {}
        }
    }

    fn unrest(end: &End<'_, Self>) -> Vec<String> {
        let DaemonSet { metadata, spec, status } = end.workload;
        let mut unrest = Vec::new();
        let mut expect = |holds: bool, text: String| {
            if !holds {
                unrest.push(text);
            }
        };
        let wanted = suited(end.workload, end.nodes);
        let mut nodes: Vec<&str> = end.pods.iter().filter_map(|pod| pod.spec.node()).collect();
        nodes.sort_unstable();
        let expected: Vec<&str> = wanted.iter().copied().collect();
        expect(nodes == expected, format!("there are Pods on {nodes:?}, and {expected:?} are to have one"));
        let settings = Settings::of(spec, wanted.len());
        let old = end.count(|pod| !is_at(pod, &end.update_revision));
        if !settings.on_delete {
            expect(old == 0, format!("{old} Pods are at older revisions"));
        }
        let total = i64::try_from(wanted.len()).unwrap_or(i64::MAX);
        let counts = [
            status.desired_number_scheduled,
            status.number_available.unwrap_or(0),
            status.updated_number_scheduled,
        ]
        .map(i64::from);
        let real = [total, end.available, total - old];
        expect(
            counts == real && status.observed_generation == metadata.generation,
            format!("the status says {counts:?} of {real:?}"),
        );
        unrest
    }
}

fn settings(scene: &Scene<'_, DaemonSet>) -> Settings {
    Settings::of(&scene.workload().spec, suited(scene.workload(), scene.nodes()).len())
}

fn fit(set: &DaemonSet, nodes: &Nodes, name: &str) -> Fit {
    let requirements = Requirements::of(set.spec.template.as_ref()).ok();
    let known = requirements.zip(nodes.get(name));
    known.map_or(Fit::default(), |(requirements, node)| requirements.fit(name, node))
}

/// The Nodes that are to have a Pod.
fn suited<'n>(set: &DaemonSet, nodes: &'n Nodes) -> BTreeSet<&'n str> {
    let names = nodes.keys().map(|name| &**name);
    names.filter(|name| fit(set, nodes, name).should_run).collect()
}

/// Rule 6. A surge takes no serving Pod away, and a burst may end before all that serve nobody had their turn.
fn judge_order(plan: &Plan<Status>, scene: &Scene<'_, DaemonSet>, broken: &mut Vec<Violation>) {
    if settings(scene).surges || scene.workload().spec.burst_replicas.is_some() {
        return;
    }
    let begun: BTreeSet<&str> =
        plan.update.iter().filter_map(Action::updated_pod).map(|pod| &*pod.uid).collect();
    let taken: BTreeSet<&str> = plan.actions().map(Action::object).collect();
    let is_old = |pod: &ObservedPod| !is_at(pod, scene.update_revision());
    let is_alone = |pod: &ObservedPod| {
        let alive = scene.all_seen().filter(|other| other.metadata.deletion_timestamp.is_none());
        alive.filter(|other| other.spec.node() == pod.spec.node()).count() == 1
    };
    let could_be_updated = |pod: &ObservedPod| {
        let node = pod.spec.node().unwrap_or_default();
        is_old(pod)
            && !is_preparing_delete(pod)
            && !in_grace(pod)
            && !scene.is_held(pod)
            && fit(scene.workload(), scene.nodes(), node).should_run
            && is_alone(pod)
    };
    let first = scene.observed().find(|pod| begun.contains(&*pod.metadata.uid) && is_serving(pod));
    let passed_over = |pod: &&Arc<ObservedPod>| {
        !taken.contains(&*pod.metadata.name) && !is_serving(pod) && could_be_updated(pod)
    };
    if let Some(first) = first
        && let Some(other) = scene.observed().find(passed_over)
    {
        let (first, other) = (&first.metadata.name, &other.metadata.name);
        let text = format!("Pod {first} is updated, and Pod {other} is not, which serves nobody");
        broken.push(Violation::new("First", text));
    }
}

/// Rules 1 and 2, of a Pod that was created.
fn judge_creation(scene: &Scene<'_, DaemonSet>, pod: &ObservedPod, broken: &mut Vec<Violation>) {
    let (name, node) = (&pod.metadata.name, pod.spec.node().unwrap_or_default());
    if !fit(scene.workload(), scene.nodes(), node).should_run {
        broken.push(Violation::new("Fit", format!("Pod {name} is created on {node}, which does not suit")));
    }
    let uid = &scene.workload().metadata.uid;
    let others = scene.pods().filter(|other| {
        other.metadata.uid != pod.metadata.uid
            && other.controller().is_some_and(|owner| owner.uid == *uid)
            && other.spec.node() == Some(node)
    });
    let surges = settings(scene).surges;
    let stays = |other: &&Arc<ObservedPod>| {
        !surges || (scene.owns(other) && !is_preparing_delete(other) && is_at(other, scene.update_revision()))
    };
    // One that was let go at this moment, or came by another's doing, is no fault of the plan.
    let was_seen = |other: &&Arc<ObservedPod>| {
        scene.observed().any(|observed| observed.metadata.uid == other.metadata.uid)
    };
    if let Some(other) = others.filter(stays).find(was_seen) {
        let text = format!("Pod {name} is created beside Pod {} on {node}", other.metadata.name);
        broken.push(Violation::new("Twice", text));
    }
}

fn judge_deletion(
    scene: &Scene<'_, DaemonSet>,
    pod: &ObservedPod,
    reason: DeleteReason,
    broken: &mut Vec<Violation>,
) {
    let node = pod.spec.node().unwrap_or_default();
    let name = &pod.metadata.name;
    let place = fit(scene.workload(), scene.nodes(), node);
    let on_node = || scene.observed().filter(|other| other.spec.node() == Some(node));
    let holds = match reason {
        DeleteReason::Misplaced => !place.may_stay,
        DeleteReason::ScaleIn => on_node().count() > 1,
        DeleteReason::Ended => !pod.is_active(),
        DeleteReason::Released => is_preparing_delete(pod),
        DeleteReason::Specified => false,
        DeleteReason::Recreate => {
            let is_pair = on_node()
                .any(|other| other.metadata.uid != pod.metadata.uid && is_at(other, scene.update_revision()));
            match is_pair && settings(scene).surges {
                true if is_serving(pod) => {
                    let has_other = scene
                        .left(|other| other.spec.node() == Some(node) && scene.is_available(other))
                        + scene.taken(|other| other.spec.node() == Some(node) && scene.is_available(other));
                    if has_other == 0 {
                        let text = format!("Pod {name} is deleted, and no available one is left on {node}");
                        broken.push(Violation::new("Nodes", text));
                    }
                }
                true => {}
                false => judge_update(scene, pod, broken),
            }
            (place.should_run || is_pair) && !is_at(pod, scene.update_revision())
        }
    };
    if !holds {
        broken.push(Violation::new("Fit", format!("Pod {name} is deleted as {reason:?}, which it is not")));
    }
}

/// Rules 3 and 4, of a Pod that is updated, in place or by another one.
fn judge_update(scene: &Scene<'_, DaemonSet>, pod: &ObservedPod, broken: &mut Vec<Violation>) {
    let settings = settings(scene);
    let name = &pod.metadata.name;
    let wanted = suited(scene.workload(), scene.nodes());
    let served = |pod: &ObservedPod| is_serving(pod) && !is_at(pod, scene.update_revision());
    if is_serving(pod) {
        let is_available = scene.is_available(pod);
        let rule = if is_available { "Nodes" } else { "Served" };
        let left = nodes_with(scene, |pod| scene.is_available(pod) || (!is_available && served(pod)));
        let served = wanted.iter().filter(|node| left.contains(**node)).count();
        if served + settings.max_unavailable < wanted.len() {
            let text = format!(
                "Pod {name} is updated: {served} of {} Nodes are in service, with maxUnavailable {}",
                wanted.len(),
                settings.max_unavailable
            );
            broken.push(Violation::new(rule, text));
        }
    }
    let is_old = |pod: &ObservedPod| !is_at(pod, scene.update_revision()) && !is_preparing_delete(pod);
    let mut kept = nodes_with(scene, |other| is_old(other) && other.metadata.uid != pod.metadata.uid);
    // A Node that had no Pod when the plan was made counts for neither side.
    kept.retain(|node| scene.nodes().contains_key(node.as_str()));
    let all: BTreeSet<&str> = scene.observed().filter_map(|pod| pod.spec.node()).collect();
    let all = all.iter().filter(|node| scene.nodes().contains_key(**node)).count();
    if kept.len() < settings.partition.min(all.saturating_sub(1))
        && settings.partition > 0
        && kept.len() < settings.partition
    {
        let text = format!(
            "Pod {name} is updated: {} Nodes are left, with partition {}",
            kept.len(),
            settings.partition
        );
        broken.push(Violation::new("Partition", text));
    }
}

/// The Nodes with a Pod of which this holds; or held when the plan was made, and does not by the doing of others.
fn nodes_with(scene: &Scene<'_, DaemonSet>, holds: impl Fn(&ObservedPod) -> bool) -> BTreeSet<String> {
    let now: BTreeMap<&str, &Arc<ObservedPod>> = scene.pods().map(|pod| (&*pod.metadata.uid, pod)).collect();
    let node = |pod: &Arc<ObservedPod>| pod.spec.node().map(str::to_owned);
    let left = scene.pods().filter(|pod| scene.owns(pod) && holds(pod)).filter_map(node);
    let is_lost = |observed: &&Arc<ObservedPod>| {
        let still = now.get(&*observed.metadata.uid).is_some_and(|pod| scene.owns(pod) && holds(pod));
        holds(observed) && !still && scene.is_taken_by_others(observed)
    };
    left.chain(scene.observed().filter(is_lost).filter_map(node)).collect()
}
