//! Workloads that are scaled again and again, and Pods that go as soon as they come.

use super::*;

const THIRDS: [&str; 3] = ["34%", "33%", "33%"];

fn thirds() -> Value {
    ["a", "b", "c"].iter().zip(THIRDS).map(|(name, max)| json!({"name": name, "maxReplicas": max})).collect()
}

#[tokio::test]
async fn scenario_41_a_deployment_gives_up_the_right_pods_by_costs_from_before() {
    let field = Field::open("ws-costs").await;
    let target = ("apps/v1", "Deployment");
    field.divide(field.spread(target, thirds())).await;
    let deployment = field.create(field.web(target).replicas(9)).await;
    for (replicas, [a, b, c]) in [(9, [4, 3, 2]), (6, [3, 2, 1]), (3, [2, 1, 0])] {
        deployment.patch(&json!({"spec": {"replicas": replicas}})).await;
        field.placed(&[("a", a), ("b", b), ("c", c)]).await;
        field.ready(replicas).await;
        wait_for("all costs to be written", async || {
            let pods = field.pods().await;
            let is_ahead = |pod: &Value| cost(pod).parse().is_ok_and(|cost: i64| cost > 999_000);
            if pods.iter().all(is_ahead) { Ok(()) } else { Err(field.summary().await) }
        })
        .await;
    }
}

#[tokio::test]
async fn scenario_42_pods_that_go_as_soon_as_they_come_give_their_slots_back() {
    let field = Field::open("ws-restless").await;
    let set = field.create(field.web(CLONESET).replicas(0)).await;
    let subsets = json!([{"name": "a", "maxReplicas": 3}, {"name": "b", "maxReplicas": 1}]);
    let spread = field.divide(field.spread(CLONESET, subsets)).await;
    set.patch(&json!({"spec": {"replicas": 4}})).await;
    for _ in 0..6 {
        field.placed(&[("a", 3), ("b", 1)]).await;
        for pod in field.pods().await {
            field.pod(name(&pod)).delete().await;
        }
    }
    field.placed(&[("a", 3), ("b", 1)]).await;
    field.totals(&spread, &[("a", 3, 0), ("b", 1, 0)]).await;
}

#[tokio::test]
async fn scenario_43_a_pod_that_needs_a_subset_is_not_let_through_without() {
    let field = Field::open("ws-required").await;
    let set = field.create(field.web(CLONESET).replicas(0)).await;
    let subsets = |max: i32| json!([{"name": "a", "maxReplicas": max}]);
    let required = json!({"kutter.io/require-subset": "true"});
    let spread = field.spread(CLONESET, subsets(1)).with("/metadata/annotations", required);
    let spread = field.divide(spread).await;
    set.patch(&json!({"spec": {"replicas": 2}})).await;
    wait_for("the second Pod to be refused", async || {
        let set = set.get().await.1;
        let mut conditions = set["status"]["conditions"].as_array().into_iter().flatten();
        let words = "which its annotation kutter.io/require-subset asks for";
        let is_refused =
            |condition: &Value| condition["message"].as_str().unwrap_or_default().contains(words);
        if conditions.any(is_refused) { Ok(()) } else { Err(set["status"].clone()) }
    })
    .await;
    field.placed(&[("a", 1)]).await;
    spread.patch(&json!({"spec": {"subsets": subsets(2)}})).await;
    field.placed(&[("a", 2)]).await;
}
