//! What to do about a UnitedDeployment (docs/behaviour/uniteddeployment.md#the-controller).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::kinds::shared::Condition;
use api::kinds::uniteddeployment::{API_VERSION, KIND, Status, Subset, SubsetStatus, UnitedDeployment};
use api::labels::{CONTROLLER_HASH, RESERVED_POD, SUBSET_NAME, UNITED_REVISION};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::adaptive::{self, Judgement, Rules};
use super::allocation::{Present, Shares, allocate};
use super::children::{Child, ChildKind};
use super::revision::data_of;
use super::status::{Draft, tell_revision, updated_since};
use super::template::{Target, new_child};
use super::{HISTORY_LIMIT, Strategy, patience, strategy};
use crate::pod::observed::ObservedPod;
use crate::text::moment::just_after;
use crate::text::percent::{Rounding, scaled};
use crate::text::selector::Selector;
use crate::workload::event::{Event, warning};
use crate::workload::ordinal;
use crate::workload::owner::Owner;
use crate::workload::revision::{self, Choice, Limit, RevisionStep, StoredRevision, Wanted};
use crate::workload::seen::Seen;
use crate::workload::status::selector_text;

#[cfg(test)]
mod histories;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

/// Everything that a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The UnitedDeployment.
    pub united: &'a UnitedDeployment,
    /// The workloads that it owns, and those of its namespace that nobody manages and that name a subset.
    pub children: &'a [Arc<Child>],
    /// The Pods of its namespace that name a subset.
    pub pods: &'a [Arc<ObservedPod>],
    /// The ControllerRevisions that it owns, and those of its namespace that nobody owns.
    pub revisions: &'a [Arc<StoredRevision>],
    /// The time.
    pub now: Timestamp,
}

/// A write of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchOf {
    /// The object.
    pub seen: Seen,
    /// The merge patch, with its preconditions.
    pub patch: String,
}

/// A workload to create.
#[derive(Clone, Debug, PartialEq)]
pub struct Creation {
    /// The subset.
    pub subset: String,
    /// Its JSON, or why there is none.
    pub json: Result<String, String>,
}

/// What to do, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Write this revision, and plan anew.
    pub revision: Option<RevisionStep>,
    /// Revisions to delete.
    pub obsolete: Vec<Seen>,
    /// Workloads that nobody manages and that belong to it from now on.
    pub adoptions: Vec<(ChildKind, PatchOf)>,
    /// Labels of Pods.
    pub labels: Vec<PatchOf>,
    /// Workloads to create, by subset.
    pub creations: Vec<Creation>,
    /// Workloads to delete: of subsets that are gone, of another kind, and second ones of a subset.
    pub deletions: Vec<(ChildKind, Seen)>,
    /// Workloads to bring up to date, by subset. Not after a creation or deletion that failed.
    pub updates: Vec<(Seen, Target)>,
    /// Pods of StatefulSets that keep them from their update.
    pub stuck: Vec<Seen>,
    /// The status, but for what comes of all this.
    pub status: Option<Draft>,
    /// What to tell.
    pub events: Vec<Event>,
    /// Why nothing can be done.
    pub problem: Option<String>,
    /// When to look again, even if nothing changes.
    pub again: Option<Duration>,
    pub(super) shares: Shares,
    pub(super) judgements: BTreeMap<String, Judgement>,
}

/// A subset with its workload.
#[derive(Clone, Debug)]
struct Place<'a> {
    child: &'a Child,
    pods: Vec<&'a Arc<ObservedPod>>,
}

/// The workloads, as they belong to subsets.
#[derive(Debug, Default)]
struct Found<'a> {
    places: BTreeMap<&'a str, Place<'a>>,
    surplus: Vec<&'a Child>,
    orphans: Vec<&'a Child>,
}

/// Plans for a UnitedDeployment. One that is being deleted is left alone.
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let united = snapshot.united;
    let mut plan = Plan::default();
    if united.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let history = history(snapshot);
    let (kind, choice) = match wanted(united, &history) {
        Ok(wanted) => wanted,
        Err(problem) => {
            plan.events.push(warning("FailedRevisionProvision", problem.clone()));
            return failed(plan, snapshot, problem);
        }
    };
    if choice.stored.is_none() || choice.step.is_some() {
        plan.revision = choice.step;
        return plan;
    }
    let updated = choice.name().to_owned();
    let stored = &united.status.current_revision;
    let current =
        revision::current(&history, stored).map_or(updated.as_str(), StoredRevision::name).to_owned();
    let limit = Limit::All(united.spec.revision_history_limit.unwrap_or(HISTORY_LIMIT).max(0));
    let is_used = |known: &StoredRevision| known.name() == updated || known.name() == current;
    plan.obsolete = revision::obsolete(&history, is_used, limit);

    let found = found(snapshot, kind);
    let mut status = united.status.clone();
    tell_revision(&mut status, &current, &updated, snapshot.now);
    let mut conditions = conditions(united, snapshot.now);
    let mut judgements = judge(snapshot, &found, &conditions, &status, &updated);
    let present = found.places.iter().map(|(name, place)| {
        let judgement = judgements.get(*name);
        let present = Present {
            replicas: place.child.replicas,
            ready: place.child.ready_replicas,
            reserved: judgement.map_or(0, |judgement| judgement.reserved.saturating_add(judgement.awaited)),
            is_unschedulable: judgement.is_some_and(|judgement| judgement.is_unschedulable),
            was_marked: judgement.is_some_and(|judgement| judgement.was_marked),
        };
        (*name, present)
    });
    plan.shares = match allocate(&united.spec, &present.collect()) {
        Ok(shares) => shares,
        Err(problem) => {
            let message = format!("Specified subset replicas is ineffective: {problem}");
            plan.events.push(warning("Failed SpecifySubsetReplicas", message.clone()));
            return failed(plan, snapshot, message);
        }
    };
    for (name, judgement) in &mut judgements {
        let grows = found
            .places
            .get(name.as_str())
            .is_some_and(|place| plan.shares.get(name).is_some_and(|share| *share > place.child.replicas));
        if strategy(&united.spec) == Strategy::Reserving
            && judgement.was_marked
            && !judgement.is_unschedulable
            && grows
        {
            let known = judgement.condition.as_ref();
            judgement.condition = Some(adaptive::of_grown_subset(known, snapshot.now));
        }
        if let Some(condition) = judgement.condition.clone() {
            conditions.insert(name.clone(), condition);
        }
        plan.labels.extend(judgement.labels.iter().map(|(seen, reserved)| reservation(seen, *reserved)));
    }
    let targets = targets(united, kind, &plan.shares, &updated, &found, &judgements);
    act(&mut plan, united, &found, targets);
    plan.stuck = stuck(&found, &plan.updates, &updated);
    let again = judgements.values().filter_map(|judgement| judgement.again).min();
    plan.again = again.map(|again| just_after(again, snapshot.now));
    sum_up(&mut status, united, &found, &plan.shares, &judgements, &conditions, (&current, &updated));
    if status.current_revision != current {
        tell_revision(&mut status, &updated, &updated, snapshot.now);
    }
    let provisions = !plan.creations.is_empty() || !plan.deletions.is_empty();
    plan.status = Some(Draft { status, provisions, now: snapshot.now });
    plan.judgements = judgements;
    plan
}

/// Its revisions, oldest first, and those that it left behind under its name when it was deleted without them.
fn history<'a>(snapshot: &Snapshot<'a>) -> Vec<&'a StoredRevision> {
    let united = snapshot.united;
    let is_named_so = |stored: &StoredRevision| {
        let hash = stored.name().strip_prefix(united.metadata.name.as_str());
        hash.and_then(|hash| hash.strip_prefix('-')).is_some_and(|hash| !hash.contains('-'))
    };
    let all = snapshot.revisions.iter().map(|stored| &**stored);
    let own = all.filter(|stored| stored.metadata.controller().is_some() || is_named_so(stored));
    revision::sorted(own, &united.metadata.uid)
}

/// A plan that says why nothing can be done.
fn failed(mut plan: Plan, snapshot: &Snapshot<'_>, problem: String) -> Plan {
    plan.problem = Some(problem);
    let mut status = snapshot.united.status.clone();
    status.observed_generation = snapshot.united.metadata.generation;
    plan.status = Some(Draft { status, provisions: false, now: snapshot.now });
    plan
}

/// The kind of the workloads, and the revision of their template.
fn wanted<'a>(
    united: &UnitedDeployment,
    history: &[&'a StoredRevision],
) -> Result<(ChildKind, Choice<'a>), String> {
    let spec = &united.spec;
    let kind = ChildKind::of(&spec.template).ok_or("spec.template has no workload")?;
    let data = data_of(&spec.template).map_err(|error| format!("spec.template can't be read: {error}"))?;
    let metadata = kind.template(&spec.template).and_then(|template| template.metadata.as_ref());
    let labels = metadata.and_then(|metadata| serde_json::from_str::<Value>(metadata.get()).ok());
    let labels = labels.and_then(|metadata| serde_json::from_value(metadata.get("labels")?.clone()).ok());
    let wanted = Wanted {
        data,
        owner: Owner::of(API_VERSION, KIND, &united.metadata),
        namespace: &united.metadata.namespace,
        labels: labels.or_else(|| spec.selector.match_labels.clone()).unwrap_or_default(),
        annotations: BTreeMap::new(),
        hash_label: CONTROLLER_HASH,
        collision_count: united.status.collision_count.unwrap_or(0),
        label_of_current: None,
        annotation_of_newest: None,
        must_be_owned: true,
    };
    Ok((kind, revision::choose(wanted, history)))
}

/// Sorts the workloads by subset. Of several the oldest that is not being deleted stays.
fn found<'a>(snapshot: &Snapshot<'a>, kind: ChildKind) -> Found<'a> {
    let united = snapshot.united;
    let selector = Selector::compile(&united.spec.selector).ok();
    let subsets: BTreeSet<&str> =
        united.spec.topology.subsets.iter().map(|subset| subset.name.as_str()).collect();
    let mut children: Vec<&Child> = snapshot
        .children
        .iter()
        .map(|child| &**child)
        .filter(|child| *child.namespace == *united.metadata.namespace && !child.deleting)
        .collect();
    children.sort_by_key(|child| (child.created, &child.name));
    let mut found = Found::default();
    let matches = |child: &&Child| selector.as_ref().is_some_and(|selector| selector.matches(&child.labels));
    let (own, others): (Vec<&Child>, Vec<&Child>) =
        children.into_iter().partition(|child| child.is_of(&united.metadata.uid));
    let (selected, unselected): (Vec<&Child>, Vec<&Child>) = own.into_iter().partition(matches);
    for child in selected {
        if child.kind != kind || found.places.contains_key(child.subset()) {
            found.surplus.push(child);
        } else {
            found.places.insert(child.subset(), Place { child, pods: Vec::new() });
        }
    }
    // What the selector does not select serves where nothing else does; otherwise it is left alone.
    for child in unselected.into_iter().filter(|child| child.kind == kind) {
        found.places.entry(child.subset()).or_insert_with(|| Place { child, pods: Vec::new() });
    }
    for child in others.into_iter().filter(matches) {
        let is_free = subsets.contains(child.subset()) && !found.places.contains_key(child.subset());
        if child.owner.is_none() && child.kind == kind && is_free {
            found.orphans.push(child);
            found.places.insert(child.subset(), Place { child, pods: Vec::new() });
        }
    }
    for pod in snapshot.pods {
        let place = pod.label(SUBSET_NAME).and_then(|subset| found.places.get_mut(subset));
        if let Some(place) = place.filter(|place| runs(place.child, pod)) {
            place.pods.push(pod);
        }
    }
    found
}

/// Whether a Pod is one of this workload. Those of a Deployment belong to its ReplicaSets, which are named after it.
fn runs(child: &Child, pod: &ObservedPod) -> bool {
    let Some(owner) = pod.controller().filter(|_| *pod.metadata.namespace == *child.namespace) else {
        return false;
    };
    if child.kind != ChildKind::Deployment {
        return *owner.uid == *child.uid;
    }
    let hash = owner.name.strip_prefix(&*child.name).and_then(|rest| rest.strip_prefix('-'));
    owner.kind == "ReplicaSet" && hash.is_some_and(|hash| !hash.contains('-'))
}

/// The conditions of subsets so far. One that comes to others, where Pods without room keep it, is not trusted yet.
fn conditions(united: &UnitedDeployment, now: Timestamp) -> BTreeMap<String, Condition> {
    let known = &united.status.subset_statuses;
    let stored = known.iter().filter_map(|subset| {
        let mut conditions = subset.conditions.iter();
        Some((subset.name.clone(), conditions.find(|one| one.kind == adaptive::SCHEDULABLE)?.clone()))
    });
    let mut all: BTreeMap<String, Condition> = stored.collect();
    if strategy(&united.spec) == Strategy::Reserving && !known.is_empty() {
        for subset in &united.spec.topology.subsets {
            if !known.iter().any(|known| known.name == subset.name) {
                all.insert(subset.name.clone(), adaptive::of_new_subset(now));
            }
        }
    }
    all
}

fn judge(
    snapshot: &Snapshot<'_>,
    found: &Found<'_>,
    conditions: &BTreeMap<String, Condition>,
    status: &Status,
    updated: &str,
) -> BTreeMap<String, Judgement> {
    let spec = &snapshot.united.spec;
    let rules = Rules {
        strategy: strategy(spec),
        patience: patience(spec),
        updated,
        updated_since: updated_since(status),
        now: snapshot.now,
    };
    let subsets = spec.topology.subsets.iter();
    let judged = subsets.filter_map(|subset| {
        let place = found.places.get(subset.name.as_str())?;
        let partition = partition_of(snapshot.united, &subset.name);
        let known = conditions.get(&subset.name);
        let judgement = adaptive::judge(&rules, place.child, &place.pods, known, partition);
        Some((subset.name.clone(), judgement))
    });
    judged.collect()
}

/// How many Pods of a subset are to stay at the old revision, however many it has.
fn partition_of(united: &UnitedDeployment, subset: &str) -> i32 {
    united.spec.update_strategy.manual_update.partitions.get(subset).copied().unwrap_or(0).max(0)
}

/// What the workload of each subset is to be, by name.
fn targets(
    united: &UnitedDeployment,
    kind: ChildKind,
    shares: &Shares,
    updated: &str,
    found: &Found<'_>,
    judgements: &BTreeMap<String, Judgement>,
) -> BTreeMap<String, Target> {
    let target = |subset: &Subset| {
        let replicas = shares.get(&subset.name).copied().unwrap_or(0);
        let place = found.places.get(subset.name.as_str());
        let judgement = judgements.get(&subset.name);
        Target {
            kind,
            subset: subset.clone(),
            replicas,
            partition: partition_of(united, &subset.name).min(replicas),
            revision: updated.to_owned(),
            max_unavailable: place
                .zip(judgement)
                .filter(|_| strategy(&united.spec) == Strategy::Reserving && kind.is_stateless())
                .and_then(|(place, judgement)| yielding(place, judgement, updated)),
        }
    };
    united.spec.topology.subsets.iter().map(|subset| (subset.name.clone(), target(subset))).collect()
}

/// How many Pods may be unavailable so that those without room don't block a rollout.
fn yielding(place: &Place<'_>, judgement: &Judgement, updated: &str) -> Option<i32> {
    let child = place.child;
    let is_rolling = place.pods.iter().any(|pod| pod.label(UNITED_REVISION) != Some(updated));
    let lacking = child.replicas.saturating_sub(child.ready_replicas).saturating_add(judgement.reserved_old);
    (judgement.is_unschedulable && is_rolling && lacking > 0).then_some(lacking)
}

/// What is to be created, adopted, deleted and brought up to date.
fn act(plan: &mut Plan, united: &UnitedDeployment, found: &Found<'_>, targets: BTreeMap<String, Target>) {
    for child in &found.orphans {
        plan.adoptions.push((child.kind, adoption(united, child)));
    }
    let gone = found.places.iter().filter(|(name, _)| !targets.contains_key(**name));
    let gone = gone.map(|(_, place)| place.child).chain(found.surplus.iter().copied());
    plan.deletions.extend(gone.map(|child| (child.kind, child.seen())));
    for (name, target) in targets {
        match found.places.get(name.as_str()) {
            None => plan.creations.push(Creation { json: new_child(united, &target), subset: name }),
            Some(place) if place.child.owner.is_some() && differs(place.child, &target) => {
                plan.updates.push((place.child.seen(), target));
            }
            Some(_) => {}
        }
    }
}

/// Whether a workload is to be brought up to date. What others have changed in it stays until then.
fn differs(child: &Child, target: &Target) -> bool {
    let partition = match &child.partition {
        Some(partition) => scaled(partition, child.replicas, Rounding::Up).unwrap_or(0),
        None => 0,
    };
    let has_partition = child.kind.has_partition() && !(child.on_delete && child.kind != ChildKind::CloneSet);
    let max_unavailable = child.max_unavailable.as_ref();
    let yields = target.max_unavailable.is_some_and(|wanted| {
        max_unavailable.and_then(|known| scaled(known, child.replicas, Rounding::Down)).unwrap_or(0) < wanted
    });
    child.revision() != target.revision
        || child.replicas != target.replicas
        || *child.patch != *target.patch()
        || (has_partition && partition != target.partition)
        || yields
}

fn adoption(united: &UnitedDeployment, child: &Child) -> PatchOf {
    let owner = Owner::of(API_VERSION, KIND, &united.metadata);
    let seen = child.seen();
    let metadata =
        json!({"uid": seen.uid, "resourceVersion": seen.resource_version, "ownerReferences": [owner]});
    PatchOf { patch: json!({"metadata": metadata}).to_string(), seen }
}

fn reservation(seen: &Seen, reserved: bool) -> PatchOf {
    let mut labels = Map::new();
    labels.insert(RESERVED_POD.to_owned(), reserved.to_string().into());
    let patch = json!({"metadata": {"uid": seen.uid, "labels": labels}}).to_string();
    PatchOf { seen: seen.clone(), patch }
}

/// Pods that a StatefulSet would wait for for ever: they are to be updated, and are not ready at an older revision.
fn stuck(found: &Found<'_>, updates: &[(Seen, Target)], updated: &str) -> Vec<Seen> {
    let settled = found.places.values().filter(|place| {
        let child = place.child;
        let is_up_to_date = !updates.iter().any(|(seen, _)| *seen.uid == *child.uid);
        child.kind == ChildKind::StatefulSet
            && !child.on_delete
            && child.revision() == updated
            && is_up_to_date
    });
    let stuck = settled.flat_map(|place| {
        let partition = place.child.partition.as_ref();
        let partition =
            partition.and_then(|part| scaled(part, place.child.replicas, Rounding::Up)).unwrap_or(0);
        place.pods.iter().filter(move |pod| {
            let is_due = ordinal::split(&pod.metadata.name).is_some_and(|(_, number)| number >= partition);
            let is_old = pod.label(UNITED_REVISION) != Some(updated);
            is_due && is_old && !pod.is_ready() && pod.metadata.deletion_timestamp.is_none()
        })
    });
    stuck.map(|pod| Seen::pod(pod)).collect()
}

fn sum_up(
    status: &mut Status,
    united: &UnitedDeployment,
    found: &Found<'_>,
    shares: &Shares,
    judgements: &BTreeMap<String, Judgement>,
    conditions: &BTreeMap<String, Condition>,
    (current, updated): (&str, &str),
) {
    let reserves = strategy(&united.spec) == Strategy::Reserving;
    let reserved = |name: &str| judgements.get(name).map_or(0, |judgement| judgement.reserved);
    let places = || found.places.iter().map(|(name, place)| (*name, place));
    let pods = || found.places.values().flat_map(|place| &place.pods).filter(|pod| pod.is_active());
    let is_updated = |pod: &&&Arc<ObservedPod>| pod.label(UNITED_REVISION) == Some(updated);
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let all: i32 = places().map(|(_, place)| place.child.status_replicas).fold(0, i32::saturating_add);
    let waiting: i32 = places().map(|(name, _)| reserved(name)).fold(0, i32::saturating_add);
    let ready: i32 = places().map(|(_, place)| place.child.ready_replicas).fold(0, i32::saturating_add);
    status.replicas = all.saturating_sub(waiting).max(0);
    status.reserved_pods = reserves.then_some(waiting);
    status.ready_replicas = Some(ready);
    status.updated_replicas = count(pods().filter(is_updated).count());
    let updated_ready = count(pods().filter(is_updated).filter(|pod| pod.is_ready()).count());
    status.updated_ready_replicas = Some(updated_ready);
    let is_reached = current != updated && updated_ready >= status.replicas;
    status.current_revision = if is_reached { updated } else { current }.to_owned();
    updated.clone_into(&mut status.updated_revision);
    status.label_selector = selector_text(&united.spec.selector);
    if reserves {
        status.label_selector.push_str(&format!(",{RESERVED_POD}=false"));
    }
    status.observed_generation = united.metadata.generation;
    status.subset_statuses = subset_statuses(united, found, shares, judgements, conditions);
}

/// Those of the topology in the order in which they came, and those that are gone while their workload is there.
fn subset_statuses(
    united: &UnitedDeployment,
    found: &Found<'_>,
    shares: &Shares,
    judgements: &BTreeMap<String, Judgement>,
    conditions: &BTreeMap<String, Condition>,
) -> Vec<SubsetStatus> {
    let reserves = strategy(&united.spec) == Strategy::Reserving;
    let known = united.status.subset_statuses.iter();
    let mut names: Vec<&str> = known.map(|subset| subset.name.as_str()).collect();
    for subset in &united.spec.topology.subsets {
        if !names.contains(&subset.name.as_str()) {
            names.push(&subset.name);
        }
    }
    names.retain(|name| shares.contains_key(*name) || found.places.contains_key(name));
    let told = names.into_iter().map(|name| {
        let share = shares.get(name).copied().unwrap_or(0);
        let place = found.places.get(name);
        let reserved = judgements.get(name).map_or(0, |judgement| judgement.reserved);
        SubsetStatus {
            name: name.to_owned(),
            replicas: Some(share),
            partition: Some(partition_of(united, name).min(share)),
            ready_replicas: Some(place.map_or(0, |place| place.child.ready_replicas)),
            reserved_pods: reserves.then_some(reserved),
            conditions: conditions.get(name).cloned().into_iter().collect(),
        }
    });
    told.collect()
}
