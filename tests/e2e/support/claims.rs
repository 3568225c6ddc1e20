//! Claims whose volumes are played: nobody provisions any.

use kit::builders::object;
use kit::wait_for;
use serde_json::{Value, json};

use super::Stored;
use super::fleet::Fleet;

/// The claim of this name.
pub fn claim(fleet: &Fleet, name: &str) -> Stored {
    let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims/{name}", fleet.shop.namespace);
    Stored::existing(&fleet.shop.client, path, Value::Null)
}

/// A claim, once it is as wanted.
pub async fn wait_claim(fleet: &Fleet, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let stored = claim(fleet, name);
    wait_for(&format!("{name} {what}"), async || {
        let now = stored.get().await.1;
        if holds(&now) { Ok(now) } else { Err(now["metadata"].clone()) }
    })
    .await
}

/// A StorageClass whose volumes can grow or not. Gives its name.
pub async fn storage_class(fleet: &Fleet, expansion: bool) -> String {
    let class = fleet.shop.name("class");
    let storage = object("storage.k8s.io/v1", "StorageClass", &class)
        .with("/provisioner", "example.com/none")
        .with("/volumeBindingMode", "WaitForFirstConsumer")
        .with("/allowVolumeExpansion", expansion);
    Stored::create(&fleet.shop.client, storage).await;
    class
}

/// Gives the claim a volume.
pub async fn provision(fleet: &Fleet, name: &str, class: &str) {
    let claim = claim(fleet, name);
    let now = claim.get().await.1;
    let owner = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": name,
        "namespace": fleet.shop.namespace, "uid": now["metadata"]["uid"]});
    let volume = object("v1", "PersistentVolume", &format!("{}-{name}", fleet.shop.namespace)).with(
        "/spec",
        json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "claimRef": owner, "hostPath": {"path": "/nowhere"}}),
    );
    Stored::create(&fleet.shop.client, volume).await;
    wait_claim(fleet, name, "to be bound", |claim| claim["status"]["phase"] == "Bound").await;
}
