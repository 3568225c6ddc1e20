//! The webhooks of StatefulSets on a real API server (docs/behaviour/statefulset.md#validation).

use kit::builders::{Object, workload};
use serde_json::{Value, json};

use crate::statefulset::{asked, gated};
use crate::support::{Shop, Stored, assert_holds, create, message};

const PROTECTION: &str = "policy.kruise.io/delete-protection";

fn set(shop: &Shop, version: &str) -> Object {
    workload(&format!("apps.kruise.io/{version}"), "StatefulSet", "web")
        .in_namespace(&shop.namespace)
        .matching("app", "web")
        .container("main", "nginx:1.25")
        .replicas(0)
}

async fn refused(shop: &Shop, set: Object, text: &str) {
    let answer = create(&shop.client, set, "?dryRun=All").await;
    assert_eq!(answer.0, 422, "{answer:#?}");
    assert!(message(&answer).contains(text), "{text}: {answer:#?}");
}

/// Scenarios 5, 14, 15 and 35; and defaults.
#[tokio::test]
async fn objects_are_completed_and_checked() {
    let shop = Shop::open_on(asked().await, "statefulset-checks").await;
    for version in ["v1alpha1", "v1beta1"] {
        let (code, stored) = create(&shop.client, set(&shop, version), "?dryRun=All").await;
        assert_eq!(code, 201, "{stored:#}");
        let rolling =
            json!({"partition": 0, "maxUnavailable": 1, "podUpdatePolicy": "ReCreate", "minReadySeconds": 0});
        assert_holds(
            &stored["spec"],
            &json!({"podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
                "template": {"spec": {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}}}),
        );
        let limited = |limit: Value| {
            let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": limit}});
            set(&shop, version).with("/spec/updateStrategy", rolling)
        };
        refused(&shop, limited(json!(0)), "should not be less than 1").await;
        let (code, answer) = create(&shop.client, limited(json!("40%")), "?dryRun=All").await;
        assert_eq!(code, 201, "{answer:#}");
        let in_place = json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly"}});
        let text = "must contains InPlaceUpdateReady when podUpdatePolicy is InPlaceOnly";
        refused(&shop, set(&shop, version).with("/spec/updateStrategy", in_place), text).await;
        let on_delete = json!({"type": "OnDelete", "rollingUpdate": {"partition": 1}});
        let text = "only allowed for updateStrategy 'RollingUpdate'";
        refused(&shop, set(&shop, version).with("/spec/updateStrategy", on_delete), text).await;
    }
    let scaled = set(&shop, "v1beta1").with("/spec/scaleStrategy", json!({"maxUnavailable": 2}));
    refused(&shop, scaled, "can only work with Parallel PodManagementPolicyType").await;
    for entry in [json!("5-2"), json!("a-b"), json!("5"), json!(-1)] {
        let reserved = set(&shop, "v1beta1").with("/spec/reserveOrdinals", json!([1, entry]));
        refused(&shop, reserved, "1 th reserve ordinal is").await;
    }
}

/// Scenarios 17 and 33.
#[tokio::test]
async fn updates_are_checked_against_what_is_stored() {
    let shop = Shop::open_on(asked().await, "statefulset-updates").await;
    let only = json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly"}});
    let set = set(&shop, "v1beta1").readiness_gate("InPlaceUpdateReady").with("/spec/updateStrategy", only);
    let set = Stored::create(&shop.client, set).await;
    let refused = async |spec: Value, text: &str| {
        let answer = set.try_patch(&json!({"spec": spec})).await;
        assert_eq!(answer.0, 422, "{answer:#?}");
        assert!(message(&answer).contains(text), "{answer:#?}");
    };
    let forbidden = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', \
        'template', 'reserveOrdinals'";
    refused(json!({"serviceName": "other"}), forbidden).await;
    refused(json!({"podManagementPolicy": "Parallel"}), forbidden).await;
    let container = |more: Value| {
        let mut container = json!({"name": "main", "image": "nginx:1.26"});
        container["env"] = more;
        json!({"template": {"spec": {"containers": [container]}}})
    };
    let env = json!([{"name": "A", "value": "b"}]);
    refused(container(env), "invalid template modified with InPlaceOnly strategy: ").await;
    set.patch(&json!({"spec": container(Value::Null)})).await;
    for spec in [
        json!({"ordinals": {"start": 2}}),
        json!({"lifecycle": {"preDelete": {"labelsHandler": {"a": "b"}}}}),
        json!({"scaleStrategy": {"maxUnavailable": 1}}),
        json!({"revisionHistoryLimit": 2}),
    ] {
        set.patch(&json!({"spec": spec})).await;
    }
}

/// The second half of scenario 36.
#[tokio::test]
async fn a_write_through_the_old_version_loses_nothing() {
    let shop = Shop::open_on(asked().await, "statefulset-versions").await;
    let beta = set(&shop, "v1beta1")
        .with("/spec/reserveOrdinals", json!([1, "3-4"]))
        .with("/spec/ordinals", json!({"start": 2}))
        .with("/spec/scaleStrategy", json!({"maxUnavailable": 1}));
    let beta = Stored::create(&shop.client, beta).await;
    let alpha = beta.in_version("v1alpha1");
    let seen = alpha.get().await.1;
    assert!(seen["spec"]["reserveOrdinals"].is_null() && seen["spec"]["ordinals"].is_null(), "{seen:#}");
    alpha.patch(&json!({"spec": {"revisionHistoryLimit": 4}})).await;
    let after = beta.get().await.1;
    assert_eq!(after["spec"]["revisionHistoryLimit"], 4);
    for field in ["reserveOrdinals", "ordinals", "scaleStrategy"] {
        assert_eq!(after["spec"][field], beta.object["spec"][field], "{field}");
    }
}

/// Scenario 39.
#[tokio::test]
async fn sets_with_pods_are_protected_from_deletion() {
    let shop = Shop::open_on(gated().await, "statefulset-protected").await;
    let set = set(&shop, "v1beta1").label(PROTECTION, "Cascading").replicas(1);
    let set = Stored::create(&shop.client, set).await;
    let answer = set.delete_dry().await;
    assert_eq!(answer.0, 403, "{answer:#?}");
    assert!(message(&answer).contains("forbidden by ResourcesProtectionDeletion"), "{answer:#?}");
    set.patch(&json!({"spec": {"replicas": 0}})).await;
    set.deleted().await;
}

/// What this build does not know is stored as it was sent.
#[tokio::test]
async fn unknown_fields_of_templates_stay() {
    let shop = Shop::open_on(asked().await, "statefulset-unknown").await;
    let set = set(&shop, "v1beta1").with("/spec/template/spec/futureField", json!({"a": [1, 2]})).with(
        "/spec/volumeClaimTemplates",
        json!([{"metadata": {"name": "www"}, "spec": {"futureClaim": true}}]),
    );
    let set = Stored::create(&shop.client, set).await;
    let stored = set.get().await.1;
    assert_eq!(stored["spec"]["template"]["spec"]["futureField"], json!({"a": [1, 2]}));
    assert_eq!(stored["spec"]["volumeClaimTemplates"][0]["spec"]["futureClaim"], true);
}
