use super::*;
use serde_json::Value;

fn moment() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn list(spec: &Value, status: &Value) -> ImageListPullJob {
    let mut object = json!({
        "metadata": {"name": "all", "namespace": "shop", "uid": "u", "resourceVersion": "3"},
        "spec": {"images": ["a:1", "b:1"], "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 9}},
        "status": status,
    });
    object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(object).unwrap()
}

/// The jobs that a plan makes, as admission stores them.
fn made(plan: &Plan) -> Vec<ImagePullJob> {
    let jobs = plan.create.iter().enumerate().map(|(number, text)| {
        let mut job: ImagePullJob = serde_json::from_str(text).unwrap();
        job.metadata.name = format!("all-{number}");
        job.metadata.uid = format!("u-{number}");
        job.spec = with_defaults(job.spec);
        job
    });
    jobs.collect()
}

fn planned(list: &ImageListPullJob, jobs: &[ImagePullJob]) -> Plan {
    plan(list, &jobs.iter().collect::<Vec<_>>(), moment())
}

fn status_of(plan: &Plan) -> Value {
    serde_json::from_str::<Value>(plan.status.as_ref().unwrap()).unwrap()["status"].clone()
}

#[test]
fn each_image_has_a_job_without_a_time_of_its_own() {
    let list = list(&json!({}), &json!({}));
    let plan = planned(&list, &[]);
    let first: Value = serde_json::from_str(&plan.create[0]).unwrap();
    assert_eq!(first["metadata"]["generateName"], "all-");
    assert_eq!(first["metadata"]["ownerReferences"][0]["controller"], true);
    assert_eq!(first["spec"], json!({"image": "a:1", "completionPolicy": {"type": "Always"}}));
    let jobs = made(&plan);
    assert_eq!(jobs.len(), 2);
    let again = planned(&list, &jobs);
    assert!(again.create.is_empty() && again.delete.is_empty() && again.correct.is_empty());
    assert_eq!(status_of(&again), json!({"desired": 2, "startTime": "2026-01-01T12:00:00Z"}));
}

#[test]
fn a_change_replaces_the_jobs_and_an_image_less_deletes_its_job() {
    let jobs = made(&planned(&list(&json!({}), &json!({})), &[]));
    let changed = planned(&list(&json!({"parallelism": 5}), &json!({})), &jobs);
    assert_eq!((changed.create.len(), changed.delete.len()), (2, 2));
    let fewer = planned(&list(&json!({"images": ["b:1"]}), &json!({})), &jobs);
    assert_eq!((fewer.create.len(), fewer.delete.len()), (0, 1));
    assert_eq!(fewer.delete[0].name, "all-0");
    let longer =
        list(&json!({"completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 99}}), &json!({}));
    let longer = planned(&longer, &jobs);
    assert_eq!((longer.create.len(), longer.delete.len()), (0, 0));
}

#[test]
fn jobs_of_the_reference_are_taken_over_and_get_our_label() {
    let list = list(&json!({}), &json!({}));
    let mut jobs = made(&planned(&list, &[]));
    for job in &mut jobs {
        job.metadata.labels.insert(CONTROLLER_REVISION_HASH.to_owned(), "theirs".to_owned());
        job.spec.completion_policy.ttl_seconds_after_finished = Some(9);
    }
    let plan = planned(&list, &jobs);
    assert_eq!((plan.create.len(), plan.delete.len(), plan.correct.len()), (0, 0, 2));
}

#[test]
fn jobs_pull_where_their_list_may() {
    let mut list = list(&json!({}), &json!({}));
    let when = |list: &mut ImageListPullJob, text: &str| {
        list.metadata.annotations.insert(PULL_WHEN.to_owned(), text.to_owned());
    };
    when(&mut list, "label:a");
    list.metadata.annotations.insert("theirs".to_owned(), "x".to_owned());
    let mut jobs = made(&planned(&list, &[]));
    let of_list = BTreeMap::from([(PULL_WHEN.to_owned(), "label:a".to_owned())]);
    assert_eq!(jobs[0].metadata.annotations, of_list);
    assert_eq!(planned(&list, &jobs).correct, []);
    when(&mut list, "label:b");
    let changed = planned(&list, &jobs);
    let patch: Value = serde_json::from_str(&changed.correct[0].1).unwrap();
    assert_eq!(patch, json!({"metadata": {"uid": "u-0", "annotations": {PULL_WHEN: "label:b"}}}));
    assert_eq!((changed.correct.len(), changed.create.len(), changed.delete.len()), (2, 0, 0));
    list.metadata.annotations.clear();
    jobs[1].metadata.annotations.clear();
    let [(name, patch)] = &planned(&list, &jobs).correct[..] else { panic!("one of the jobs has it still") };
    let patch: Value = serde_json::from_str(patch).unwrap();
    assert_eq!((name.as_str(), &patch["metadata"]["annotations"]), ("all-0", &json!({PULL_WHEN: null})));
}

#[test]
fn of_two_jobs_for_one_image_the_older_one_stays() {
    let list = list(&json!({}), &json!({}));
    let mut jobs = made(&planned(&list, &[]));
    let mut second = jobs[0].clone();
    second.metadata.name = "all-2".to_owned();
    for (job, time) in [(&mut jobs[0], "2026-01-01T00:00:02Z"), (&mut second, "2026-01-01T00:00:01Z")] {
        job.metadata.creation_timestamp = Some(api::kinds::Time(time.to_owned()));
    }
    jobs.push(second);
    let plan = planned(&list, &jobs);
    assert_eq!(plan.delete.iter().map(|observed| observed.name.as_str()).collect::<Vec<_>>(), ["all-0"]);
}

#[test]
fn the_status_counts_jobs_and_names_those_that_failed_by_image() {
    let list = list(&json!({}), &json!({}));
    let mut jobs = made(&planned(&list, &[]));
    let status = |status: Value| serde_json::from_value(status).unwrap();
    jobs[0].status =
        status(json!({"startTime": "x", "completionTime": "y", "desired": 2, "succeeded": 1, "failed": 1}));
    jobs[1].status = status(json!({"startTime": "x", "desired": 2, "active": 1}));
    let counted = status_of(&planned(&list, &jobs));
    assert_eq!((&counted["active"], &counted["completed"]), (&json!(1), &json!(1)));
    assert_eq!((counted.get("succeeded"), counted.get("completionTime")), (None, None));
    assert_eq!(counted["failedImageStatuses"][0]["name"], "a:1");
    jobs[1].status = status(json!({"startTime": "x", "completionTime": "y", "desired": 2, "succeeded": 2}));
    let counted = status_of(&planned(&list, &jobs));
    assert_eq!((&counted["completed"], &counted["succeeded"]), (&json!(2), &json!(1)));
    assert_eq!(counted["completionTime"], "2026-01-01T12:00:00Z");
}

#[test]
fn a_job_that_waits_has_not_completed_however_many_nodes_it_knows() {
    let counted = |policy: Value, ended: Value| {
        let list = list(&json!({"images": ["a:1"], "completionPolicy": policy}), &json!({}));
        let mut jobs = made(&planned(&list, &[]));
        let mut status =
            json!({"startTime": "x", "message": "job is running, no progress, waits for NodeImages"});
        status.as_object_mut().unwrap().extend(ended.as_object().unwrap().clone());
        jobs[0].status = serde_json::from_value(status).unwrap();
        let status = status_of(&planned(&list, &jobs));
        ["completed", "succeeded", "completionTime"].map(|field| status.get(field).is_some())
    };
    let (some, none) = (json!({"desired": 1, "succeeded": 1}), json!({"desired": 0}));
    for ended in [some.clone(), none] {
        assert_eq!(counted(json!({"type": "Always"}), ended), [false; 3]);
    }
    assert_eq!(counted(json!({"type": "Never"}), some), [true, true, false], "it has no end to wait for");
    let over = json!({"desired": 0, "completionTime": "y"});
    assert_eq!(counted(json!({"type": "Always"}), over), [true; 3]);
}

#[test]
fn a_list_that_is_over_goes_after_its_time() {
    let over = |time: &str| list(&json!({}), &json!({"completionTime": time}));
    let plan = planned(&over("2026-01-01T11:59:55Z"), &[]);
    assert_eq!((plan.expired, plan.again), (false, Some(Duration::from_secs(4))));
    assert!(plan.create.is_empty() && plan.status.is_none());
    assert!(planned(&over("2026-01-01T11:59:51Z"), &[]).expired);
    let endless = list(&json!({"completionPolicy": {"type": "Never"}, "images": []}), &json!({}));
    assert_eq!(status_of(&planned(&endless, &[])).get("completionTime"), None);
}
