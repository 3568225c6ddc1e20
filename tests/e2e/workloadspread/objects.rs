//! WorkloadSpreads themselves.

use super::*;

#[tokio::test]
async fn scenarios_8_to_13_what_a_spread_may_say() {
    let field = Field::open("ws-objects").await;
    let says = async |spread: Object, words: &str| {
        let answer = create(&field.shop.client, spread, "?dryRun=All").await;
        if words.is_empty() {
            assert_eq!(answer.0, 201, "{:#}", answer.1);
        } else {
            assert!(message(&answer).contains(words), "{:#} does not say {words:?}", answer.1);
        }
    };
    let shares = |shares: &[&str]| -> Value {
        shares
            .iter()
            .enumerate()
            .map(|(index, share)| json!({"name": format!("s{index}"), "maxReplicas": share}))
            .collect()
    };
    says(field.spread(CLONESET, shares(&["40%", "70%"])), "exceeds 100%").await;
    says(field.spread(CLONESET, shares(&["40%", "20%", "20%"])), "must equal 100%").await;
    let mixed = json!([{"name": "a", "maxReplicas": 1}, {"name": "b", "maxReplicas": "50%"}]);
    says(field.spread(CLONESET, mixed), "the maxReplicas type of all subsets must be the same").await;
    says(field.spread(("apps/v1", "CloneSet"), first(1)), "TargetReference is not valid for CloneSet.").await;
    says(
        field.spread(("argoproj.io/v1", "Rollout"), first(1)),
        "TargetReference's GroupKind is not permitted.",
    )
    .await;
    says(field.spread(("kubeflow.org/v3", "TFJob"), first(1)), "").await;
    let adaptive = |seconds: i32| {
        let strategy = json!({"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": seconds}});
        field
            .spread(CLONESET, json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]))
            .with("/spec/scheduleStrategy", strategy)
    };
    says(adaptive(3600), "").await;
    says(adaptive(3601), "rescheduleCriticalSeconds > 3600 is not permitted").await;

    let deployment = ("apps/v1", "Deployment");
    let spread = field.divide(field.spread(deployment, first(1))).await;
    let rival = field.spread(("apps/v1beta2", "Deployment"), first(1)).with("/metadata/name", "rival");
    says(rival, "ws.spec.targetRef is in conflict with other WorkloadSpread ws").await;
    let renamed = spread.try_patch(&json!({"spec": {"targetRef": {"name": "other"}}})).await;
    assert!(message(&renamed).contains("change TargetReference is not permitted for WorkloadSpread"));
    spread.patch(&json!({"spec": {"targetRef": {"apiVersion": "apps/v1beta2"}}})).await;

    // The template of the target takes the patch.
    let set = field.create(field.web(CLONESET).replicas(0).with("/metadata/name", "patched")).await;
    let patched = |patch: Value| {
        let subsets = json!([{"name": "a", "patch": patch}]);
        field
            .spread(CLONESET, subsets)
            .with("/metadata/name", "patched")
            .with("/spec/targetRef/name", name(&set.object))
    };
    says(patched(json!({"spec": {"containers": [{"name": "main", "image": "nginx:1.26"}]}})), "").await;
    says(patched(json!({"spec": {"containers": [{"name": "main", "image": ""}]}})), "spec.subsets[0].patch")
        .await;
}

#[tokio::test]
async fn scenario_14_both_versions_say_the_same() {
    let field = Field::open("ws-versions").await;
    let subset = json!({"name": "a", "requiredNodeSelectorTerm": zone("a"),
        "preferredNodeSelectorTerms": [{"weight": 5, "preference": zone("b")}]});
    let older =
        field.spread(("apps/v1", "Deployment"), json!([subset])).api_version("apps.kruise.io/v1alpha1");
    let older = field.create(older).await;
    let newer = older.in_version("v1beta1").get().await.1;
    assert_eq!(newer["spec"]["subsets"][0]["requiredNodeSelector"], zone("a"));
    assert_eq!(newer["spec"]["subsets"][0]["preferredNodeSelector"][0]["weight"], 5);
    assert_eq!(older.get().await.1["spec"]["subsets"][0], subset);
}
