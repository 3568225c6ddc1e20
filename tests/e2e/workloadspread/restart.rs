//! The program ends while Pods are created, and another one continues.

use super::*;

const PODS: usize = 30;
const QUOTA: i64 = 10;

#[tokio::test(flavor = "multi_thread")]
async fn scenario_40_after_a_restart_in_a_burst_the_status_is_right() {
    let options = kit::Options::default().with_controller_manager().with_scheduler();
    let server = product::server(options).await;
    let product = Product::serve(&server, product::Options::default()).await;
    in_use(&server).await;
    let field = Field::open_on(&server, "ws-restart").await;
    let target = ("apps/v1", "ReplicaSet");
    let set = field.create(field.web(target).replicas(0)).await;
    let spread = field.divide(field.spread(target, first(QUOTA))).await;

    // A Pod that never comes keeps something under way whenever the program ends.
    let never = field.pod_of(&set.object, "never").build();
    field.wait_offered(&direct_of(&server, product.port).await, &never, "a").await;
    set.patch(&json!({"spec": {"replicas": PODS}})).await;
    wait_for("the first Pods", async || match field.pods().await.len() {
        0..4 => Err(field.summary().await),
        _ => Ok(()),
    })
    .await;
    let port = product.port;
    product.kill().await;
    let begun = spread.get().await.1["status"].clone();
    assert!(versioned(&begun, IGNORED)[0]["creatingPods"].is_object(), "nothing is under way: {begun:#}");
    let options = product::Options::default().port(port);
    let mut product = Product::start(&server, options).await;
    product.wait_ready().await;

    field.nudged(&set, PODS).await;
    field.ready(PODS).await;
    // Slots of Pods that were admitted and never came are free again after a while.
    let counts = field.counts().await;
    let of = |name: &str| counts.get(name).map_or(0, |count| *count as i64);
    assert_eq!(of("a") + of("b"), PODS as i64, "all have a slot: {counts:?}");
    assert!(of("a") <= QUOTA, "{counts:?}");
    field.totals(&spread, &[("a", of("a"), QUOTA - of("a")), ("b", of("b"), -1)]).await;
    field
        .status(&spread, "no Pod to be noted any more", |status| {
            let items = versioned(status, IGNORED).as_array().into_iter().flatten();
            items.into_iter().all(|item| item["creatingPods"].is_null() && item["deletingPods"].is_null())
        })
        .await;
    assert!(product.stop().await.success());
}
