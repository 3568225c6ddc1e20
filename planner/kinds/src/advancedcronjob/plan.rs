//! What to do about an AdvancedCronJob: its status, the children that go, and the run to start
//! (docs/behaviour/advancedcronjob.md#the-controller).

use std::time::Duration;

use api::kinds::Time;
use api::kinds::advancedcronjob::{AdvancedCronJob, ConcurrencyPolicy, Status};
use api::kinds::shared::ObjectReference;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::children::{Child, ChildKind, Progress};
use super::new_child::{name, new_child};
use super::runs::{MANY, Runs, State, TickOutcome, runs};
use super::schedule::Schedule;
use super::{policy, schedule_of};
use crate::workload::object_version::ObjectVersion;
use crate::workload::status::merge_patch;
use values::event::{Event, normal, warning};
use values::json_patch::string;
use values::moment::{just_after, rfc3339};

#[cfg(test)]
mod histories;
#[cfg(test)]
mod tests;

/// How far ahead a clock may be: runs of later ticks are not believed.
const SKEW: SignedDuration = SignedDuration::from_mins(10);
/// The longest time without reading the clock, which may have been set meanwhile.
const LONGEST: Duration = Duration::from_secs(600);

/// What to do, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The merge patch of its status.
    pub status: Option<String>,
    /// Events to record once the status is written.
    pub completed: Vec<Event>,
    /// Finished children to delete, more than are to be kept.
    pub history: Vec<ObjectVersion>,
    /// Events to record if they were not recorded by the last plan: they say what continues.
    pub notes: Vec<Event>,
    /// The run to start.
    pub run: Option<Run>,
    /// When to reconcile again, even if nothing changes.
    pub again: Option<Duration>,
}

/// A run to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The tick.
    pub tick: Timestamp,
    /// The name of the child.
    pub name: String,
    /// Its JSON.
    pub json: String,
    /// Active children to delete first.
    pub replaced: Vec<ObjectVersion>,
}

/// Plans for an AdvancedCronJob. `children` are those of its kind that name its UID; others are passed over. `process`
/// is the zone of schedules that name none.
pub fn plan(cron_job: &AdvancedCronJob, children: &[&Child], process: &TimeZone, now: Timestamp) -> Plan {
    plan_after(None, cron_job, children, process, now)
}

/// Plans after the run of tick `started`, which neither the status nor a child needs to show yet.
pub fn plan_after(
    started: Option<Timestamp>,
    cron_job: &AdvancedCronJob,
    children: &[&Child],
    process: &TimeZone,
    now: Timestamp,
) -> Plan {
    let kind = ChildKind::of(&cron_job.spec.template);
    let children = sorted(cron_job, children);
    let last = last_run(cron_job, &children, now).max(started);
    let status = status(cron_job, &children, kind, last);
    let mut plan = Plan::default();
    if differs(&status, &cron_job.status) {
        let metadata = &cron_job.metadata;
        let observed = (metadata.uid.as_str(), metadata.resource_version.as_str());
        plan.status = Some(merge_patch(observed, &cron_job.status, &status, &[]));
        plan.completed = completed(&cron_job.status.active, &children);
    }
    if cron_job.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    plan.history = history(cron_job, &children);
    let schedule = match schedule_of(&cron_job.spec, process) {
        Ok((schedule, problem)) => {
            let zone =
                problem.map(|problem| warning("UnknownTimeZone", format!("invalid timeZone: {problem}")));
            plan.notes.extend(zone);
            schedule
        }
        Err(problem) => {
            let schedule = string(&cron_job.spec.schedule);
            let message = format!("unparseable schedule: {schedule} : {problem}");
            plan.notes.push(warning("UnparseableSchedule", message));
            return plan;
        }
    };
    if cron_job.spec.paused {
        plan.notes.clear();
        return plan;
    }
    if let Some(last) = last.filter(|last| *last > now.saturating_add(SKEW).unwrap_or(Timestamp::MAX)) {
        let message = format!("status.lastScheduleTime is {}: no run starts before that", rfc3339(last));
        plan.notes.push(warning("LastScheduleInFuture", message));
    }
    start(cron_job, &children, (&schedule, last), &mut plan, (process, now));
    plan
}

/// What the schedule asks for, given its children and the newest status.
pub(super) fn asked(
    cron_job: &AdvancedCronJob,
    children: &[&Child],
    (schedule, last): (&Schedule, Option<Timestamp>),
    now: Timestamp,
) -> Runs {
    let (spec, metadata) = (&cron_job.spec, &cron_job.metadata);
    let created = metadata.creation_timestamp.as_ref().and_then(Time::timestamp);
    let state = State {
        since: last.or(created).unwrap_or(now),
        deadline: spec.starting_deadline_seconds,
        policy: policy(spec),
        paused: spec.paused,
        active: children.iter().any(|child| child.is_active()),
    };
    runs(schedule, &state, now)
}

fn start(
    cron_job: &AdvancedCronJob,
    children: &[&Child],
    schedule: (&Schedule, Option<Timestamp>),
    plan: &mut Plan,
    (process, now): (&TimeZone, Timestamp),
) {
    let asked = asked(cron_job, children, schedule, now);
    plan.again = asked.next.map(|next| just_after(next, now).min(LONGEST));
    let Some((tick, fate)) = asked.due else { return };
    if asked.missed > MANY && fate != TickOutcome::TooLate {
        let message = format!(
            "too many missed start times (> {MANY}). Set or decrease .spec.startingDeadlineSeconds or check clock \
             skew; only the latest is started"
        );
        plan.notes.push(warning("TooManyMissedTimes", message));
    }
    match fate {
        TickOutcome::Paused => {}
        TickOutcome::TooLate => {
            let message = format!("Missed scheduled time to start a job: {}", rfc3339(tick));
            plan.notes.push(warning("MissSchedule", message));
        }
        TickOutcome::Held => {
            let message = format!(
                "Not starting the run of {} because prior execution is running and concurrency policy is Forbid",
                rfc3339(tick)
            );
            plan.notes.push(normal("JobAlreadyActive", message));
        }
        TickOutcome::Run => match new_child(cron_job, tick, process) {
            Ok(json) => {
                // What is being deleted already is not deleted again.
                let replaced = children.iter().filter(|child| child.is_active() && !child.deleting);
                let replaces = policy(&cron_job.spec) == ConcurrencyPolicy::Replace;
                let replaced = replaced.filter(|_| replaces).map(|child| child.observed()).collect();
                plan.run = Some(Run { tick, name: name(cron_job, tick), json, replaced });
            }
            Err(problem) => {
                let message = format!("Error creating job: the template can't be read: {problem}");
                plan.notes.push(warning("FailedCreate", message));
            }
        },
    }
}

/// Its children in the order of their ticks.
pub(super) fn sorted<'c>(cron_job: &AdvancedCronJob, children: &[&'c Child]) -> Vec<&'c Child> {
    let mut own: Vec<&Child> =
        children.iter().copied().filter(|child| child.is_of(&cron_job.metadata)).collect();
    own.sort_by(|one, other| (one.scheduled_at, &one.name).cmp(&(other.scheduled_at, &other.name)));
    own
}

/// The tick of the last run. What the status says holds, whether its child is there still or not; a child that claims to be
/// of a time far ahead is ignored.
pub(super) fn last_run(cron_job: &AdvancedCronJob, children: &[&Child], now: Timestamp) -> Option<Timestamp> {
    let stored = cron_job.status.last_schedule_time.as_ref().and_then(Time::timestamp);
    let latest = now.saturating_add(SKEW).unwrap_or(Timestamp::MAX);
    let ticks = children.iter().filter_map(|child| child.scheduled_at).filter(|tick| *tick <= latest);
    ticks.max().max(stored)
}

fn status(
    cron_job: &AdvancedCronJob,
    children: &[&Child],
    kind: ChildKind,
    last: Option<Timestamp>,
) -> Status {
    let stored = cron_job.status.last_schedule_time.as_ref();
    let is_stored = stored.and_then(Time::timestamp) == last;
    let last_schedule_time = if is_stored { stored.cloned() } else { last.map(Time::from) };
    let active = children.iter().filter(|child| child.is_active()).map(|child| child.reference(kind));
    Status { active: active.collect(), last_schedule_time, kind: kind.kind().to_owned() }
}

/// Whether the status is to be written: a changed child is no reason, since the child shows that itself.
fn differs(new: &Status, old: &Status) -> bool {
    let essence = |status: &Status| {
        let mut status = status.clone();
        status.active.iter_mut().for_each(|active| active.resource_version.clear());
        status
    };
    essence(new) != essence(old)
}

/// Reports the children that were active and are finished.
fn completed(active: &[ObjectReference], children: &[&Child]) -> Vec<Event> {
    let finished = children.iter().filter(|child| active.iter().any(|active| *active.uid == *child.uid));
    let reported = finished.filter_map(|child| {
        let condition = match child.progress {
            Progress::Active => return None,
            Progress::Successful => "Complete",
            Progress::Failed => "Failed",
        };
        let message = format!("Saw completed job: {}, condition: {condition}", child.name);
        Some(normal("SawCompletedJob", message))
    });
    reported.collect()
}

/// The children that are more than are to be kept: of the failed and of the successful ones those that began first.
fn history(cron_job: &AdvancedCronJob, children: &[&Child]) -> Vec<ObjectVersion> {
    let spec = &cron_job.spec;
    let kept = [
        (Progress::Failed, spec.failed_jobs_history_limit),
        (Progress::Successful, spec.successful_jobs_history_limit),
    ];
    let surplus = kept.into_iter().filter_map(|(progress, limit)| {
        let limit = usize::try_from(limit?).unwrap_or(0);
        let finished = children.iter().filter(|child| child.progress == progress && !child.deleting);
        let mut finished: Vec<&&Child> = finished.collect();
        finished.sort_by_key(|child| child.started);
        finished.truncate(finished.len().saturating_sub(limit));
        Some(finished.into_iter().map(|child| child.observed()))
    });
    surplus.flatten().collect()
}
