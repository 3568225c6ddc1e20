//! Scenario 32: requests at the same time, through two replicas of the program, never take more than there is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::support::{direct_of, patched, pod_review, review};

const PODS: usize = 50;
const AWAY: i64 = 5;
const EVICTIONS: usize = 200;

/// What comes in between.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    Nothing,
    /// Somebody else writes to the budget all the time, so that writes meet conflicts.
    Conflicts,
    /// The replica that runs the controllers is killed half way.
    DeadLeader,
}

/// Waits until a replica knows the budget of a shop, by a watch of its own.
async fn known(server: &ApiServer, replica: &Product, shop: &Shop) {
    let program = direct_of(server, replica.port).await;
    let probe = shop.pod("probe").build();
    let asked = pod_review(&shop.namespace, "CREATE", "", &probe);
    wait_for("the replica to know the budget", async || {
        let answer = review(&program, &asked).await;
        let pod = if answer["patch"].is_string() { patched(&probe, &answer) } else { Value::Null };
        if pod["metadata"]["annotations"][MARK] == "web" { Ok(()) } else { Err(answer) }
    })
    .await;
}

/// Evicts Pods of a new budget, each several times. Gives how many were evicted, and how long that took.
async fn evict_all(
    server: &ApiServer,
    trouble: Trouble,
    leader: &mut Option<Product>,
    other: &Product,
) -> (usize, Duration) {
    let shop = Shop::open_on(server, "budget-parallel").await;
    let (budget, pods) = protected(&shop, PODS, AWAY).await;
    for replica in leader.iter().chain([other]) {
        known(server, replica, &shop).await;
    }
    let ends = Arc::new(AtomicBool::new(false));
    let meddler = tokio::spawn({
        let (budget, ends) = (budget.seen_by(&shop.client), ends.clone());
        async move {
            let mut count = 0;
            while trouble == Trouble::Conflicts && !ends.load(Ordering::Relaxed) {
                count += 1;
                // Whether one of them fails does not matter.
                budget.try_patch(&json!({"metadata": {"annotations": {"count": count.to_string()}}})).await;
            }
        }
    });
    let began = std::time::Instant::now();
    let options = json!({});
    let killing = async {
        if trouble == Trouble::DeadLeader {
            wait_for("the first evictions", async || {
                let status = budget.get().await.1["status"].clone();
                if status["disruptedPods"].is_object() { Ok(()) } else { Err(status) }
            })
            .await;
            leader.take().unwrap().kill().await;
        }
    };
    let evictions = join_all((0..EVICTIONS).map(|number| pods[number % PODS].evict(&options)));
    let (answers, ()) = tokio::join!(evictions, killing);
    let took = began.elapsed();
    ends.store(true, Ordering::Relaxed);
    meddler.await.unwrap();
    let refused = answers.iter().filter(|(code, _)| *code == 403).count();
    assert!(refused > 0, "{answers:?}");
    let mut gone = 0;
    for pod in &pods {
        gone += usize::from(pod.get().await.0 == 404);
    }
    (gone, took)
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_never_let_more_pods_go_than_allowed() {
    let Site { server, product } = open(kit::Options::default()).await;
    let other = Product::join(&server, product::Options::default()).await;
    // The first one leads: the other has waited for its Lease.
    let mut leader = Some(product);
    let rounds =
        [Trouble::Nothing; 4].into_iter().chain([Trouble::Conflicts; 2]).chain([Trouble::DeadLeader]);
    for trouble in rounds {
        let (gone, took) = evict_all(&server, trouble, &mut leader, &other).await;
        eprintln!("{EVICTIONS} evictions with {trouble:?}: {gone} Pods went in {took:?}");
        assert!(gone <= AWAY as usize, "{gone} Pods went with {trouble:?}");
        assert!(trouble != Trouble::Nothing || gone == AWAY as usize, "only {gone} Pods went");
    }
    let metrics = other.metrics().await;
    let is_review =
        |line: &str| line.starts_with("kutter_admission_reviews") && line.contains("/validate-pod");
    assert!(metrics.lines().any(is_review), "the other replica was asked nothing");
}
