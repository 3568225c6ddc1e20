//! ControllerRevisions: names, numbers, labels and their end.

use kit::builders::{Object, object, sidecar_set};
use kit::wait_for;
use serde_json::{Value, json};

use super::{Fleet, NEW, OLD, condition, image_of};
use crate::podunavailablebudget::guarded;
use crate::product::{self, NAMESPACE};
use crate::support::{Shop, Stored, call, create};

/// The revisions of a SidecarSet by number.
async fn revisions(shop: &Shop, set: &str) -> Vec<Value> {
    let path = format!(
        "/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions?labelSelector=kruise.io/sidecarset-name={set}"
    );
    let mut list =
        call(&shop.client, "GET", &path, &Value::Null).await.1["items"].as_array().unwrap().clone();
    list.sort_by_key(|revision| revision["revision"].as_i64());
    list
}

/// Waits for revisions of these numbers.
async fn wait_revisions(fleet: &Fleet, numbers: &[i64]) -> Vec<Value> {
    wait_for(&format!("revisions {numbers:?}"), async || {
        let list = revisions(&fleet.shop, &fleet.name()).await;
        let found: Vec<i64> = list.iter().map(|revision| revision["revision"].as_i64().unwrap()).collect();
        if found == numbers { Ok(list) } else { Err(found) }
    })
    .await
}

fn logship(set: Object) -> Object {
    set.init_container("prep-logs", "registry.example.com/prep:2.0")
        .having("command", json!(["sh", "-c", "mkdir -p /logs/a && ls /logs > /logs/b"]))
        .having("volumeMounts", json!([{"name": "spool", "mountPath": "/logs"}]))
        .container("shipper", "registry.example.com/shipper:1.4.0")
        .having("env", json!([{"name": "LEVEL", "value": "info"}]))
        .having("volumeMounts", json!([{"name": "spool", "mountPath": "/var/spool"}]))
        .having("podInjectPolicy", "AfterAppContainer")
        .having("shareVolumePolicy", json!({"type": "enabled"}))
        .having("transferEnv", json!([{"sourceContainerName": "shop", "envName": "SHOP_REGION"}]))
        .with("/spec/volumes", json!([{"name": "spool", "emptyDir": {}}, {"name": "unused", "emptyDir": {}}]))
        .with("/spec/imagePullSecrets", json!([{"name": "regcred"}]))
}

/// The owner of a revision holds up its deletion, which some clusters allow only with a right on the owner.
#[tokio::test]
async fn the_chart_grants_what_owner_references_need() {
    let plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
    let server = product::server(kit::Options::default().argument(plugin)).await;
    let manifests = product::run(&["manifests"]).await.success();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&manifests).unwrap();
    let shop = Shop::open_on(&server, "owner").await;
    let of_kind = |word| objects.iter().filter(move |object| object["kind"].as_str().unwrap().contains(word));
    let others = of_kind("Namespace").filter(|namespace| namespace["metadata"]["name"] != NAMESPACE);
    for object in others.chain(of_kind("Role")) {
        Stored::create(&shop.client, object.clone()).await;
    }
    let user = format!("system:serviceaccount:{NAMESPACE}:kruise-manager");
    let manager = server.client_as(&user, &["system:serviceaccounts", "system:authenticated"]);
    // The last one is asked when the rights are known.
    for (kind, code) in
        [("SidecarSet", 201), ("CloneSet", 201), ("UnitedDeployment", 201), ("WorkloadSpread", 403)]
    {
        let revision = object("apps/v1", "ControllerRevision", &kind.to_lowercase()).in_namespace(NAMESPACE);
        let owner = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "name": "owner", "uid": "u",
            "controller": true, "blockOwnerDeletion": true,
        });
        let revision = revision.with("/metadata/ownerReferences", json!([owner])).with("/revision", 1);
        let revision = revision.with("/data", json!({})).build();
        // The API server learns of roles after they were created.
        wait_for("the answer that the rights give", async || {
            let answer = create(&manager, revision.clone(), "").await;
            if answer.0 == code { Ok(()) } else { Err((kind, answer)) }
        })
        .await;
    }
}

/// Scenario 9; the names are test vectors of docs/behaviour/sidecarset.md#revisions.
#[tokio::test]
async fn revisions_have_the_names_of_the_reference() {
    let shop = Shop::open("names").await;
    let name = shop.name("ship");
    let set = shop.selecting(sidecar_set(&name).matching("app", "web")).label("team", "logs");
    let set = Stored::create(&shop.client, logship(set)).await;
    let latest = async |hash: &str| {
        let expected = format!("{name}-{hash}");
        wait_for(&format!("revision {expected}"), async || {
            let status = set.get().await.1["status"].clone();
            if status["latestRevision"] == expected.as_str() { Ok(()) } else { Err(status) }
        })
        .await;
    };
    latest("64769cc7c5").await;
    let list = revisions(&shop, &name).await;
    let [revision] = &list[..] else { panic!("{list:#?}") };
    assert_eq!(revision["metadata"]["name"], format!("{name}-64769cc7c5"));
    assert_eq!(revision["revision"], 1);
    assert_eq!(
        revision["metadata"]["labels"],
        json!({"team": "logs", "controller.kubernetes.io/hash": "64769cc7c5", "kruise.io/sidecarset-name": name})
    );
    let stored = set.get().await.1;
    for key in [super::HASH, super::HASH_WITHOUT_IMAGE] {
        assert_eq!(revision["metadata"]["annotations"][key], stored["metadata"]["annotations"][key]);
    }
    let owner = &revision["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["controller"]), (&stored["metadata"]["uid"], &json!(true)));
    assert_eq!(owner["apiVersion"], "apps.kruise.io/v1beta1");

    let mut containers = stored["spec"]["containers"].clone();
    containers[0]["image"] = json!("registry.example.com/shipper:1.5.0");
    set.patch(&json!({"spec": {"containers": containers}})).await;
    latest("6cf6fbbbcb").await;
}

/// Scenario 10.
#[tokio::test]
async fn going_back_renumbers_the_older_revision() {
    let fleet = Fleet::open("back", |set| set).await;
    let first = wait_revisions(&fleet, &[1]).await[0]["metadata"]["name"].clone();
    fleet.roll(NEW, json!({})).await;
    wait_revisions(&fleet, &[1, 2]).await;
    fleet.roll(OLD, json!({})).await;
    let list = wait_revisions(&fleet, &[2, 3]).await;
    assert_eq!(list[1]["metadata"]["name"], first);
    fleet.wait_status("the first revision to be current", json!({"latestRevision": first})).await;
}

/// Scenario 11.
#[tokio::test]
async fn old_revisions_go_unless_a_pod_uses_them() {
    let fleet = Fleet::launch("limit", 2, |set| {
        set.with("/spec/revisionHistoryLimit", 2)
            .with("/spec/updateStrategy/selector", json!({"matchLabels": {"follows": "yes"}}))
    })
    .await;
    let first = wait_revisions(&fleet, &[1]).await[0]["metadata"]["name"].clone();
    fleet.pod("web-0").label("follows", "yes").await;
    for number in 1..=5 {
        fleet.roll(&format!("busybox:v{number}"), json!({})).await;
        fleet.wait_status("the Pod to follow", json!({"updatedReadyPods": 1})).await;
    }
    let list = wait_revisions(&fleet, &[1, 6]).await;
    assert_eq!(list[0]["metadata"]["name"], first, "web-1 has it still");
    fleet.pod("web-1").label("follows", "yes").await;
    fleet.wait_status("both Pods to follow", json!({"updatedReadyPods": 2})).await;
    fleet.roll("busybox:v6", json!({})).await;
    wait_revisions(&fleet, &[6, 7]).await;
}

/// Scenario 24.
#[tokio::test]
async fn custom_versions_are_labels_and_can_be_injected() {
    let fleet = Fleet::open("custom", |set| set.with("/spec/customVersion", "v1")).await;
    let label =
        |revision: &Value| revision["metadata"]["labels"]["apps.kruise.io/sidecarset-custom-version"].clone();
    assert_eq!(label(&wait_revisions(&fleet, &[1]).await[0]), "v1");
    fleet.roll(NEW, json!({"customVersion": "v2"})).await;
    let list = wait_revisions(&fleet, &[1, 2]).await;
    assert_eq!((label(&list[0]), label(&list[1])), (json!("v1"), json!("v2")));
    let patch = json!({"spec": {"injectionStrategy": {"revision": {"customVersion": "v1"}}, "updateStrategy": {"paused": true}}});
    wait_for("validation to know the revision", async || match fleet.set.try_patch(&patch).await {
        (200, _) => Ok(()),
        answer => Err(answer),
    })
    .await;
    fleet.shop.settle().await;
    let pod = fleet.shop.admit(fleet.shop.pod("web-0")).await;
    assert_eq!(image_of(&pod, "log"), OLD);
    fleet.wait_status("the Pod to be counted as old", json!({"matchedPods": 1, "updatedPods": 0})).await;
    // docs/behaviour/sidecarset.md#interplay-with-other-features: such a Pod is updated like any other.
    fleet.set.patch(&json!({"spec": {"updateStrategy": {"paused": false}}})).await;
    fleet.wait_status("the Pod to be updated", json!({"updatedReadyPods": 1})).await;
    assert_eq!(fleet.with_image(NEW).await, ["web-0"]);
}

/// Scenario 26; collecting garbage is the work of the controller manager.
#[tokio::test]
async fn revisions_go_with_their_set_and_pods_stay() {
    let fleet = Fleet::open_on(&guarded().await.server, "deleted", |set| set).await;
    fleet.shop.admit(fleet.shop.pod("web-0")).await;
    fleet.wait_status("the Pod to be ready", json!({"readyPods": 1})).await;
    wait_revisions(&fleet, &[1]).await;
    let before = fleet.pod("web-0").get().await.1;
    assert_eq!(condition(&before, "Ready")["status"], "True");
    fleet.set.deleted().await;
    wait_revisions(&fleet, &[]).await;
    let after = fleet.pod("web-0").get().await.1;
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
}
