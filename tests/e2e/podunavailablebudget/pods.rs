//! Budgets over Pods that nobody owns.

use super::*;
use crate::support::annotation;

/// So many Pods that serve, with a budget over them that lets some be away.
async fn shop_of(prefix: &str, count: usize, away: i64) -> (Shop, Stored, Vec<Stored>) {
    let shop = Shop::open_on(&guarded().await.server, prefix).await;
    let (budget, pods) = protected(&shop, count, away).await;
    (shop, budget, pods)
}

/// Scenario 2, and 37.
#[tokio::test]
async fn what_is_desired_follows_from_the_total() {
    let shop = Shop::open_on(&guarded().await.server, "budget-numbers").await;
    let budget = establish(&shop, selecting(15, json!({"maxUnavailable": "10%"}))).await;
    counted(&budget, [0, 0, 13, 15]).await;
    for (total, limit, desired) in [
        (5, json!({"minAvailable": "50%"}), 3),
        (10, json!({"maxUnavailable": "30%"}), 7),
        (10, json!({"minAvailable": 100}), 100),
    ] {
        let mut spec = json!({"minAvailable": null, "maxUnavailable": null, "protectTotalReplicas": total});
        spec.as_object_mut().unwrap().extend(limit.as_object().unwrap().clone());
        budget.patch(&json!({"spec": spec})).await;
        counted(&budget, [0, 0, desired, total]).await;
    }
    let pod = serving(&shop, shop.pod("web-0")).await;
    counted(&budget, [0, 1, 100, 10]).await;
    assert_refused(&pod.delete().await, DELETION);
}

/// Scenario 9.
#[tokio::test]
async fn pods_that_do_not_serve_pass() {
    let (_, _, pods) = shop_of("budget-unready", 3, 0).await;
    assert_refused(&pods[0].delete().await, DELETION);
    serve(&pods[0], false).await;
    pods[0].deleted().await;
    pods[1].patch(&json!({"metadata": {"finalizers": ["example.com/kept"]}})).await;
    serve(&pods[1], false).await;
    pods[1].deleted().await;
    serve(&pods[1], true).await;
    assert_passed(&pods[1].delete().await);
    pods[1].patch(&json!({"metadata": {"finalizers": null}})).await;
}

/// Scenarios 10 and 11.
#[tokio::test]
async fn pods_that_are_let_go_pass() {
    let (_, budget, pods) = shop_of("budget-passing", 4, 0).await;
    budget.patch(&json!({"spec": {"ignoredPodSelector": {"matchLabels": {"force": "true"}}}})).await;
    counted(&budget, [0, 4, 4, 4]).await;
    let protect = |value: &str| json!({"metadata": {"annotations": {"pub.kruise.io/no-protect": value}}});
    pods[0].patch(&protect("true")).await;
    pods[0].deleted().await;
    pods[1].patch(&protect("false")).await;
    assert_refused(&pods[1].delete().await, DELETION);
    pods[2].label("force", "true").await;
    wait_for("the selector to be known", async || match pods[2].delete_dry().await {
        (200, _) => Ok(()),
        (_, answer) => Err(answer),
    })
    .await;
    pods[2].deleted().await;
    assert_refused(&pods[3].delete().await, DELETION);
}

/// Scenario 15.
#[tokio::test]
async fn pods_without_an_owner_add_nothing_to_the_total() {
    let shop = Shop::open_on(&guarded().await.server, "budget-bare").await;
    let mut pods = Vec::new();
    for number in 0..4 {
        pods.push(serving(&shop, shop.pod(&format!("web-{number}"))).await);
    }
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1});
    let budget = establish(&shop, spec).await;
    counted(&budget, [4, 4, 0, 0]).await;
    pods.pop().unwrap().deleted().await;
    budget.patch(&json!({"spec": {"protectTotalReplicas": 3}})).await;
    counted(&budget, [1, 3, 2, 3]).await;
    pods[0].deleted().await;
    assert_refused(&pods[1].delete().await, DELETION);
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

/// Scenario 27: a PodDisruptionBudget refuses what was admitted.
#[tokio::test]
async fn a_pod_that_stays_is_forgotten_after_a_while() {
    let (shop, budget, pods) = shop_of("budget-stays", 2, 1).await;
    let other = object("policy/v1", "PodDisruptionBudget", "other").in_namespace(&shop.namespace);
    let other = other.with("/spec", json!({"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}));
    Stored::create(&shop.client, other).await;
    // A client that does not try again by itself.
    let mut config = guarded().await.server.config();
    config.default_retry = false;
    let client = kube::Client::try_from(config).unwrap();
    assert_eq!(pods[0].seen_by(&client).evict(&json!({})).await.0, 429);
    assert_refused(&pods[1].delete().await, DELETION);
    let status = budget.get().await.1["status"].clone();
    assert!(status["disruptedPods"]["web-0"].is_string(), "{status:#}");
    let event = told(&shop, "web-0", "NotDeleted").await;
    let expected = format!("Pod was expected by PUB {}/web to be deleted but it wasn't", shop.namespace);
    assert_eq!(event["note"], json!(expected));
    let status = counted(&budget, [1, 2, 1, 2]).await;
    assert!(status["disruptedPods"]["web-0"].is_null(), "{status:#}");
}

/// Scenario 34.
#[tokio::test]
async fn without_its_budget_a_marked_pod_is_free() {
    let (_, budget, pods) = shop_of("budget-gone", 2, 0).await;
    assert_refused(&pods[0].delete().await, DELETION);
    budget.deleted().await;
    pods[0].deleted().await;
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
    told(&shop, pod.object["metadata"]["name"].as_str().unwrap(), "PubPreventPodDeletion").await;
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

/// Scenario 39.
#[tokio::test]
async fn the_eviction_of_a_pod_that_does_not_exist_fails() {
    let (shop, _, _) = shop_of("budget-missing", 1, 0).await;
    let path = format!("/api/v1/namespaces/{}/pods/missing", shop.namespace);
    let missing = Stored::existing(&shop.client, path, Value::Null);
    assert_eq!(missing.evict(&json!({})).await.0, 404);
}
