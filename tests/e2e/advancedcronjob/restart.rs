//! Ticks that come while no controller is there.

use super::*;
use crate::product::{self, Product};
use crate::support::in_use;

/// Scenarios 33, 34, 35 and 40.
#[tokio::test]
async fn a_restart_neither_doubles_a_run_nor_makes_up_for_all() {
    let server = product::server(kit::Options::default()).await;
    let product = Product::serve(&server, product::Options::default()).await;
    in_use(&server).await;
    let shop = Shop::open_on(&server, "cron-restart").await;
    let named =
        |name: &str, schedule: &str| manifest(&shop.namespace, schedule, &job()).with("/metadata/name", name);
    // Its children are gone when the controller comes back, and its next tick is far.
    let cleared = CronJob::create(&shop, named("cleared", "@every 1s")).await;
    cleared.children_of(1).await;
    cleared.stored.patch(&json!({"spec": {"schedule": "@every 5h"}})).await;
    cleared.status("the last run", |status| status["lastScheduleTime"].is_string()).await;
    let missed = CronJob::create(&shop, named("missed", "@every 4s")).await;
    let late = named("late", "@every 30s").with("/spec/startingDeadlineSeconds", 3);
    let late = CronJob::create(&shop, late).await;
    let taken_over = CronJob::create(&shop, named("taken-over", "@every 30s")).await;
    product.stop().await;
    let stopped = Timestamp::now();
    let recorded = cleared.stored.get().await.1["status"]["lastScheduleTime"].clone();
    for child in cleared.children().await {
        let path = format!("{}/{}", cleared.collection, child["metadata"]["name"].as_str().unwrap());
        let background = json!({"propagationPolicy": "Background"});
        Stored::existing(&shop.client, path, Value::Null).delete_with(&background).await;
    }
    let tick_of = |cron_job: &CronJob| cron_job.created() + seconds(30);
    assert!(stopped < tick_of(&late), "the program took too long to stop");
    clock(tick_of(&taken_over)).await;
    let name = format!("taken-over-{}", tick_of(&taken_over).as_second());
    let known = taken_over.add_child(tick_of(&taken_over), &name, "v1alpha1").await;
    clock(tick_of(&late) + seconds(5)).await;
    let before = Timestamp::now();
    let product = Product::join(&server, product::Options::default()).await;

    // One run for all ticks that were missed.
    let after = wait_for("two runs after the restart", async || {
        let mut children = missed.children().await;
        children.retain(|child| tick(child) > stopped);
        if children.len() >= 2 { Ok(children) } else { Err(children) }
    })
    .await;
    assert!(tick(&after[0]) > stopped + seconds(4), "the ticks before it are skipped: {after:#?}");
    assert!(tick(&after[0]) + seconds(4) > before, "it is the latest: {after:#?}");
    assert!(tick(&after[0]) <= created(&after[0]), "it is not too early: {after:#?}");
    let distance = tick(&after[1]).as_second() - tick(&after[0]).as_second();
    assert!(distance > 0 && distance % 4 == 0, "{after:#?}");

    // A tick that comes after its deadline is skipped, the next one is not.
    assert!(late.reported("MissSchedule").await.starts_with("Missed scheduled time to start a job: "));
    let runs = late.children_of(1).await;
    assert!(tick(&runs[0]) > tick_of(&late), "{runs:#?}");

    // What was run before stays run.
    let runs = taken_over.children_of(2).await;
    assert_eq!(runs[0]["metadata"]["uid"], known["metadata"]["uid"]);
    assert!(tick(&runs[1]) > tick_of(&taken_over), "{runs:#?}");
    assert_eq!(cleared.children().await, Vec::<Value>::new());
    let status = cleared.status("no active child", |status| status["active"].is_null()).await;
    assert_eq!(status["lastScheduleTime"], recorded);
    drop(product);
}
