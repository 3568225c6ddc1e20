//! What becomes of claims (docs/behaviour/statefulset.md#volume-claims). Volumes are played: nobody provisions any.

use kit::builders::Object;
use kit::wait_for;
use serde_json::{Value, json};

use super::{
    asked, claim_templates, gated, in_place, launch, named, never_ready, open, parallel, with_claim,
};
use crate::support::claims::{claim, provision, storage_class, wait_claim};
use crate::support::fleet::{Fleet, LIFECYCLE_STATE, NEW, image, label, name, uid, uids, with_image};
use crate::support::{Stored, call, message};

const HOOK: &str = "example.com/hook";

fn retaining(set: Object, when_deleted: &str, when_scaled: &str) -> Object {
    let policy = json!({"whenDeleted": when_deleted, "whenScaled": when_scaled});
    with_claim(parallel(set), "1Gi", "fast").with("/spec/persistentVolumeClaimRetentionPolicy", policy)
}

fn owners(claim: &Value) -> Vec<&str> {
    let owners = claim["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().filter_map(|owner| owner["kind"].as_str()).collect()
}

/// Scenario 25, with the first ordinal of scenario 6.
#[tokio::test]
async fn claims_go_with_their_set_where_that_is_wanted() {
    for (when_deleted, stays) in [("Delete", false), ("Retain", true)] {
        let fleet = launch(gated().await, "statefulset-retain", |set| {
            retaining(set.replicas(1), when_deleted, "Retain").with("/spec/ordinals", json!({"start": 3}))
        })
        .await;
        let owned =
            wait_claim(&fleet, "www-web-3", "to have its owner", |claim| owners(claim).is_empty() == stays);
        owned.await;
        fleet.set.deleted().await;
        fleet.pod("web-3").gone().await;
        if stays {
            assert_eq!(fleet.claims().await.len(), 1);
        } else {
            // The finalizer that protects claims in use is lifted by the controller manager.
            claim(&fleet, "www-web-3").gone().await;
        }
    }
}

/// Scenario 26, and scenario 22: a hook holds one of the Pods.
#[tokio::test]
async fn claims_go_with_pods_that_are_scaled_in() {
    let fleet = launch(gated().await, "statefulset-when-scaled", |set| {
        retaining(set.replicas(3), "Retain", "Delete")
            .with("/spec/lifecycle/preDelete/labelsHandler", json!({HOOK: "true"}))
    })
    .await;
    let before = claim(&fleet, "www-web-2").get().await.1;
    let held = fleet.pod("web-2");
    held.label(HOOK, "true").await;
    fleet.pods_seen().await;
    fleet.scale(2).await;
    fleet.wait_pod("web-2", "to be held", |pod| label(pod, LIFECYCLE_STATE) == "PreparingDelete").await;
    held.label(HOOK, Value::Null).await;
    held.gone().await;
    fleet.scale(3).await;
    named(&fleet, &["web-0", "web-1", "web-2"]).await;
    let after = wait_claim(&fleet, "www-web-2", "to be another one", |claim| {
        claim["metadata"]["uid"].is_string() && uid(claim) != uid(&before)
    })
    .await;
    assert!(owners(&after).is_empty());
    fleet.change(json!({"reserveOrdinals": [1], "replicas": 2})).await;
    named(&fleet, &["web-0", "web-2"]).await;
    claim(&fleet, "www-web-1").gone().await;
    assert_eq!(fleet.claims().await.iter().map(name).collect::<Vec<_>>(), ["www-web-0", "www-web-2"]);
}

/// Scenario 42, as far as the new claim.
#[tokio::test]
async fn a_claim_that_a_pod_waits_for_is_made_again() {
    // Without nodes the Pod stays as it was created.
    let shop = crate::support::Shop::open_on(asked().await, "statefulset-pending").await;
    let set = with_claim(super::stateful_set(&shop, "v1beta1"), "1Gi", "fast").replicas(1);
    let set = Stored::create(&shop.client, set).await;
    let claim = |name: &str| {
        let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims/{name}", shop.namespace);
        Stored::existing(&shop.client, path, Value::Null)
    };
    let stored = claim("www-web-0");
    let first = wait_for("the claim", async || match stored.get().await {
        (200, claim) => Ok(claim),
        (_, answer) => Err(answer),
    })
    .await;
    wait_for("the Pod to be counted", async || match set.get().await.1 {
        set if set["status"]["replicas"] == 1 => Ok(()),
        set => Err(set["status"].clone()),
    })
    .await;
    stored.delete().await;
    stored.patch(&json!({"metadata": {"finalizers": null}})).await;
    wait_for("another claim", async || match stored.get().await {
        (200, claim) if uid(&claim) != uid(&first) => Ok(()),
        (_, answer) => Err(answer),
    })
    .await;
}

/// Plays the storage system: gives the claim what it asks for.
async fn expand(fleet: &Fleet, name: &str) {
    let stored = claim(fleet, name);
    let wanted = stored.get().await.1["spec"]["resources"]["requests"]["storage"].clone();
    stored.patch_status(&json!({"capacity": {"storage": wanted}, "conditions": null})).await;
}

/// A StatefulSet of two whose claims grow, and the StorageClass.
async fn growing(prefix: &str, expansion: bool) -> (Fleet, String) {
    let fleet = open(gated().await, prefix, |set| set.replicas(0)).await;
    let class = storage_class(&fleet, expansion).await;
    let strategy =
        json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible"}});
    let template = json!({"spec": {"readinessGates": [{"conditionType": "InPlaceUpdateReady"}]}});
    fleet
        .change(json!({"replicas": 2, "volumeClaimTemplates": claim_templates("1Gi", &class), "template": template,
            "updateStrategy": strategy}))
        .await;
    fleet.complete().await;
    fleet.change(json!({"volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"}})).await;
    for ordinal in 0..2 {
        // Claims grow only once they have a volume.
        provision(&fleet, &format!("www-web-{ordinal}"), &class).await;
    }
    let larger = json!({"spec": {"volumeClaimTemplates": claim_templates("2Gi", &class)}});
    let path = format!("{}?dryRun=All", fleet.set.path);
    wait_for("admission to know the StorageClass", async || {
        match call(&fleet.shop.client, "PATCH", &path, &larger).await {
            (200, _) => Ok(()),
            answer @ (422, _) if message(&answer).contains("volume expansion") => Ok(()),
            answer => Err(answer),
        }
    })
    .await;
    (fleet, class)
}

/// Scenario 27, and the first half of 43.
#[tokio::test]
async fn claims_grow_before_their_pods_change() {
    let (fleet, class) = growing("statefulset-grow", true).await;
    let before = fleet.pods().await;
    fleet.change_rolling(json!({"partition": 1})).await;
    fleet.roll_and(NEW, json!({"volumeClaimTemplates": claim_templates("2Gi", &class)})).await;
    let size = |claim: &Value| claim["spec"]["resources"]["requests"]["storage"].clone();
    let grown = wait_claim(&fleet, "www-web-1", "to grow", |claim| size(claim) == "2Gi").await;
    assert_eq!(grown["metadata"]["annotations"]["apps.kruise.io/owned-by-asts"], "web");
    fleet.settled().await;
    assert_eq!(with_image(&fleet.pods().await, NEW), 0, "its claim is not ready");
    expand(&fleet, "www-web-1").await;
    fleet.wait_pod("web-1", "to be updated", |pod| image(pod) == NEW).await;
    let counted = |compatible: i64| json!([{"volumeClaimName": "www", "compatibleReplicas": compatible, "compatibleReadyReplicas": compatible}]);
    fleet.status("one claim to be counted", json!({"volumeClaims": counted(1)})).await;
    assert_eq!(size(&claim(&fleet, "www-web-0").get().await.1), "1Gi");
    fleet.change_rolling(json!({"partition": 0})).await;
    wait_claim(&fleet, "www-web-0", "to grow", |claim| size(claim) == "2Gi").await;
    expand(&fleet, "www-web-0").await;
    fleet.status("both claims to be counted", json!({"volumeClaims": counted(2)})).await;
    fleet.complete().await;
    assert_eq!(uids(&fleet.pods().await), uids(&before));
    fleet.event("SuccessfulResize").await;
}

/// Scenario 28: as the webhooks decide.
#[tokio::test]
async fn claim_templates_change_only_as_their_claims_can() {
    let (fleet, class) = growing("statefulset-fixed", false).await;
    let refused = async |templates: Value, text: &str| {
        let (code, answer) = fleet.set.try_patch(&json!({"spec": {"volumeClaimTemplates": templates}})).await;
        assert_eq!(code, 422, "{answer:#}");
        assert!(answer["message"].as_str().unwrap().contains(text), "{answer:#}");
    };
    refused(claim_templates("2Gi", &class), "does not support volume expansion").await;
    refused(claim_templates("1Gi", "other"), "volumeClaimTemplate can not be modified when OnRollingUpdate")
        .await;
    let mut two = claim_templates("1Gi", &class);
    let mut log = two[0].clone();
    log["metadata"]["name"] = "log".into();
    two.as_array_mut().unwrap().push(log);
    refused(two, "volumeClaimTemplate can not be added or deleted when OnRollingUpdate").await;
    let on_delete = json!({"volumeClaimTemplates": claim_templates("2Gi", &class),
        "volumeClaimUpdateStrategy": {"type": "OnDelete"}});
    fleet.change(on_delete).await;
    fleet.settled().await;
    let back = json!({"volumeClaimTemplates": claim_templates("3Gi", &class),
        "volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"}});
    let (code, answer) = fleet.set.try_patch(&json!({"spec": back})).await;
    assert_eq!(code, 422, "the new strategy counts: {answer:#}");
}

/// A Pod that never becomes ready keeps the claims of others as they are.
#[tokio::test]
async fn claims_of_pods_that_are_not_ready_have_owners_too() {
    let fleet = open(asked().await, "statefulset-owners", |set| {
        never_ready(in_place(retaining(set.replicas(2), "Delete", "Retain")))
    })
    .await;
    for claim in ["www-web-0", "www-web-1"] {
        wait_claim(&fleet, claim, "to have its owner", |claim| owners(claim) == ["StatefulSet"]).await;
    }
}
