//! What is remembered, and for how long.

use super::*;

#[tokio::test]
async fn scenario_8_nothing_is_remembered_of_a_workload_that_is_gone() {
    let field = Field::open("pps-gone").await;
    let set = field.create(field.web(NATIVE).replicas(1)).await;
    let state = field.create(field.state(NATIVE)).await;
    field.remembered(&state, &["web-0"]).await;
    // The garbage collector releases only Pods that its watch has reported, and collects the rest. It knows of web-0
    // once it has collected a later one, whose owner is gone.
    let mut gone = set.object.clone();
    gone["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    field.create(field.pod_of(&gone, "later").with("/metadata/labels", json!({}))).await.gone().await;
    // Its Pods stay behind: nothing but the workload says that it is gone.
    set.delete_with(&json!({"propagationPolicy": "Orphan"})).await;
    set.gone().await;
    field.remembered(&state, &[]).await;
    assert!(is_ready(&field.pod("web-0").get().await.1));
}
