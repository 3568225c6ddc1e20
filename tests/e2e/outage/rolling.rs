//! Replicas that are replaced again and again while calls come in (docs/behaviour/server.md#shutdown).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use kit::{ApiServer, wait_for};
use kube::Client;
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval};

use super::{Replica, unselected};
use crate::product::{self, Options, Product};
use crate::service;
use crate::support::{Shop, create, in_use};

const REPLICAS: usize = 3;
const RESTARTS: usize = 10;
/// Together they call 200 times a second, as far as the machine gets.
const CALLERS: usize = 8;
const PAUSE: Duration = Duration::from_millis(40);
/// Between two restarts at least; in all 2000 calls.
const CALLS: usize = 200;

/// Calls that go on until they are stopped. The API server keeps its connections to the webhooks.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    callers: Vec<tokio::task::JoinHandle<Vec<(u16, Value)>>>,
}

impl Load {
    fn start(shop: &Shop) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let set = unselected(shop).build();
        let caller = || tokio::spawn(calls(shop.client.clone(), set.clone(), stop.clone(), answered.clone()));
        let callers = std::iter::repeat_with(caller).take(CALLERS).collect();
        Self { stop, answered, callers }
    }

    /// Waits until so many more calls were answered.
    async fn more(&self, count: usize) {
        let target = self.answered.load(Ordering::Relaxed) + count;
        wait_for("calls to be answered", async || {
            let answered = self.answered.load(Ordering::Relaxed);
            if answered >= target { Ok(()) } else { Err(answered) }
        })
        .await;
    }

    /// How many were answered, and the answers to those that failed.
    async fn stop(self) -> (usize, Vec<(u16, Value)>) {
        self.stop.store(true, Ordering::Relaxed);
        let failures = join_all(self.callers).await.into_iter().flat_map(Result::unwrap).collect();
        (self.answered.load(Ordering::Relaxed), failures)
    }
}

/// Creates a SidecarSet for a trial, over and over: it is defaulted and validated.
async fn calls(
    client: Client,
    set: Value,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
) -> Vec<(u16, Value)> {
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failures = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        match create(&client, set.clone(), "?dryRun=All").await {
            (201, _) => _ = answered.fetch_add(1, Ordering::Relaxed),
            failure => failures.push(failure),
        }
    }
    failures
}

/// As the chart's Deployment does it: new replicas come before old ones leave.
#[tokio::test(flavor = "multi_thread")]
async fn ten_rolling_restarts_of_three_replicas_lose_no_call() {
    let server = product::server(kit::Options::default()).await;
    let mut replicas = surge(&server).await;
    in_use(&server).await;
    let shop = Shop::open_on(&server, "rolling").await;
    let load = Load::start(&shop);
    let mut leaving = Vec::new();
    for _ in 0..RESTARTS {
        load.more(CALLS).await;
        let old = std::mem::replace(&mut replicas, surge(&server).await);
        old.iter().for_each(|(product, _)| product.terminate());
        leaving.push(tokio::spawn(join_all(old.into_iter().map(left))));
    }
    for left in leaving {
        assert_eq!(left.await.unwrap().len(), REPLICAS);
    }
    load.more(CALLS).await;
    let (answered, failures) = load.stop().await;
    assert!(failures.is_empty(), "{} calls failed, {answered} did not: {failures:#?}", failures.len());
    assert!(answered > CALLS * RESTARTS, "{answered}");
}

/// New replicas, all ready.
async fn surge(server: &ApiServer) -> Vec<Replica> {
    join_all((0..REPLICAS).map(|_| async move {
        // The API server may notice late that a replica leaves, and calls may take long.
        let options = Options::default().drain("30s").argument("--webhook-timeout-seconds=30");
        let mut product = Product::start(server, options).await;
        let endpoint = service::join(server, &product).await;
        product.wait_ready().await;
        endpoint.ready().await;
        (product, endpoint)
    }))
    .await
}

/// Waits for the end of a replica that got the signal to stop.
async fn left((mut product, endpoint): Replica) {
    assert!(product.wait_exit().await.success(), "{}", product.log());
    assert!(!product.log().contains("were not answered"), "{}", product.log());
    endpoint.leave().await;
}
