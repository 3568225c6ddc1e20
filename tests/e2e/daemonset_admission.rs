//! The webhooks of DaemonSets on a real API server (docs/behaviour/daemonset.md#validation).

use kit::builders::{Object, workload};
use serde_json::{Value, json};

use crate::daemonset::asked;
use crate::support::{Shop, Stored, create, message};

fn set(shop: &Shop, version: &str) -> Object {
    workload(&format!("apps.kruise.io/{version}"), "DaemonSet", "web")
        .in_namespace(&shop.namespace)
        .matching("app", "web")
        .container("main", "nginx:1.25")
        .with("/spec/template/spec/nodeSelector", json!({"example.com/nowhere": "true"}))
}

fn rolling(shop: &Shop, version: &str, settings: &Value) -> Object {
    set(shop, version)
        .with("/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": settings}))
}

async fn refused(shop: &Shop, set: Object, text: &str) {
    let answer = create(&shop.client, set, "?dryRun=All").await;
    assert_eq!(answer.0, 500, "{answer:#?}");
    assert!(message(&answer).contains(text), "{text}: {answer:#?}");
}

/// Scenarios 2, 5, 6, 7 and 8.
#[tokio::test]
async fn objects_are_completed_and_checked() {
    let shop = Shop::open_on(asked().await, "daemonset-checks").await;
    let surging = rolling(&shop, "v1alpha1", &json!({"rollingUpdateType": "Surging"}));
    let (code, stored) = create(&shop.client, surging, "?dryRun=All").await;
    assert_eq!(code, 201, "{stored:#}");
    let settings = json!({"rollingUpdateType": "Standard", "maxSurge": 1, "maxUnavailable": 0});
    assert_eq!(stored["spec"]["updateStrategy"]["rollingUpdate"], settings);
    for version in ["v1alpha1", "v1beta1"] {
        for (settings, text) in [
            (json!({"maxUnavailable": 1, "maxSurge": 1}), "may not be set when maxUnavailable is non-zero"),
            (json!({"maxSurge": 0}), "cannot be 0 when maxSurge is 0"),
            (
                json!({"rollingUpdateType": "InPlaceIfPossible", "maxSurge": 1, "maxUnavailable": 0}),
                "must be 0 for InPlaceIfPossible type",
            ),
        ] {
            refused(&shop, rolling(&shop, version, &settings), text).await;
        }
        let hook = json!({"inPlaceUpdate": {"labelsHandler": {"a": "b"}}});
        refused(
            &shop,
            set(&shop, version).with("/spec/lifecycle", hook),
            "inPlaceUpdate hook has not supported yet",
        )
        .await;
        let never = set(&shop, version).with("/spec/template/spec/restartPolicy", "Never");
        refused(&shop, never, "spec.template.spec.restartPolicy").await;
    }
}

/// Scenarios 3, 4 and 9.
#[tokio::test]
async fn versions_are_converted_and_the_selector_stays() {
    let shop = Shop::open_on(asked().await, "daemonset-versions").await;
    let key = "daemonset.kruise.io/progressive-create-pod";
    let set = Stored::create(&shop.client, set(&shop, "v1alpha1").annotation(key, "true")).await;
    let (_, beta) = set.in_version("v1beta1").get().await;
    assert_eq!(beta["spec"]["scaleStrategy"]["partitionedScaling"], true);
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}});
    for version in ["v1alpha1", "v1beta1"] {
        let answer = set.in_version(version).try_patch(&selector).await;
        assert_eq!(answer.0, 422, "{answer:#?}");
        let text = "spec: Forbidden: updates to daemonset spec for fields other than";
        assert!(message(&answer).contains(text), "{answer:#?}");
    }
    let seen = kit::wait_for("the revision to be told", async || {
        let (_, beta) = set.in_version("v1beta1").get().await;
        match beta["status"]["updateRevision"].as_str() {
            Some(revision) => Ok(revision.to_owned()),
            None => Err(beta["status"].clone()),
        }
    })
    .await;
    let (_, alpha) = set.in_version("v1alpha1").get().await;
    assert_eq!(alpha["status"]["daemonSetHash"], seen);
    assert_eq!(alpha["metadata"]["annotations"][key], "true");
}
