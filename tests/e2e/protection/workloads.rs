//! Workloads (docs/behaviour/deletion-protection.md#cascading-for-workloads).

use kit::builders::{Object, stateful_set, workload};
use kit::fake_nodes::{self, FakeNodes};
use kit::wait_for;
use serde_json::{Value, json};

use super::{ALWAYS, CASCADING, LABEL, denied, exists, front, site};
use crate::support::{Stored, call};

fn refused(webhook: &str, replicas: u32) -> (u16, Value) {
    denied(webhook, 403, &format!("{CASCADING} and replicas {replicas}>0"))
}

/// Scenario 9.
#[tokio::test]
async fn a_cascading_deployment_may_go_at_zero_replicas_though_pods_still_terminate() {
    let site = site().await;
    let (client, namespace) = (site.client(), site.namespace().await);
    let options = fake_nodes::Options::nodes(1).in_namespace(&namespace).binding_pods();
    let _nodes = FakeNodes::start(client.clone(), options).await;
    let deployment = front(&namespace)
        .label(LABEL, "Cascading")
        .replicas(3)
        .template_annotation(fake_nodes::TERMINATE_AFTER, "never");
    let deployment = Stored::create(&client, deployment).await;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let three = async |what: &str, holds: fn(&Value) -> bool| {
        wait_for(what, async || {
            let list = call(&client, "GET", &pods, &Value::Null).await.1;
            let items = list["items"].as_array().unwrap();
            if items.len() == 3 && items.iter().all(holds) { Ok(()) } else { Err(list) }
        })
        .await;
    };
    three("three Pods to run", |pod| pod["status"]["phase"] == "Running").await;
    assert_eq!(deployment.delete().await, refused("vbuiltindeployment.kb.io", 3));
    deployment.patch(&json!({"spec": {"replicas": 0}})).await;
    three("three Pods to terminate", |pod| !pod["metadata"]["deletionTimestamp"].is_null()).await;
    deployment.deleted().await;
    deployment.gone().await;
}

pub(super) fn united_deployment(api_version: &str) -> Object {
    let template = front("unused").build()["spec"]["template"].clone();
    kit::builders::object(api_version, "UnitedDeployment", "united").with(
        "/spec",
        json!({
            "selector": {"matchLabels": {"app": "front"}},
            "template": {"deploymentTemplate": {
                "metadata": {"labels": {"app": "front"}},
                "spec": {"selector": {"matchLabels": {"app": "front"}}, "template": template},
            }},
            "topology": {"subsets": [{"name": "a"}]},
        }),
    )
}

/// Scenario 10.
#[tokio::test]
async fn every_cascading_workload_is_kept_while_it_wants_replicas() {
    let site = site().await;
    let (client, namespace) = (site.client(), site.namespace().await);
    let plain = |object: Object| object.matching("app", "front").container("main", "nginx:1.25");
    let [alpha, beta] = ["apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"];
    let workloads = [
        ("vbuiltinstatefulset.kb.io", plain(stateful_set("db"))),
        ("vbuiltinreplicaset.kb.io", plain(workload("apps/v1", "ReplicaSet", "front"))),
        ("vcloneset.kb.io", plain(workload(alpha, "CloneSet", "alpha"))),
        ("vcloneset.kb.io", plain(workload(beta, "CloneSet", "beta"))),
        (
            "vstatefulset.kb.io",
            plain(workload(alpha, "StatefulSet", "alpha").with("/spec/serviceName", "db")),
        ),
        ("vstatefulset.kb.io", plain(workload(beta, "StatefulSet", "beta").with("/spec/serviceName", "db"))),
        ("vuniteddeployment.kb.io", united_deployment(alpha).with("/metadata/name", "alpha")),
        ("vuniteddeployment.kb.io", united_deployment(beta).with("/metadata/name", "beta")),
    ];
    for (webhook, object) in workloads {
        let object = object.in_namespace(&namespace).label(LABEL, "Cascading").replicas(3);
        let stored = Stored::create(&client, object).await;
        assert_eq!(stored.delete().await, refused(webhook, 3), "{}", stored.path);
        stored.patch(&json!({"spec": {"replicas": 0}})).await;
        stored.deleted().await;
        stored.gone().await;
    }
}

/// Scenario 10: whatever version the object was written in.
#[tokio::test]
async fn the_version_of_the_request_does_not_matter() {
    let site = site().await;
    let (client, namespace) = (site.client(), site.namespace().await);
    for kind in ["CloneSet", "StatefulSet"] {
        let object = workload("apps.kruise.io/v1beta1", kind, "web")
            .in_namespace(&namespace)
            .label(LABEL, "Cascading");
        let object = object.matching("app", "web").container("main", "nginx:1.25").replicas(2);
        let stored = Stored::create(&client, object).await;
        let webhook = format!("v{}.kb.io", kind.to_lowercase());
        assert_eq!(stored.in_version("v1alpha1").delete().await, refused(&webhook, 2));
        assert_eq!(stored.delete().await, refused(&webhook, 2));
    }
}

/// Scenario 16.
#[tokio::test]
async fn no_option_of_a_delete_overrides_protection() {
    let site = site().await;
    let deployment = front(&site.namespace().await).label(LABEL, "Always");
    let deployment = Stored::create(&site.client(), deployment).await;
    for options in [
        json!({"gracePeriodSeconds": 0}),
        json!({"propagationPolicy": "Orphan"}),
        json!({"propagationPolicy": "Foreground"}),
        json!({"dryRun": ["All"]}),
    ] {
        assert_eq!(
            deployment.delete_with(&options).await,
            denied("vbuiltindeployment.kb.io", 403, ALWAYS),
            "{options}"
        );
    }
    assert!(exists(&deployment).await);
}

/// Scenario 17.
#[tokio::test]
async fn a_collection_delete_fails_at_the_labelled_item() {
    let site = site().await;
    let (client, namespace) = (site.client(), site.namespace().await);
    let mut labelled = None;
    for (name, value) in [("a", "none"), ("b", "Always"), ("c", "none")] {
        let deployment = front(&namespace).with("/metadata/name", name).label(LABEL, value);
        let deployment = Stored::create(&client, deployment).await;
        labelled = if value == "Always" { Some(deployment) } else { labelled };
    }
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let answer = call(&client, "DELETE", &path, &Value::Null).await;
    assert_eq!(answer, denied("vbuiltindeployment.kb.io", 403, ALWAYS));
    assert!(exists(&labelled.unwrap()).await);
    // The request of such an item names nobody; the object does.
    let key = format!("kind_namespace_name=\"Deployment_{namespace}_b\"");
    let metrics = site.product.metrics().await;
    assert!(metrics.contains(&key), "{metrics}");
}

/// Scenario 19.
#[tokio::test]
async fn what_is_being_deleted_already_is_not_kept() {
    let site = site().await;
    let deployment = front(&site.namespace().await).finalizer("example.com/held");
    let deployment = Stored::create(&site.client(), deployment).await;
    deployment.deleted().await;
    deployment.label(LABEL, "Always").await;
    deployment.deleted().await;
    deployment.patch(&json!({"metadata": {"finalizers": null}})).await;
    deployment.gone().await;
}
