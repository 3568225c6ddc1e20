//! What is remembered, and for how long.

use std::time::Duration;

use super::*;

#[tokio::test]
async fn scenarios_5_and_7_records_go_with_the_pods_or_stay() {
    let field = Field::open("pps-scale").await;
    let set = field.create(field.web(NATIVE).replicas(3)).await;
    let state = field.create(field.state(NATIVE)).await;
    field.remembered(&state, &["web-0", "web-1", "web-2"]).await;
    let scale = async |replicas: u32| set.patch(&json!({"spec": {"replicas": replicas}})).await;
    scale(2).await;
    field.pod("web-2").gone().await;
    field.remembered(&state, &["web-0", "web-1"]).await;

    state.patch(&json!({"spec": {"persistentPodStateRetentionPolicy": "WhenDeleted"}})).await;
    field.remembered(&state, &["web-0", "web-1"]).await;
    let node = field.ready("web-1").await["spec"]["nodeName"].clone();
    scale(1).await;
    field.pod("web-1").gone().await;
    field.remembered(&state, &["web-0", "web-1"]).await;
    field.known(&set, "web-1").await;
    scale(2).await;
    let next = field.ready("web-1").await;
    assert_eq!((injected(&next), &next["spec"]["nodeName"]), ("pps", &node));

    state.patch(&json!({"spec": {"persistentPodStateRetentionPolicy": null}})).await;
    scale(0).await;
    field.remembered(&state, &[]).await;
    assert!(state.get().await.1["status"]["podStates"].is_null());
}

#[tokio::test]
async fn scenario_6_reserved_ordinals_do_not_shift_the_others() {
    let field = Field::open("pps-reserved").await;
    let web = field.web(ADVANCED).replicas(3).with("/spec/reserveOrdinals", json!([1]));
    let set = field.create(web).await;
    let state = field.create(field.state(ADVANCED)).await;
    let pods = ["web-0", "web-2", "web-3"];
    field.remembered(&state, &pods).await;
    for name in ["web-2", "web-3"] {
        field.known(&set, name).await;
        let node = field.ready(name).await["spec"]["nodeName"].clone();
        let next = field.recreated(name).await;
        assert_eq!(injected(&next), "pps", "{name}");
        assert_eq!(field.ready(name).await["spec"]["nodeName"], node);
        field.remembered(&state, &pods).await;
    }
}

#[tokio::test]
async fn scenario_8_nothing_is_remembered_of_a_workload_that_is_gone() {
    let field = Field::open("pps-gone").await;
    let set = field.create(field.web(NATIVE).replicas(1)).await;
    let state = field.create(field.state(NATIVE)).await;
    field.remembered(&state, &["web-0"]).await;
    // The garbage collector lets go only Pods that its watch has told it of, and collects the rest. It knows of web-0
    // once it has collected a later one, whose owner is gone.
    let mut gone = set.object.clone();
    gone["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    field.create(field.pod_of(&gone, "later").with("/metadata/labels", json!({}))).await.gone().await;
    // Its Pods stay behind: nothing but the workload tells that it is gone.
    set.delete_with(&json!({"propagationPolicy": "Orphan"})).await;
    set.gone().await;
    field.remembered(&state, &[]).await;
    assert!(is_ready(&field.pod("web-0").get().await.1));
}

#[tokio::test]
async fn scenario_20_a_pod_that_is_ready_again_changes_nothing() {
    let field = Field::open("pps-again").await;
    field.create(field.web(NATIVE).replicas(1)).await;
    let state = field.create(field.state(NATIVE)).await;
    field.remembered(&state, &["web-0"]).await;
    let before = state.get().await.1;
    let pod = field.pod("web-0");
    pod.patch(&json!({"metadata": {"annotations": {fake_nodes::CRASH: "main"}}})).await;
    wait_for("the Pod to be not ready", async || {
        let pod = pod.get().await.1;
        if is_ready(&pod) { Err(pod["status"].clone()) } else { Ok(()) }
    })
    .await;
    pod.patch(&json!({"metadata": {"annotations": {fake_nodes::CRASH: null}}})).await;
    field.ready("web-0").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(state.get().await.1, before, "nothing was written");
}

/// docs/behaviour/persistentpodstate.md#what-is-remembered: values are those of the Pod and its node.
#[tokio::test]
async fn annotations_and_other_keys_are_remembered_of_pods_that_run() {
    let field = Field::open("pps-keys").await;
    let web = field.web(NATIVE).replicas(1).template_annotation("ip", "10.0.0.1");
    field.create(web).await;
    let state =
        field.state(NATIVE).with("/spec/persistentPodAnnotations", json!([{"key": "ip"}, {"key": "x"}]));
    let state = field.create(state).await;
    let status = field.remembered(&state, &["web-0"]).await;
    assert_eq!(status["podStates"]["web-0"]["annotations"], json!({"ip": "10.0.0.1"}));
    let wishes = json!({"spec": {"preferredPersistentTopology": null, "persistentPodAnnotations": null}});
    state.patch(&wishes).await;
    let status = field.remembered(&state, &["web-0"]).await;
    let node = field.ready("web-0").await["spec"]["nodeName"].clone();
    let record = json!({"nodeName": node, "nodeTopologyLabels": {"zone": field.zone(&node)}});
    assert_eq!(status["podStates"]["web-0"], record);
}
