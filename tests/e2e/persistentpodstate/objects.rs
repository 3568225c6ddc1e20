//! PersistentPodStates themselves.

use super::*;

#[tokio::test]
async fn scenarios_12_to_15_what_an_object_may_say() {
    let field = Field::open("pps-objects").await;
    let says = async |state: Object, words: &str| {
        let answer = create(&field.shop.client, state, "?dryRun=All").await;
        if words.is_empty() {
            assert_eq!(answer.0, 201, "{:#}", answer.1);
        } else {
            assert_eq!(answer.0, 400, "{:#}", answer.1);
            assert!(message(&answer).contains(words), "{:#} does not say {words:?}", answer.1);
        }
    };
    let kind = "targetRef.Kind must be StatefulSet or in PPS_Watch_Custom_Workload_WhiteList";
    says(field.state(("apps/v1", "Deployment")), kind).await;
    says(field.state(("apps/v1", "")), "empty targetRef is not valid for PersistentPodState.").await;
    says(field.state(("kubeflow.org/v9", "Database")), "").await;
    let topology = "TopologyConstraint and TopologyPreference cannot be empty at the same time";
    says(field.bare(NATIVE), topology).await;
    let weighing =
        |weight: i32| field.state(NATIVE).with("/spec/preferredPersistentTopology/0/weight", weight);
    says(weighing(0), "must be in the range 1-100").await;
    says(weighing(101), "must be in the range 1-100").await;
    says(weighing(100), "").await;

    let foo = |state: Object| state.with("/spec/persistentPodStateRetentionPolicy", "Foo");
    let answer = create(&field.shop.client, foo(field.state(NATIVE)), "?dryRun=All").await;
    assert_eq!(answer.0, 422, "{:#}", answer.1);
    // The older version takes any text, and the webhook does not.
    let wishes = json!([{"weight": 1, "preference": {"nodeTopologyKeys": ["zone"]}}]);
    let older = field.bare(NATIVE).with("/spec/preferredPersistentTopology", wishes);
    says(foo(older.api_version("apps.kruise.io/v1alpha1")), "Unsupported value: \"Foo\"").await;

    let state = field.create(field.state(ADVANCED)).await;
    let renamed = state.try_patch(&json!({"spec": {"targetRef": {"name": "other"}}})).await;
    assert_eq!(renamed.0, 400);
    assert!(message(&renamed).contains("targetRef is immutable"));
    let version = json!({"spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1"}}});
    assert!(message(&state.try_patch(&version).await).contains("targetRef is immutable"));
    state.patch(&json!({"spec": {"requiredPersistentTopology": {"keys": ["region"]}}})).await;

    let rival = |api_version: &str| field.state((api_version, "StatefulSet")).with("/metadata/name", "rival");
    wait_for("the conflict to be seen", async || {
        let answer = create(&field.shop.client, rival("apps.kruise.io/v1alpha1"), "?dryRun=All").await;
        let words = "targetRef is in conflict with other PersistentPodState pps";
        if answer.0 == 400 && message(&answer).contains(words) { Ok(()) } else { Err(answer) }
    })
    .await;
    says(rival("apps/v1"), "").await;
}

#[tokio::test]
async fn scenario_16_both_versions_say_the_same() {
    let field = Field::open("pps-versions").await;
    field.create(field.web(NATIVE).replicas(1)).await;
    let wishes = json!([{"weight": 7, "preference": {"nodeTopologyKeys": ["kubernetes.io/hostname"]}}]);
    let older = field
        .bare(NATIVE)
        .api_version("apps.kruise.io/v1alpha1")
        .with("/spec/requiredPersistentTopology/nodeTopologyKeys", json!(["zone"]))
        .with("/spec/preferredPersistentTopology", wishes.clone());
    let older = field.create(older).await;
    let newer = older.in_version("v1beta1");
    let status = field.remembered(&newer, &["web-0"]).await;
    let spec = newer.get().await.1["spec"].clone();
    assert_eq!(spec["requiredPersistentTopology"], json!({"keys": ["zone"]}));
    let wish = json!([{"weight": 7, "preference": {"keys": ["kubernetes.io/hostname"]}}]);
    assert_eq!(spec["preferredPersistentTopology"], wish);
    let back = older.get().await.1;
    assert_eq!(back["spec"]["requiredPersistentTopology"], json!({"nodeTopologyKeys": ["zone"]}));
    assert_eq!(back["spec"]["preferredPersistentTopology"], wishes);
    assert_eq!(back["status"], status);
}
