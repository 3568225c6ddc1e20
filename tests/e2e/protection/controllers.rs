//! Deletes that Kubernetes itself asks for (docs/behaviour/deletion-protection.md#protection-and-kubernetes).

use kit::wait_for;
use serde_json::{Value, json};

use super::{ALWAYS, LABEL, exists, front, site};
use crate::support::{Stored, call};

/// Scenario 18.
#[tokio::test]
async fn a_namespace_waits_for_the_protected_objects_in_it() {
    let site = site().await;
    let client = site.client();
    let namespace = site.labelled_namespace("none").await;
    let name = namespace.object["metadata"]["name"].as_str().unwrap();
    let deployment = Stored::create(&client, front(name).label(LABEL, "Always")).await;
    namespace.deleted().await;
    let denial = format!("admission webhook \"vbuiltindeployment.kb.io\" denied the request: {ALWAYS}");
    let condition = wait_for("the denial to be told", async || {
        let namespace = namespace.get().await.1;
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let failure =
            conditions.into_iter().find(|condition| condition["type"] == "NamespaceDeletionContentFailure");
        let tells = |failure: &Value| failure["message"].as_str().unwrap().contains(&denial);
        failure.filter(|failure| failure["status"] == "True" && tells(failure)).ok_or(namespace)
    })
    .await;
    assert_eq!(condition["reason"], "ContentDeletionFailed");
    assert_eq!(namespace.get().await.1["status"]["phase"], "Terminating");
    assert!(exists(&deployment).await);
    // Another delete of the namespace is nothing new.
    assert_ne!(namespace.delete().await.0, 403);
    deployment.label(LABEL, Value::Null).await;
    namespace.gone().await;
}

/// Scenario 20.
#[tokio::test]
async fn the_garbage_collector_is_not_exempt() {
    let site = site().await;
    let (client, namespace) = (site.client(), site.namespace().await);
    let deployment = front(&namespace).template_label(LABEL, "Always").replicas(1);
    let deployment = Stored::create(&client, deployment).await;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
    let set = wait_for("the ReplicaSet", async || {
        let list = call(&client, "GET", &path, &Value::Null).await.1;
        list["items"].get(0).cloned().ok_or(list)
    })
    .await;
    let name = set["metadata"]["name"].as_str().unwrap();
    assert_eq!(set["metadata"]["labels"][LABEL], "Always");
    let set = Stored::existing(&client, format!("{path}/{name}"), set.clone());
    let (code, _) = deployment.delete_with(&json!({"propagationPolicy": "Background"})).await;
    assert_eq!(code, 200);
    deployment.gone().await;
    let series = format!(
        "kind_namespace_name=\"ReplicaSet_{namespace}_{name}\",username=\"system:serviceaccount:kube-system:generic-garbage-collector\""
    );
    wait_for("the garbage collector to be refused", async || match site.product.metrics().await {
        metrics if metrics.contains(&series) => Ok(()),
        metrics => Err(metrics),
    })
    .await;
    assert!(exists(&set).await);
    set.label(LABEL, Value::Null).await;
    set.gone().await;
}
