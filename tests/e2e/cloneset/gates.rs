//! What feature gates change, and what needs the garbage collection and the quotas of Kubernetes.

use kit::ApiServer;
use kit::builders::object;
use kit::fake_nodes;
use kit::wait_for;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{
    Fleet, INSTANCE_ID, NEW, asks, condition, in_place, is_available, label, name, rolling, uid, uids,
    with_claim,
};
use crate::product::{self, Product};
use crate::support::claims::{provision, storage_class, wait_claim};
use crate::support::{Site, Stored, in_use, wait_quota};

const GATES: &str = "InPlaceWorkloadVerticalScaling=true,PreDownloadImageForInPlaceUpdate=true,\
    StatefulSetStartOrdinal=true,StatefulSetAutoResizePVCGate=true,ResourcesDeletionProtection=true";

/// An API server with the controllers of Kubernetes, and the program with gates that are off by default.
pub async fn site() -> &'static ApiServer {
    static SITE: OnceCell<Site> = OnceCell::const_new();
    let site = SITE
        .get_or_init(async || {
            let server = product::server(kit::Options::default().with_controller_manager()).await;
            let product = Product::serve(&server, product::Options::default().gates(GATES)).await;
            in_use(&server).await;
            asks(&server).await;
            Site { server, product }
        })
        .await;
    &site.server
}

/// Scenario 16.
#[tokio::test]
async fn a_claim_that_is_not_reused_goes_with_its_pod() {
    let fleet = Fleet::launch_on(site().await, "cloneset-cleanup", |set| with_claim(set.replicas(2))).await;
    let (pods, claims) = (fleet.pods().await, fleet.claims().await);
    let pod = fleet.pod(&name(&pods[0]));
    fleet.annotate(&name(&pods[0]), fake_nodes::TERMINATE_AFTER, "never").await;
    pod.deleted().await;
    let claim = wait_for("the claim to belong to the Pod", async || {
        let claim = fleet.claims().await.into_iter().find(|claim| uid(claim) == uid(&claims[0]));
        let claim = claim.ok_or(Value::Null)?;
        if claim["metadata"]["ownerReferences"][0]["kind"] == "Pod" { Ok(claim) } else { Err(claim) }
    })
    .await;
    let owners = claim["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(
        (owners.len(), &owners[0]["uid"], &owners[0]["controller"]),
        (1, &json!(uid(&pods[0])), &json!(true))
    );
    fleet.annotate(&name(&pods[0]), fake_nodes::TERMINATE_AFTER, Value::Null).await;
    pod.gone().await;
    let now =
        fleet.wait_pods("the Pod to be replaced", |now| now.len() == 2 && now.iter().all(is_available)).await;
    let path =
        format!("/api/v1/namespaces/{}/persistentvolumeclaims/{}", fleet.shop.namespace, name(&claims[0]));
    Stored::existing(&fleet.shop.client, path, Value::Null).gone().await;
    let new = now.iter().find(|pod| uid(pod) != uid(&pods[1])).unwrap();
    assert_ne!(label(new, INSTANCE_ID), label(&pods[0], INSTANCE_ID));
    assert_eq!(fleet.claims().await.len(), 2);
}

/// Scenario 19a.
#[tokio::test]
async fn claims_grow() {
    let fleet = Fleet::launch_on(site().await, "cloneset-grow", |set| set.replicas(0)).await;
    let class = storage_class(&fleet, true).await;
    let templates = |size: &str| {
        json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": size}}}}])
    };
    fleet.change(json!({"replicas": 2, "volumeClaimTemplates": templates("1Gi")})).await;
    let before = fleet.wait_pods("two Pods", |now| now.len() == 2 && now.iter().all(is_available)).await;
    let claims = fleet.claims().await;
    for claim in &claims {
        // Claims grow only once they have a volume.
        provision(&fleet, &name(claim), &class).await;
    }
    fleet.set.patch(&json!({"metadata": {"annotations": {"kutter.io/grow-claims": "true"}}})).await;
    fleet.change(json!({"volumeClaimTemplates": templates("2Gi")})).await;
    for claim in &claims {
        let size = |claim: &Value| claim["spec"]["resources"]["requests"]["storage"].clone();
        wait_claim(&fleet, &name(claim), "to grow", |claim| size(claim) == "2Gi").await;
    }
    assert_eq!(uids(&fleet.pods().await), uids(&before));
}

/// Scenario 34.
#[tokio::test]
async fn what_belongs_to_a_deleted_set_goes_with_it() {
    let server = site().await;
    let orphaned = Fleet::launch_on(server, "cloneset-orphaned", |set| set.replicas(2)).await;
    let before = orphaned.pods().await;
    // The garbage collector releases only Pods that its watch has reported, and collects the rest. It knows of those
    // above once it has collected these.
    let fleet = Fleet::launch_on(server, "cloneset-deleted", |set| with_claim(set.replicas(2))).await;
    fleet.set.delete_with(&json!({"propagationPolicy": "Background"})).await;
    fleet.set.gone().await;
    wait_for("everything to be collected", async || {
        let left = [
            ("api/v1", "pods"),
            ("api/v1", "persistentvolumeclaims"),
            ("apis/apps/v1", "controllerrevisions"),
        ];
        for (api, plural) in left {
            let objects = fleet.list(api, plural).await;
            if !objects.is_empty() {
                return Err((plural, objects.len()));
            }
        }
        Ok(())
    })
    .await;

    orphaned.set.delete_with(&json!({"propagationPolicy": "Orphan"})).await;
    orphaned.set.gone().await;
    // Others are created where the deletion of the set is observed after its Pods become free: they are collected.
    orphaned
        .wait_pods("the Pods alone to be left, without an owner", |after| {
            uids(after) == uids(&before)
                && after.iter().all(|pod| pod["metadata"]["ownerReferences"].is_null())
        })
        .await;
}

/// Scenario 36, with fewer Pods; and the condition is removed when the failure is over
/// (docs/behaviour/cloneset.md#conditions).
#[tokio::test]
async fn a_quota_stops_creation_soon() {
    let server = site().await;
    let shop = crate::support::Shop::open_on(server, "cloneset-quota").await;
    let options = fake_nodes::Options::nodes(2).in_namespace(&shop.namespace).binding_pods();
    let nodes = kit::FakeNodes::start(shop.client.clone(), options).await;
    let quota =
        object("v1", "ResourceQuota", "pods").in_namespace(&shop.namespace).with("/spec/hard/pods", "0");
    let quota = Stored::create(&shop.client, quota).await;
    // Admission knows it by a watch of its own. Where it hears of a larger one later, it refuses for longer.
    wait_quota(&shop.client, shop.pod("probe")).await;
    let set = Stored::create(&shop.client, super::clone_set(&shop, "v1beta1").replicas(100)).await;
    let fleet = Fleet { shop, set, nodes };
    let message = fleet.event("FailedCreate").await;
    assert!(message.starts_with("failed to create pod: ") && message.contains("exceeded quota"), "{message}");
    let set = fleet
        .observed("the failure to be told", |set| condition(set, "FailedScale")["status"] == "True")
        .await;
    assert!(condition(&set, "FailedScale")["message"].as_str().unwrap().contains("exceeded quota"));
    let events = fleet.list("apis/events.k8s.io/v1", "events").await;
    let failures = events.iter().filter(|event| event["reason"] == "FailedCreate").count();
    assert!(failures < 50, "{failures} tries");
    quota.patch(&json!({"spec": {"hard": {"pods": "6"}}})).await;
    fleet.status("as many as allowed", json!({"replicas": 6, "availableReplicas": 6})).await;
    fleet.scale(6).await;
    fleet.complete().await;
    fleet.observed("the condition to go", |set| condition(set, "FailedScale").is_null()).await;
}

/// docs/behaviour/in-place-update.md#order-of-containers
#[tokio::test]
async fn all_resources_change_in_one_edit() {
    let resources = json!({"limits": {"cpu": "200m"}, "requests": {"cpu": "100m"}});
    let fleet = Fleet::launch_on(site().await, "cloneset-resizes", |set| {
        in_place(set.having("resources", resources).replicas(1), json!({}))
    })
    .await;
    fleet.resize_all(Fleet::complete).await;
}

/// Scenarios 30 and 31 of docs/behaviour/in-place-update.md.
#[tokio::test]
async fn images_are_pulled_ahead() {
    const CREATED: &str = "apps.kruise.io/pre-predownload-created";
    const IGNORED: &str = "apps.kruise.io/image-predownload-ignored";
    let server = site().await;
    let fleet = Fleet::launch_on(server, "cloneset-ahead", |set| {
        rolling(set.replicas(5), "InPlaceIfPossible", json!({"partition": 4}))
    })
    .await;
    fleet.roll(NEW).await;
    fleet.status("one to be updated", json!({"updatedReplicas": 1})).await;
    let marked = async |fleet: &Fleet, mark: &str| {
        wait_for("the revision to be marked", async || {
            let newest = fleet.revisions().await.pop().unwrap();
            if label(&newest, mark) == "true" { Ok(name(&newest)) } else { Err(newest["metadata"].clone()) }
        })
        .await
    };
    let jobs = async |fleet: &Fleet| fleet.list("apis/apps.kruise.io/v1beta1", "imagepulljobs").await;
    let revision = marked(&fleet, CREATED).await;
    let list = jobs(&fleet).await;
    assert_eq!(list.iter().map(name).collect::<Vec<_>>(), [format!("{revision}-main")]);
    let spec = &list[0]["spec"];
    assert_eq!((&spec["image"], &spec["parallelism"]), (&json!(NEW), &json!(1)));
    assert_eq!(spec["pullPolicy"], json!({"backoffLimit": 1, "timeoutSeconds": 300}));
    assert_eq!(spec["completionPolicy"], json!({"type": "Always", "ttlSecondsAfterFinished": 600}));
    assert_eq!(list[0]["metadata"]["ownerReferences"][0]["uid"], json!(uid(&fleet.set.object)));
    fleet.event("CreatedImagePullJob").await;
    fleet.change_rolling(json!({"partition": 0})).await;
    fleet.complete().await;
    wait_for("the job to go", async || {
        let left = jobs(&fleet).await;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;

    let small = Fleet::launch_on(server, "cloneset-small", |set| {
        rolling(set.replicas(3), "InPlaceIfPossible", json!({"partition": 2}))
    })
    .await;
    small.roll(NEW).await;
    marked(&small, IGNORED).await;
    assert!(jobs(&small).await.is_empty());
    small.status("one to be updated", json!({"updatedReplicas": 1, "availableReplicas": 3})).await;
    assert!(jobs(&small).await.is_empty(), "nor later");
}
