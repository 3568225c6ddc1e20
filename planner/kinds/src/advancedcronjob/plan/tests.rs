use serde_json::{Value, json};

use super::*;
use crate::advancedcronjob::schedule::zone;

const NOW: &str = "2026-03-02T10:17:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn cron_job(spec: &Value, status: &Value) -> AdvancedCronJob {
    let mut all =
        json!({"schedule": "*/5 * * * *", "template": {"jobTemplate": {"spec": {"parallelism": 1.50}}}});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let metadata = json!({"name": "report", "namespace": "shop", "uid": "1", "resourceVersion": "5",
        "creationTimestamp": "2026-03-02T10:00:30Z"});
    serde_json::from_value(json!({"metadata": metadata, "spec": all, "status": status})).unwrap()
}

/// A child of a tick of this day.
fn child(time: &str, progress: Progress) -> Child {
    Child {
        namespace: "shop".into(),
        name: format!("report-{time}").into(),
        uid: time.into(),
        resource_version: "9".into(),
        owner: ("report".into(), "1".into()),
        scheduled_at: Some(at(&format!("2026-03-02T{time}:00Z"))),
        started: Some(at(&format!("2026-03-02T{time}:01Z"))),
        progress,
        deleting: false,
    }
}

fn planned(spec: &Value, status: &Value, children: &[Child], now: &str) -> Plan {
    let children: Vec<&Child> = children.iter().collect();
    plan(&cron_job(spec, status), &children, &TimeZone::UTC, at(now))
}

fn names(observed: &[ObjectVersion]) -> Vec<&str> {
    observed.iter().map(|observed| observed.name.as_str()).collect()
}

fn reasons(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.reason).collect()
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

const REPORTED: &str = r#"{"type": "Job", "lastScheduleTime": "2026-03-02T10:10:00Z"}"#;

#[test]
fn a_due_tick_creates_a_child_that_is_named_after_it() {
    let template = json!({"jobTemplate": {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "name": "x", "finalizers": ["f"]},
        "spec": {"backoffLimit": 1}}});
    let run = planned(&json!({"template": template}), &value(REPORTED), &[], NOW).run.unwrap();
    assert_eq!(run.name, "report-1772446500");
    assert_eq!(
        value(&run.json),
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {
            "name": "report-1772446500", "namespace": "shop", "labels": {"a": "b"},
            "annotations": {"c": "d", "apps.kruise.io/scheduled-at": "2026-03-02T10:15:00Z"},
            "ownerReferences": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "AdvancedCronJob",
                "name": "report", "uid": "1", "controller": true, "blockOwnerDeletion": true}]},
            "spec": {"backoffLimit": 1}})
    );
}

#[test]
fn specs_are_carried_as_they_are_and_ticks_are_reported_in_the_zone_of_the_process() {
    let mut cron_job = cron_job(&json!({}), &value(REPORTED));
    cron_job.spec.template.job_template = Some(api::Raw::parse(r#"{"spec":{"b":1.50,"a":null}}"#).unwrap());
    let run = plan(&cron_job, &[], &zone("Asia/Shanghai").unwrap(), at(NOW)).run.unwrap();
    assert!(run.json.ends_with(r#","spec":{"b":1.50,"a":null}}"#), "{}", run.json);
    assert!(
        run.json.contains(r#""apps.kruise.io/scheduled-at":"2026-03-02T18:15:00+08:00""#),
        "{}",
        run.json
    );
}

#[test]
fn children_of_each_kind_have_its_version() {
    for (template, version, kind) in [
        ("broadcastJobTemplate", "apps.kruise.io/v1beta1", "BroadcastJob"),
        ("imageListPullJobTemplate", "apps.kruise.io/v1beta1", "ImageListPullJob"),
    ] {
        let template = json!({template: {"metadata": {"labels": {"a": "b"}}, "spec": {"parallelism": 3}}});
        let plan = planned(&json!({"template": template}), &json!({}), &[], NOW);
        let child = value(&plan.run.unwrap().json);
        assert_eq!((&child["apiVersion"], &child["kind"]), (&json!(version), &json!(kind)));
        assert_eq!(
            (&child["spec"], &child["metadata"]["labels"]),
            (&json!({"parallelism": 3}), &json!({"a": "b"}))
        );
        assert_eq!(value(&plan.status.unwrap())["status"], json!({"type": kind}));
    }
}

#[test]
fn the_status_names_the_active_children_and_the_last_run() {
    let children = [child("10:05", Progress::Active), child("10:10", Progress::Successful)];
    let plan = planned(&json!({}), &json!({}), &children, "2026-03-02T10:11:00Z");
    let active = json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": "shop", "name": "report-10:05",
        "uid": "10:05", "resourceVersion": "9"});
    assert_eq!(
        value(&plan.status.unwrap()),
        json!({"metadata": {"uid": "1", "resourceVersion": "5"},
            "status": {"type": "Job", "active": [active], "lastScheduleTime": "2026-03-02T10:10:00Z"}})
    );
    assert_eq!(plan.again, Some(Duration::from_millis(240_010)));
    // A child that changes without ending changes nothing here.
    let mut known = active;
    known["resourceVersion"] = json!("8");
    let status = json!({"type": "Job", "active": [known], "lastScheduleTime": "2026-03-02T10:10:00Z"});
    assert_eq!(planned(&json!({}), &status, &children, "2026-03-02T10:11:00Z").status, None);
    let done = [child("10:05", Progress::Failed), child("10:10", Progress::Successful)];
    let plan = planned(&json!({}), &status, &done, "2026-03-02T10:11:00Z");
    assert_eq!(value(&plan.status.unwrap())["status"], json!({"active": null}));
    assert_eq!(plan.completed.len(), 1);
    assert_eq!(plan.completed[0].message, "Saw completed job: report-10:05, condition: Failed");
}

#[test]
fn the_last_run_holds_when_its_child_is_gone() {
    for children in [&[][..], &[child("10:05", Progress::Successful)]] {
        let plan = planned(&json!({}), &value(REPORTED), children, "2026-03-02T10:14:00Z");
        assert_eq!((plan.status, plan.run), (None, None));
    }
    // The children show what an older release has forgotten, whatever has become of them.
    let plan = planned(&json!({}), &json!({"type": "Job"}), &[child("10:15", Progress::Failed)], NOW);
    assert_eq!(value(&plan.status.unwrap())["status"], json!({"lastScheduleTime": "2026-03-02T10:15:00Z"}));
    assert_eq!(plan.run, None);
}

#[test]
fn a_run_is_remembered_whose_child_is_gone_already() {
    let started = Some(at("2026-03-02T10:15:00Z"));
    let plan = plan_after(started, &cron_job(&json!({}), &value(REPORTED)), &[], &TimeZone::UTC, at(NOW));
    assert_eq!(plan.run, None);
    assert_eq!(value(&plan.status.unwrap())["status"], json!({"lastScheduleTime": "2026-03-02T10:15:00Z"}));
}

#[test]
fn times_far_ahead_are_reported_and_not_taken_from_children() {
    let odd = Child { scheduled_at: Some(at("9999-01-01T00:00:00Z")), ..child("10:10", Progress::Active) };
    let plan = planned(&json!({}), &value(REPORTED), &[odd], NOW);
    assert!(plan.run.is_some() && plan.notes.is_empty());
    let ahead = json!({"type": "Job", "lastScheduleTime": "2027-03-02T10:10:00Z"});
    let plan = planned(&json!({}), &ahead, &[], NOW);
    assert_eq!((plan.run, reasons(&plan.notes)), (None, vec!["LastScheduleInFuture"]));
}

#[test]
fn children_of_an_earlier_object_of_this_name_do_not_count() {
    let stranger = Child { owner: ("report".into(), "0".into()), ..child("10:15", Progress::Active) };
    let plan = planned(&json!({"concurrencyPolicy": "Forbid"}), &value(REPORTED), &[stranger], NOW);
    assert_eq!(plan.status, None);
    assert!(plan.run.is_some());
}

#[test]
fn the_policy_decides_about_active_children() {
    let children = [
        child("10:05", Progress::Active),
        Child { deleting: true, ..child("10:08", Progress::Active) },
        child("10:10", Progress::Successful),
    ];
    let plan_of =
        |policy: &str| planned(&json!({"concurrencyPolicy": policy}), &value(REPORTED), &children, NOW);
    let allowed = plan_of("Allow");
    assert_eq!(allowed.run.unwrap().replaced, []);
    // What is being deleted is not deleted again.
    assert_eq!(names(&plan_of("Replace").run.unwrap().replaced), ["report-10:05"]);
    let forbidden = plan_of("Forbid");
    assert_eq!((forbidden.run, reasons(&forbidden.notes)), (None, vec!["JobAlreadyActive"]));
    assert_eq!(forbidden.again, Some(Duration::from_millis(180_010)));
}

#[test]
fn history_keeps_the_newest_of_each_kind_of_end() {
    let times = ["10:01", "10:02", "10:03", "10:04"];
    let mut children: Vec<Child> = times.iter().map(|time| child(time, Progress::Successful)).collect();
    children.push(child("10:05", Progress::Failed));
    children.push(Child { started: None, ..child("10:06", Progress::Failed) });
    children.push(child("10:07", Progress::Active));
    children.push(Child { deleting: true, ..child("09:59", Progress::Failed) });
    let history = |limits: Value| {
        let plan = planned(&limits, &value(REPORTED), &children, NOW);
        names(&plan.history).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let limits = |successful: Value, failed: Value| json!({"successfulJobsHistoryLimit": successful, "failedJobsHistoryLimit": failed});
    // What has not begun is deleted first.
    assert_eq!(
        history(limits(json!(1), json!(1))),
        ["report-10:06", "report-10:01", "report-10:02", "report-10:03"]
    );
    assert_eq!(history(limits(json!(3), json!(5))), ["report-10:01"]);
    assert_eq!(history(limits(json!(null), json!(0))), ["report-10:06", "report-10:05"]);
    assert_eq!(history(json!({"paused": true, "failedJobsHistoryLimit": 1})), ["report-10:06"]);
}

#[test]
fn what_is_paused_or_deleted_starts_nothing() {
    let paused = planned(&json!({"paused": true}), &value(REPORTED), &[], NOW);
    assert_eq!(paused, Plan::default());
    let mut cron_job = cron_job(&json!({"failedJobsHistoryLimit": 0}), &json!({}));
    cron_job.metadata.deletion_timestamp = Some(at(NOW).into());
    let child = child("10:05", Progress::Failed);
    let deleted = plan(&cron_job, &[&child], &TimeZone::UTC, at(NOW));
    assert!(deleted.status.is_some());
    assert_eq!(Plan { status: None, ..deleted }, Plan::default());
}

#[test]
fn what_can_not_be_run_is_reported() {
    for (spec, status, expected) in [
        (json!({"schedule": "x"}), json!({}), "UnparseableSchedule"),
        (json!({"timeZone": "Mars/Phobos"}), json!({}), "UnknownTimeZone"),
        (json!({"startingDeadlineSeconds": 60}), json!({}), "MissSchedule"),
        (
            json!({"schedule": "* * * * *"}),
            json!({"lastScheduleTime": "2026-03-01T00:00:00Z"}),
            "TooManyMissedTimes",
        ),
        (json!({"template": {"jobTemplate": {"metadata": {"labels": 1}}}}), json!({}), "FailedCreate"),
    ] {
        let plan = planned(&spec.clone(), &status, &[], NOW);
        assert_eq!(reasons(&plan.notes), [expected], "{spec}");
        assert!(plan.notes[0].warning);
        assert_eq!(
            plan.run.is_some(),
            matches!(expected, "UnknownTimeZone" | "TooManyMissedTimes"),
            "{spec}"
        );
    }
    // One of the ticks may still be run: those before it do not matter.
    let plan = planned(
        &json!({"schedule": "* * * * *", "startingDeadlineSeconds": 120}),
        &json!({"lastScheduleTime": "2026-03-01T00:00:00Z"}),
        &[],
        NOW,
    );
    assert!(plan.notes.is_empty() && plan.run.is_some());
}

#[test]
fn the_clock_is_read_now_and_then_and_never_where_no_tick_comes() {
    let far = planned(&json!({"schedule": "0 0 1 1 *"}), &json!({"type": "Job"}), &[], NOW);
    assert_eq!(far, Plan { again: Some(LONGEST), ..Plan::default() });
    let never = planned(&json!({"schedule": "0 0 30 2 *"}), &json!({"type": "Job"}), &[], NOW);
    assert_eq!(never, Plan::default());
}
