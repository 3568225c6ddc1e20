//! Which subsets have no capacity for their Pods (docs/behaviour/uniteddeployment.md#subsets-without-capacity).

use api::kinds::shared::{Condition, ConditionStatus};
use api::labels::{RESERVED_POD, UNITED_REVISION};
use jiff::{SignedDuration, Timestamp};

use super::Strategy;
use super::subset_workloads::SubsetWorkload;
use crate::workload::object_version::ObjectVersion;
use pod::observed::{ObservedPod, PodCondition};

#[cfg(test)]
mod tests;

/// The condition of a subset.
pub(super) const SCHEDULABLE: &str = "Schedulable";
/// Its reason while the first Pods of a new subset are not trusted.
const CREATED: &str = "created";
const RESCHEDULE: &str = "reschedule";

/// The condition with this status and this reason. One that has them already stays as it is.
fn changed(
    known: Option<&Condition>,
    (kind, status): (&str, ConditionStatus),
    (reason, message): (&str, &str),
    now: Timestamp,
) -> Condition {
    if let Some(known) = known.filter(|known| known.status == status && known.reason == reason) {
        return known.clone();
    }
    Condition {
        kind: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Some(now.into()),
    }
}

/// What all subsets are judged by.
pub(super) struct Rules<'a> {
    pub(super) strategy: Strategy,
    /// `rescheduleCriticalSeconds` and `unschedulableDuration`.
    pub(super) durations: (i32, i32),
    /// The name of the newest revision.
    pub(super) updated: &'a str,
    /// When the rollout of the newest revision began, or ended.
    pub(super) updated_since: Option<Timestamp>,
    pub(super) now: Timestamp,
}

/// What a subset comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Judgement {
    /// It has no capacity for all of its Pods.
    pub(super) is_unschedulable: bool,
    /// The stored status already marked it as unschedulable.
    pub(super) was_marked: bool,
    /// Its condition; `None` where it never had one and needs none.
    pub(super) condition: Option<Condition>,
    /// Pods that wait for capacity, or are not trusted yet.
    pub(super) reserved: i32,
    /// Pods of a subset that is not trusted, which do not exist yet: whether they find capacity is not known.
    pub(super) awaited: i32,
    /// Of the reserved ones, those that will not be ready soon: the scheduler refused them, or an older revision runs in them.
    pub(super) stuck: i32,
    /// The same, and reserved ones that the scheduler has not tried yet.
    pub(super) unplaced: i32,
    /// Pods whose label is to say whether they are reserved.
    pub(super) labels: Vec<(ObjectVersion, bool)>,
    /// When to reconcile again.
    pub(super) again: Option<Timestamp>,
}

impl Judgement {
    fn requeue_at(&mut self, time: Timestamp) {
        self.again = [self.again, Some(time)].into_iter().flatten().min();
    }
}

/// The condition with which a subset starts that comes to others which have Pods already.
pub(super) fn of_new_subset(now: Timestamp) -> Condition {
    let message = "newly-created subsets in reservation strategy";
    changed(None, (SCHEDULABLE, ConditionStatus::False), (CREATED, message), now)
}

/// The condition of a subset that just got capacity again, and gets more Pods: these are not trusted yet.
pub(super) fn of_grown_subset(known: Option<&Condition>, now: Timestamp) -> Condition {
    let message = "subset just recovered scaled up";
    changed(known, (SCHEDULABLE, ConditionStatus::False), (RESCHEDULE, message), now)
}

/// Judges a subset by its workload, its Pods, and its condition so far.
pub(super) fn judge(
    rules: &Rules<'_>,
    place: &SubsetWorkload<'_>,
    known: Option<&Condition>,
    partition: i32,
) -> Judgement {
    let judgement = Judgement {
        was_marked: known.is_some_and(|known| known.status == ConditionStatus::False),
        condition: known.cloned(),
        ..Judgement::default()
    };
    match rules.strategy {
        Strategy::Fixed => judgement,
        Strategy::Adaptive => by_time(rules, place, judgement),
        Strategy::Reserving => by_pods(rules, place, partition, judgement),
    }
}

/// Without capacity for a Pod the subset gets no further ones for a while.
fn by_time(rules: &Rules<'_>, place: &SubsetWorkload<'_>, mut judgement: Judgement) -> Judgement {
    let duration = rules.durations.1;
    let set = |status, reason, message: &str, judgement: &mut Judgement| {
        let known = judgement.condition.as_ref();
        judgement.condition = Some(changed(known, (SCHEDULABLE, status), (reason, message), rules.now));
    };
    if judgement.was_marked {
        let since = judgement.condition.as_ref().and_then(|known| known.last_transition_time.as_ref());
        let until = after(since.and_then(api::kinds::Time::timestamp).unwrap_or(rules.now), duration);
        if rules.now < until {
            judgement.is_unschedulable = true;
            judgement.requeue_at(until);
            return judgement;
        }
        let message = format!("unschedulable subset recovered after {duration}.000000 seconds");
        set(ConditionStatus::True, "recover", &message, &mut judgement);
    }
    if place.child.ready_replicas >= place.child.status_replicas {
        return judgement;
    }
    let mut has_timed_out = false;
    for pod in place.active() {
        match capacity(rules, pod) {
            Capacity::SubsetWorkloads => {}
            Capacity::Awaited(until) => judgement.requeue_at(until),
            Capacity::Lacking => has_timed_out = true,
        }
    }
    if has_timed_out {
        judgement.is_unschedulable = true;
        judgement.requeue_at(after(rules.now, duration));
        set(ConditionStatus::False, RESCHEDULE, "timeout pending pods found", &mut judgement);
    }
    judgement
}

/// Each Pod is reserved or not.
fn by_pods(
    rules: &Rules<'_>,
    place: &SubsetWorkload<'_>,
    partition: i32,
    mut judgement: Judgement,
) -> Judgement {
    let living: Vec<_> = place.active().collect();
    let old = living.iter().filter(|pod| pod.label(UNITED_REVISION) != Some(rules.updated)).count();
    let keeps_old = i32::try_from(old).unwrap_or(i32::MAX) <= partition;
    for pod in &living {
        let is_reserved = is_reserved(rules, pod, keeps_old, &mut judgement);
        if is_reserved {
            count(rules, pod, &mut judgement);
        }
        if pod.label(RESERVED_POD) != Some(if is_reserved { "true" } else { "false" }) {
            judgement.labels.push((ObjectVersion::pod(pod), is_reserved));
        }
    }
    judgement.is_unschedulable = judgement.reserved > 0;
    let known = judgement.condition.as_ref();
    let is_new = known.is_some_and(|known| known.reason == CREATED);
    let lacking = place.child.replicas.saturating_sub(i32::try_from(living.len()).unwrap_or(i32::MAX)).max(0);
    if judgement.was_marked && (lacking > 0 || (is_new && living.is_empty())) {
        // Whether these find capacity is not known before they are there.
        judgement.awaited = lacking;
        return judgement;
    }
    let (status, message) = match judgement.reserved {
        0 => (ConditionStatus::True, "no reserved pods"),
        _ => (ConditionStatus::False, "reserved pods found"),
    };
    judgement.condition = Some(changed(known, (SCHEDULABLE, status), (RESCHEDULE, message), rules.now));
    judgement
}

fn is_reserved(rules: &Rules<'_>, pod: &ObservedPod, keeps_old: bool, judgement: &mut Judgement) -> bool {
    let label = pod.label(RESERVED_POD);
    let is_updated = pod.label(UNITED_REVISION) == Some(rules.updated);
    if label == Some("true") || (judgement.was_marked && label.is_none()) {
        return !(label.is_some() && is_updated && is_trusted(rules, pod, judgement));
    }
    if is_updated {
        let capacity = capacity(rules, pod);
        if let Capacity::Awaited(until) = capacity {
            judgement.requeue_at(until);
        }
        return matches!(capacity, Capacity::Lacking);
    }
    if keeps_old || pod.is_ready() {
        return false;
    }
    let until = rules.updated_since.map(|since| after(since, rules.durations.0));
    let waits = until.filter(|until| rules.now <= *until);
    waits.into_iter().for_each(|until| judgement.requeue_at(until));
    waits.is_none()
}

fn count(rules: &Rules<'_>, pod: &ObservedPod, judgement: &mut Judgement) {
    let is_old = pod.label(UNITED_REVISION) != Some(rules.updated);
    judgement.reserved += 1;
    judgement.stuck += i32::from(!pod.is_ready() && (is_old || is_refused(pod)));
    judgement.unplaced += i32::from(!pod.is_ready() && (is_old || has_no_node(pod)));
}

/// A reserved Pod that has been ready for long enough.
fn is_trusted(rules: &Rules<'_>, pod: &ObservedPod, judgement: &mut Judgement) -> bool {
    let duration = rules.durations.1;
    let is_running = &*pod.status.phase == "Running";
    if is_running && pod.is_ready_for(duration, rules.now) {
        return true;
    }
    let ready = pod.condition("Ready").filter(|ready| is_running && &*ready.status == "True");
    let since = ready.and_then(PodCondition::since).unwrap_or(rules.now);
    judgement.requeue_at(after(since, duration));
    false
}

/// Whether a Pod has found capacity.
enum Capacity {
    SubsetWorkloads,
    /// The scheduler has found none, and may continue until then.
    Awaited(Timestamp),
    Lacking,
}

fn has_no_node(pod: &ObservedPod) -> bool {
    &*pod.status.phase == "Pending" && pod.spec.node_name.is_empty()
}

fn is_refused(pod: &ObservedPod) -> bool {
    let scheduled = pod.condition("PodScheduled");
    let is_refused = scheduled
        .is_some_and(|scheduled| &*scheduled.status == "False" && &*scheduled.reason == "Unschedulable");
    has_no_node(pod) && is_refused
}

fn capacity(rules: &Rules<'_>, pod: &ObservedPod) -> Capacity {
    if !is_refused(pod) {
        return Capacity::SubsetWorkloads;
    }
    let until = after(pod.metadata.created().unwrap_or(rules.now), rules.durations.0);
    if until < rules.now { Capacity::Lacking } else { Capacity::Awaited(until) }
}

fn after(time: Timestamp, seconds: i32) -> Timestamp {
    time.saturating_add(SignedDuration::from_secs(seconds.into())).unwrap_or(Timestamp::MAX)
}
