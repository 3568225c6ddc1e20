//! The worked examples of docs/behaviour/pod-mutation.md#examples-of-injection, whole.

use serde_json::{Value, json};

use crate::pod_review::fixture::{Cluster, pod};
use crate::world::Watched;

fn logship() -> Value {
    json!({
      "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
      "metadata": {"name": "logship", "annotations": {
        "kruise.io/sidecarset-hash": "bcxfw7cfx89vzd8v9d4z78946992xw946xwdvz8944d4496zdzx6xczbvv25xfx2",
        "kruise.io/sidecarset-hash-without-image": "7f4z7d4wwb6v2b7bxx64db6w24cz7b4wx45658d9zwf25w5dcd45242f54x5dxcd"}},
      "spec": {
        "selector": {"matchLabels": {"tier": "web"}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}},
        "initContainers": [{"name": "prep-logs", "image": "registry.example.com/prep:2.0",
          "command": ["sh", "-c", "mkdir -p /logs/a && ls /logs > /logs/b"],
          "volumeMounts": [{"name": "spool", "mountPath": "/logs"}], "podInjectPolicy": "AfterAppContainer",
          "upgradeStrategy": {"upgradeType": "ColdUpgrade"}, "shareVolumePolicy": {"type": "disabled"},
          "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
          "imagePullPolicy": "IfNotPresent"}],
        "containers": [{"name": "shipper", "image": "registry.example.com/shipper:1.4.0",
          "env": [{"name": "LEVEL", "value": "info"}], "volumeMounts": [{"name": "spool", "mountPath": "/var/spool"}],
          "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
          "imagePullPolicy": "IfNotPresent", "podInjectPolicy": "AfterAppContainer",
          "upgradeStrategy": {"upgradeType": "ColdUpgrade"}, "shareVolumePolicy": {"type": "enabled"},
          "transferEnv": [{"sourceContainerName": "shop", "envName": "SHOP_REGION"}]}],
        "volumes": [{"name": "spool", "emptyDir": {}}, {"name": "unused", "emptyDir": {}}],
        "imagePullSecrets": [{"name": "regcred"}]},
      "status": {"latestRevision": "logship-64769cc7c5"}
    })
}

fn web_7() -> Value {
    json!({"metadata": {"name": "web-7", "labels": {"tier": "web"}}, "spec": {
      "containers": [{"name": "shop", "image": "shop:3",
        "env": [{"name": "SHOP_REGION", "value": "eu"},
          {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"},
          {"name": "data", "mountPath": "/audit", "subPathExpr": "audit/$(POD_NAME)"}]}],
      "volumes": [{"name": "data", "emptyDir": {}}]}})
}

#[test]
fn scenario_2_example_12_1_basic_injection() {
    let cluster = Cluster::new().apply(Watched::SidecarSet, &logship());
    let expected = json!({
      "metadata": {"name": "web-7", "labels": {"tier": "web"}, "annotations": {
        "kruise.io/sidecarset-hash": r#"{"logship":{"updateTimestamp":"2026-07-02T09:00:00Z","hash":"bcxfw7cfx89vzd8v9d4z78946992xw946xwdvz8944d4496zdzx6xczbvv25xfx2","sidecarSetName":"logship","sidecarList":["shipper"],"controllerRevision":"logship-64769cc7c5"}}"#,
        "kruise.io/sidecarset-hash-without-image": r#"{"logship":{"updateTimestamp":"2026-07-02T09:00:00Z","hash":"7f4z7d4wwb6v2b7bxx64db6w24cz7b4wx45658d9zwf25w5dcd45242f54x5dxcd","sidecarSetName":"logship","sidecarList":["shipper"]}}"#,
        "kruise.io/sidecarset-injected-list": "logship"}},
      "spec": {
        "imagePullSecrets": [{"name": "regcred"}],
        "initContainers": [{"name": "prep-logs", "image": "registry.example.com/prep:2.0",
          "command": ["sh", "-c", "mkdir -p /logs/a && ls /logs > /logs/b"],
          "env": [{"name": "IS_INJECTED", "value": "true"}], "volumeMounts": [{"name": "spool", "mountPath": "/logs"}],
          "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
          "imagePullPolicy": "IfNotPresent"}],
        "containers": [web_7()["spec"]["containers"][0],
          {"name": "shipper", "image": "registry.example.com/shipper:1.4.0",
          "env": [{"name": "LEVEL", "value": "info"}, {"name": "IS_INJECTED", "value": "true"},
            {"name": "SHOP_REGION", "value": "eu"},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
          "volumeMounts": [{"name": "spool", "mountPath": "/var/spool"}, {"name": "data", "mountPath": "/data"},
            {"name": "data", "mountPath": "/audit", "subPathExpr": "audit/$(POD_NAME)"}],
          "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
          "imagePullPolicy": "IfNotPresent"}],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "spool", "emptyDir": {}}]}});
    let admitted = cluster.admit(&web_7());
    assert_eq!(admitted, expected);
    assert_eq!(cluster.admit(&admitted), expected);
}

#[test]
fn scenario_3_another_namespace_is_left_alone() {
    let cluster = Cluster::new().apply(Watched::SidecarSet, &logship());
    let mut elsewhere = web_7();
    elsewhere["metadata"]["namespace"] = json!("other");
    assert_eq!(cluster.admit(&elsewhere), elsewhere);
}

#[test]
fn scenario_15_example_12_2_hot_upgrade() {
    let set = json!({"metadata": {"name": "mesh-set", "annotations": {
        "kruise.io/sidecarset-hash": "d9xv2x66x8f6vf5cf58xz78xx545w4745vb7f8d424bvz2659v2b47454fc45zbz",
        "kruise.io/sidecarset-hash-without-image": "zxw4444dv4cv44xf457dw4dz8x6b47vz747578722v4c4cdfbd42z62248648z84"}},
      "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "mesh",
        "image": "registry.example.com/mesh:1.0", "podInjectPolicy": "BeforeAppContainer",
        "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "registry.example.com/mesh-empty:1.0"}}]}});
    let twin = |name: &str, image: &str| {
        let path = |prefix: &str| json!({"fieldRef": {"fieldPath": format!("metadata.annotations['{prefix}.sidecarset.kruise.io/{name}']")}});
        json!({"name": name, "image": image, "env": [{"name": "IS_INJECTED", "value": "true"},
          {"name": "SIDECARSET_VERSION", "valueFrom": path("version")},
          {"name": "SIDECARSET_VERSION_ALT", "valueFrom": path("versionalt")}]})
    };
    let record = |hash: &str| {
        format!(
            r#"{{"mesh-set":{{"updateTimestamp":"2026-07-02T09:00:00Z","hash":"{hash}","sidecarSetName":"mesh-set","sidecarList":["mesh"]}}}}"#
        )
    };
    let expected = json!({
      "metadata": {"name": "web-7", "labels": {"app": "web"}, "annotations": {
        "kruise.io/sidecarset-working-hotupgrade-container": r#"{"mesh":"mesh-1"}"#,
        "version.sidecarset.kruise.io/mesh-1": "1", "versionalt.sidecarset.kruise.io/mesh-1": "0",
        "version.sidecarset.kruise.io/mesh-2": "0", "versionalt.sidecarset.kruise.io/mesh-2": "1",
        "kruise.io/sidecarset-injected-list": "mesh-set",
        "kruise.io/sidecarset-hash": record("d9xv2x66x8f6vf5cf58xz78xx545w4745vb7f8d424bvz2659v2b47454fc45zbz"),
        "kruise.io/sidecarset-hash-without-image": record("zxw4444dv4cv44xf457dw4dz8x6b47vz747578722v4c4cdfbd42z62248648z84")}},
      "spec": {"containers": [twin("mesh-1", "registry.example.com/mesh:1.0"),
        twin("mesh-2", "registry.example.com/mesh-empty:1.0"), {"name": "app"}]}});
    let cluster = Cluster::new().apply(Watched::SidecarSet, &set);
    let admitted = cluster.admit(&pod(json!([{"name": "app"}])));
    assert_eq!(admitted, expected);
    assert_eq!(cluster.admit(&admitted), expected);
}

#[test]
fn scenario_22_example_12_3_resources_policy() {
    let set = |mode: &str| {
        Cluster::new().set("s", json!({"containers": [{"name": "sized", "podInjectPolicy": "AfterAppContainer", "resourcesPolicy": {
          "targetContainersMode": mode, "targetContainersNameRegex": ".*", "resourcesExpr": {
            "limits": {"cpu": "max(cpu*50%, 100m)", "memory": "memory*25%"},
            "requests": {"cpu": "cpu*40%", "memory": "memory*50% + 10Mi"}}}}]}))
    };
    let app = pod(json!([
      {"name": "a", "resources": {"limits": {"cpu": "200m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}}},
      {"name": "b", "resources": {"limits": {"cpu": "300m"}, "requests": {"cpu": "50m", "memory": "64Mi"}}}]));
    let sum = set("sum").admit(&app);
    assert_eq!(
        sum["spec"]["containers"][2]["resources"],
        json!({"limits": {"cpu": "250m"}, "requests": {"cpu": "60m", "memory": "106Mi"}})
    );
    assert_eq!(set("sum").admit(&sum), sum);
    let max = set("max").admit(&app);
    assert_eq!(
        max["spec"]["containers"][2]["resources"],
        json!({"limits": {"cpu": "150m"}, "requests": {"cpu": "40m", "memory": "74Mi"}})
    );
    let nothing = set("sum").admit(&pod(json!([{"name": "a"}])));
    assert_eq!(
        nothing["spec"]["containers"][1]["resources"],
        json!({"requests": {"cpu": "0", "memory": "10Mi"}})
    );
}
