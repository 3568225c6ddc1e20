//! A UnitedDeployment over real nodes, one of which takes no more Pods
//! (docs/behaviour/uniteddeployment.md#subsets-without-capacity).

use kit::builders::object;
use kit::{objects, wait_within};
use serde_json::json;

use crate::site::{Site, TIMEOUT};

/// The label by which subsets select nodes.
const ZONE: &str = "example.com/united-zone";
const SUBSET: &str = "apps.kruise.io/subset-name";

async fn placed(site: &Site, namespace: &str, expected: [usize; 2]) {
    wait_within(TIMEOUT, "the Pods to be ready in their subsets", async || {
        let pods = site.core(namespace, "pods").await;
        let mut counts = [0, 0];
        for pod in pods["items"].as_array().unwrap() {
            let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            if conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True") {
                counts[usize::from(pod["metadata"]["labels"][SUBSET] == "b")] += 1;
            }
        }
        if counts == expected {
            Ok(())
        } else {
            Err((counts, site.kruise(namespace, "uniteddeployments/web").await))
        }
    })
    .await;
}

#[tokio::test]
async fn pods_without_room_come_up_in_the_next_subset() {
    let Some(site) = Site::alone().await else { return };
    let namespace = site.server().namespace("united").await;
    let nodes = site.cluster().nodes();
    for (node, zone) in nodes.iter().zip(["a", "b"]) {
        site.label(node, ZONE, zone).await;
    }
    let subset = |name: &str| json!({"name": name, "nodeSelectorTerm": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [name]}]}});
    let labels = json!({"app": "web"});
    let containers = json!([{"name": "main", "image": "nginx:1.25"}]);
    let child = json!({"metadata": {"labels": labels}, "spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers, "terminationGracePeriodSeconds": 1}}}});
    let adaptive = json!({"rescheduleCriticalSeconds": 3, "unschedulableDuration": 40});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": labels}, "template": {"cloneSetTemplate": child},
        "topology": {"subsets": [subset("a"), subset("b")], "scheduleStrategy": {"type": "Adaptive", "adaptive": adaptive}}});
    let united = object("apps.kruise.io/v1beta1", "UnitedDeployment", "web").in_namespace(&namespace);
    objects::create(&site.server().client(), united.with("/spec", spec)).await.unwrap();
    placed(&site, &namespace, [2, 0]).await;

    site.cordon(&nodes[0]).await;
    let scale = async |replicas: u32| {
        site.kubectl(&format!("scale ud web -n {namespace} --replicas={replicas}")).await.success();
    };
    scale(4).await;
    placed(&site, &namespace, [2, 2]).await;

    // The subset is trusted again after a while.
    site.uncordon(&nodes[0]).await;
    wait_within(TIMEOUT, "the subset to have room again", async || {
        let united = site.kruise(&namespace, "uniteddeployments/web").await;
        let condition = &united["status"]["subsetStatuses"][0]["conditions"][0];
        if condition["status"] == "True" { Ok(()) } else { Err(united["status"].clone()) }
    })
    .await;
    scale(5).await;
    placed(&site, &namespace, [3, 2]).await;
    site.kubectl(&format!("delete ud web -n {namespace}")).await.success();
    for node in nodes {
        site.kubectl(&format!("label node {node} {ZONE}-")).await.success();
    }
}
