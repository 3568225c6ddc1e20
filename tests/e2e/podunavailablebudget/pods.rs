//! Budgets over Pods that nobody owns.

use super::*;
use crate::support::annotation;

/// So many Pods that serve, with a budget over them that lets some be away.
async fn shop_of(prefix: &str, count: usize, away: i64) -> (Shop, Stored, Vec<Stored>) {
    let shop = Shop::open_on(&guarded().await.server, prefix).await;
    let (budget, pods) = protected(&shop, count, away).await;
    (shop, budget, pods)
}

/// Scenario 19.
#[tokio::test]
async fn pods_are_marked() {
    let shop = Shop::open_on(&guarded().await.server, "budget-marks").await;
    let early = Stored::create(&shop.client, shop.pod("early")).await;
    establish(&shop, selecting(1, json!({"maxUnavailable": 0}))).await;
    let marks = |pod: &Value| [MARK, OLDER_MARK].map(|key| pod["metadata"]["annotations"][key].clone());
    wait_for("the Pod to be marked", async || {
        let pod = early.get().await.1;
        if marks(&pod) == ["web", "web"] { Ok(()) } else { Err(pod["metadata"]["annotations"].clone()) }
    })
    .await;
    let late = shop.admit(shop.pod("late")).await;
    assert_eq!((annotation(&late, MARK), annotation(&late, OLDER_MARK)), ("web", "web"));
}

/// Scenarios 25 and 26.
#[tokio::test]
async fn a_trial_takes_nothing() {
    let (_, budget, pods) = shop_of("budget-trial", 2, 1).await;
    let before = budget.get().await.1["status"].clone();
    assert_passed(&pods[0].delete_dry().await);
    assert_passed(&pods[0].evict(&json!({"dryRun": ["All"]})).await);
    assert_eq!(budget.get().await.1["status"], before);
    budget.patch(&json!({"spec": {"maxUnavailable": 0}})).await;
    counted(&budget, [0, 2, 2, 2]).await;
    assert_refused(&pods[0].delete_dry().await, DELETION);
    assert_refused(&pods[0].evict(&json!({"dryRun": ["All"]})).await, EVICTION);
}

/// Scenario 36.
#[tokio::test]
async fn refusals_are_counted_and_logged() {
    let site = guarded().await;
    let shop = Shop::open_on(&site.server, "budget-log").await;
    let owner = workload("apps/v1", "ReplicaSet", "r").in_namespace(&shop.namespace);
    Stored::create(&shop.client, owner.matching("app", "web").replicas(1).container("main", "nginx:1.25"))
        .await;
    let pod = wait_for("the Pod of the ReplicaSet", async || list(&shop).await.pop().ok_or(())).await;
    serve(&pod, true).await;
    let budget = establish(&shop, selecting(1, json!({"maxUnavailable": 0}))).await;
    counted(&budget, [0, 1, 1, 1]).await;
    let alice = site.server.client_as("alice", &["system:masters"]);
    assert_refused(&pod.seen_by(&alice).delete().await, DELETION);
    reported(&shop, pod.object["metadata"]["name"].as_str().unwrap(), "PubPreventPodDeletion").await;
    let line = format!(
        r#"pod_unavailable_budget{{kind_namespace_name="ReplicaSet_{}_r",username="other"}} "#,
        shop.namespace
    );
    let metrics = site.product.metrics().await;
    // The API server may ask again about a refused delete, once it has read the object anew.
    assert!(metrics.contains(&line), "{metrics}");
    let wanted = [format!(r#""Namespace":"{}""#, shop.namespace), r#""UserAgent":"alice""#.to_owned()];
    wait_for("the line in the log", async || {
        let log = site.product.protection_log();
        let found = log.lines().any(|line| wanted.iter().all(|part| line.contains(part)));
        if found { Ok(()) } else { Err(log) }
    })
    .await;
}

/// Scenario 42.
#[tokio::test]
async fn pods_that_are_not_ready_pass_unless_the_budget_protects_them() {
    let (_, budget, pods) = shop_of("budget-unready", 3, 1).await;
    for pod in &pods[..2] {
        serve(pod, false).await;
    }
    counted(&budget, [0, 1, 2, 3]).await;
    let say = async |word: &str, is_refused: bool| {
        choose(&budget, word).await;
        wait_for(&format!("admission to know {word}"), async || {
            let answer = pods[0].delete_dry().await;
            if (answer.0 == 403) == is_refused { Ok(()) } else { Err(answer) }
        })
        .await;
    };
    say("Protect", true).await;
    assert_refused(&pods[0].delete().await, DELETION);
    assert_refused(&pods[1].evict(&json!({})).await, EVICTION);
    say("Release", false).await;
    assert_passed(&pods[0].delete().await);
    assert_passed(&pods[1].evict(&json!({})).await);
    assert_refused(&pods[2].delete().await, DELETION);
}

/// Scenario 39.
#[tokio::test]
async fn the_eviction_of_a_pod_that_does_not_exist_fails() {
    let (shop, _, _) = shop_of("budget-missing", 1, 0).await;
    let path = format!("/api/v1/namespaces/{}/pods/missing", shop.namespace);
    let missing = Stored::existing(&shop.client, path, Value::Null);
    assert_eq!(missing.evict(&json!({})).await.0, 404);
}
