//! BroadcastJobs in the simulation, and the rules that hold for them alone.
//!
//! 1. *Twice.* A Node gets a Pod only where the job has none, whatever state that would be in.
//! 2. *Fit.* A Pod is created only on a Node that suits the template.
//! 3. *Parallel.* No plan has more Pods run than `parallelism` allows.
//! 4. *Held.* Nothing is created while the job is paused or over.
//! 5. *Kept.* A Pod that came to an end of its own is never deleted; one that runs, only when the job ends; one that
//!    waits for its Node, also where that does not suit any more.
//! 6. *Time.* The job deletes itself when its time is over, and not before.
//! 7. *Rest.* In the end no Pod runs. A job that is to end has ended; one that is to stay has come to the end of a Pod on
//!    each Node that suits, or has failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::features::FeatureGates;
use api::kinds::broadcastjob::{BroadcastJob, FailurePolicyType, Spec, Status};
use api::kinds::shared::{Lifecycle, PodUpdatePolicy};
use api::kinds::{Object, Time};
use jiff::Timestamp;

use super::kind::{Bounds, Deed, End, Scene, Simulated, Violation, is_ended};
use kinds::broadcastjob::defaulting;
use kinds::broadcastjob::fit::Requirements;
use kinds::broadcastjob::{is_finished, stays};
use kinds::workload::action::{Action, DeleteReason};
use kinds::workload::plan::Plan;
use pod::node_fit::Nodes;
use pod::observed::ObservedPod;
use values::json_patch::Patch;
use values::percent::{Rounding, scaled};
use values::verdict::Denial;

/// What users do to a job, beside giving it another spec: nothing.
#[derive(Clone, Debug)]
pub enum Edit {}

/// Pods of jobs have no hooks.
static NO_HOOKS: Lifecycle = Lifecycle { in_place_update: None, pre_delete: None, pre_normal: None };

impl Simulated for BroadcastJob {
    type Spec = Spec;
    type Edit = Edit;
    const PODS_END: bool = true;
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
        gates: &FeatureGates,
    ) -> Result<Patch, Denial> {
        defaulting::default(object, old, version, gates)
    }

    fn edit(&mut self, edit: &Edit, _pods: &[Arc<ObservedPod>]) -> Option<String> {
        match *edit {}
    }

    fn lifecycle(&self) -> &Lifecycle {
        &NO_HOOKS
    }

    fn bounds(&self, nodes: &Nodes) -> Bounds {
        let replicas = number(suited(self, nodes).len());
        Bounds { replicas, max_unavailable: replicas, max_surge: 0, min_ready_seconds: 0 }
    }

    fn update_policy(&self) -> Option<&PodUpdatePolicy> {
        None
    }

    fn revision_history_limit(&self) -> usize {
        0
    }

    /// Rules of its own count Nodes.
    fn is_counted(&self, _pod: &ObservedPod) -> bool {
        false
    }

    fn judge_plan(plan: &Plan<Status>, scene: &Scene<'_, Self>, broken: &mut Vec<Violation>) {
        let job = scene.workload();
        let creations = plan.scale.iter().filter(|action| matches!(action, Action::CreatePod { .. })).count();
        if creations > 0 {
            let running = scene.observed().filter(|pod| !is_broken(job, pod)).count();
            let limit = parallelism(scene);
            if number(running + creations) > limit {
                let text = format!("{creations} Pods are to be created beside {running}, of {limit}");
                broken.push(Violation::new("Parallel", text));
            }
            if job.spec.paused || is_finished(job) || job.status.phase == "failed" {
                broken.push(Violation::new("Held", format!("{creations} Pods are to be created")));
            }
        }
        let deletes = plan.scale.iter().any(|action| matches!(action, Action::DeleteChild { .. }));
        if deletes && end_of_time(job).is_none_or(|end| scene.now() < end) {
            broken.push(Violation::new("Time", "the job is to be deleted too early".to_owned()));
        }
    }

    fn judge_deed(deed: &Deed<'_>, scene: &Scene<'_, Self>, broken: &mut Vec<Violation>) {
        match *deed {
            Deed::Create(pod) => judge_creation(scene, pod, broken),
            Deed::Delete { pod, reason } => judge_deletion(scene, pod, reason, broken),
            Deed::Write { pod, .. } => {
                let text = format!("Pod {} is written to", pod.metadata.name);
                broken.push(Violation::new("Kept", text));
            }
        }
    }

    fn unrest(end: &End<'_, Self>) -> Vec<String> {
        let BroadcastJob { metadata, status, .. } = end.workload;
        let mut unrest = Vec::new();
        let mut expect = |holds: bool, text: String| {
            if !holds {
                unrest.push(text);
            }
        };
        let phase = status.phase.as_str();
        let served: BTreeMap<&str, usize> =
            end.ended.iter().filter_map(|pod| pod.spec.node()).fold(BTreeMap::new(), |mut served, node| {
                *served.entry(node).or_default() += 1;
                served
            });
        let crowded: Vec<_> = served.iter().filter(|(_, count)| **count > 1).collect();
        expect(crowded.is_empty(), format!("several Pods came to their end on {crowded:?}"));
        expect(status.active.unwrap_or(0) == 0, format!("the status says that {:?} Pods run", status.active));
        let wanted = suited(end.workload, end.nodes);
        if phase != "failed" && (stays(end.workload) || wanted.is_empty()) {
            let lacking: Vec<_> = wanted.iter().filter(|node| !served.contains_key(**node)).collect();
            expect(phase == "running", format!("the job is {phase}"));
            expect(lacking.is_empty(), format!("no Pod has come to its end on {lacking:?}"));
            let succeeded = end.ended.iter().filter(|pod| &*pod.status.phase == "Succeeded").count();
            let counts = [status.succeeded, status.failed].map(|count| i64::from(count.unwrap_or(0)));
            let real = [number(succeeded), number(end.ended.len() - succeeded)];
            expect(counts == real, format!("the status says {counts:?} of {real:?}"));
        } else if !stays(end.workload) {
            expect(is_finished(end.workload), format!("the job is {phase}, and does not end"));
            let is_due = end_of_time(end.workload).is_some();
            expect(metadata.deletion_timestamp.is_some() == is_due, "the job outlives its time".to_owned());
        }
        unrest
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn fits(job: &BroadcastJob, nodes: &Nodes, name: &str) -> bool {
    let requirements = Requirements::of(job.spec.template.as_ref()).ok();
    requirements.zip(nodes.get(name)).is_some_and(|(requirements, node)| requirements.fits(name, node))
}

/// The Nodes that suit the template.
fn suited<'n>(job: &BroadcastJob, nodes: &'n Nodes) -> BTreeSet<&'n str> {
    nodes.keys().map(|name| &**name).filter(|name| fits(job, nodes, name)).collect()
}

/// The Pod restarted more often than it may.
fn is_broken(job: &BroadcastJob, pod: &ObservedPod) -> bool {
    let restarts: i32 = pod.status.container_statuses.iter().map(|status| status.restart_count).sum();
    let limit = job.spec.failure_policy.restart_limit.unwrap_or(0);
    &*pod.spec.restart_policy == "OnFailure" && restarts > limit
}

/// Pods of the job, whatever state they are in.
fn is_own(scene: &Scene<'_, BroadcastJob>, pod: &ObservedPod) -> bool {
    pod.controller().is_some_and(|owner| owner.uid == scene.workload().metadata.uid)
}

/// How many Pods may run, as the plan could know.
fn parallelism(scene: &Scene<'_, BroadcastJob>) -> i64 {
    let mut desired = suited(scene.workload(), scene.nodes());
    let on_nodes = scene.all_seen().filter(|pod| is_own(scene, pod));
    let on_nodes = on_nodes.filter(|pod| is_ended(pod) || !pod.spec.node_name.is_empty());
    let exists = |node: &&str| scene.nodes().contains_key(*node);
    desired.extend(on_nodes.filter_map(|pod| pod.spec.node()).filter(exists));
    let desired = i32::try_from(desired.len()).unwrap_or(i32::MAX);
    let limit = scene.workload().spec.parallelism.as_ref();
    i64::from(limit.and_then(|limit| scaled(limit, desired, Rounding::Up)).unwrap_or(i32::MAX))
}

/// When the job deletes itself.
fn end_of_time(job: &BroadcastJob) -> Option<Timestamp> {
    let completed = job.status.completion_time.as_ref().and_then(Time::timestamp)?;
    let ttl = job.spec.completion_policy.ttl_seconds_after_finished.filter(|_| is_finished(job))?;
    completed.checked_add(jiff::SignedDuration::from_secs(ttl.into())).ok()
}

/// Rules 1 and 2, of a Pod that was created.
fn judge_creation(scene: &Scene<'_, BroadcastJob>, pod: &ObservedPod, broken: &mut Vec<Violation>) {
    let (name, node) = (&pod.metadata.name, pod.spec.node().unwrap_or_default());
    if !fits(scene.workload(), scene.nodes(), node) {
        broken.push(Violation::new("Fit", format!("Pod {name} is created on {node}, which does not suit")));
    }
    // Nobody else creates Pods of the job: the controller knows of all there are.
    let is_other = |other: &&Arc<ObservedPod>| {
        other.metadata.uid != pod.metadata.uid && is_own(scene, other) && other.spec.node() == Some(node)
    };
    if let Some(other) = scene.pods().find(is_other) {
        let (other, phase) = (&other.metadata.name, &other.status.phase);
        let text = format!("Pod {name} is created on {node}, where Pod {other} is, {phase}");
        broken.push(Violation::new("Twice", text));
    }
}

/// Rule 5.
fn judge_deletion(
    scene: &Scene<'_, BroadcastJob>,
    pod: &ObservedPod,
    reason: DeleteReason,
    broken: &mut Vec<Violation>,
) {
    let node = pod.spec.node().unwrap_or_default();
    let holds = match reason {
        DeleteReason::Misplaced => {
            pod.spec.node_name.is_empty() && !fits(scene.workload(), scene.nodes(), node)
        }
        DeleteReason::ScaleIn => is_ending(scene),
        _ => false,
    };
    if !holds || is_ended(pod) {
        let text = format!("Pod {} on {node} is deleted as {reason:?}, which it is not", pod.metadata.name);
        broken.push(Violation::new("Kept", text));
    }
}

/// The plan could know that the job ends, or has ended.
fn is_ending(scene: &Scene<'_, BroadcastJob>) -> bool {
    let job = scene.workload();
    let own = || scene.all_seen().filter(|pod| is_own(scene, pod));
    let is_done = |pod: &Arc<ObservedPod>| is_ended(pod) || is_broken(job, pod);
    let fails_fast = job.spec.failure_policy.kind.clone().unwrap_or_default() == FailurePolicyType::FailFast;
    let has_failed = own().any(|pod| is_done(pod) && &*pod.status.phase != "Succeeded");
    let deadline = job.spec.completion_policy.active_deadline_seconds.zip(job.status.start_time.as_ref());
    let is_late = deadline.is_some_and(|(seconds, start)| {
        start.timestamp().is_some_and(|start| scene.now().duration_since(start).as_secs() >= seconds)
    });
    let is_served = |node: &&str| own().any(|pod| is_done(pod) && pod.spec.node() == Some(*node));
    let mut wanted = suited(job, scene.nodes());
    wanted.retain(|node| !is_served(node));
    is_finished(job)
        || job.status.phase == "failed"
        || (fails_fast && has_failed)
        || (!stays(job) && (is_late || wanted.is_empty()))
}
