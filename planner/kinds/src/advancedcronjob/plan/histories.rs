//! Histories: children that end, pauses, times without a controller, edits and crashes at random, each from one seed.
//!
//! `KUTTER_SIMULATION_HISTORIES` sets how many are run. A failure names its seed.
//!
//! What must hold in each: no tick is run twice; what is run is the latest tick; a reconcile starts one run at most; under
//! Forbid and Replace no two children are active beside each other; `lastScheduleTime` never decreases; and while the
//! controller is there, and nothing forbids it, every tick is run.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::*;
use testing::histories::all_succeed;
use values::moment::{Moment, Random};

const HISTORIES: u64 = 2_000;
/// How many things happen in a history.
const STEPS: usize = 60;
const SCHEDULES: [&str; 7] =
    ["* * * * *", "*/5 * * * *", "7,8,30 * * * *", "@every 90s", "@every 17s", "30 2 * * *", "0 0 30 2 *"];

/// What decides in a history.
type Planner = fn(&AdvancedCronJob, &[&Child], &TimeZone, Timestamp) -> Plan;

/// The cluster.
struct History {
    planner: Planner,
    random: Random,
    now: Timestamp,
    cron_job: AdvancedCronJob,
    children: Vec<Child>,
    /// When the controller wants to reconcile again.
    wake: Option<Timestamp>,
    /// The ticks that were run.
    run: Vec<Timestamp>,
    /// A crash has left a child that no status reports.
    crashed: bool,
}

impl History {
    fn new(seed: u64, planner: Planner) -> Self {
        let now: Timestamp = "2026-03-28T20:00:11Z".parse().unwrap();
        let mut random = Moment { now, seed }.random();
        let policy = pick(&mut random, &["Allow", "Forbid", "Replace"]);
        let schedule = pick(&mut random, &SCHEDULES);
        let spec = json!({"schedule": schedule, "concurrencyPolicy": policy, "timeZone": "Europe/Berlin",
            "successfulJobsHistoryLimit": random.next_u64() % 3, "failedJobsHistoryLimit": random.next_u64() % 2,
            "template": {"jobTemplate": {"spec": {}}}});
        let metadata = json!({"name": "a", "namespace": "b", "uid": "c", "creationTimestamp": rfc3339(now)});
        let cron_job = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        Self {
            planner,
            random,
            now,
            cron_job,
            children: Vec::new(),
            wake: Some(now),
            run: Vec::new(),
            crashed: false,
        }
    }

    fn one_in(&mut self, number: u64) -> bool {
        self.random.next_u64().is_multiple_of(number)
    }

    fn below(&mut self, number: u64) -> i64 {
        i64::try_from(self.random.next_u64() % number).unwrap()
    }

    fn pass(&mut self, seconds: i64) {
        self.now += jiff::SignedDuration::from_secs(seconds);
    }

    /// Lets the controller reconcile whenever it wants to, for some time.
    fn controlled(&mut self, seconds: i64) -> Result<(), String> {
        let end = self.now + jiff::SignedDuration::from_secs(seconds);
        for _ in 0..200 {
            match self.wake.filter(|wake| *wake <= end) {
                Some(wake) => {
                    self.now = self.now.max(wake);
                    self.look()?;
                }
                None => break,
            }
            if self.one_in(2) {
                self.end_children();
                self.look()?;
            }
        }
        self.now = self.now.max(end.min(self.wake.unwrap_or(end)));
        Ok(())
    }

    fn write_status(&mut self, patch: Option<&String>) -> Result<(), String> {
        let Some(patch) = patch else { return Ok(()) };
        let patch: Value = serde_json::from_str(patch).unwrap();
        let mut status = serde_json::to_value(&self.cron_job.status).unwrap();
        for (name, value) in patch["status"].as_object().unwrap() {
            match value {
                Value::Null => drop(status.as_object_mut().unwrap().remove(name)),
                value => drop(status.as_object_mut().unwrap().insert(name.clone(), value.clone())),
            }
        }
        let status: Status = serde_json::from_value(status).unwrap();
        let last = |status: &Status| status.last_schedule_time.as_ref().and_then(Time::timestamp);
        if last(&status) < last(&self.cron_job.status) {
            return Err("lastScheduleTime went back".to_owned());
        }
        self.cron_job.status = status;
        Ok(())
    }

    /// The controller reconciles, and does what the plan says.
    fn look(&mut self) -> Result<(), String> {
        let children: Vec<&Child> = self.children.iter().collect();
        let planned = (self.planner)(&self.cron_job, &children, &TimeZone::UTC, self.now);
        self.wake = planned.again.map(|again| self.now + again);
        self.write_status(planned.status.as_ref())?;
        self.crashed = false;
        let is_gone = |child: &Child, observed: &[ObjectVersion]| {
            observed.iter().any(|observed| *observed.uid == *child.uid)
        };
        if planned.history.iter().any(|observed| {
            self.children.iter().any(|child| child.is_active() && *child.uid == *observed.uid)
        }) {
            return Err("an active child was cleaned up".to_owned());
        }
        self.children.retain(|child| !is_gone(child, &planned.history));
        let Some(run) = planned.run else { return self.check_liveness() };
        self.children.retain(|child| !is_gone(child, &run.replaced));
        if !self.start(&run)? {
            return Ok(());
        }
        // A crash leaves the status to the next reconcile.
        if self.one_in(10) {
            self.crashed = true;
            self.wake = Some(self.now + jiff::SignedDuration::from_secs(20));
            return Ok(());
        }
        let children: Vec<&Child> = self.children.iter().collect();
        let after = (self.planner)(&self.cron_job, &children, &TimeZone::UTC, self.now);
        if after.run.is_some() {
            return Err("a burst".to_owned());
        }
        self.write_status(after.status.as_ref())
    }

    /// Creates a child; false where it can't be created now.
    fn start(&mut self, run: &Run) -> Result<bool, String> {
        let created: Value = serde_json::from_str(&run.json).unwrap();
        let tick: Timestamp = created["metadata"]["annotations"]["apps.kruise.io/scheduled-at"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        if self.one_in(8) {
            self.wake = Some(self.now + jiff::SignedDuration::from_secs(1));
            return Ok(false);
        }
        if self.run.iter().any(|known| *known >= tick) {
            return Err(format!("the run of {tick} comes after a later one, or again: {:?}", self.run));
        }
        let (schedule, _) = schedule_of(&self.cron_job.spec, &TimeZone::UTC).unwrap();
        let since = self.run.last().copied().or(self
            .cron_job
            .metadata
            .creation_timestamp
            .as_ref()
            .and_then(Time::timestamp));
        if schedule.latest(since.unwrap(), self.now) != Some(tick) {
            return Err(format!("{tick} is not the latest tick at {}", self.now));
        }
        if self.cron_job.spec.paused {
            return Err("a run was started while runs are paused".to_owned());
        }
        if self.cron_job.spec.starting_deadline_seconds.is_some_and(|deadline| {
            self.now.duration_since(tick) > jiff::SignedDuration::from_secs(deadline.max(3))
        }) {
            return Err(format!("the run of {tick} comes too late at {}", self.now));
        }
        let alone = policy(&self.cron_job.spec) != ConcurrencyPolicy::Allow;
        if alone && self.children.iter().any(Child::is_active) {
            return Err(format!("the run of {tick} begins beside another one"));
        }
        self.run.push(tick);
        self.children.push(Child {
            namespace: "b".into(),
            name: run.name.as_str().into(),
            uid: run.name.as_str().into(),
            resource_version: "1".into(),
            owner: ("a".into(), "c".into()),
            scheduled_at: Some(tick),
            started: Some(self.now),
            progress: Progress::Active,
            deleting: false,
        });
        Ok(true)
    }

    /// Nothing is to be run now: every tick was, unless something forbids it.
    fn check_liveness(&self) -> Result<(), String> {
        let spec = &self.cron_job.spec;
        let held = policy(spec) == ConcurrencyPolicy::Forbid && self.children.iter().any(Child::is_active);
        if held || spec.paused {
            return Ok(());
        }
        let (schedule, _) = schedule_of(spec, &TimeZone::UTC).unwrap();
        let created = self.cron_job.metadata.creation_timestamp.as_ref().and_then(Time::timestamp).unwrap();
        let since = self.run.last().copied().unwrap_or(created);
        let waiting = schedule.latest(since, self.now);
        let is_late = |tick: &Timestamp| {
            spec.starting_deadline_seconds.is_some_and(|deadline| {
                self.now.duration_since(*tick) > jiff::SignedDuration::from_secs(deadline.max(3))
            })
        };
        match waiting.filter(|tick| !is_late(tick)) {
            Some(tick) => Err(format!("the tick {tick} is not run at {}", self.now)),
            None => Ok(()),
        }
    }

    fn end_children(&mut self) {
        for number in 0..self.children.len() {
            let (ends, fails) = (self.one_in(2), self.one_in(3));
            if let Some(child) = self.children.get_mut(number).filter(|child| ends && child.is_active()) {
                child.progress = if fails { Progress::Failed } else { Progress::Successful };
            }
        }
    }

    fn step(&mut self) -> Result<(), String> {
        match self.below(8) {
            0..=2 => {
                let seconds = self.below(600);
                self.controlled(seconds)?;
            }
            // Without a controller.
            3 => {
                let seconds = pick(&mut self.random, &[20, 400, 7_200, 700_000]);
                self.pass(seconds);
                self.end_children();
                self.wake = Some(self.now);
            }
            4 => {
                self.cron_job.spec.paused = !self.cron_job.spec.paused;
                self.wake = Some(self.now);
            }
            5 => self.end_children(),
            // Finished children go away by themselves, once a status reports them.
            6 if !self.crashed => self.children.retain(Child::is_active),
            _ => {
                let schedule = pick(&mut self.random, &SCHEDULES);
                self.cron_job.spec.schedule = schedule.to_owned();
                let deadline = pick(&mut self.random, &[None, None, Some(0), Some(30), Some(100_000)]);
                self.cron_job.spec.starting_deadline_seconds = deadline;
                self.wake = Some(self.now);
            }
        }
        if self.wake.is_some_and(|wake| wake <= self.now) || self.one_in(4) { self.look() } else { Ok(()) }
    }
}

fn pick<T: Copy>(random: &mut Random, all: &[T]) -> T {
    all[usize::try_from(random.next_u64()).unwrap() % all.len()]
}

/// What goes wrong in a history, and how many runs there were.
fn course(seed: u64, planner: Planner) -> Result<usize, String> {
    let mut history = History::new(seed, planner);
    for _ in 0..STEPS {
        history.step()?;
    }
    Ok(history.run.len())
}

#[test]
fn whatever_happens_no_tick_is_run_twice_and_none_is_forgotten() {
    let runs = AtomicUsize::new(0);
    let failure = |seed| match course(seed, plan) {
        Ok(started) => {
            runs.fetch_add(started, Ordering::Relaxed);
            None
        }
        Err(problem) => Some(problem),
    };
    all_succeed(HISTORIES, failure);
    let runs = runs.into_inner();
    assert!(runs > 2_000, "too little happens: {runs} runs");
}

/// A planner that forgets the last run with its children.
fn forgetful(cron_job: &AdvancedCronJob, children: &[&Child], zone: &TimeZone, now: Timestamp) -> Plan {
    let mut cron_job = cron_job.clone();
    cron_job.status.last_schedule_time = None;
    plan(&cron_job, children, zone, now)
}

/// One that starts runs beside others.
fn reckless(cron_job: &AdvancedCronJob, children: &[&Child], zone: &TimeZone, now: Timestamp) -> Plan {
    let mut cron_job = cron_job.clone();
    cron_job.spec.concurrency_policy = Some(ConcurrencyPolicy::Allow);
    plan(&cron_job, children, zone, now)
}

/// One that starts nothing.
fn idle(cron_job: &AdvancedCronJob, children: &[&Child], zone: &TimeZone, now: Timestamp) -> Plan {
    Plan { run: None, ..plan(cron_job, children, zone, now) }
}

#[test]
fn histories_find_planners_that_are_wrong() {
    let planners: [(Planner, &str); 3] = [
        (forgetful, "comes after a later one, or again"),
        (reckless, "begins beside another one"),
        (idle, "is not run at"),
    ];
    for (planner, expected) in planners {
        let found: Vec<String> = (0..200).filter_map(|seed| course(seed, planner).err()).collect();
        assert!(found.iter().any(|problem| problem.contains(expected)), "{expected}: {found:?}");
    }
}
