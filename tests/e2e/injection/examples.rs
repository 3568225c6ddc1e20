//! The worked examples of docs/behaviour/pod-mutation.md#examples-of-injection, whole, as the API server
//! stores them.

use kit::builders::{Object, pod, sidecar_set};
use serde_json::{Value, json};

use super::{HASH, HASH_WITHOUT_IMAGE, INJECTED_LIST};
use crate::support::{Shop, Stored, annotation, assert_holds, named, names, timeless};

fn logship(shop: &Shop) -> Object {
    let set = shop.selecting(sidecar_set("logship").matching("tier", "web"));
    set.init_container("prep-logs", "registry.example.com/prep:2.0")
        .having("command", json!(["sh", "-c", "mkdir -p /logs/a && ls /logs > /logs/b"]))
        .having("volumeMounts", json!([{"name": "spool", "mountPath": "/logs"}]))
        .container("shipper", "registry.example.com/shipper:1.4.0")
        .env("LEVEL", "info")
        .having("volumeMounts", json!([{"name": "spool", "mountPath": "/var/spool"}]))
        .having("podInjectPolicy", "AfterAppContainer")
        .having("shareVolumePolicy", json!({"type": "enabled"}))
        .having("transferEnv", json!([{"sourceContainerName": "shop", "envName": "SHOP_REGION"}]))
        .with("/spec/volumes", json!([{"name": "spool", "emptyDir": {}}, {"name": "unused", "emptyDir": {}}]))
        .with("/spec/imagePullSecrets", json!([{"name": "regcred"}]))
}

fn web_7(namespace: &str) -> Object {
    pod("web-7").in_namespace(namespace).label("tier", "web").with(
        "/spec",
        json!({
            "containers": [{
                "name": "shop", "image": "shop:3",
                "env": [{"name": "SHOP_REGION", "value": "eu"}, pod_name()],
                "volumeMounts": [
                    {"name": "data", "mountPath": "/data"},
                    {"name": "data", "mountPath": "/audit", "subPathExpr": "audit/$(POD_NAME)"},
                ],
            }],
            "volumes": [{"name": "data", "emptyDir": {}}],
        }),
    )
}

fn pod_name() -> Value {
    json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}})
}

/// The annotations of ours, without times.
fn assert_annotations(pod: &Value, expected: &[(&str, &str)]) {
    let annotations = pod["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(annotations.len(), expected.len(), "{annotations:#?}");
    for (key, expected) in expected {
        let text = annotation(pod, key);
        let text = if key.starts_with(HASH) { timeless(text) } else { text.to_owned() };
        assert_eq!(text, *expected, "{key}");
    }
}

/// Scenarios 2 and 3, example 12.1.
#[tokio::test]
async fn logship_is_injected_with_shared_mounts_and_env_in_its_namespace_only() {
    let shop = Shop::open("shop").await;
    let set = Stored::create(&shop.client, logship(&shop)).await;
    let hash = "bcxfw7cfx89vzd8v9d4z78946992xw946xwdvz8944d4496zdzx6xczbvv25xfx2";
    let hash_without_image = "7f4z7d4wwb6v2b7bxx64db6w24cz7b4wx45658d9zwf25w5dcd45242f54x5dxcd";
    assert_eq!(annotation(&set.object, HASH), hash);
    assert_eq!(annotation(&set.object, HASH_WITHOUT_IMAGE), hash_without_image);
    set.patch_status(&json!({
        "matchedPods": 0, "updatedPods": 0, "readyPods": 0, "latestRevision": "logship-64769cc7c5",
    }))
    .await;
    shop.settle().await;

    let other = Shop::open("other").await;
    let untouched = other.admit(web_7(&other.namespace)).await;
    assert!(untouched["metadata"]["annotations"].is_null(), "{untouched:#}");
    assert_eq!(names(&untouched["spec"]["containers"]), ["shop"]);
    assert_eq!(names(&untouched["spec"]["volumes"]), ["data"]);

    let pod = shop.admit(web_7(&shop.namespace)).await;
    let record = |hash: &str, revision: &str| {
        format!(
            r#"{{"logship":{{"updateTimestamp":"TIME","hash":"{hash}","sidecarSetName":"logship","sidecarList":["shipper"]{revision}}}}}"#
        )
    };
    assert_annotations(
        &pod,
        &[
            (HASH, &record(hash, r#","controllerRevision":"logship-64769cc7c5""#)),
            (HASH_WITHOUT_IMAGE, &record(hash_without_image, "")),
            (INJECTED_LIST, "logship"),
        ],
    );
    let app = web_7("").build()["spec"]["containers"][0].clone();
    assert_holds(
        &pod["spec"],
        &json!({
            "imagePullSecrets": [{"name": "regcred"}],
            "initContainers": [{
                "name": "prep-logs", "image": "registry.example.com/prep:2.0",
                "command": ["sh", "-c", "mkdir -p /logs/a && ls /logs > /logs/b"],
                "env": [{"name": "IS_INJECTED", "value": "true"}],
                "volumeMounts": [{"name": "spool", "mountPath": "/logs"}],
            }],
            "containers": [app, {
                "name": "shipper", "image": "registry.example.com/shipper:1.4.0",
                "env": [
                    {"name": "LEVEL", "value": "info"}, {"name": "IS_INJECTED", "value": "true"},
                    {"name": "SHOP_REGION", "value": "eu"}, pod_name(),
                ],
                "volumeMounts": [
                    {"name": "spool", "mountPath": "/var/spool"}, {"name": "data", "mountPath": "/data"},
                    {"name": "data", "mountPath": "/audit", "subPathExpr": "audit/$(POD_NAME)"},
                ],
            }],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "spool", "emptyDir": {}}],
        }),
    );
    set.deleted().await;
}

/// Scenario 15, example 12.2.
#[tokio::test]
async fn a_hot_upgrade_sidecar_becomes_two_containers() {
    let shop = Shop::open("mesh").await;
    let hot =
        json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "registry.example.com/mesh-empty:1.0"});
    let set = shop.selecting(sidecar_set("mesh-set").matching("app", "web"));
    let set = set.container("mesh", "registry.example.com/mesh:1.0").having("upgradeStrategy", hot.clone());
    let set = Stored::create(&shop.client, set).await;
    kit::wait_for("its revision", async || {
        let status = set.get().await.1["status"].clone();
        if status["latestRevision"] == "mesh-set-7d77d6bdb7" { Ok(()) } else { Err(status) }
    })
    .await;
    shop.settle().await;
    let pod = shop.admit(shop.bare_pod("web").container("app", "nginx:1.25")).await;
    let record = |hash: &str, revision: &str| {
        format!(
            r#"{{"mesh-set":{{"updateTimestamp":"TIME","hash":"{hash}","sidecarSetName":"mesh-set","sidecarList":["mesh"]{revision}}}}}"#
        )
    };
    assert_annotations(
        &pod,
        &[
            ("kruise.io/sidecarset-working-hotupgrade-container", r#"{"mesh":"mesh-1"}"#),
            ("version.sidecarset.kruise.io/mesh-1", "1"),
            ("versionalt.sidecarset.kruise.io/mesh-1", "0"),
            ("version.sidecarset.kruise.io/mesh-2", "0"),
            ("versionalt.sidecarset.kruise.io/mesh-2", "1"),
            (INJECTED_LIST, "mesh-set"),
            (
                HASH,
                &record(
                    "d9xv2x66x8f6vf5cf58xz78xx545w4745vb7f8d424bvz2659v2b47454fc45zbz",
                    r#","controllerRevision":"mesh-set-7d77d6bdb7""#,
                ),
            ),
            (
                HASH_WITHOUT_IMAGE,
                &record("zxw4444dv4cv44xf457dw4dz8x6b47vz747578722v4c4cdfbd42z62248648z84", ""),
            ),
        ],
    );
    let twin = |name: &str, image: &str| {
        let path = |prefix: &str| json!({"fieldRef": {"fieldPath": format!("metadata.annotations['{prefix}.sidecarset.kruise.io/{name}']")}});
        json!({"name": name, "image": image, "env": [
            {"name": "IS_INJECTED", "value": "true"},
            {"name": "SIDECARSET_VERSION", "valueFrom": path("version")},
            {"name": "SIDECARSET_VERSION_ALT", "valueFrom": path("versionalt")},
        ]})
    };
    let mesh = twin("mesh-1", "registry.example.com/mesh:1.0");
    let idle = twin("mesh-2", "registry.example.com/mesh-empty:1.0");
    assert_holds(&pod["spec"]["containers"], &json!([mesh, idle, {"name": "app", "image": "nginx:1.25"}]));
    set.deleted().await;

    let plain =
        shop.sidecar_set("plain").init_container("setup", "busybox:1.36").having("upgradeStrategy", hot);
    shop.stock([plain]).await;
    let pod = shop.admit(shop.pod("plain")).await;
    assert_eq!(names(&pod["spec"]["initContainers"]), ["setup"]);
}

/// Scenario 22, example 12.3.
#[tokio::test]
async fn resources_of_a_sidecar_follow_those_of_the_app() {
    for (mode, expected) in [
        ("sum", json!({"limits": {"cpu": "250m"}, "requests": {"cpu": "60m", "memory": "106Mi"}})),
        ("max", json!({"limits": {"cpu": "150m"}, "requests": {"cpu": "40m", "memory": "74Mi"}})),
    ] {
        let shop = Shop::open(mode).await;
        shop.stock([computed(&shop, mode, ".*")]).await;
        let app = shop
            .bare_pod("web")
            .container("a", "nginx:1.25")
            .having(
                "resources",
                json!({"limits": {"cpu": "200m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}}),
            )
            .container("b", "nginx:1.25")
            .having(
                "resources",
                json!({"limits": {"cpu": "300m"}, "requests": {"cpu": "50m", "memory": "64Mi"}}),
            );
        let pod = shop.admit(app).await;
        assert_eq!(named(&pod["spec"]["containers"], "sized")["resources"], expected);
    }
}

/// Scenario 22.
#[tokio::test]
async fn a_resources_policy_without_targets_denies() {
    let shop = Shop::open("targets").await;
    shop.stock([computed(&shop, "sum", "^nobody$")]).await;
    let (code, text) = shop.refuse(shop.pod("web")).await;
    assert_eq!(code, 500);
    assert_eq!(
        text,
        r#"admission webhook "mpod.kb.io" denied the request: no containers match the regex pattern "^nobody$""#
    );
}

fn computed(shop: &Shop, mode: &str, pattern: &str) -> Object {
    shop.sidecar_set("sized").container("sized", "busybox:1.36").having(
        "resourcesPolicy",
        json!({
            "targetContainersMode": mode, "targetContainersNameRegex": pattern,
            "resourcesExpr": {
                "limits": {"cpu": "max(cpu*50%, 100m)", "memory": "memory*25%"},
                "requests": {"cpu": "cpu*40%", "memory": "memory*50% + 10Mi"},
            },
        }),
    )
}
