//! What runs create, and when. What creates children without end is paused at the end: other tests use the API server.

use super::*;
use crate::product::run;
use crate::support::annotation;
use crate::support::fleet::condition;

/// Ends all children of this kind until the status names none, and gives the status. A change of the spec that was
/// observed late may let another one start meanwhile.
async fn end_all(cron_job: &CronJob, kind: &str) -> Value {
    wait_for("no active child", async || {
        for mut child in cron_job.children().await {
            if ["Complete", "Failed"].iter().all(|end| condition(&child, end)["status"] != "True") {
                child["kind"] = json!(kind);
                cron_job.end(&child, true).await;
            }
        }
        let status = cron_job.stored.get().await.1["status"].take();
        if status["active"].is_null() { Ok(status) } else { Err(status) }
    })
    .await
}

/// Scenario 27, and the pause of scenario 32.
#[tokio::test]
async fn a_tick_creates_a_child_that_the_status_names() {
    let shop = Shop::open("cron-broadcast").await;
    let paused = manifest(&shop.namespace, "@every 2s", &broadcast_job()).with("/spec/paused", true);
    let cron_job = CronJob::create(&shop, paused).await;
    clock(cron_job.created() + seconds(3)).await;
    assert_eq!(cron_job.children().await, Vec::<Value>::new());
    cron_job.pause(false).await;
    let child = cron_job.children_of(1).await.remove(0);
    cron_job.pause(true).await;
    let tick = tick(&child);
    assert_eq!(child["metadata"]["name"], format!("report-{}", tick.as_second()));
    assert_eq!(annotation(&child, "note"), "kept");
    assert_eq!(child["metadata"]["labels"]["made"], "by-hand");
    let owner = &child["metadata"]["ownerReferences"][0];
    let uid = &cron_job.stored.object["metadata"]["uid"];
    assert_eq!(
        *owner,
        json!({"apiVersion": BETA, "kind": "AdvancedCronJob", "name": cron_job.name(), "uid": uid,
            "controller": true, "blockOwnerDeletion": true})
    );
    let listed = |status: &Value| status["active"].as_array().map_or(0, Vec::len) > 0;
    let status = cron_job.status("the child in the status", listed).await;
    assert_eq!(status["type"], "BroadcastJob");
    let uid = &child["metadata"]["uid"];
    assert!(status["active"].as_array().unwrap().iter().any(|active| active["uid"] == *uid));
    assert!(status["lastScheduleTime"].as_str().unwrap() >= tick.to_string().as_str());
    cron_job.reported("SuccessfulCreate").await;
    end_all(&cron_job, "BroadcastJob").await;
    assert!(cron_job.reported("SawCompletedJob").await.ends_with("condition: Complete"));
}

/// Scenario 28. The next tick is hours away when the Job ends.
#[tokio::test]
async fn the_end_of_a_job_is_observed_at_once() {
    let shop = Shop::open("cron-job").await;
    let cron_job = CronJob::create(&shop, manifest(&shop.namespace, "@every 2s", &job())).await;
    cron_job.children_of(1).await;
    cron_job.stored.patch(&json!({"spec": {"schedule": "@every 5h"}})).await;
    cron_job.status("the Job in the status", |status| !status["active"].is_null()).await;
    let status = end_all(&cron_job, "Job").await;
    assert_eq!(status["type"], "Job");
}

/// Scenario 31.
#[tokio::test]
async fn finished_children_go_by_the_limits_of_their_end() {
    for (template, number) in [(job(), 0), (list_of_images(), 1)] {
        let shop = Shop::open(&format!("cron-history-{number}")).await;
        let spec = json!({"schedule": "0 0 1 1 *", "template": template, "paused": true,
            "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1});
        let cron_job =
            CronJob::create(&shop, manifest(&shop.namespace, "", &json!({})).with("/spec", spec)).await;
        let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
        // Without Nodes a list of images may succeed by itself before it is ended: at first, when that takes the place of
        // no other one.
        for (name, succeeded) in [("d", false), ("e", false), ("a", true), ("b", true), ("c", true)] {
            let age = i64::from(b'e' - name.as_bytes()[0]) * 60;
            let child = cron_job.add_child(now - seconds(age + 60), name, "v1alpha1").await;
            cron_job.end(&child, succeeded).await;
        }
        wait_for("the older children to go", async || {
            let children = cron_job.children().await;
            let names: Vec<&str> =
                children.iter().filter_map(|child| child["metadata"]["name"].as_str()).collect();
            if names == ["c", "e"] { Ok(()) } else { Err(format!("{names:?}")) }
        })
        .await;
        cron_job.reported("SuccessfulDelete").await;
        let last = (now - seconds(60)).to_string();
        cron_job.status("the last run", |status| status["lastScheduleTime"] == last.as_str()).await;
    }
}

/// Scenarios 36 and 38.
#[tokio::test]
async fn the_next_tick_is_reported_and_why_the_last_one_was_skipped() {
    let shop = Shop::open("cron-explained").await;
    let server = kit::shared().await.kubeconfig().to_str().unwrap().to_owned();
    for (name, schedule, zone, expected) in [
        ("a", "0 10 * * ?", Some("Asia/Shanghai"), "T02:00:00Z"),
        ("b", "TZ=Asia/Shanghai 0 10 * * ?", None, "T02:00:00Z"),
        ("c", "0 0 * * 5", None, "T00:00:00Z"),
    ] {
        let mut cron_job = manifest(&shop.namespace, schedule, &job()).with("/metadata/name", name);
        if let Some(zone) = zone {
            cron_job = cron_job.with("/spec/timeZone", zone);
        }
        CronJob::create(&shop, cron_job).await;
        let explain =
            ["explain", "acj", name, "--namespace", &shop.namespace, "--kubeconfig", &server, "-o", "json"];
        let reported: Value = serde_json::from_str(&run(&explain).await.success()).unwrap();
        let next = reported["next"].as_str().unwrap();
        assert!(next.ends_with(expected), "{schedule}: {reported:#}");
        assert_eq!(reported["complete"], true, "{reported:#}");
        let weekday = next.parse::<Timestamp>().unwrap().to_zoned(jiff::tz::TimeZone::UTC).weekday();
        assert!(name != "c" || weekday == jiff::civil::Weekday::Friday);
    }
    let paused = manifest(&shop.namespace, "@every 1s", &job()).with("/spec/paused", true);
    let cron_job = CronJob::create(&shop, paused.with("/metadata/name", "d")).await;
    clock(cron_job.created() + seconds(2)).await;
    let explain =
        ["explain", "advancedcronjob", "d", "--namespace", &shop.namespace, "--kubeconfig", &server];
    let reported = run(&explain).await;
    assert_eq!(reported.status.code(), Some(2));
    assert!(reported.stdout.contains("unpaused, its run starts at once"), "{}", reported.stdout);
}

#[tokio::test]
async fn a_name_that_somebody_else_has_taken_costs_one_run() {
    let shop = Shop::open("cron-taken").await;
    let cron_job = CronJob::create(&shop, manifest(&shop.namespace, "@every 10s", &job())).await;
    let name = format!("report-{}", (cron_job.created() + seconds(10)).as_second());
    let spec = cron_job.stored.object["spec"]["template"]["jobTemplate"]["spec"].clone();
    let foreign = object("batch/v1", "Job", &name).in_namespace(&shop.namespace).with("/spec", spec);
    let foreign = Stored::create(&shop.client, foreign).await;
    let reported = cron_job.reported("FailedCreate").await;
    assert!(reported.contains(&name) && reported.contains("of somebody else exists already"), "{reported}");
    let child = cron_job.children_of(1).await.remove(0);
    assert!(tick(&child) > cron_job.created() + seconds(10), "{child:#}");
    assert_eq!(foreign.get().await.1["metadata"]["uid"], foreign.object["metadata"]["uid"]);
    cron_job.pause(true).await;
}
