//! Budgets over the Pods of workloads, which run on nodes without machines.

use kit::fake_nodes::{FakeNodes, Options};

use super::*;
use crate::chronicle::Chronicle;
use crate::support::fleet::{Fleet, NEW};
use crate::{cloneset, daemonset, sidecarset_rollout, statefulset};

/// A shop whose Pods run.
async fn running(prefix: &str) -> (Shop, FakeNodes) {
    let server = &guarded().await.server;
    let shop = Shop::open_on(server, prefix).await;
    let options = Options::nodes(2).binding_pods().in_namespace(&shop.namespace);
    let nodes = FakeNodes::start(shop.client.clone(), options).await;
    (shop, nodes)
}

async fn clone_set(shop: &Shop, replicas: u32) -> Stored {
    cloneset::asks(&guarded().await.server).await;
    let set = workload("apps.kruise.io/v1beta1", "CloneSet", "web").in_namespace(&shop.namespace);
    Stored::create(
        &shop.client,
        set.matching("app", "web").replicas(replicas).container("main", "nginx:1.25"),
    )
    .await
}

fn targeting(kind: &str, limit: Value) -> Value {
    let group = if kind == "CloneSet" { "apps.kruise.io/v1alpha1" } else { "apps/v1" };
    let mut spec = limit;
    spec["targetRef"] = json!({"apiVersion": group, "kind": kind, "name": "web"});
    spec
}

/// Waits until no Pod of the shop is left.
async fn no_pods(shop: &Shop) {
    wait_for("all Pods to be gone", async || match list(shop).await.len() {
        0 => Ok(()),
        left => Err(left),
    })
    .await;
}

/// Scenarios 1, 3 and 4.
#[tokio::test]
async fn as_many_pods_go_as_the_budget_allows() {
    let (shop, nodes) = running("budget-set").await;
    clone_set(&shop, 10).await;
    let budget = establish(&shop, targeting("CloneSet", json!({"maxUnavailable": "30%"}))).await;
    counted(&budget, [3, 10, 7, 10]).await;
    let pods = list(&shop).await;
    // Nobody starts Pods any more, so that none replaces those that are deleted.
    drop(nodes);
    let deletions = join_all(pods[..3].iter().map(Stored::delete)).await;
    deletions.iter().for_each(assert_passed);
    assert_refused(&pods[3].delete().await, DELETION);
    reported(&shop, pods[3].object["metadata"]["name"].as_str().unwrap(), "PubPreventPodDeletion").await;
    assert_refused(&pods[4].evict(&json!({})).await, EVICTION);
    assert_eq!(pods[4].get().await.1["metadata"]["deletionTimestamp"], Value::Null);
    counted(&budget, [0, 7, 7, 10]).await;
}

/// Scenarios 16 and 17.
#[tokio::test]
async fn a_deployment_counts_once_and_two_add_up() {
    let (shop, _nodes) = running("budget-deployments").await;
    let deployment = |name: &str, replicas: u32| {
        let deployment = deployment(name).in_namespace(&shop.namespace).replicas(replicas);
        deployment.matching("app", "web").matching("part", name).container("main", "nginx:1.25")
    };
    let one = Stored::create(&shop.client, deployment("one", 5)).await;
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 8});
    let budget = establish(&shop, spec).await;
    counted(&budget, [5, 5, 0, 5]).await;
    // A rollout that is stalled in the middle: there are Pods of two ReplicaSets.
    let template = json!({"metadata": {"annotations": {"fake-node/ready-after": "never"}}});
    one.patch(&json!({"spec": {"template": template}})).await;
    wait_for("Pods of two ReplicaSets", async || {
        let pods = list(&shop).await;
        let mut owners: Vec<_> =
            pods.iter().map(|pod| pod.object["metadata"]["ownerReferences"][0]["name"].clone()).collect();
        owners.sort_by_key(ToString::to_string);
        owners.dedup();
        if owners.len() == 2 { Ok(()) } else { Err(owners) }
    })
    .await;
    wait_for("the total to be that of the Deployment", async || {
        let status = budget.get().await.1["status"].clone();
        if status["totalReplicas"] == 5 { Ok(()) } else { Err(status) }
    })
    .await;
    Stored::create(&shop.client, deployment("two", 3)).await;
    wait_for("the totals to be added", async || {
        let status = budget.get().await.1["status"].clone();
        if status["totalReplicas"] == 8 { Ok(()) } else { Err(status) }
    })
    .await;
}

/// Scenario 18.
#[tokio::test]
async fn a_custom_workload_is_known_by_its_scale() {
    let (shop, _nodes) = running("budget-custom").await;
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size",
            "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"}}});
    let definition =
        object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "fleets.budget.example.com").with(
            "/spec",
            json!({"group": "budget.example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "fleets", "singular": "fleet", "kind": "Fleet", "listKind": "FleetList"}}),
        );
    Stored::create(&shop.client, definition).await;
    let path = format!("/apis/budget.example.com/v1/namespaces/{}/fleets", shop.namespace);
    let manifest = json!({"apiVersion": "budget.example.com/v1", "kind": "Fleet", "metadata": {"name": "web"},
        "spec": {"size": 4}});
    let fleet = wait_for("the kind to be served", async || {
        match call(&shop.client, "POST", &path, &manifest).await {
            (201, fleet) => Ok(Stored::existing(&shop.client, format!("{path}/web"), fleet)),
            (_, answer) => Err(answer),
        }
    })
    .await;
    fleet.patch_status(&json!({"size": 2, "selector": "app=web"})).await;
    let mut spec = targeting("Fleet", json!({"maxUnavailable": 3}));
    spec["targetRef"]["apiVersion"] = json!("budget.example.com/v1");
    for number in 0..2 {
        serving(&shop, shop.pod(&format!("web-{number}"))).await;
    }
    let budget = establish(&shop, spec).await;
    // Found by the selector, as long as the workload owns none.
    counted(&budget, [1, 2, 1, 4]).await;
    serving(&shop, shop.pod("owned").controlled_by(&fleet.object)).await;
    counted(&budget, [0, 1, 1, 4]).await;
}

/// A hook that takes Pods out of service before their update.
const HOOK: &str = "example.com/serving";

/// Does what a program with a hook does: lets Pods be updated, and takes them back.
async fn serve_hook(shop: &Shop) {
    for pod in list(shop).await {
        let labels = &pod.object["metadata"]["labels"];
        let label = match labels["lifecycle.apps.kruise.io/state"].as_str() {
            Some("PreparingUpdate") if labels[HOOK] == "true" => Value::Null,
            Some("Updated") if labels[HOOK].is_null() => json!("true"),
            _ => continue,
        };
        pod.patch(&json!({"metadata": {"labels": {HOOK: label}}})).await;
    }
}

/// The least number of Pods that were ready at once while all ten of a CloneSet were updated under a budget that lets
/// two be changed, and nobody else hold them back. `spec` is merged into that of the CloneSet.
async fn least_ready_in_a_rollout(prefix: &str, spec: Value, change: impl FnOnce(&mut Value)) -> usize {
    let (shop, _nodes) = running(prefix).await;
    let set = clone_set(&shop, 10).await;
    set.patch(&json!({"spec": spec})).await;
    let limit = json!({"maxUnavailable": "20%", "protectOperations": ["UPDATE"]});
    let budget = establish(&shop, targeting("CloneSet", limit)).await;
    // An update that has begun goes on all the same.
    choose(&budget, "Protect").await;
    counted(&budget, [2, 10, 8, 10]).await;
    for pod in list(&shop).await {
        pod.patch(&json!({"metadata": {"labels": {HOOK: "true"}}})).await;
    }
    let chronicle = Chronicle::begin(&shop.client, &shop.namespace).await;
    roll_out(&shop, (&set, 10), &budget, change).await;
    let is_ready = |pod: &&Value| {
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    let (least, _) = chronicle.range(|pods| pods.iter().filter(|pod| is_ready(pod)).count()).await;
    least
}

/// Updates all Pods of a CloneSet, of which there are so many.
async fn roll_out(
    shop: &Shop,
    (set, replicas): (&Stored, u32),
    budget: &Stored,
    change: impl FnOnce(&mut Value),
) {
    let mut template = set.get().await.1["spec"]["template"]["spec"].clone();
    change(&mut template);
    set.patch(&json!({"spec": {"template": {"spec": template}}})).await;
    wait_within(Duration::from_secs(240), "the update to be complete", async || {
        serve_hook(shop).await;
        let now = set.get().await.1;
        let status = &now["status"];
        let done = status["observedGeneration"] == now["metadata"]["generation"]
            && status["updatedReadyReplicas"] == replicas;
        if done { Ok(()) } else { Err((status.clone(), budget.get().await.1["status"].clone())) }
    })
    .await;
}

/// Budgets have refused at most one call for each of so many Pods.
async fn assert_few_refusals(shop: &Shop, pods: i64) {
    let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", shop.namespace);
    let events = call(&shop.client, "GET", &path, &Value::Null).await.1;
    let refused =
        events["items"].as_array().unwrap().iter().filter(|event| event["reason"] == "PubPreventPodDeletion");
    let refused: i64 = refused.map(|event| event["series"]["count"].as_i64().unwrap_or(1)).sum();
    assert!(refused <= pods, "{refused} calls were refused for {pods} Pods");
}

/// Behind a budget of one unit, updates wait for it and are tried when it has one.
#[tokio::test]
async fn updates_behind_a_budget_are_tried_when_it_has_something_to_give() {
    for policy in ["InPlaceIfPossible", "ReCreate"] {
        let (shop, _nodes) = running("budget-of-one").await;
        let set = clone_set(&shop, 6).await;
        set.patch(&json!({"spec": {"updateStrategy": rolling(policy)}})).await;
        let budget = establish(&shop, targeting("CloneSet", json!({"maxUnavailable": 1}))).await;
        counted(&budget, [1, 6, 5, 6]).await;
        roll_out(&shop, (&set, 6), &budget, change_image).await;
        assert_few_refusals(&shop, 6).await;
    }
}

/// The same for workloads whose Pods have ordinals or Nodes.
#[tokio::test]
async fn pods_with_slots_are_updated_behind_a_budget() {
    let server = &guarded().await.server;
    statefulset::asks(server).await;
    let fleet = statefulset::launch(server, "budget-stateful", |set| {
        let set = statefulset::in_place(statefulset::parallel(set)).replicas(4);
        set.with("/spec/updateStrategy/rollingUpdate/maxUnavailable", "100%")
    })
    .await;
    roll_out_by_one(&fleet, Fleet::complete).await;
    daemonset::asks(server).await;
    for policy in ["Standard", "InPlaceIfPossible"] {
        let settings = json!({"rollingUpdateType": policy, "maxUnavailable": "100%"});
        let fleet =
            daemonset::launch(server, "budget-daemon", 4, |set| daemonset::rolling(set, settings)).await;
        roll_out_by_one(&fleet, daemonset::complete).await;
    }
}

/// Updates all four Pods of a workload behind a budget of one.
async fn roll_out_by_one(fleet: &Fleet, complete: impl AsyncFn(&Fleet) -> Value) {
    let budget = establish(&fleet.shop, selecting(4, json!({"maxUnavailable": 1}))).await;
    counted(&budget, [1, 4, 3, 4]).await;
    fleet.roll(NEW).await;
    complete(fleet).await;
    assert_few_refusals(&fleet.shop, 4).await;
}

/// The Pod that waits for an image that can't be pulled takes the next image; only then the others follow.
#[tokio::test]
async fn a_sidecar_whose_image_is_mended_is_rolled_out_behind_a_budget() {
    let server = &guarded().await.server;
    let all_at_once = |set: Object| set.with("/spec/updateStrategy/maxUnavailable", "100%");
    let fleet = sidecarset_rollout::Fleet::launch_on(server, "budget-sidecar", 4, all_at_once).await;
    let budget = establish(&fleet.shop, selecting(4, json!({"maxUnavailable": 1}))).await;
    choose(&budget, "Protect").await;
    counted(&budget, [1, 4, 3, 4]).await;
    fleet.roll("busybox:missing", json!({})).await;
    counted(&budget, [0, 3, 3, 4]).await;
    fleet.roll(sidecarset_rollout::NEW, json!({})).await;
    fleet.wait_status("all Pods to be updated", json!({"updatedReadyPods": 4})).await;
    assert_few_refusals(&fleet.shop, 4).await;
}

fn rolling(policy: &str) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": policy, "maxUnavailable": "100%"}})
}

fn change_image(template: &mut Value) {
    template["containers"][0]["image"] = json!("nginx:1.26");
}

/// Scenario 28.
#[tokio::test]
async fn an_update_in_place_keeps_to_the_budget() {
    let spec = json!({"updateStrategy": rolling("InPlaceIfPossible")});
    let least = least_ready_in_a_rollout("budget-rollout", spec, change_image).await;
    assert!(least >= 8, "only {least} were ready");
}

/// Scenario 28 where a hook takes Pods out of service before their update.
#[tokio::test]
async fn an_update_behind_a_hook_keeps_to_the_budget() {
    let hook = json!({"labelsHandler": {HOOK: "true"}, "markPodNotReady": true});
    let spec = json!({"updateStrategy": rolling("InPlaceIfPossible"), "lifecycle": {"inPlaceUpdate": hook}});
    let least = least_ready_in_a_rollout("budget-hook", spec, change_image).await;
    assert!(least >= 8, "only {least} were ready");
}

/// Scenario 28 where the update needs new Pods.
#[tokio::test]
async fn an_update_by_new_pods_keeps_to_the_budget() {
    let spec = json!({"updateStrategy": rolling("ReCreate")});
    let least = least_ready_in_a_rollout("budget-recreation", spec, change_image).await;
    assert!(least >= 8, "only {least} were ready");
}

/// Scenario 29.
#[tokio::test]
async fn a_scale_down_is_completed() {
    let (shop, _nodes) = running("budget-scale").await;
    let set = clone_set(&shop, 10).await;
    let budget = establish(&shop, targeting("CloneSet", json!({"maxUnavailable": 1}))).await;
    counted(&budget, [1, 10, 9, 10]).await;
    set.patch(&json!({"spec": {"replicas": 2}})).await;
    counted(&budget, [1, 2, 1, 2]).await;
    wait_for("two Pods to be left", async || match list(&shop).await.len() {
        2 => Ok(()),
        left => Err(left),
    })
    .await;
}

/// Scenario 30.
#[tokio::test]
async fn a_workload_that_is_deleted_takes_its_pods_along() {
    let (shop, _nodes) = running("budget-collected").await;
    let set = clone_set(&shop, 3).await;
    let budget = establish(&shop, targeting("CloneSet", json!({"maxUnavailable": 0}))).await;
    counted(&budget, [0, 3, 3, 3]).await;
    assert_passed(&set.delete_with(&json!({"propagationPolicy": "Background"})).await);
    no_pods(&shop).await;
}

/// Scenario 31.
#[tokio::test]
async fn a_namespace_is_deleted_with_its_budget() {
    let (shop, _nodes) = running("budget-namespace").await;
    let budget = establish(&shop, selecting(1, json!({"maxUnavailable": 0}))).await;
    serving(&shop, shop.pod("web-0")).await;
    counted(&budget, [0, 1, 1, 1]).await;
    let path = format!("/api/v1/namespaces/{}", shop.namespace);
    let namespace = Stored::existing(&shop.client, path, Value::Null);
    namespace.deleted().await;
    namespace.gone().await;
}
