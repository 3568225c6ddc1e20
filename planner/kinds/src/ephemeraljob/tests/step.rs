//! docs/behaviour/restarts.md#the-controller-of-ephemeraljobs.

use std::time::Duration;

use serde_json::{Value, json};

use super::{FINALIZER, at, job, observed, pod, read};
use crate::ephemeraljob::step::{Step, Work, step};
use crate::ephemeraljob::trigger;

fn work(job: &Value, pods: &[Value], seconds: i64) -> Work {
    match step(&read(job), &observed(pods), at(seconds)) {
        Step::Work(work) => work,
        other => panic!("{other:?}"),
    }
}

/// The status that is written.
fn status(work: &Work) -> Value {
    serde_json::from_str::<Value>(work.status.as_ref().unwrap()).unwrap()["status"].clone()
}

fn names(work: &Work) -> Vec<&str> {
    work.injections.iter().map(|injection| &*injection.pod.metadata.name).collect()
}

/// Types and reasons of the conditions but the first, which every job has.
fn findings(status: &Value) -> Vec<(&str, &str)> {
    let conditions = status["conditions"].as_array().unwrap();
    assert_eq!(conditions[0]["type"], "Initialized");
    let findings = conditions.iter().skip(1);
    findings.map(|one| (one["type"].as_str().unwrap(), one["reason"].as_str().unwrap())).collect()
}

fn counts(status: &Value) -> [i64; 5] {
    ["match", "running", "waiting", "succeeded", "failed"].map(|name| status[name].as_i64().unwrap())
}

#[test]
fn scenario_33_pods_are_taken_by_age_and_a_place_is_free_when_a_pod_has_ended() {
    let job = job(&json!({}));
    let work = work(&job, &[pod("young", -1, "none"), pod("old", -9, "none")], 0);
    assert_eq!(names(&work), ["old"]);
    let expected = concat!(
        r#"{"metadata":{"uid":"old","resourceVersion":"1"},"spec":{"ephemeralContainers":"#,
        r#"[{"name":"debug","image":"busybox","env":[{"name":"KRUISE_EJOB_ID","value":"j"}]}]}}"#
    );
    assert_eq!(work.injections[0].patch, expected);
    let status = status(&work);
    assert_eq!((&status["phase"], &status["startTime"]), (&json!("Unknown"), &json!(at(0).to_string())));
    assert_eq!(counts(&status), [2, 0, 0, 0, 0]);

    for under_way in ["added", "waiting", "running"] {
        let pods = [pod("old", -9, under_way), pod("young", -1, "none")];
        assert!(super::step::work(&job, &pods, 1).injections.is_empty(), "{under_way}");
    }
    for ended in ["0", "1", "RunContainerError"] {
        let pods = [pod("old", -9, ended), pod("young", -1, "none")];
        assert_eq!(names(&super::step::work(&job, &pods, 1)), ["young"], "{ended}");
    }
    let done = super::step::work(&job, &[pod("old", -9, "0"), pod("young", -1, "0")], 2);
    let done = super::step::status(&done);
    assert_eq!((&done["phase"], counts(&done)), (&json!("Succeeded"), [2, 0, 0, 2, 0]));
    assert_eq!(findings(&done), [("JobSucceeded", "JobSucceeded")]);
    assert_eq!(done["completionTime"], at(2).to_string());
}

#[test]
fn only_suitable_pods_are_taken_and_no_more_than_wanted() {
    let job = job(&json!({"parallelism": 9, "replicas": 2}));
    let (mut foreign, mut ended, mut other) =
        (pod("foreign", -9, "0"), pod("ended", -8, "none"), pod("other", -7, "none"));
    foreign["spec"]["ephemeralContainers"][0]["env"] = json!([]);
    ended["status"]["phase"] = json!("Succeeded");
    other["metadata"]["labels"]["app"] = json!("db");
    let pods = [foreign, ended, other, pod("b", -5, "none"), pod("a", -5, "none"), pod("c", -4, "none")];
    assert_eq!(names(&work(&job, &pods, 0)), ["a", "b"]);
    assert!(work(&super::job(&json!({"parallelism": 0})), &pods, 0).injections.is_empty());
    let any = super::job(&json!({"parallelism": 9, "selector": {"matchLabels": null}}));
    assert_eq!(names(&work(&any, &pods, 0)).len(), 4, "an empty selector takes all");
    let broken = json!({"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]});
    let broken = super::job(&json!({"selector": broken}));
    assert!(work(&broken, &pods, 0).injections.is_empty());
}

#[test]
fn scenario_35_a_job_with_pods_that_fail_ends_as_failed() {
    let job = job(&json!({"parallelism": 2}));
    let all = status(&work(&job, &[pod("a", -2, "1"), pod("b", -1, "137")], 3));
    assert_eq!((&all["phase"], findings(&all)), (&json!("Failed"), vec![("JobFailed", "JobFailed")]));
    assert_eq!(counts(&all), [2, 0, 0, 0, 2]);
    let mixed = status(&work(&job, &[pod("a", -2, "0"), pod("b", -1, "1")], 3));
    assert_eq!((&mixed["phase"], findings(&mixed)), (&json!("Failed"), vec![("JobFailed", "JobFailed")]));
    let partly = status(&work(&job, &[pod("a", -2, "running"), pod("b", -1, "1")], 3));
    assert_eq!(
        (&partly["phase"], findings(&partly)),
        (&json!("Running"), vec![("JobFailed", "CreateFailed")])
    );
    assert_eq!(
        partly["conditions"][1]["message"],
        "EphemeralJob shop/job failed to create ephemeral container"
    );
    let waiting = status(&work(&job, &[pod("a", -2, "waiting"), pod("b", -1, "waiting")], 3));
    assert_eq!((&waiting["phase"], counts(&waiting)), (&json!("Waiting"), [2, 0, 2, 0, 0]));
}

#[test]
fn scenario_36_a_job_without_pods_waits_until_its_deadline() {
    let job = job(&json!({"activeDeadlineSeconds": 2}));
    let first = work(&job, &[], 0);
    let waiting = status(&first);
    assert_eq!(
        (&waiting["phase"], findings(&waiting)),
        (&json!("Waiting"), vec![("MatchedEmpty", "MatchEmpty")])
    );
    assert_eq!(first.next, Some(Duration::from_secs(2)));
    let mut later = job;
    later["status"] = waiting;
    assert_eq!(work(&later, &[], 1), Work { next: Some(Duration::from_secs(1)), ..Work::default() });
    let late = status(&work(&later, &[], 2));
    assert_eq!(late["phase"], "Failed");
    assert!(findings(&late).contains(&("JobFailed", "DeadlineExceeded")));
    assert_eq!(late["completionTime"], at(2).to_string());
}

#[test]
fn scenario_37_a_paused_job_adds_nothing_and_its_time_does_not_end() {
    let paused = job(&json!({"paused": true, "activeDeadlineSeconds": 2}));
    let work = work(&paused, &[pod("a", -1, "none")], 99);
    assert_eq!(
        (status(&work)["phase"].as_str(), work.injections.len(), work.next),
        (Some("Paused"), 0, None)
    );
    assert_eq!(counts(&status(&work)), [1, 0, 0, 0, 0], "it sees its Pod");
    let done = status(&super::step::work(&paused, &[pod("a", -1, "0")], 1));
    assert_eq!(done["phase"], "Succeeded", "finished wins");
}

#[test]
fn scenario_38_a_finished_job_goes_after_its_time() {
    let mut done = job(&json!({}));
    done["status"]["completionTime"] = json!(at(10).to_string());
    let next = |job: &Value, seconds: i64| step(&read(job), &[], at(seconds));
    assert_eq!(next(&done, 110), Step::Wait(Some(Duration::from_secs(1700))));
    assert_eq!(next(&done, 1810), Step::Delete);
    done["spec"]["ttlSecondsAfterFinished"] = json!(0);
    assert_eq!(next(&done, 10), Step::Delete);
}

#[test]
fn the_finalizer_comes_first_and_goes_at_once() {
    let mut new = job(&json!({}));
    new["metadata"]["finalizers"] = json!(["x"]);
    let finalizers = |job: &Value| match step(&read(job), &[], at(0)) {
        Step::Job(patch) => serde_json::from_str::<Value>(&patch).unwrap()["metadata"].clone(),
        other => panic!("{other:?}"),
    };
    let all = json!({"uid": "j", "resourceVersion": "7", "finalizers": ["x", FINALIZER]});
    assert_eq!(finalizers(&new), all);
    let mut leaving = job(&json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}));
    leaving["metadata"]["deletionTimestamp"] = json!(at(0).to_string());
    assert_eq!(finalizers(&leaving)["finalizers"], json!([]));
    leaving["metadata"]["finalizers"] = json!([]);
    assert_eq!(step(&read(&leaving), &[], at(0)), Step::Wait(None));
}

#[test]
fn a_template_that_holds_nothing_is_an_error_once() {
    let mut empty = job(&json!({"template": {"ephemeralContainers": []}, "activeDeadlineSeconds": 1}));
    let pods = [pod("a", -1, "none")];
    let first = work(&empty, &pods, 0);
    let said = status(&first);
    assert_eq!((&said["phase"], findings(&said)), (&json!("Error"), vec![("JobError", "Error")]));
    assert_eq!(said["conditions"][1]["message"], "job spec invalid fields.");
    empty["status"] = said;
    assert_eq!(work(&empty, &pods, 9), Work::default());
}

#[test]
fn times_of_conditions_stay_while_they_say_the_same() {
    let mut waiting = job(&json!({}));
    waiting["status"] = status(&work(&waiting, &[], 0));
    assert_eq!(work(&waiting, &[], 60), Work::default());
    let matched = status(&work(&waiting, &[pod("a", -1, "none")], 60));
    assert_eq!(matched["conditions"].as_array().unwrap().len(), 1, "it matches Pods now");
    assert_eq!(matched["conditions"][0], waiting["status"]["conditions"][0]);
}

#[test]
fn changes_lead_to_the_jobs_that_they_concern() {
    let read_pod = |pod: &Value| observed(std::slice::from_ref(pod)).remove(0);
    let jobs = [job(&json!({})), job(&json!({"selector": {"matchLabels": {"app": "db"}}}))];
    let jobs: Vec<_> = jobs.iter().map(|job| std::sync::Arc::new(read(job))).collect();
    let (before, after) = (read_pod(&pod("a", 0, "running")), read_pod(&pod("a", 0, "0")));
    assert!(trigger::of_pod(Some(&before), Some(&after)).is_some());
    assert!(trigger::of_pod(Some(&before), None).is_some() && trigger::of_pod(None, Some(&after)).is_some());
    let mut touched = pod("a", 0, "running");
    touched["metadata"]["annotations"] = json!({"a": "b"});
    assert_eq!(trigger::of_pod(Some(&before), Some(&read_pod(&touched))), None);
    assert_eq!(trigger::jobs_of(&[&before], &jobs).len(), 1);
    let mut done = job(&json!({}));
    done["status"]["completionTime"] = json!(at(0).to_string());
    assert!(trigger::jobs_of(&[&before], &[std::sync::Arc::new(read(&done))]).is_empty());

    let counted = || {
        let mut job = job(&json!({}));
        job["status"]["running"] = json!(3);
        read(&job)
    };
    assert!(!trigger::of_job(Some(&jobs[0]), Some(&counted())));
    assert!(trigger::of_job(None, Some(&counted())) && trigger::of_job(Some(&counted()), None));
    assert!(trigger::of_job(Some(&jobs[0]), Some(&jobs[1])));
}
