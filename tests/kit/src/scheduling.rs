//! What the scheduler knows.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::builders::pod;
use crate::{objects, wait_for, wait_until};

/// Cordons a node, and waits until the scheduler knows: until it places no Pod there that asks for it. Such Pods are
/// created, and deleted, in `namespace`.
pub async fn cordon(client: &Client, namespace: &str, node: &str) {
    Api::<Node>::all(client.clone()).cordon(node).await.unwrap();
    decided(client, namespace, &host(node), false).await;
}

/// Uncordons a node, and waits until the scheduler knows, as [`cordon`] does.
pub async fn uncordon(client: &Client, namespace: &str, node: &str) {
    Api::<Node>::all(client.clone()).uncordon(node).await.unwrap();
    decided(client, namespace, &host(node), true).await;
}

/// Waits until the scheduler places a Pod with this node selector. Such Pods are created, and deleted, in `namespace`.
pub async fn placed(client: &Client, namespace: &str, selector: &Value) {
    decided(client, namespace, selector, true).await;
}

/// The node selector for one node.
fn host(node: &str) -> Value {
    json!({"kubernetes.io/hostname": node})
}

/// Waits until the scheduler decides so about a Pod with this node selector.
async fn decided(client: &Client, namespace: &str, selector: &Value, is_placed: bool) {
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    wait_for("the scheduler to know the nodes", async || {
        let probe = pod("")
            .in_namespace(namespace)
            .container("main", "nginx:1.25")
            .with("/metadata/generateName", "probe-")
            .with("/spec/nodeSelector", selector.clone())
            .with("/spec/terminationGracePeriodSeconds", 1);
        let name = objects::create(client, probe).await.unwrap().name_any();
        let decided =
            wait_until(&pods, &name, "was looked at by the scheduler", |pod| is_scheduled(pod).is_some())
                .await;
        pods.delete(&name, &DeleteParams::default()).await.unwrap();
        if is_scheduled(&decided) == Some(is_placed) { Ok(()) } else { Err(decided) }
    })
    .await;
}

/// Whether the scheduler found a node for a Pod, if it has tried it.
fn is_scheduled(pod: &Pod) -> Option<bool> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "PodScheduled").map(|found| found.status == "True")
}
