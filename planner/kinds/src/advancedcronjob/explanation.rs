//! When the next run is, and why the last tick was not run, as `kutter explain` prints it.

use api::kinds::advancedcronjob::AdvancedCronJob;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::children::Child;
use super::new_child::{local, name};
use super::plan::{asked, last_run, sorted};
use super::runs::TickOutcome;
use super::schedule_of;

/// What there is to report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The tick of the last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run: Option<String>,
    /// The next tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The names of the children that continue.
    pub active: Vec<String>,
    /// The latest tick has no run, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Why no run will be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Explains an AdvancedCronJob. `process` is the zone of the controller's process, in which times are printed.
pub fn explain(
    cron_job: &AdvancedCronJob,
    children: &[&Child],
    process: &TimeZone,
    now: Timestamp,
) -> Explanation {
    let children = sorted(cron_job, children);
    let reported = |moment: Timestamp| local(moment, process);
    let last = last_run(cron_job, &children, now);
    let active = children.iter().filter(|child| child.is_active()).map(|child| child.name.to_string());
    let mut explanation =
        Explanation { last_run: last.map(reported), active: active.collect(), ..Explanation::default() };
    let schedule = match schedule_of(&cron_job.spec, process) {
        Ok((schedule, problem)) => {
            explanation.problem = problem.map(|problem| format!("spec.timeZone is passed over: {problem}"));
            schedule
        }
        Err(problem) => {
            explanation.problem = Some(format!("spec.schedule can't be read: {problem}"));
            return explanation;
        }
    };
    let asked = asked(cron_job, &children, (&schedule, last), now);
    let spec = &cron_job.spec;
    explanation.next = asked.next.map(reported);
    explanation.skipped = asked.due.map(|(tick, fate)| {
        let why = match fate {
            TickOutcome::Run => format!("its run {} is to be started now", name(cron_job, tick)),
            TickOutcome::Paused => "spec.paused is true; unpaused, its run starts at once".to_owned(),
            TickOutcome::TooLate => format!(
                "nothing was started within spec.startingDeadlineSeconds, which is {}",
                spec.starting_deadline_seconds.unwrap_or_default()
            ),
            TickOutcome::Held => format!(
                "spec.concurrencyPolicy is Forbid and {} goes on; it starts when that ends, unless the next tick comes \
                 first",
                explanation.active.join(", ")
            ),
        };
        format!("{}: {why}", reported(tick))
    });
    if cron_job.metadata.deletion_timestamp.is_some() {
        explanation.problem = Some("the AdvancedCronJob is being deleted".to_owned());
    } else if spec.paused {
        explanation.problem = Some("spec.paused is true".to_owned());
    } else if asked.next.is_none() {
        explanation.problem = Some("the schedule has no tick within the next five years".to_owned());
    } else if last.is_some_and(|last| last > now) {
        explanation.problem = Some("the last run is in the future: the clock was wrong, or is".to_owned());
    }
    explanation
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advancedcronjob::children::ChildKind;
    use serde_json::{Value, json};

    fn cron_job(spec: &Value) -> AdvancedCronJob {
        let mut all = json!({"schedule": "*/5 * * * *", "template": {"jobTemplate": {}}});
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let metadata = json!({"name": "report", "namespace": "shop", "uid": "1",
            "creationTimestamp": "2026-03-02T10:00:30Z"});
        serde_json::from_value(json!({"metadata": metadata, "spec": all})).unwrap()
    }

    fn explained(spec: &Value, children: &[&Child]) -> Explanation {
        explain(&cron_job(spec), children, &TimeZone::UTC, "2026-03-02T10:17:00Z".parse().unwrap())
    }

    #[test]
    fn what_keeps_a_tick_from_its_run_is_reported() {
        let child = json!({"metadata": {"name": "report-1772445600", "namespace": "shop", "uid": "c",
            "annotations": {"apps.kruise.io/scheduled-at": "2026-03-02T10:05:00Z"},
            "ownerReferences": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "AdvancedCronJob",
                "name": "report", "uid": "1", "controller": true}]}});
        let child = Child::read(ChildKind::Job, &child.to_string()).unwrap().unwrap();
        for (spec, children, skipped, problem) in [
            (json!({}), &[][..], "is to be started now", None),
            (json!({"paused": true}), &[], "spec.paused is true", Some("spec.paused is true")),
            (json!({"startingDeadlineSeconds": 60}), &[], "startingDeadlineSeconds, which is 60", None),
            (json!({"concurrencyPolicy": "Forbid"}), &[&child], "report-1772445600 goes on", None),
            (json!({"timeZone": "Mars/Phobos"}), &[], "is to be", Some("unknown time zone Mars/Phobos")),
        ] {
            let reported = explained(&spec.clone(), children);
            let why = reported.skipped.unwrap();
            assert!(why.starts_with("2026-03-02T10:15:00Z: ") && why.contains(skipped), "{spec}: {why}");
            assert_eq!(reported.next.as_deref(), Some("2026-03-02T10:20:00Z"));
            let found = reported.problem.as_deref().unwrap_or_default();
            assert!(problem.map_or(found.is_empty(), |problem| found.contains(problem)), "{spec}: {found}");
        }
    }

    #[test]
    fn a_schedule_that_never_comes_due_says_so() {
        let never = explained(&json!({"schedule": "0 0 30 2 *"}), &[]);
        assert_eq!((never.skipped, never.next), (None, None));
        assert!(never.problem.unwrap().contains("no tick within the next five years"));
        let unreadable = explained(&json!({"schedule": "x"}), &[]);
        assert!(unreadable.problem.unwrap().contains("expected exactly 5 fields, found 1"));
    }
}
