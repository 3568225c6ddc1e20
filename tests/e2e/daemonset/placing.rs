//! Which Nodes have a Pod (docs/behaviour/daemonset.md#nodes and #scale-step).

use serde_json::{Value, json};

use super::{
    asked, complete, identities, launch, node, open, open_without_kubelets, places, pod_on, running,
    stored_node, taint,
};
use crate::support::fleet::{LIFECYCLE_STATE, OLD, label, name};

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

/// Scenarios 10, 11 and 12.
#[tokio::test]
async fn taints_decide_which_nodes_have_a_pod() {
    let fleet = launch(asked().await, "daemonset-taints", 3, |set| set).await;
    let before = identities(&fleet.pods().await);
    let spot = |effect: &str| json!([{"key": "spot", "value": "yes", "effect": effect}]);
    taint(&fleet, 1, spot("NoSchedule")).await;
    fleet
        .status("a Node to be excluded", json!({"desiredNumberScheduled": 2, "numberMisscheduled": 1}))
        .await;
    assert_eq!(identities(&fleet.pods().await), before);
    taint(&fleet, 1, spot("NoExecute")).await;
    running(&fleet, OLD, &[0, 2]).await;
    fleet.status("the Pod to be gone", json!({"numberMisscheduled": 0, "numberAvailable": 2})).await;
    taint(&fleet, 1, Value::Null).await;
    complete(&fleet).await;
    // A cordoned Node has its Pod all the same.
    let cordoned = json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]);
    let pod = pod_on(&fleet, 2).await;
    stored_node(&fleet, 2).patch(&json!({"spec": {"unschedulable": true, "taints": cordoned}})).await;
    fleet.pod(&name(&pod)).delete().await;
    complete(&fleet).await;
    running(&fleet, OLD, &[0, 1, 2]).await;
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
    fail().await;
    assert!(fleet.event("FailedDaemonPod").await.contains("on node fake-"));
    fail().await;
}

/// Scenario 30, and the generation of 44.
#[tokio::test]
async fn a_hook_holds_pods_that_are_to_go() {
    let fleet = launch(asked().await, "daemonset-hook", 2, |set| {
        set.template_label("block", "true")
            .with("/spec/lifecycle", json!({"preDelete": {"labelsHandler": {"block": "true"}}}))
    })
    .await;
    let before = identities(&fleet.pods().await);
    fleet.roll("nginx:1.26").await;
    let held = |pods: &[Value]| {
        pods.iter()
            .filter(|pod| label(pod, LIFECYCLE_STATE) == "PreparingDelete")
            .map(name)
            .collect::<Vec<_>>()
    };
    let pods = fleet.wait_pods("a Pod to be held", |pods| !held(pods).is_empty()).await;
    // The next look comes with this change at the latest.
    fleet.change(json!({"revisionHistoryLimit": 5})).await;
    fleet.settled().await;
    let now = fleet.pods().await;
    assert_eq!((held(&now).len(), identities(&now)), (1, before));
    fleet.pod(&held(&pods)[0]).patch(&json!({"metadata": {"labels": {"block": null}}})).await;
    fleet
        .wait_pods("the Pod to be replaced", |pods| super::places(&fleet, pods, "nginx:1.26").len() == 1)
        .await;
}

/// Scenario 33: with so many Pods in one plan at most all Nodes get theirs.
#[tokio::test]
async fn a_small_burst_comes_to_all_nodes() {
    let fleet =
        launch(asked().await, "daemonset-burst", 5, |set| set.with("/spec/burstReplicas", "10%")).await;
    running(&fleet, OLD, &[0, 1, 2, 3, 4]).await;
}

/// Scenario 40.
#[tokio::test]
async fn pods_are_available_after_their_time() {
    let fleet =
        open(asked().await, "daemonset-minready", 2, |set| set.with("/spec/minReadySeconds", 3600)).await;
    fleet
        .observed("ready Pods that are not available", |set| {
            set["status"]["numberReady"] == 2 && set["status"]["numberAvailable"].is_null()
        })
        .await;
    fleet.change(json!({"minReadySeconds": 1})).await;
    fleet.status("them to be available", json!({"numberReady": 2, "numberAvailable": 2})).await;
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
