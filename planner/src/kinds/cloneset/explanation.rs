//! What stands in the way of a CloneSet: which Pods block, which budget is used up, what would clear it.
//!
//! `kutter explain cloneset` prints it. What stands for a minute is also told by condition
//! [`BLOCKED`], a type under our own prefix that OpenKruise does not have: it is there while nothing moves
//! though the CloneSet has not what it asks for, and goes when something moves again. Waiting for people
//! who decided so (`paused`, `partition`, `OnDelete`) is no blockade.

use std::collections::BTreeSet;
use std::fmt;

use api::annotations::LIFECYCLE_TIMESTAMP;
use api::kinds::Time;
use api::kinds::cloneset::CloneSetCondition;
use api::kinds::shared::{ConditionStatus, LifecycleHook};
use jiff::{SignedDuration, Timestamp};

use super::Working;
use super::action::RevisionStep;
use super::counting::{Difference, is_on_delete};
use super::members::Member;
use super::progress;
use super::scale::Scale;
use super::update::Update;
use crate::pod::lifecycle::State;
use crate::pod::observed::ObservedPod;

#[cfg(test)]
mod tests;

/// The type of the condition.
pub const BLOCKED: &str = "kutter.io/Blocked";
/// How long nothing must have moved before the condition says so.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);
/// Blockers that the condition names.
const NAMED: usize = 3;

/// What a CloneSet has, wants and waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// What there is, and what is wanted, in a sentence.
    pub summary: String,
    /// Every Pod is where it belongs.
    pub is_complete: bool,
    /// Something is done now, so that nothing is blocked.
    pub is_moving: bool,
    /// Settings that hold the CloneSet back as they are meant to, and budgets that are used up.
    pub limits: Vec<String>,
    /// What stands in the way, by Pod name.
    pub blockers: Vec<Blocker>,
}

/// One thing that stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The Pod; empty where it is none.
    pub pod: String,
    /// A word for programs.
    pub reason: &'static str,
    /// What it is, in a sentence.
    pub message: String,
    /// What would clear it.
    pub remedy: String,
    /// Since when; none where it is not known, or was so from the start.
    pub since: Option<Timestamp>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.summary)?;
        for limit in &self.limits {
            writeln!(formatter, "  limit: {limit}")?;
        }
        for Blocker { pod, message, remedy, since, .. } in &self.blockers {
            write!(formatter, "  waits: ")?;
            if !pod.is_empty() {
                write!(formatter, "Pod {pod} ")?;
            }
            write!(formatter, "{message}")?;
            if let Some(since) = since {
                write!(formatter, ", since {}", crate::text::moment::rfc3339(*since))?;
            }
            writeln!(formatter, "; {remedy}")?;
        }
        Ok(())
    }
}

impl Explanation {
    pub(super) fn of_problem(problem: &str) -> Self {
        let blocker = Blocker {
            pod: String::new(),
            reason: "Unreadable",
            message: problem.to_owned(),
            remedy: "correct the CloneSet".to_owned(),
            since: None,
        };
        let summary = "nothing can be planned".to_owned();
        Self { summary, blockers: vec![blocker], ..Self::default() }
    }

    pub(super) fn of_revision(step: &RevisionStep) -> Self {
        let (verb, name) = match step {
            RevisionStep::Create(revision) => ("created", &revision.name),
            RevisionStep::Bump { revision, .. } => ("made the newest", &revision.name),
        };
        let summary = format!("revision {name} is {verb}");
        Self { summary, is_moving: true, ..Self::default() }
    }

    /// Sets or clears condition [`BLOCKED`]. Gives the time at which it is to be set, if nothing moves
    /// until then.
    pub(super) fn record(
        &self,
        conditions: &mut Vec<CloneSetCondition>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let standing = (!self.is_complete && !self.is_moving && !self.blockers.is_empty()).then(|| {
            self.blockers.iter().filter_map(|blocker| blocker.since).max().unwrap_or(Timestamp::MIN)
        });
        let due = standing.map(|since| since.saturating_add(PATIENCE).unwrap_or(now));
        let Some(first) = self.blockers.first().filter(|_| due.is_some_and(|due| due <= now)) else {
            conditions.retain(|condition| condition.kind != BLOCKED);
            return due;
        };
        let message = self.message();
        let known = progress::condition(conditions, BLOCKED).cloned();
        if known.as_ref().is_none_or(|known| known.reason != first.reason || known.message != message) {
            let since = known.and_then(|known| known.last_transition_time);
            progress::set(
                conditions,
                CloneSetCondition {
                    kind: BLOCKED.to_owned(),
                    status: ConditionStatus::True,
                    reason: first.reason.to_owned(),
                    message,
                    last_update_time: Some(now.into()),
                    last_transition_time: Some(since.unwrap_or_else(|| now.into())),
                },
            );
        }
        None
    }

    /// The first blockers and the limits, without times, so that it stays while they do.
    fn message(&self) -> String {
        let mut parts: Vec<String> = self
            .blockers
            .iter()
            .take(NAMED)
            .map(|Blocker { pod, message, remedy, .. }| {
                let subject = if pod.is_empty() { String::new() } else { format!("Pod {pod} ") };
                format!("{subject}{message}: {remedy}")
            })
            .collect();
        let others = self.blockers.len().saturating_sub(NAMED);
        if others > 0 {
            parts.push(format!("{others} more"));
        }
        parts.extend(self.limits.iter().cloned());
        parts.join("; ")
    }
}

/// Explains what a plan found.
pub(super) fn explain(working: &Working<'_>, scale: &Scale, update: &Update) -> Explanation {
    let limits = working.limits;
    let count =
        |counts: &dyn Fn(&Member<'_>) -> bool| working.members.iter().filter(|member| counts(member)).count();
    let total = working.members.len();
    let updated = count(&|member| member.is_updated);
    let available = count(&|member| member.is_available);
    let expected = limits.replicas - limits.partition;
    let enough = |number: usize, wanted: i64| i64::try_from(number).unwrap_or(i64::MAX) >= wanted;
    let is_complete = enough(total, limits.replicas)
        && scale.difference.down == 0
        && count(&|member| member.is_leaving()) == 0
        && available == total
        && enough(updated, expected);
    let problems = [(&scale.problem, "FailedScale"), (&update.problem, "FailedUpdate")];
    let mut blockers: Vec<Blocker> = problems
        .into_iter()
        .filter(|_| update.impossible.is_empty())
        .filter_map(|(problem, condition)| {
            let known = progress::condition(&working.set().status.conditions, condition);
            Some(Blocker {
                pod: String::new(),
                reason: "Failed",
                message: problem.clone()?,
                remedy: "correct what it names".to_owned(),
                since: known.and_then(|known| known.last_transition_time.as_ref()?.timestamp()),
            })
        })
        .collect();
    blockers.extend(working.members.iter().filter_map(|member| blocker(working, member, scale, update)));
    if scale.waiting_names > 0 {
        blockers.push(claim_in_use(working, scale.waiting_names));
    }
    Explanation {
        summary: format!(
            "{} Pods wanted, {expected} of them at revision {}; there are {total}: {updated} updated, \
             {available} available",
            limits.replicas,
            working.update.name(),
        ),
        is_complete,
        is_moving: !scale.actions.is_empty() || !update.actions.is_empty(),
        limits: held_back(working, scale.difference, update),
        blockers,
    }
}

/// Pods are not created until those are gone whose names and claims they take over.
fn claim_in_use(working: &Working<'_>, waiting: usize) -> Blocker {
    let ending = || {
        let pods = working.snapshot.pods.iter().map(|pod| &pod.metadata);
        pods.filter_map(|metadata| Some((&*metadata.name, metadata.deletion_timestamp?)))
    };
    let names: BTreeSet<&str> = ending().map(|(name, _)| name).collect();
    let names: Vec<&str> = names.into_iter().take(NAMED).collect();
    Blocker {
        pod: names.first().copied().unwrap_or_default().to_owned(),
        reason: "ClaimInUse",
        message: format!(
            "is ending; {waiting} Pods wait for the names of Pods that are ending: {}",
            names.join(", ")
        ),
        remedy: "their claims are reused once those are gone; on a lost node delete them by force".to_owned(),
        since: ending().map(|(_, since)| since).min(),
    }
}

/// Settings that hold the CloneSet back now.
fn held_back(working: &Working<'_>, scale: Difference, update: &Update) -> Vec<String> {
    let mut held = Vec::new();
    let limits = working.limits;
    let spec = &working.set().spec;
    let behind = working.members.iter().filter(|member| !member.is_updated).count();
    let unavailable: Vec<&str> =
        working.members.iter().filter(|member| !member.is_available).map(|member| member.name()).collect();
    let listed = |names: &[&str]| match names.len() {
        0 => "none is unavailable yet".to_owned(),
        number => {
            let more = if number > NAMED { ", ..." } else { "" };
            let shown: Vec<&str> = names.iter().take(NAMED).copied().collect();
            format!("unavailable {}: {}{more}", number, shown.join(", "))
        }
    };
    if behind > 0 {
        if is_on_delete(spec) {
            held.push(format!("type OnDelete: {behind} Pods are updated when somebody deletes them"));
        } else if spec.update_strategy.rolling_update.paused {
            held.push(format!("paused: {behind} Pods are not updated"));
        } else if update.difference.update == 0 && limits.partition > 0 {
            held.push(format!("partition {}: {behind} Pods stay at older revisions", limits.partition));
        } else if update.difference.update != 0 && update.actions.is_empty() && scale.up == 0 {
            held.push(format!(
                "maxUnavailable {} of {} Pods and {} surge Pods is used up; {}",
                limits.max_unavailable,
                limits.replicas,
                scale.surge,
                listed(&unavailable)
            ));
        }
    }
    if scale.up > scale.up_limit {
        held.push(format!(
            "scaleStrategy.maxUnavailable {} lets {} of {} missing Pods be created now; {}",
            limits.scale_max_unavailable.unwrap_or(0),
            scale.up_limit,
            scale.up,
            listed(&unavailable)
        ));
    }
    let waiting =
        working.members.iter().filter(|member| member.is_specified && !member.is_preparing_delete()).count();
    if (scale.down > 0 || waiting > 0) && scale.ready_limit == 0 {
        held.push(format!(
            "maxUnavailable {} keeps Pods that are ready from being deleted; {}",
            limits.max_unavailable,
            listed(&unavailable)
        ));
    }
    held
}

/// Why this Pod is not where it belongs.
fn blocker(working: &Working<'_>, member: &Member<'_>, scale: &Scale, update: &Update) -> Option<Blocker> {
    let pod = member.pod;
    let hooks = &working.set().spec.lifecycle;
    let since = entered(pod);
    let blocked = |reason, message: String, remedy: String, since| {
        Some(Blocker { pod: member.name().to_owned(), reason, message, remedy, since })
    };
    if let Some(reason) = update.impossible.get(member.name()) {
        let message = format!("can't be updated in place: {reason}");
        let remedy = "take the change back, delete the Pod, or allow podUpdatePolicy InPlaceIfPossible";
        let since = working.update.metadata.creation_timestamp.as_ref().and_then(Time::timestamp);
        return blocked("InPlaceImpossible", message, remedy.to_owned(), since);
    }
    if let Some(refusal) = working.snapshot.held.get(&pod.metadata.uid) {
        let message = format!("is not updated: the API server refuses it: {}", refusal.message);
        let remedy = "correct the CloneSet or what refuses it; it is tried again every few minutes";
        return blocked("Refused", message, remedy.to_owned(), Some(refusal.since));
    }
    match member.state {
        Some(State::PreparingDelete) => {
            let (message, remedy) = held_by(hooks.pre_delete.as_ref(), pod, "preDelete");
            return blocked("PreDeleteHook", message, remedy, since);
        }
        Some(State::PreparingUpdate) => {
            let (message, remedy) = held_by(hooks.in_place_update.as_ref(), pod, "inPlaceUpdate");
            return blocked("InPlaceUpdateHook", message, remedy, since);
        }
        Some(State::Updated) => {
            let (message, remedy) = lacks(hooks.in_place_update.as_ref(), pod, "inPlaceUpdate");
            return blocked("InPlaceUpdateHook", message, remedy, since);
        }
        Some(State::Updating) => {
            let incomplete = update.incomplete.get(member.name())?;
            let (state, remedy) = containers(pod);
            return blocked("Updating", format!("is being updated: {incomplete}{state}"), remedy, since);
        }
        Some(State::PreparingNormal) if hooks.pre_normal.is_some() && member.is_ready => {
            let (message, remedy) = lacks(hooks.pre_normal.as_ref(), pod, "preNormal");
            return blocked("PreNormalHook", message, remedy, since);
        }
        _ => {}
    }
    if !member.is_ready {
        let (reason, message, remedy) = not_ready(pod);
        return blocked(reason, message, remedy, not_ready_since(pod));
    }
    let Difference { ready_limit, serving_limit, .. } = scale.difference;
    let limit = if member.is_available { ready_limit } else { serving_limit };
    if member.is_specified && limit == 0 {
        let message = "is to be deleted, but maxUnavailable is used up".to_owned();
        let remedy = "it goes when the others are available, or when maxUnavailable is raised".to_owned();
        let unavailable = working.members.iter().filter(|member| !member.is_available);
        let since = unavailable.filter_map(|member| not_ready_since(member.pod)).max();
        return blocked("MaxUnavailable", message, remedy, since);
    }
    let available_at = member.available_at?;
    let message = format!("is ready, and available from {}", crate::text::moment::rfc3339(available_at));
    blocked("MinReadySeconds", message, "it needs minReadySeconds".to_owned(), Some(available_at))
}

/// When the Pod entered its lifecycle state.
fn entered(pod: &ObservedPod) -> Option<Timestamp> {
    pod.annotation(LIFECYCLE_TIMESTAMP).and_then(|time| time.parse().ok())
}

fn not_ready_since(pod: &ObservedPod) -> Option<Timestamp> {
    let ready = pod.condition("Ready").and_then(|ready| ready.last_transition_time);
    ready.or(pod.metadata.creation_timestamp)
}

/// The hook's labels and finalizers that hold the Pod.
fn held_by(hook: Option<&LifecycleHook>, pod: &ObservedPod, name: &str) -> (String, String) {
    let parts = parts(hook, pod, true);
    let message = format!("is held by hook {name}");
    if parts.is_empty() {
        return (message, "it goes on with the next look at it".to_owned());
    }
    (message, format!("remove {} from it", parts.join(", ")))
}

/// The hook's labels and finalizers that the Pod waits for.
fn lacks(hook: Option<&LifecycleHook>, pod: &ObservedPod, name: &str) -> (String, String) {
    let parts = parts(hook, pod, false);
    let message = format!("waits for hook {name}");
    if parts.is_empty() {
        return (message, "it goes on with the next look at it".to_owned());
    }
    (message, format!("put {} on it", parts.join(", ")))
}

fn parts(hook: Option<&LifecycleHook>, pod: &ObservedPod, present: bool) -> Vec<String> {
    let Some(hook) = hook else { return Vec::new() };
    let labels = hook.labels_handler.iter();
    let labels = labels.filter(|(key, value)| (pod.label(key) == Some(value)) == present);
    let labels = labels.map(|(key, value)| format!("label {key}={value}"));
    let finalizers = hook.finalizers_handler.iter();
    let has = |name: &str| pod.metadata.finalizers.iter().any(|known| **known == *name);
    let finalizers = finalizers.filter(|name| has(name) == present).map(|name| format!("finalizer {name}"));
    labels.chain(finalizers).collect()
}

/// Why the Pod is not ready.
fn not_ready(pod: &ObservedPod) -> (&'static str, String, String) {
    if pod.spec.node_name.is_empty() {
        let scheduled = pod.condition("PodScheduled");
        let why = scheduled.map_or("", |condition| &condition.message);
        let message =
            if why.is_empty() { "has no node yet".to_owned() } else { format!("has no node: {why}") };
        return ("Unschedulable", message, "see the Events of the Pod".to_owned());
    }
    let (state, remedy) = containers(pod);
    let gates: Vec<&str> = pod
        .spec
        .readiness_gates
        .iter()
        .map(|gate| &*gate.condition_type)
        .filter(|gate| !pod.condition_is_true(gate))
        .collect();
    if state.is_empty() && !gates.is_empty() && pod.condition_is_true("ContainersReady") {
        let message = format!("is not ready: its readiness gates {} are not true", gates.join(", "));
        return ("ReadinessGates", message, "see the conditions of the Pod".to_owned());
    }
    ("NotReady", format!("is not ready{state}"), remedy)
}

/// What the first container does that is not ready, and where to look.
fn containers(pod: &ObservedPod) -> (String, String) {
    let remedy = "see the Events and logs of the Pod".to_owned();
    let unready = pod.status.container_statuses.iter().find(|status| !status.ready);
    let Some(status) = unready else { return (String::new(), remedy) };
    let name = &status.name;
    let state = match (&status.state.waiting, &status.state.terminated) {
        (Some(waiting), _) if !waiting.reason.is_empty() => {
            format!("; container {name} waits: {}", waiting.reason)
        }
        (_, Some(terminated)) => format!("; container {name} ended with exit code {}", terminated.exit_code),
        _ => format!("; container {name} is not ready"),
    };
    (state, remedy)
}
