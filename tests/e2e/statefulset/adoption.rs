//! Pods and revisions that belong to nobody, or to OpenKruise (docs/behaviour/statefulset.md#identity).

use kit::fake_nodes::{self, FakeNodes};
use serde_json::{Value, json};

use super::{asked, in_place, launch, named, parallel};
use crate::support::fleet::{Fleet, NEW, REVISION, condition, image, label, name, uid, uids};
use crate::support::{Shop, Stored, create};

/// Scenario 37.
#[tokio::test]
async fn pods_and_revisions_of_a_set_that_is_gone_are_adopted() {
    let fleet = launch(asked().await, "statefulset-adopt", |set| in_place(set.replicas(2))).await;
    let (before, status) = (fleet.pods().await, fleet.complete().await);
    fleet.set.delete_with(&json!({"propagationPolicy": "Orphan"})).await;
    // The garbage collector does not run here: what it does is done by hand.
    for pod in &before {
        fleet.pod(&name(pod)).patch(&json!({"metadata": {"ownerReferences": null}})).await;
    }
    for revision in fleet.revisions().await {
        let path = format!(
            "/apis/apps/v1/namespaces/{}/controllerrevisions/{}",
            fleet.shop.namespace,
            name(&revision)
        );
        let stored = Stored::existing(&fleet.shop.client, path, Value::Null);
        stored.patch(&json!({"metadata": {"ownerReferences": null}})).await;
    }
    fleet.set.patch(&json!({"metadata": {"finalizers": null}})).await;
    fleet.set.gone().await;
    let again = in_place(super::stateful_set(&fleet.shop, "v1beta1").in_company().replicas(2));
    let set = Stored::create(&fleet.shop.client, again).await;
    let fleet = Fleet { set, ..fleet };
    let adopted = fleet
        .wait_pods("the Pods to be adopted", |pods| {
            let owner = |pod: &Value| pod["metadata"]["ownerReferences"][0]["uid"].clone();
            pods.iter().all(|pod| owner(pod) == *uid(&fleet.set.object))
        })
        .await;
    assert_eq!(uids(&adopted), uids(&before));
    let now = fleet.complete().await;
    assert_eq!(now["updateRevision"], status["updateRevision"]);
    let revisions = fleet.revisions().await;
    assert_eq!(revisions.len(), 1);
    assert_eq!(revisions[0]["metadata"]["ownerReferences"][0]["uid"], uid(&fleet.set.object));
}

/// Scenario 41.
#[tokio::test]
async fn a_pod_without_its_labels_is_let_go_and_comes_back() {
    let fleet = launch(asked().await, "statefulset-release", |set| parallel(set.replicas(2))).await;
    let before = fleet.pods().await;
    let owned = |pod: &Value| !pod["metadata"]["ownerReferences"].is_null();
    fleet.pod("web-0").patch(&json!({"metadata": {"ownerReferences": null}})).await;
    fleet.wait_pod("web-0", "to be adopted", owned).await;
    fleet.pod("web-1").label("app", "other").await;
    fleet.wait_pod("web-1", "to be let go", |pod| !owned(pod)).await;
    let set =
        fleet.observed("the trouble to be told", |set| !condition(set, "FailedCreatePod").is_null()).await;
    let message = condition(&set, "FailedCreatePod")["message"].as_str().unwrap();
    assert!(message.contains(r#"pods "web-1" already exists"#), "{message}");
    fleet.pod("web-1").label("app", "web").await;
    fleet.wait_pod("web-1", "to be adopted", owned).await;
    fleet.complete().await;
    assert_eq!(uids(&fleet.pods().await), uids(&before));
}

/// Its data as the reference stores it: without values, and with the time of the template's creation.
const DATA: &str = r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"web"}},"spec":{"containers":[{"image":"nginx:1.25","imagePullPolicy":"Always","name":"main","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","readinessGates":[{"conditionType":"InPlaceUpdateReady"}],"restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}"#;
const HASH: &str = "5d4f8c9b7";

/// What OpenKruise left behind is taken over: nothing is created, restarted or labelled anew.
#[tokio::test]
async fn objects_of_openkruise_are_taken_over() {
    let server = asked().await;
    for version in ["v1alpha1", "v1beta1"] {
        let shop = Shop::open_on(server, "statefulset-takeover").await;
        let revision_name = format!("web-{HASH}");
        // Until the Pod belongs to the StatefulSet its name is taken: another one has it.
        let owner = |uid: &str| {
            json!([{"apiVersion": format!("apps.kruise.io/{version}"), "kind": "StatefulSet", "name": "web",
                "uid": uid, "controller": true, "blockOwnerDeletion": true}])
        };
        let revision = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 7,
            "metadata": {"name": revision_name, "namespace": shop.namespace,
                "labels": {"app": "web", "controller.kubernetes.io/hash": HASH}},
            "data": serde_json::from_str::<Value>(DATA).unwrap()});
        Stored::create(&shop.client, revision).await;
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": shop.namespace,
                "generateName": "web-", "ownerReferences": owner("other"), "labels": {"app": "web", REVISION: revision_name,
                    "statefulset.kubernetes.io/pod-name": "web-0", "apps.kubernetes.io/pod-index": "0",
                    "lifecycle.apps.kruise.io/state": "Normal"}},
            "spec": {"hostname": "web-0", "subdomain": "db", "readinessGates": [{"conditionType": "InPlaceUpdateReady"}],
                "containers": [{"name": "main", "image": "nginx:1.25", "imagePullPolicy": "Always"}]}});
        let (code, before) = create(&shop.client, pod, "").await;
        assert_eq!(code, 201, "{before:#}");
        let set =
            Stored::create(&shop.client, in_place(super::stateful_set(&shop, version)).replicas(1)).await;
        // A Pod of a revision that the controller does not know yet would be recreated.
        kit::wait_for("the revision to be known", async || {
            let status = set.get().await.1["status"].clone();
            if status["updateRevision"] == *revision_name { Ok(()) } else { Err(status) }
        })
        .await;
        let path = format!("/api/v1/namespaces/{}/pods/web-0", shop.namespace);
        let stored = Stored::existing(&shop.client, path, Value::Null);
        stored.patch(&json!({"metadata": {"ownerReferences": owner(&uid(&set.object))}})).await;
        let options = fake_nodes::Options::nodes(1).binding_pods().in_namespace(&shop.namespace);
        let nodes = FakeNodes::start(shop.client.clone(), options).await;
        let fleet = Fleet { shop, set, nodes };
        let status = fleet.complete().await;
        assert_eq!(status["updateRevision"], revision_name, "{version}");
        let after = named(&fleet, &["web-0"]).await.remove(0);
        assert_eq!(
            (uid(&after), &after["metadata"]["labels"]),
            (uid(&before), &before["metadata"]["labels"])
        );
        fleet.roll(NEW).await;
        fleet.complete().await;
        let updated = fleet.pods().await.remove(0);
        assert_eq!((uid(&updated), image(&updated)), (uid(&before), NEW), "it is updated in place");
        assert_ne!(label(&updated, REVISION), revision_name);
    }
}
