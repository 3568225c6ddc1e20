//! What sidecars take over from the app's containers (docs/behaviour/pod-mutation.md#shared-volumes and
//! docs/behaviour/pod-mutation.md#transferred-variables).

use serde_json::{Value, json};

use super::after;
use crate::support::{Shop, named, names};

fn paths<'v>(container: &'v Value, list: &str, path: &str) -> Vec<&'v str> {
    container[list].as_array().into_iter().flatten().map(|item| item[path].as_str().unwrap()).collect()
}

/// Scenario 8.
#[tokio::test]
async fn the_volume_of_the_pod_wins() {
    let shop = Shop::open("volumes").await;
    let set = after(shop.sidecar_set("log"), "log")
        .having("volumeMounts", json!([{"name": "spool", "mountPath": "/spool"}]))
        .with("/spec/volumes", json!([{"name": "spool", "emptyDir": {}}]));
    shop.stock([set]).await;
    let volumes = json!([{"name": "spool", "hostPath": {"path": "/x", "type": ""}}]);
    let pod = shop.admit(shop.pod("web").with("/spec/volumes", volumes.clone())).await;
    assert_eq!(pod["spec"]["volumes"], volumes);
    assert_eq!(paths(named(&pod["spec"]["containers"], "log"), "volumeMounts", "mountPath"), ["/spool"]);
}

/// Scenario 9.
#[tokio::test]
async fn own_mount_paths_are_not_shared() {
    let shop = Shop::open("mounts").await;
    let set = after(shop.sidecar_set("log"), "log")
        .having("shareVolumePolicy", json!({"type": "enabled"}))
        .having("volumeMounts", json!([{"name": "own", "mountPath": "/data"}]))
        .with("/spec/volumes", json!([{"name": "own", "emptyDir": {}}]));
    shop.stock([set]).await;
    let mounts = json!([{"name": "app", "mountPath": "/data"}, {"name": "app", "mountPath": "/more"}]);
    let app = shop
        .pod("web")
        .having("volumeMounts", mounts)
        .with("/spec/volumes", json!([{"name": "app", "emptyDir": {}}]));
    let pod = shop.admit(app).await;
    let mounts = &named(&pod["spec"]["containers"], "log")["volumeMounts"];
    assert_eq!(
        *mounts,
        json!([{"name": "own", "mountPath": "/data"}, {"name": "app", "mountPath": "/more"}])
    );
}

/// Scenario 10.
#[tokio::test]
async fn variables_of_a_shared_sub_path_are_copied_where_they_exist() {
    let shop = Shop::open("paths").await;
    let set = after(shop.sidecar_set("log"), "log").having("shareVolumePolicy", json!({"type": "enabled"}));
    shop.stock([set]).await;
    let mount = json!([{"name": "app", "mountPath": "/data", "subPathExpr": "x/$(POD_NAME)/$(MISSING)"}]);
    let app = shop.pod("web").env("POD_NAME", "me").env("OTHER", "x").having("volumeMounts", mount);
    let pod = shop.admit(app.with("/spec/volumes", json!([{"name": "app", "emptyDir": {}}]))).await;
    assert_eq!(names(&named(&pod["spec"]["containers"], "log")["env"]), ["IS_INJECTED", "POD_NAME"]);
}

/// Scenario 11.
#[tokio::test]
async fn devices_are_shared_but_for_paths_in_use() {
    let shop = Shop::open("devices").await;
    let set = after(shop.sidecar_set("log"), "log")
        .having("shareVolumeDevicePolicy", json!({"type": "enabled"}))
        .having("volumeMounts", json!([{"name": "own", "mountPath": "/dev/mounted"}]))
        .having("volumeDevices", json!([{"name": "block", "devicePath": "/dev/own"}]))
        .with(
            "/spec/volumes",
            json!([{"name": "own", "emptyDir": {}}, {"name": "block", "persistentVolumeClaim": {"claimName": "block"}}]),
        );
    shop.stock([set]).await;
    let devices = ["/dev/mounted", "/dev/own", "/dev/app"];
    let volume = |index: usize| json!({"name": format!("v{index}"), "persistentVolumeClaim": {"claimName": format!("c{index}")}});
    let device = |(index, path): (usize, &&str)| json!({"name": format!("v{index}"), "devicePath": path});
    let app = shop
        .pod("web")
        .having("volumeDevices", Value::from_iter(devices.iter().enumerate().map(device)))
        .with("/spec/volumes", Value::from_iter((0..devices.len()).map(volume)));
    let pod = shop.admit(app).await;
    let sidecar = named(&pod["spec"]["containers"], "log");
    assert_eq!(paths(sidecar, "volumeDevices", "devicePath"), ["/dev/own", "/dev/app"]);
    assert_eq!(paths(sidecar, "volumeMounts", "mountPath"), ["/dev/mounted"]);
}

/// Scenario 12.
#[tokio::test]
async fn the_source_of_a_variable_may_be_named_by_a_label() {
    let shop = Shop::open("env").await;
    let from = json!({"fieldRef": {"fieldPath": "metadata.labels['cName']"}});
    let set = after(shop.sidecar_set("log"), "log")
        .having("transferEnv", json!([{"sourceContainerNameFrom": from, "envNames": ["REGION", "ABSENT"]}]));
    shop.stock([set]).await;
    let app = |name: &str| {
        shop.bare_pod(name)
            .container("other", "nginx:1.25")
            .env("REGION", "us")
            .container("shop", "nginx:1.25")
            .env("REGION", "eu")
    };
    let env = |pod: &Value| named(&pod["spec"]["containers"], "log")["env"].clone();
    let labelled = shop.admit(app("labelled").label("cName", "shop")).await;
    assert_eq!(
        env(&labelled),
        json!([{"name": "IS_INJECTED", "value": "true"}, {"name": "REGION", "value": "eu"}])
    );
    let unlabelled = shop.admit(app("unlabelled")).await;
    assert_eq!(env(&unlabelled), json!([{"name": "IS_INJECTED", "value": "true"}]));
}
