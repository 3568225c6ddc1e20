//! AdvancedCronJob: starts a Job, a BroadcastJob or an ImageListPullJob at the ticks of a schedule
//! (docs/behaviour/advancedcronjob.md).
//!
//! ```text
//!   schedule      the cron language: which moments are ticks
//!   runs          which tick is due now, and why one is not run
//!   children      what the runs became: active, successful, failed
//!   plan          status, history, and the run to start          new_child   the object that a run creates
//!   trigger       which changes start a reconcile               explanation what kutter explain prints
//!   defaulting, validation   what an AdvancedCronJob may say
//! ```

use api::kinds::advancedcronjob::{ConcurrencyPolicy, Spec};
use jiff::tz::TimeZone;

use schedule::{Schedule, ScheduleError, ZoneError, zone};

pub mod children;
pub mod defaulting;
pub mod explanation;
mod new_child;
pub mod plan;
pub mod runs;
pub mod schedule;
pub mod trigger;
pub mod validation;

/// What happens when a tick comes while a child is active. Objects that no webhook has completed say nothing.
fn policy(spec: &Spec) -> ConcurrencyPolicy {
    let is_pull = spec.template.image_list_pull_job_template.is_some();
    let default = if is_pull { ConcurrencyPolicy::Replace } else { ConcurrencyPolicy::Allow };
    spec.concurrency_policy.clone().unwrap_or(default)
}

/// Whether a schedule names its zone itself, by the rule of the reference.
fn names_zone(schedule: &str) -> bool {
    schedule.contains("TZ")
}

/// The schedule, and what is wrong with `timeZone`, which is then passed over. `process` is the zone of schedules that
/// name none.
///
/// # Errors
/// The schedule can't be read.
pub fn schedule_of(spec: &Spec, process: &TimeZone) -> Result<(Schedule, Option<ZoneError>), ScheduleError> {
    let named = spec.time_zone.as_deref().filter(|name| !name.is_empty() && !names_zone(&spec.schedule));
    let (zone, problem) = match named.map(zone) {
        Some(Ok(zone)) => (zone, None),
        Some(Err(problem)) => (process.clone(), Some(problem)),
        None => (process.clone(), None),
    };
    Ok((Schedule::parse(&spec.schedule, &zone, process)?, problem))
}
