//! The status: what runs in each subset, and what is on its way
//! (docs/behaviour/workloadspread.md#status).

use std::collections::BTreeMap;

use api::kinds::Time;
use api::kinds::shared::{ConditionStatus, MetaCondition};
use api::kinds::workloadspread::{Status, SubsetStatus};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::member::Member;
use super::spread::{Maximum, SCHEDULABLE, Spread, free_slots, is_schedulable, maximum};
use pod::observed::ObservedPod;
use values::event::{Event, normal, warning};

/// How long a Pod that was admitted may take to appear.
const CREATION: SignedDuration = SignedDuration::from_secs(30);
/// How long a deletion that was admitted may take to begin.
const DELETION: SignedDuration = SignedDuration::from_secs(15);

/// A status, and what follows from it.
#[derive(Debug, Default)]
pub(super) struct Counted<'a> {
    pub(super) status: Status,
    /// Pods that were unschedulable for too long, with the position of their subset.
    pub(super) stuck: Vec<(&'a Member<'a>, usize)>,
    pub(super) events: Vec<Event>,
    /// When something is due.
    pub(super) due: Option<Timestamp>,
}

/// Counts the Pods.
pub(super) fn count<'a>(
    spread: &'a Spread,
    members: &'a [Member<'a>],
    replicas: i32,
    now: Timestamp,
) -> Counted<'a> {
    let old = &spread.object().status;
    let mut counter = Counter { spread, replicas, now, counted: Counted::default() };
    let totals = counter.list(members.iter().collect(), &old.subset_statuses, None);
    let mut versions: BTreeMap<&str, Vec<&Member<'_>>> =
        old.versioned_subset_statuses.keys().map(|version| (version.as_str(), Vec::new())).collect();
    for member in members {
        versions.entry(member.version).or_default().push(member);
    }
    let mut versioned = BTreeMap::new();
    for (version, members) in versions {
        let known = old.versioned_subset_statuses.get(version).map_or(&[][..], Vec::as_slice);
        let has_pods = !members.is_empty();
        let items = counter.list(members, known, Some(version));
        // Subsets whose Pods could not be scheduled are known until that time is over, though all these Pods are gone.
        let is_needed = |item: &SubsetStatus| !item.creating_pods.is_empty() || !is_schedulable(item);
        if has_pods || items.iter().any(is_needed) {
            versioned.insert(version.to_owned(), items);
        }
    }
    let mut counted = counter.counted;
    counted.status = Status {
        observed_generation: spread.object().metadata.generation,
        subset_statuses: totals,
        versioned_subset_statuses: versioned,
    };
    counted
}

/// The merge patch that brings the status up to date, for the version of the object that was read; `None` where
/// it is.
pub(super) fn patch(spread: &Spread, status: &Status) -> Option<String> {
    let old = &spread.object().status;
    if status == old {
        return None;
    }
    let gone = old
        .versioned_subset_statuses
        .keys()
        .filter(|key| !status.versioned_subset_statuses.contains_key(*key));
    let mut versioned: Map<String, Value> = gone.map(|key| (key.clone(), Value::Null)).collect();
    versioned.extend(status.versioned_subset_statuses.iter().map(|(key, items)| (key.clone(), json!(items))));
    let version = &spread.object().metadata.resource_version;
    let status = json!({
        "observedGeneration": status.observed_generation,
        "subsetStatuses": status.subset_statuses,
        "versionedSubsetStatuses": versioned,
    });
    Some(json!({"metadata": {"resourceVersion": version}, "status": status}).to_string())
}

struct Counter<'a> {
    spread: &'a Spread,
    replicas: i32,
    now: Timestamp,
    counted: Counted<'a>,
}

impl<'a> Counter<'a> {
    /// The items of all subsets for some of the Pods. `version` is `None` for the totals, of which alone Events
    /// about nodes are reported and Pods are replaced; records are kept for versions alone.
    fn list(
        &mut self,
        members: Vec<&'a Member<'a>>,
        old: &[SubsetStatus],
        version: Option<&str>,
    ) -> Vec<SubsetStatus> {
        let mut by_subset: Vec<Vec<&'a Member<'a>>> = vec![Vec::new(); self.spread.subsets().len()];
        for member in members {
            if let Some(list) = member.subset.and_then(|position| by_subset.get_mut(position)) {
                list.push(member);
            }
        }
        let nothing = SubsetStatus::default();
        let lists = by_subset.into_iter().enumerate();
        lists
            .map(|(position, members)| {
                let name = self.spread.subsets().get(position).map_or("", |subset| subset.name.as_str());
                let old = old.iter().find(|item| item.name == name).unwrap_or(&nothing);
                self.item(position, &members, old, version.is_none())
            })
            .collect()
    }

    fn item(
        &mut self,
        position: usize,
        members: &[&'a Member<'a>],
        old: &SubsetStatus,
        is_total: bool,
    ) -> SubsetStatus {
        let Some(subset) = self.spread.subsets().get(position) else { return SubsetStatus::default() };
        let active: Vec<&ObservedPod> =
            members.iter().map(|member| member.pod).filter(|pod| pod.is_active()).collect();
        let (mut creating, mut deleting) = (BTreeMap::new(), BTreeMap::new());
        if !is_total {
            let awaited = |id: &str| !members.iter().any(|member| member.id == id);
            creating = self.kept(&old.creating_pods, CREATION, awaited, ("CreatePodFailed", "created"));
            let runs = |name: &str| active.iter().any(|pod| &*pod.metadata.name == name);
            deleting = self.kept(&old.deleting_pods, DELETION, runs, ("DeletePodFailed", "deleted"));
        }
        let replicas = i32::try_from(active.len()).unwrap_or(i32::MAX);
        let missing_replicas = match maximum(subset, Some(self.replicas)) {
            Maximum::Pods(max) => free_slots(max, replicas, deleting.len(), creating.len()),
            Maximum::Unlimited | Maximum::Unknown => -1,
        };
        SubsetStatus {
            conditions: self.conditions(position, members, old, is_total),
            creating_pods: creating,
            deleting_pods: deleting,
            missing_replicas,
            name: subset.name.clone(),
            replicas,
        }
    }

    /// The records of Pods about which something is still to happen. One that is older than `timeout` is reported
    /// and dropped.
    fn kept(
        &mut self,
        records: &BTreeMap<String, Time>,
        timeout: SignedDuration,
        awaited: impl Fn(&str) -> bool,
        (reason, expected): (&'static str, &str),
    ) -> BTreeMap<String, Time> {
        let mut kept = BTreeMap::new();
        for (id, time) in records.iter().filter(|(id, _)| awaited(id)) {
            // A time that can't be read is of no record of ours.
            let end = time.timestamp().and_then(|time| time.checked_add(timeout).ok());
            match end.filter(|end| *end >= self.now) {
                Some(end) => {
                    self.is_due(end);
                    kept.insert(id.clone(), time.clone());
                }
                None => {
                    let namespace = self.spread.namespace();
                    let message = format!("Pod {namespace}/{id} was expected to be {expected} but it wasn't");
                    self.counted.events.push(warning(reason, message));
                }
            }
        }
        kept
    }

    /// Whether the Pods of a subset find nodes (docs/behaviour/workloadspread.md#rescheduling).
    fn conditions(
        &mut self,
        position: usize,
        members: &[&'a Member<'a>],
        old: &SubsetStatus,
        is_total: bool,
    ) -> Vec<MetaCondition> {
        let mut conditions: Vec<MetaCondition> =
            old.conditions.iter().filter(|condition| condition.kind != SCHEDULABLE).cloned().collect();
        let Some(critical) = self.spread.critical_seconds() else { return conditions };
        let critical = SignedDuration::from_secs(critical.into());
        let is_last = position + 1 == self.spread.subsets().len();
        let mut stuck = Vec::new();
        for member in members.iter().filter(|member| !is_last && is_unschedulable(member.pod)) {
            let end = member.pod.metadata.created().and_then(|created| created.checked_add(critical).ok());
            match end {
                Some(end) if end < self.now => stuck.push((*member, position)),
                Some(end) => self.is_due(end),
                None => {}
            }
        }
        let was = old.conditions.iter().find(|condition| condition.kind == SCHEDULABLE);
        let since = was.and_then(|was| was.last_transition_time.timestamp());
        let holds = if !stuck.is_empty() {
            false
        } else if is_last || is_schedulable(old) {
            true
        } else {
            let end = since
                .and_then(|since| since.checked_add(self.spread.recovery()).ok())
                .unwrap_or(Timestamp::MIN);
            if end >= self.now {
                self.is_due(end);
            } else if is_total {
                let (namespace, name) = (self.spread.namespace(), self.spread.name());
                let subset = &old.name;
                self.counted.events.push(normal(
                    "RecoverSchedulable",
                    format!(
                        "Subset {subset} of WorkloadSpread {namespace}/{name} is recovered from unschedulable to schedulable"
                    ),
                ));
            }
            end < self.now
        };
        if is_total {
            self.counted.stuck.extend(stuck);
        }
        let (status, reason) = if holds {
            (ConditionStatus::True, "Sufficient")
        } else {
            (ConditionStatus::False, "PodUnschedulable")
        };
        let same = was.filter(|was| was.status == status);
        let last_transition_time =
            same.map_or_else(|| Time::from(self.now), |was| was.last_transition_time.clone());
        conditions.push(MetaCondition {
            last_transition_time,
            message: String::new(),
            observed_generation: None,
            reason: reason.to_owned(),
            status,
            kind: SCHEDULABLE.to_owned(),
        });
        conditions
    }

    fn is_due(&mut self, time: Timestamp) {
        self.counted.due = Some(self.counted.due.map_or(time, |due| due.min(time)));
    }
}

/// The scheduler found no node for the Pod.
pub(super) fn is_unschedulable(pod: &ObservedPod) -> bool {
    let scheduled = pod.condition("PodScheduled");
    pod.is_active()
        && &*pod.status.phase == "Pending"
        && pod.spec.node_name.is_empty()
        && scheduled.is_some_and(|it| &*it.status == "False" && &*it.reason == "Unschedulable")
}
