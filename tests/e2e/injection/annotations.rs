//! Annotations on Pods: what SidecarSets patch, and the records that Pods bring along.

use serde_json::{Value, json};

use super::{HASH, INJECTED_LIST, after};
use crate::sidecarset::allowing_annotations;
use crate::support::{Shop, annotation, names, timeless};

/// Scenario 13.
#[tokio::test]
async fn json_annotations_are_merged_or_deny() {
    let shop = Shop::open("merge").await;
    allowing_annotations().await;
    let entry =
        json!([{"annotations": {"example.com/logs": r#"{"log-agent":1}"#}, "patchPolicy": "MergePatchJson"}]);
    shop.stock([after(shop.sidecar_set("log"), "log")
        .label("may", "patch")
        .with("/spec/patchPodMetadata", entry)])
        .await;
    let with = |name: &str, value: &str| shop.pod(name).annotation("example.com/logs", value);
    let merged = shop.admit(with("merged", r#"{"main":2}"#)).await;
    assert_eq!(annotation(&merged, "example.com/logs"), r#"{"log-agent":1,"main":2}"#);
    let fresh = shop.admit(shop.pod("fresh")).await;
    assert_eq!(annotation(&fresh, "example.com/logs"), r#"{"log-agent":1}"#);
    let (code, text) = shop.refuse(with("broken", "oops")).await;
    assert!(code == 500 && text.contains("example.com/logs"), "{code} {text}");
}

/// Scenario 14.
#[tokio::test]
async fn only_overwrite_changes_what_a_pod_has() {
    let shop = Shop::open("overwrite").await;
    allowing_annotations().await;
    let entries = json!([
        {"annotations": {"example.com/kept": "set", "example.com/new": "set"}},
        {"annotations": {"example.com/forced": "set"}, "patchPolicy": "Overwrite"},
    ]);
    shop.stock([after(shop.sidecar_set("log"), "log")
        .label("may", "patch")
        .with("/spec/patchPodMetadata", entries)])
        .await;
    let own = shop.pod("web").annotation("example.com/kept", "own").annotation("example.com/forced", "own");
    let pod = shop.admit(own).await;
    for (key, expected) in
        [("example.com/kept", "own"), ("example.com/new", "set"), ("example.com/forced", "set")]
    {
        assert_eq!(annotation(&pod, key), expected, "{key}");
    }
}

/// Section 5.4: an annotation set this way counts in the later steps.
#[tokio::test]
async fn a_patched_annotation_can_order_the_launch() {
    let shop = Shop::open("ordering").await;
    allowing_annotations().await;
    let entry = json!([{"annotations": {"apps.kruise.io/container-launch-priority": "Ordered"}}]);
    shop.stock([after(shop.sidecar_set("log"), "log")
        .label("may", "patch")
        .with("/spec/patchPodMetadata", entry)])
        .await;
    let pod = shop.admit(shop.pod("web")).await;
    assert_eq!(names(&pod["spec"]["containers"]), ["main", "log"]);
    for container in pod["spec"]["containers"].as_array().unwrap() {
        assert!(names(&container["env"]).contains(&"KRUISE_CONTAINER_BARRIER"), "{container:#}");
    }
}

/// Scenario 21.
#[tokio::test]
async fn records_of_the_old_form_are_kept() {
    let shop = Shop::open("records").await;
    shop.stock([after(shop.sidecar_set("a"), "log")]).await;
    let copied = shop.pod("copied").annotation(HASH, r#"{"x":"abc"}"#).annotation(INJECTED_LIST, "x");
    let pod = shop.admit(copied).await;
    let records: Value = serde_json::from_str(annotation(&pod, HASH)).unwrap();
    assert_eq!(
        records["x"],
        json!({"updateTimestamp": null, "hash": "abc", "sidecarSetName": "x", "sidecarList": null})
    );
    assert_eq!(records[shop.name("a")]["sidecarList"], json!(["log"]));
    assert!(
        timeless(annotation(&pod, HASH))
            .contains(r#""x":{"updateTimestamp":null,"hash":"abc","sidecarSetName":"x","sidecarList":null}"#)
    );
    assert_eq!(annotation(&pod, INJECTED_LIST), format!("{},x", shop.name("a")));
    let (code, text) = shop.refuse(shop.pod("garbage").annotation(HASH, "garbage")).await;
    let expected = format!(
        "admission webhook \"mpod.kb.io\" denied the request: pod({}/garbage) invalid annotations[{HASH}] value garbage, unmarshal failed: ",
        shop.namespace
    );
    assert!(code == 500 && text.starts_with(&expected), "{code} {text}");
}
