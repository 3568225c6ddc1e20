//! Annotations on Pods: what SidecarSets patch.

use serde_json::json;

use super::after;
use crate::sidecarset::allowing_annotations;
use crate::support::{Shop, annotation, names};

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
