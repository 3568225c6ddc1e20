//! What blocks a workload: which Pods block, which budget is used up, what would clear it.
//!
//! `kutter explain` prints it. What lasts for a minute is also reported by condition [`BLOCKED`], a type under our
//! own prefix that OpenKruise does not have: it is there while nothing moves though the workload has not what
//! it asks for, and is removed when something moves again. Waiting for people who decided so (`paused`,
//! `partition`, `OnDelete`) is no blockade.

use std::fmt;

use api::kinds::shared::ConditionStatus;
use jiff::{SignedDuration, Timestamp};

use super::conditions::{self, Condition};
use super::kind::WorkloadStatus;
use super::revision::RevisionStep;
use super::status::StatusPlan;

/// The type of the condition.
pub const BLOCKED: &str = "kutter.io/Blocked";
/// How long nothing must have moved before the condition says so.
const TIMEOUT: SignedDuration = SignedDuration::from_mins(1);
/// Blockers that the condition names.
pub(crate) const NAMED: usize = 3;

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
    /// What blocks progress, by Pod name.
    pub blockers: Vec<Blocker>,
}

/// One thing that blocks progress.
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

impl Blocker {
    /// What this Pod waits for.
    pub(crate) fn of_pod(
        pod: &str,
        reason: &'static str,
        message: impl Into<String>,
        remedy: &str,
        since: Option<Timestamp>,
    ) -> Self {
        let (message, remedy) = (message.into(), remedy.to_owned());
        Self { pod: pod.to_owned(), reason, message, remedy, since }
    }

    /// This Pod is to be deleted, and the budget does not bear it.
    pub(crate) fn of_deletion(pod: &str, since: Option<Timestamp>) -> Self {
        let message = "is to be deleted, but maxUnavailable is used up";
        let remedy = "it goes when the others are available, or when maxUnavailable is raised";
        Self::of_pod(pod, "MaxUnavailable", message, remedy, since)
    }
}

/// A setting by which Pods stay behind the update revision, as its author wants it. `behind` says which, in words;
/// `kept` is what else keeps them.
pub(crate) fn held_as_meant(
    behind: &str,
    on_delete: bool,
    paused: bool,
    kept: Option<String>,
) -> Option<String> {
    match (on_delete, paused) {
        (true, _) => Some(format!("type OnDelete: {behind} are updated when somebody deletes them")),
        (false, true) => Some(format!("paused: {behind} are not updated")),
        (false, false) => kept,
    }
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
                write!(formatter, ", since {}", values::moment::rfc3339(*since))?;
            }
            writeln!(formatter, "; {remedy}")?;
        }
        Ok(())
    }
}

impl Explanation {
    /// Nothing can be planned for the object of this kind.
    pub(crate) fn of_problem(kind: &str, problem: &str) -> Self {
        let blocker = Blocker {
            pod: String::new(),
            reason: "Unreadable",
            message: problem.to_owned(),
            remedy: format!("correct the {kind}"),
            since: None,
        };
        let summary = "nothing can be planned".to_owned();
        Self { summary, blockers: vec![blocker], ..Self::default() }
    }

    /// A revision is written first.
    pub(crate) fn of_revision(step: &RevisionStep) -> Self {
        let verb = match step {
            RevisionStep::Create(_) => "created",
            RevisionStep::Patch { .. } => "made the newest",
        };
        let summary = format!("revision {} is {verb}", step.name());
        Self { summary, is_moving: true, ..Self::default() }
    }

    /// Sets or clears condition [`BLOCKED`]. Gives the time at which it is to be set, if nothing moves
    /// until then.
    pub(crate) fn record<S: WorkloadStatus>(
        &self,
        status: &mut StatusPlan<S>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let standing = (!self.is_complete && !self.is_moving && !self.blockers.is_empty()).then(|| {
            self.blockers.iter().filter_map(|blocker| blocker.since).max().unwrap_or(Timestamp::MIN)
        });
        let due = standing.map(|since| since.saturating_add(TIMEOUT).unwrap_or(now));
        if self.is_moving {
            status.if_refused(BLOCKED, TIMEOUT);
        }
        let Some(first) = self.blockers.first().filter(|_| due.is_some_and(|due| due <= now)) else {
            status.change_conditions(|conditions| conditions.retain(|condition| condition.kind != BLOCKED));
            return due;
        };
        let message = self.message();
        status.change_conditions(|conditions| {
            let known = conditions::condition(conditions, BLOCKED);
            if known.is_some_and(|known| known.reason == first.reason && known.message == message) {
                return;
            }
            let since = known.and_then(|known| known.last_transition_time.clone());
            conditions::set(
                conditions,
                Condition {
                    kind: BLOCKED.to_owned(),
                    status: ConditionStatus::True,
                    reason: first.reason.to_owned(),
                    message,
                    last_update_time: Some(now.into()),
                    last_transition_time: Some(since.unwrap_or_else(|| now.into())),
                },
            );
        });
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
