//! Injection from older revisions (docs/behaviour/pod-mutation.md#injected-revision). The revisions are
//! written by hand.

use kit::builders::object;
use kit::wait_for;
use serde_json::{Value, json};

use super::{HASH, after};
use crate::product::NAMESPACE;
use crate::support::{Shop, Stored, annotation, create, message, named};

const LIVE: &str = "busybox:1.36";

/// A revision of the SidecarSet `log` of this shop, with the sidecar's image.
async fn revision(shop: &Shop, number: i64, image: &str, custom_version: &str) -> String {
    let container = json!({
        "name": "log", "image": image, "resources": {}, "podInjectPolicy": "AfterAppContainer",
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent", "upgradeStrategy": {"upgradeType": "ColdUpgrade"},
        "shareVolumePolicy": {"type": "disabled"},
    });
    let name = format!("{}-{number}", shop.name("log"));
    let revision = object("apps/v1", "ControllerRevision", &name)
        .in_namespace(NAMESPACE)
        .label("kruise.io/sidecarset-name", &shop.name("log"))
        .label("apps.kruise.io/sidecarset-custom-version", custom_version)
        .annotation(HASH, &format!("hash-{number}"))
        .annotation("kruise.io/sidecarset-hash-without-image", &format!("bare-{number}"))
        .with(
            "/data",
            json!({"spec": {
                "$patch": "replace", "containers": [container], "imagePullSecrets": null,
                "initContainers": null, "patchPodMetadata": null, "volumes": null,
            }}),
        )
        .with("/revision", number);
    Stored::create(&shop.client, revision).await;
    name
}

/// Creates the SidecarSet `log`, pinned; the revision has to be known before.
async fn pin(shop: &Shop, revision: Value, update_strategy: Value) -> Stored {
    let set = after(shop.sidecar_set("log"), "log")
        .with("/spec/injectionStrategy/revision", revision)
        .with("/spec/updateStrategy", update_strategy)
        .build();
    wait_for("the program to know the revision", async || {
        match create(&shop.client, set.clone(), "?dryRun=All").await {
            (201, _) => Ok(()),
            (_, answer) => Err(answer),
        }
    })
    .await;
    let stored = Stored::create(&shop.client, set).await;
    shop.settle().await;
    stored
}

fn image(pod: &Value) -> &str {
    named(&pod["spec"]["containers"], "log")["image"].as_str().unwrap()
}

/// Scenario 17.
#[tokio::test]
async fn the_newest_revision_of_a_custom_version_is_injected() {
    let shop = Shop::open("custom").await;
    revision(&shop, 1, "busybox:old", "v1").await;
    let newer = revision(&shop, 2, "busybox:newer", "v1").await;
    revision(&shop, 3, "busybox:other", "v2").await;
    let set = pin(&shop, json!({"customVersion": "v1"}), json!({})).await;
    set.patch_status(&json!({"matchedPods": 0, "updatedPods": 0, "readyPods": 0, "latestRevision": "live"}))
        .await;
    let pod = wait_for("the second revision to be known", async || {
        let (_, pod) = create(&shop.client, shop.pod("web"), "?dryRun=All").await;
        if image(&pod) == "busybox:newer" { Ok(pod) } else { Err(pod) }
    })
    .await;
    let records: Value = serde_json::from_str(annotation(&pod, HASH)).unwrap();
    let record = &records[shop.name("log")];
    assert_eq!((&record["hash"], &record["controllerRevision"]), (&json!("hash-2"), &json!(newer)));
    let bare: Value =
        serde_json::from_str(annotation(&pod, "kruise.io/sidecarset-hash-without-image")).unwrap();
    assert_eq!(bare[shop.name("log")]["hash"], "bare-2");
}

/// Scenario 18.
#[tokio::test]
async fn a_pinned_revision_that_is_gone_denies() {
    let shop = Shop::open("gone").await;
    let name = revision(&shop, 1, "busybox:old", "v1").await;
    pin(&shop, json!({"revisionName": name}), json!({})).await;
    let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions/{name}");
    Stored::existing(&shop.client, path, Value::Null).deleted().await;
    let text = wait_for("Pods to be refused", async || {
        match create(&shop.client, shop.pod("web"), "?dryRun=All").await {
            (201, pod) => Err(pod),
            answer => Ok(message(&answer).to_owned()),
        }
    })
    .await;
    assert!(
        text.starts_with("admission webhook \"mpod.kb.io\" denied the request: ") && text.contains(&name),
        "{text}"
    );
}

/// Scenario 19.
#[tokio::test]
async fn a_partial_pin_goes_by_selector_and_partition() {
    let shop = Shop::open("partial").await;
    let name = revision(&shop, 1, "busybox:old", "v1").await;
    let selector = json!({"matchLabels": {"canary": "true"}});
    let pinned = json!({"revisionName": name, "policy": "Partial"});
    let set =
        pin(&shop, pinned, json!({"type": "NotUpdate", "selector": selector, "partition": "100%"})).await;
    let images = async |expected: [&str; 2]| {
        let plain = create(&shop.client, shop.pod("plain"), "?dryRun=All").await.1;
        let labelled =
            create(&shop.client, shop.pod("labelled").label("canary", "true"), "?dryRun=All").await.1;
        assert_eq!([image(&plain), image(&labelled)], expected);
    };
    images(["busybox:old", "busybox:old"]).await;
    for (strategy, expected) in [
        (json!({"type": "NotUpdate", "partition": "0%"}), ["busybox:old", LIVE]),
        (json!({"type": "NotUpdate", "partition": 5}), ["busybox:old", LIVE]),
        (json!({"type": "RollingUpdate", "partition": 0}), ["busybox:old", LIVE]),
        (json!({"paused": true}), ["busybox:old", "busybox:old"]),
    ] {
        set.patch(&json!({"spec": {"updateStrategy": strategy}})).await;
        shop.settle().await;
        images(expected).await;
    }
    set.deleted().await;
}
