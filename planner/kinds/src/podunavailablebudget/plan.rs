//! What the controller does about a budget: it counts, forgets what has taken effect, and marks Pods
//! (docs/behaviour/podunavailablebudget.md#the-controller). A pure function of what was found.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::annotations::{RELATED_PUB, RELATED_PUB_OLDER};
use api::features::FeatureGates;
use api::kinds::podunavailablebudget::{PodUnavailableBudget, Status};
use jiff::Timestamp;

use super::available::{Availability, trace};
use super::budget::{Scope, mark};
use super::record::{self, Entry};
use super::terms::{desired_available, given_total};
use super::validation::conflict;
use crate::workload::object_version::ObjectVersion;
use pod::observed::ObservedPod;
use pod::write::PodWrite;
use values::event::{Event, normal, warning};

/// Pods that are marked in one pass.
const MARKS: usize = 200;
/// When the next ones are marked.
const NEXT_MARKS: Duration = Duration::from_secs(1);

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The budget. It must be as new as any state in which the controller saw its Pods being changed.
    pub budget: &'a PodUnavailableBudget,
    /// The other budgets of its namespace.
    pub others: &'a [Arc<PodUnavailableBudget>],
    /// Its Pods: those of the target, or those that the selector matches. Pods that have ended or are being deleted
    /// may be among them, so that it is known that they go.
    pub pods: &'a [Arc<ObservedPod>],
    /// The target, if it exists; with a selector the workload behind each controller of the Pods, in any number. One
    /// of which nothing is known is left out.
    pub workloads: &'a [Workload],
    /// The feature gates.
    pub gates: &'a FeatureGates,
}

/// A workload behind Pods of a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its identity: each is counted once.
    pub uid: String,
    /// How many Pods it is to have; `None` where that is not known, as of a Job.
    pub replicas: Option<i32>,
    /// It is being deleted.
    pub is_deleted: bool,
}

/// What to do. Nothing of it hangs on the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The merge patch of `/status`, with its preconditions; `None` where nothing differs.
    pub status: Option<String>,
    /// Pods to mark, with the write that does it.
    pub marks: Vec<(ObjectVersion, PodWrite)>,
    /// Events about the budget.
    pub events: Vec<Event>,
    /// Events about Pods.
    pub pod_events: Vec<(ObjectVersion, Event)>,
    /// When to reconcile again although nothing has changed.
    pub requeue_after: Option<Duration>,
}

/// Decides what to do about a budget that is not being deleted.
pub fn plan(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let budget = snapshot.budget;
    let mut plan = Plan::default();
    let Members { total, pods, target_is_gone } = Members::of(snapshot);
    let total = given_total(budget).unwrap_or(total);
    let mut status = budget.status.clone();
    let next = forget_outdated(&mut status, snapshot, now, &mut plan.pod_events);
    let available = Availability::new(snapshot.gates);
    let counts = |pod: &&&Arc<ObservedPod>| {
        let metadata = &pod.metadata;
        Entry::of(&status, &metadata.name, metadata.created()).is_none() && available.holds_for(pod)
    };
    status.current_available = saturated(pods.iter().filter(counts).count());
    status.total_replicas = total;
    status.observed_generation = budget.metadata.generation;
    let desired = if target_is_gone { Ok(0) } else { desired_available(&budget.spec, total) };
    match desired {
        Ok(desired) => {
            status.desired_available = desired;
            status.unavailable_allowed = status.current_available.saturating_sub(desired).max(0);
            plan.status = record::patch(budget, &status);
        }
        Err(problem) => plan.events.push(warning(
            "CalculateExpectedPodCountFailed",
            format!("Failed to calculate the number of expected pods: {problem}"),
        )),
    }
    plan.marks = marks(snapshot, &pods);
    let more = plan.marks.len() > MARKS;
    plan.marks.truncate(MARKS);
    let is_new = budget.status.observed_generation != budget.metadata.generation;
    let had_pods = budget.status.current_available > 0 || budget.status.total_replicas > 0;
    if pods.is_empty() && (is_new || had_pods) {
        plan.events.push(normal("NoPods", "No matching pods found".to_owned()));
    }
    if is_new {
        plan.events.extend(conflicting(snapshot));
    }
    let recheck = next.map(|next| Duration::try_from(next.duration_since(now)).unwrap_or_default());
    let recheck = recheck.map(|recheck| recheck.max(Duration::from_millis(1)));
    plan.requeue_after = recheck.into_iter().chain(more.then_some(NEXT_MARKS)).min();
    plan
}

/// What a budget counts.
struct Members<'a> {
    /// The replicas of the workloads.
    total: i32,
    /// The active Pods.
    pods: Vec<&'a Arc<ObservedPod>>,
    /// `spec.targetRef` leads to nothing that lives: what is left of its Pods is to be collected.
    target_is_gone: bool,
}

impl<'a> Members<'a> {
    fn of(snapshot: &Snapshot<'a>) -> Self {
        let workloads = snapshot.workloads.iter().filter(|workload| !workload.is_deleted);
        let alive: BTreeMap<&str, Option<i32>> =
            workloads.map(|workload| (&*workload.uid, workload.replicas)).collect();
        let has_target = snapshot.budget.spec.target_ref.is_some();
        let is_empty = has_target && alive.values().all(|replicas| *replicas == Some(0));
        let replicas = alive.values().flatten();
        Self {
            total: replicas.fold(0, |total: i32, replicas| total.saturating_add((*replicas).max(0))),
            pods: snapshot.pods.iter().filter(|pod| pod.is_active() && !is_empty).collect(),
            target_is_gone: has_target && alive.is_empty(),
        }
    }
}

/// The recorded Pods whose time has ended, and which a plan would count again. They have to be read before: the watch of
/// Pods may be so far behind that it does not show yet what was admitted. One that is gone although it is among the
/// Pods of the snapshot shows that these are too old to be counted.
pub fn ended(snapshot: &Snapshot<'_>, now: Timestamp) -> Vec<String> {
    let entries = recorded(&snapshot.budget.status, snapshot).into_iter();
    entries.filter(|entry| entry.end.is_some_and(|end| end <= now)).map(|entry| entry.name).collect()
}

/// What is recorded under a name.
struct Recorded<'a> {
    name: String,
    /// The Pod that it speaks of, if it is there and was to leave.
    leaver: Option<&'a Arc<ObservedPod>>,
    /// When it ends; `None` where the recorded change was observed.
    end: Option<Timestamp>,
}

/// The entries of a status, by name.
///
/// What is observed may be old. A Pod that is being deleted ends its own entry, and none of a later Pod of that name,
/// which may not be observed yet. A Pod that is not observed at all may be too young for that, and keeps its entry too.
fn recorded<'a>(status: &Status, snapshot: &Snapshot<'a>) -> Vec<Recorded<'a>> {
    let names = status.disrupted_pods.keys().chain(status.unavailable_pods.keys());
    let names: BTreeSet<&str> = names.map(String::as_str).collect();
    let found = snapshot.pods.iter().filter(|pod| names.contains(&*pod.metadata.name));
    let found: HashMap<&str, &Arc<ObservedPod>> = found.map(|pod| (&*pod.metadata.name, pod)).collect();
    let entries = names.into_iter().map(|name| {
        let pod = found.get(name).copied();
        let entry = Entry::of(status, name, pod.and_then(|pod| pod.metadata.created()));
        let own = pod.filter(|pod| entry.is_some_and(|entry| entry.is_of(&pod.metadata.uid)));
        let is_over = |pod: &ObservedPod| {
            !pod.is_active() || entry.is_some_and(|entry| entry.is_over(&pod.metadata.uid, trace(pod)))
        };
        let is_over = own.is_some_and(|pod| is_over(pod));
        Recorded {
            name: name.to_owned(),
            leaver: own.filter(|_| !is_over && entry.is_some_and(|entry| entry.leaves)),
            end: entry.filter(|_| !is_over).map(|entry| entry.end()),
        }
    });
    entries.collect()
}

/// Drops entries whose Pods are observed to be deleted, or whose time has ended. Gives the time at which the next one
/// ends.
fn forget_outdated(
    status: &mut Status,
    snapshot: &Snapshot<'_>,
    now: Timestamp,
    events: &mut Vec<(ObjectVersion, Event)>,
) -> Option<Timestamp> {
    let mut next: Option<Timestamp> = None;
    for Recorded { name, leaver, end } in recorded(status, snapshot) {
        match end {
            Some(end) if now < end => next = Some(next.map_or(end, |next| next.min(end))),
            _ => {
                events.extend(leaver.map(|pod| (ObjectVersion::pod(pod), not_deleted(snapshot.budget))));
                record::forget(status, &name);
            }
        }
    }
    next
}

fn not_deleted(budget: &PodUnavailableBudget) -> Event {
    let metadata = &budget.metadata;
    let message = format!(
        "Pod was expected by PUB {}/{} to be deleted but it wasn't",
        metadata.namespace, metadata.name
    );
    warning("NotDeleted", message)
}

/// Pods that are not marked, or with a budget that is gone or can't protect them.
fn marks(snapshot: &Snapshot<'_>, pods: &[&Arc<ObservedPod>]) -> Vec<(ObjectVersion, PodWrite)> {
    let own = Scope::of(snapshot.budget);
    let name = &snapshot.budget.metadata.name;
    let others: Vec<Scope> = if pods.iter().any(|pod| mark(pod).is_some_and(|mark| mark != *name)) {
        snapshot.others.iter().map(|other| Scope::of(other)).collect()
    } else {
        Vec::new()
    };
    let is_marked = |pod: &ObservedPod| {
        let Some(mark) = mark(pod) else { return false };
        let right =
            |other: &Scope| other.matches(pod) || !own.names_workload_of(pod) && other.may_be_marked(pod);
        mark == *name || others.iter().any(|other| *other.name == *mark && right(other))
    };
    let unmarked = pods.iter().filter(|pod| !is_marked(pod));
    unmarked
        .map(|pod| {
            let mut write = PodWrite::default();
            for annotation in [RELATED_PUB, RELATED_PUB_OLDER] {
                write.set_annotation(annotation, name.as_str());
            }
            (ObjectVersion::pod(pod), write)
        })
        .collect()
}

/// Budgets that were created at the same moment may conflict, which their webhook could not see.
fn conflicting(snapshot: &Snapshot<'_>) -> Option<Event> {
    let other =
        snapshot.others.iter().find(|other| conflict(&snapshot.budget.spec, &other.spec).is_some())?;
    let message = format!("protects Pods that PodUnavailableBudget {} protects too", other.metadata.name);
    Some(warning("Conflict", message))
}

fn saturated(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
