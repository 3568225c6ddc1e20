//! Which Nodes have a Pod (docs/behaviour/daemonset.md#nodes and #scale-step).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{asked, launch, node, open_without_kubelets, places, pod_on, stored_node};
use crate::support::fleet::{OLD, label, name};

/// Scenario 1.
#[tokio::test]
async fn each_node_has_a_pod_of_its_own() {
    let fleet = launch(asked().await, "daemonset-place", 3, |set| set).await;
    let pods = fleet.pods().await;
    assert_eq!(places(&fleet, &pods, OLD), [0, 1, 2]);
    for pod in &pods {
        let terms =
            &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node(pod)]});
        assert_eq!(terms["nodeSelectorTerms"], json!([{"matchFields": [field]}]));
        assert_eq!(pod["metadata"]["generateName"], "web-");
        let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
        assert!(tolerations.iter().any(|toleration| toleration["key"] == "node.kubernetes.io/unschedulable"));
    }
    let set = fleet.set.get().await.1;
    let rolling = json!({"rollingUpdateType": "Standard", "maxUnavailable": 1, "maxSurge": 0});
    assert_eq!(set["spec"]["updateStrategy"], json!({"type": "RollingUpdate", "rollingUpdate": rolling}));
    assert_eq!(
        (&set["spec"]["burstReplicas"], &set["spec"]["revisionHistoryLimit"]),
        (&json!(250), &json!(10))
    );
    assert!(
        set["spec"]["template"]["spec"]["restartPolicy"].is_null(),
        "the template stays as it was written"
    );
    assert!(fleet.event("SuccessfulCreate").await.starts_with("Created pod: web-"));
}

/// Scenario 13.
#[tokio::test]
async fn nodes_that_the_template_excludes_lose_their_pods_at_once() {
    let fleet = launch(asked().await, "daemonset-select", 4, |set| set).await;
    stored_node(&fleet, 1).label("example.com/role", "edge").await;
    fleet.change(json!({"template": {"spec": {"nodeSelector": {"example.com/role": "edge"}}}})).await;
    // The kubelets here know only the labels that their Nodes began with.
    let placed = async |on: &[usize]| {
        fleet.wait_pods("the Pods to be placed", |pods| places(&fleet, pods, OLD) == on).await;
    };
    placed(&[1]).await;
    fleet
        .status("one Node to remain", json!({"desiredNumberScheduled": 1, "updatedNumberScheduled": 1}))
        .await;
    stored_node(&fleet, 3).label("example.com/role", "edge").await;
    placed(&[1, 3]).await;
}

/// Scenario 32.
#[tokio::test]
async fn failed_pods_are_replaced_after_growing_pauses() {
    // Without a kubelet a Pod is what its status says.
    let fleet = open_without_kubelets(asked().await, "daemonset-failed", 1, |set| set).await;
    fleet.wait_pods("the Pod", |pods| pods.len() == 1).await;
    let fail = async || {
        let pod = pod_on(&fleet, 0).await;
        fleet.pod(&name(&pod)).patch_status(&json!({"phase": "Failed"})).await;
        fleet.wait_pods("another Pod", |pods| pods.iter().any(|other| name(other) != name(&pod))).await;
    };
    let begun = Instant::now();
    fail().await;
    assert!(fleet.event("FailedDaemonPod").await.contains("on node fake-"));
    fail().await;
    assert!(begun.elapsed() >= Duration::from_secs(1), "the second one waits: {:?}", begun.elapsed());
}

/// A Pod that nobody owns is taken over, and one that is not meant any more is let go.
#[tokio::test]
async fn pods_come_and_go_with_their_labels() {
    let fleet = launch(asked().await, "daemonset-adopt", 2, |set| set).await;
    let pod = pod_on(&fleet, 0).await;
    fleet.pod(&name(&pod)).patch(&json!({"metadata": {"ownerReferences": null}})).await;
    let owned = |pod: &Value| !pod["metadata"]["ownerReferences"].is_null();
    fleet.wait_pod(&name(&pod), "to be adopted", owned).await;
    assert_eq!(fleet.pods().await.len(), 2);
    fleet.pod(&name(&pod)).label("app", "other").await;
    fleet.wait_pod(&name(&pod), "to be let go", |pod| !owned(pod)).await;
    fleet.wait_pods("another Pod on its Node", |pods| pods.len() == 3).await;
    assert_eq!(label(&fleet.pod(&name(&pod)).get().await.1, "app"), "other");
}
