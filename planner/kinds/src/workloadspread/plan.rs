//! What the controller does about the Pods of a WorkloadSpread: their subsets, deletion costs, the status, and Pods
//! that find no node (docs/behaviour/workloadspread.md#the-controller).

use std::collections::BTreeMap;
use std::sync::Arc;

use api::annotations::POD_DELETION_COST;
use api::kinds::Time;
use api::raw_object::{RawNode, RawObject};
use jiff::{SignedDuration, Timestamp};

use super::adoption::{self, Candidate};
use super::cost::{self, Group};
use super::member::{Member, id};
use super::record::Matched;
use super::spread::{Maximum, Spread, maximum};
use super::status;
use super::version::VersionedKinds;
use pod::observed::ObservedPod;
use values::event::{Event, warning};

#[cfg(test)]
mod scalings;
#[cfg(test)]
mod tests;

/// How long a Pod that no subset took is left alone.
const FRESH: SignedDuration = SignedDuration::from_secs(5);

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The WorkloadSpread.
    pub spread: &'a Spread,
    /// The Pods of its target.
    pub pods: &'a [Arc<ObservedPod>],
    /// The replicas of its target; 0 where they are not known.
    pub replicas: i32,
    /// The version of Pods that the target wants; `None` where that is not known, and all are treated alike.
    pub latest: Option<&'a str>,
    /// The kinds whose Pods have versions.
    pub versioned: &'a VersionedKinds,
    /// Pods that [`unmarked`] names, by name.
    pub candidates: &'a BTreeMap<Box<str>, Candidate<'a>>,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Patches of Pods, first.
    pub pods: Vec<PodPatch>,
    /// The merge patch of the status, where it changes.
    pub status: Option<String>,
    /// Pods to delete when the status is written: they could not be scheduled.
    pub stuck: Vec<Stuck>,
    /// Events on the WorkloadSpread.
    pub events: Vec<Event>,
    /// When to reconcile again, if nothing changes before.
    pub next: Option<SignedDuration>,
}

/// A patch of a Pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodPatch {
    /// The Pod.
    pub pod: Arc<ObservedPod>,
    /// The strategic merge patch, which holds for this Pod and no later one of its name.
    pub patch: String,
    is_adopted: bool,
    /// The Event where the Pod's deletion cost can't be written.
    on_failure: Option<Event>,
}

/// A Pod that finds no node.
#[derive(Clone, Debug, PartialEq)]
pub struct Stuck {
    /// The Pod.
    pub pod: Arc<ObservedPod>,
    /// The Event where it can't be deleted.
    pub on_failure: Event,
}

impl PodPatch {
    /// The Pod becomes a member of a subset.
    pub fn is_adopted(&self) -> bool {
        self.is_adopted
    }

    /// The Event to record when the patch has failed.
    pub fn on_failure(&self) -> Option<&Event> {
        self.on_failure.as_ref()
    }
}

/// The Pods that run somewhere and have no mark of this WorkloadSpread: a plan has to know them as a whole, and
/// their Nodes.
pub fn unmarked<'a>(
    spread: &'a Spread,
    pods: &'a [Arc<ObservedPod>],
    now: Timestamp,
) -> impl Iterator<Item = &'a Arc<ObservedPod>> {
    pods.iter().filter(move |pod| {
        let is_bound = !pod.spec.node_name.is_empty();
        is_bound
            && spread.selects(&pod.metadata.labels)
            && mark(spread, pod).is_none()
            && !is_fresh(spread, pod, now)
    })
}

/// A Pod that no subset took a moment ago: it is left alone until something else happens
/// (docs/behaviour/workloadspread.md#pods-that-get-no-slot).
fn is_fresh(spread: &Spread, pod: &ObservedPod, now: Timestamp) -> bool {
    let spread_created = spread.object().metadata.creation_timestamp.as_ref().and_then(Time::timestamp);
    let (Some(created), Some(spread_created)) = (pod.metadata.created(), spread_created) else {
        return false;
    };
    created > spread_created && now.duration_since(created) < FRESH
}

/// What a Pod says about this WorkloadSpread.
fn mark(spread: &Spread, pod: &ObservedPod) -> Option<Matched> {
    Matched::of(pod).filter(|matched| matched.name == spread.name() && !matched.subset.is_empty())
}

/// Plans what to do.
pub fn plan(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let members =
        members(snapshot, |pod| mark(snapshot.spread, pod).is_some() || !is_fresh(snapshot.spread, pod, now));
    let mut counted = status::count(snapshot.spread, &members, snapshot.replicas, now);
    let stuck = std::mem::take(&mut counted.stuck)
        .into_iter()
        .map(|(member, subset)| stuck(snapshot, member, subset));
    let next = counted.due.map(|due| due.duration_since(now).max(SignedDuration::from_millis(1)));
    Plan {
        pods: patches(snapshot, &members),
        stuck: stuck.collect(),
        status: status::patch(snapshot.spread, &counted.status),
        events: counted.events,
        next,
    }
}

/// What the Pods of a workload cost that wants `replicas` now, by name: who deletes Pods need not wait until the costs
/// are written (docs/behaviour/workloadspread.md#deletion-costs). `None` where only the controller knows the replicas.
pub fn present_costs(
    spread: &Spread,
    pods: &[Arc<ObservedPod>],
    replicas: i32,
    versioned: &VersionedKinds,
) -> Option<BTreeMap<Box<str>, i64>> {
    if spread.has_shares() && !spread.replicas_paths().is_empty() {
        return None;
    }
    let candidates = BTreeMap::new();
    let snapshot = Snapshot { spread, pods, replicas, latest: None, versioned, candidates: &candidates };
    let members = members(&snapshot, |_| true);
    Some(costs(&snapshot, &members).into_iter().map(|(pod, cost)| (pod.into(), cost)).collect())
}

fn stuck(snapshot: &Snapshot<'_>, member: &Member<'_>, subset: usize) -> Stuck {
    let spread = snapshot.spread;
    let (namespace, name, pod) = (spread.namespace(), spread.name(), &member.pod.metadata.name);
    let subset = spread.subsets().get(subset).map_or("", |subset| &subset.name);
    // Clients look for these words as they are.
    let message = format!(
        "Failed to delete unschedulabe Pod {namespace}/{pod} in Subset {subset} of WorkloadSpread {namespace}/{name}"
    );
    Stuck { pod: member.shared.clone(), on_failure: warning("DeletePodFailed", message) }
}

/// The Pods that are meant, each with its subset.
fn members<'a>(snapshot: &Snapshot<'a>, is_meant: impl Fn(&ObservedPod) -> bool) -> Vec<Member<'a>> {
    let spread = snapshot.spread;
    let mut members: Vec<Member<'a>> = snapshot
        .pods
        .iter()
        .filter(|pod| spread.selects(&pod.metadata.labels) && is_meant(pod))
        .map(|pod| {
            let matched = mark(spread, pod);
            let subset =
                |matched: &Matched| spread.subsets().iter().position(|one| one.name == matched.subset);
            Member {
                shared: pod,
                pod,
                version: snapshot.versioned.of(pod),
                id: id(pod, matched.as_ref()),
                subset: matched.as_ref().and_then(subset),
                is_adopted: false,
            }
        })
        .collect();
    // Of Pods without a mark the candidates alone can be adopted.
    let mut taken: BTreeMap<(&str, usize), i32> = BTreeMap::new();
    for member in &members {
        if let Some(subset) = member.subset {
            *taken.entry((member.version, subset)).or_default() += 1;
        }
    }
    for member in &mut members {
        let candidate = snapshot.candidates.get(&member.pod.metadata.name);
        let Some(candidate) = candidate.filter(|_| mark(spread, member.pod).is_none()) else { continue };
        let is_free = |position: usize| {
            let taken = taken.get(&(member.version, position)).copied().unwrap_or(0);
            limit(snapshot, position).is_none_or(|max| taken < max)
        };
        let free: Vec<bool> = (0..spread.subsets().len()).map(is_free).collect();
        member.subset = adoption::best_subset(spread, candidate, &free);
        if let Some(subset) = member.subset {
            *taken.entry((member.version, subset)).or_default() += 1;
            member.is_adopted = true;
        }
    }
    members
}

/// The most Pods of one version in the subset at this position; `None` where there is no limit.
fn limit(snapshot: &Snapshot<'_>, position: usize) -> Option<i32> {
    match maximum(snapshot.spread.subsets().get(position)?, Some(snapshot.replicas)) {
        Maximum::Pods(max) => Some(max),
        Maximum::Unlimited | Maximum::Unknown => None,
    }
}

/// One patch for each Pod that is adopted or whose deletion cost differs.
fn patches(snapshot: &Snapshot<'_>, members: &[Member<'_>]) -> Vec<PodPatch> {
    let costs = costs(snapshot, members);
    let patched = members.iter().filter_map(|member| {
        let cost = costs.get(&*member.pod.metadata.name).map(i64::to_string);
        let cost = cost.filter(|cost| member.pod.annotation(POD_DELETION_COST) != Some(cost));
        let subset = member.subset.and_then(|position| snapshot.spread.subsets().get(position));
        let mut metadata = match subset.filter(|_| member.is_adopted) {
            Some(subset) => adoption::metadata(snapshot.spread, subset),
            None if cost.is_none() => return None,
            None => RawObject::default(),
        };
        metadata.insert("uid", RawNode::string(&member.pod.metadata.uid));
        if let Some(cost) = &cost {
            metadata.edit_object("annotations", |all| all.insert(POD_DELETION_COST, RawNode::string(cost)));
        }
        let mut patch = RawObject::default();
        patch.insert("metadata", metadata.into());
        let on_failure = cost.map(|cost| cost_failure(snapshot.spread, member, &cost));
        Some(PodPatch {
            pod: member.shared.clone(),
            patch: patch.to_string(),
            is_adopted: member.is_adopted,
            on_failure,
        })
    });
    patched.collect()
}

fn cost_failure(spread: &Spread, member: &Member<'_>, cost: &str) -> Event {
    let (namespace, name, pod) = (spread.namespace(), spread.name(), &member.pod.metadata.name);
    let subset = member.subset.and_then(|position| spread.subsets().get(position));
    let subset = subset.map_or(NO_SUBSET, |subset| &subset.name);
    let message = format!(
        "WorkloadSpread {namespace}/{name} failed to patch deletion-cost annotation to {cost} for Pod {namespace}/{pod} in subset {subset}"
    );
    warning("PatchPodDeletionCostFailed", message)
}

/// The name in Events of the subset of Pods that belong to none.
const NO_SUBSET: &str = "kruise.io/workloadspread-fake-subset-name";

/// The deletion cost of each active Pod, for workloads that honour it.
fn costs<'a>(snapshot: &Snapshot<'_>, members: &'a [Member<'_>]) -> BTreeMap<&'a str, i64> {
    if !matches!(&*snapshot.spread.target().kind, "Deployment" | "ReplicaSet" | "CloneSet") {
        return BTreeMap::new();
    }
    let mut groups: BTreeMap<(&str, Option<usize>), Vec<&'a ObservedPod>> = BTreeMap::new();
    for member in members.iter().filter(|member| member.pod.is_active()) {
        groups.entry((member.version, member.subset)).or_default().push(member.pod);
    }
    let subsets = snapshot.spread.subsets();
    // Kubernetes' own workloads go by what is written when their replicas change; those of ours need not.
    let is_ahead = snapshot.spread.has_shares() && snapshot.spread.target().kind != "CloneSet";
    let replicas = snapshot.replicas.max(i32::try_from(members.len()).unwrap_or(i32::MAX));
    let needed = if is_ahead { cost::needed(subsets, replicas) } else { Vec::new() };
    let costs = groups.into_iter().flat_map(|((version, subset), pods)| {
        let is_latest = snapshot.latest.is_none_or(|latest| latest == version);
        let needed = subset.filter(|_| is_latest).and_then(|position| needed.get(position));
        let group = Group {
            pods: &pods,
            subset,
            max: subset.and_then(|position| limit(snapshot, position)),
            is_latest,
            needed: needed.map_or(&[], Vec::as_slice),
        };
        cost::costs(&group, subsets.len())
    });
    costs.map(|(pod, cost)| (&*pod.metadata.name, cost)).collect()
}
