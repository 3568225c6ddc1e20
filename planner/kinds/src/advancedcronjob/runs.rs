//! Which tick is due, and why it is not run (docs/behaviour/advancedcronjob.md#which-run-is-due).
//!
//! Only the latest tick is ever run: after a pause there is one run, not one for each tick that went by.

use api::kinds::advancedcronjob::ConcurrencyPolicy;
use jiff::{SignedDuration, Timestamp};

use super::schedule::Schedule;

/// More ticks than this without a run are worth a word.
pub const MANY: usize = 100;
/// A run may always be so many seconds late: nobody comes in time to the second.
const LEAST_DEADLINE: i64 = 3;

/// What decides about the runs of an AdvancedCronJob, beside its schedule.
#[derive(Clone, Debug)]
pub struct State {
    /// Ticks after this moment count: that of the last run, or the creation.
    pub since: Timestamp,
    /// How many seconds late a run may start.
    pub deadline: Option<i64>,
    /// What happens while a child is active.
    pub policy: ConcurrencyPolicy,
    /// No new runs.
    pub paused: bool,
    /// A child is active.
    pub active: bool,
}

/// What the schedule asks for now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// The latest tick without a run, and what becomes of it.
    pub due: Option<(Timestamp, TickOutcome)>,
    /// How many ticks without a run could still be made up for, the latest one among them; counted up to more than
    /// [`MANY`].
    pub missed: usize,
    /// The first tick from now on.
    pub next: Option<Timestamp>,
}

/// What becomes of a tick that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickOutcome {
    /// It is run now.
    Run,
    /// It is skipped while runs are paused.
    Paused,
    /// It is skipped for good: it would start later than it may.
    TooLate,
    /// It waits for the child that is active, until the next tick takes its place.
    Held,
}

/// What `schedule` asks for at `now`.
pub fn runs(schedule: &Schedule, state: &State, now: Timestamp) -> Runs {
    let next = schedule.next(state.since, now);
    let Some(latest) = schedule.latest(state.since, now) else { return Runs { next, ..Runs::default() } };
    let deadline = state.deadline.map(|seconds| SignedDuration::from_secs(seconds.max(LEAST_DEADLINE)));
    // A deadline beyond all times is none.
    let earliest = deadline.and_then(|deadline| now.checked_sub(deadline).ok()).unwrap_or(Timestamp::MIN);
    let fate = if state.paused {
        TickOutcome::Paused
    } else if latest < earliest {
        TickOutcome::TooLate
    } else if state.active && state.policy == ConcurrencyPolicy::Forbid {
        TickOutcome::Held
    } else {
        TickOutcome::Run
    };
    Runs { due: Some((latest, fate)), missed: schedule.count(state.since, earliest, now, MANY + 1), next }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    const CREATED: &str = "2026-03-02T10:00:30Z";

    fn at(text: &str) -> Timestamp {
        let text = if text.contains('T') { text.to_owned() } else { format!("2026-03-02T{text}Z") };
        text.parse().unwrap()
    }

    fn state(since: &str) -> State {
        let policy = ConcurrencyPolicy::Allow;
        State { since: at(since), deadline: None, policy, paused: false, active: false }
    }

    /// Due tick with its fate, how many were missed, and the next tick.
    fn asked(
        schedule: &str,
        state: &State,
        now: &str,
    ) -> (Option<(String, TickOutcome)>, usize, Option<String>) {
        let schedule = Schedule::parse(schedule, &TimeZone::UTC, &TimeZone::UTC).unwrap();
        let Runs { due, missed, next } = runs(&schedule, state, at(now));
        let time = |tick: Timestamp| tick.strftime("%H:%M:%S").to_string();
        (due.map(|(tick, fate)| (time(tick), fate)), missed, next.map(time))
    }

    fn due(tick: &str, fate: TickOutcome) -> Option<(String, TickOutcome)> {
        Some((tick.to_owned(), fate))
    }

    #[test]
    fn the_examples_of_the_rule_of_missed_runs_hold() {
        let next = |text: &str| Some(text.to_owned());
        // Nothing is due before the first tick.
        assert_eq!(asked("*/5 * * * *", &state(CREATED), "10:04:00"), (None, 0, next("10:05:00")));
        // Of the ticks of an outage the latest is run.
        let late = asked("*/5 * * * *", &state("10:00:00"), "10:17:00");
        assert_eq!(late, (due("10:15:00", TickOutcome::Run), 3, next("10:20:00")));
        // It is too old for the deadline.
        let strict = State { deadline: Some(60), ..state("10:00:00") };
        let late = asked("*/5 * * * *", &strict, "10:17:00");
        assert_eq!(late, (due("10:15:00", TickOutcome::TooLate), 0, next("10:20:00")));
        // Three hours of a schedule of each minute are more than a hundred ticks, and one run.
        let long = asked("*/1 * * * *", &state("10:00:00"), "13:00:30");
        assert_eq!(long, (due("13:00:00", TickOutcome::Run), MANY + 1, next("13:01:00")));
        let short = asked("*/1 * * * *", &state("10:00:00"), "10:30:00");
        assert_eq!(short, (due("10:30:00", TickOutcome::Run), 30, next("10:31:00")));
        assert_eq!(asked("0 0 30 2 *", &state(CREATED), "12:00:00"), (None, 0, None));
    }

    #[test]
    fn an_active_child_holds_a_tick_only_where_that_is_wanted() {
        for (policy, fate) in [
            (ConcurrencyPolicy::Allow, TickOutcome::Run),
            (ConcurrencyPolicy::Replace, TickOutcome::Run),
            (ConcurrencyPolicy::Forbid, TickOutcome::Held),
        ] {
            let busy = State { policy, active: true, ..state("10:00:00") };
            assert_eq!(asked("*/5 * * * *", &busy, "10:07:00").0, due("10:05:00", fate));
        }
        let free = State { policy: ConcurrencyPolicy::Forbid, ..state("10:00:00") };
        assert_eq!(asked("*/5 * * * *", &free, "10:07:00").0, due("10:05:00", TickOutcome::Run));
    }

    #[test]
    fn no_deadline_is_shorter_than_a_few_seconds() {
        let strict = State { deadline: Some(0), ..state("10:00:00") };
        for (now, fate) in [
            ("10:05:00", TickOutcome::Run),
            ("10:05:03", TickOutcome::Run),
            ("10:05:04", TickOutcome::TooLate),
        ] {
            assert_eq!(asked("*/5 * * * *", &strict, now).0, due("10:05:00", fate));
        }
        let endless = State { deadline: Some(i64::MAX), ..state("10:00:00") };
        assert_eq!(asked("*/5 * * * *", &endless, "10:17:00").0, due("10:15:00", TickOutcome::Run));
    }

    #[test]
    fn runs_of_a_constant_delay_keep_their_distance_from_the_creation_on() {
        let state = State { deadline: Some(10), ..state(CREATED) };
        let expect = |now: &str, fate: Option<(String, TickOutcome)>, next: &str| {
            let (due, _, found) = asked("@every 90s", &state, now);
            assert_eq!((due, found.as_deref()), (fate, Some(next)));
        };
        expect("10:01:59", None, "10:02:00");
        expect("10:02:00", due("10:02:00", TickOutcome::Run), "10:03:30");
        expect("10:05:07", due("10:05:00", TickOutcome::Run), "10:06:30");
        expect("10:05:29", due("10:05:00", TickOutcome::TooLate), "10:06:30");
    }

    #[test]
    fn a_pause_skips_and_a_last_run_in_the_future_waits() {
        let paused = State { paused: true, ..state("10:00:00") };
        assert_eq!(asked("*/5 * * * *", &paused, "10:07:00").0, due("10:05:00", TickOutcome::Paused));
        let ahead = asked("*/5 * * * *", &state("11:00:00"), "10:07:00");
        assert_eq!(ahead, (None, 0, Some("11:05:00".to_owned())));
    }
}
