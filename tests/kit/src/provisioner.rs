//! Storage without a CSI driver: gives PersistentVolumeClaims of one StorageClass volumes on the host, and lets them
//! grow. Fake and real nodes serve alike; a real kubelet mounts the folders.

use std::path::{Path, PathBuf};
use std::pin::pin;

use futures::StreamExt;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::objects;

/// Marks claims that were observed as bound.
const SEEN_BOUND: &str = "kit.example.com/seen-bound";

/// How volumes grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expansion {
    /// As soon as it is asked for.
    AtOnce,
    /// Never: the claim continues asking.
    Never,
    /// The file system grows with the next Pod: until then the claim has condition `FileSystemResizePending`.
    WithNewPod,
}

/// Serves the claims of one class until it is dropped.
#[derive(Debug)]
pub struct Provisioner(JoinHandle<()>);

impl Drop for Provisioner {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Provisioner {
    /// Creates the StorageClass `class`, whose volumes may grow where `expansion` says how, and serves its claims
    /// with folders in `directory`.
    pub async fn start(client: Client, class: &str, expansion: Option<Expansion>, directory: &Path) -> Self {
        let manifest = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": class}, "provisioner": "kit.example.com/host-path",
            "volumeBindingMode": "Immediate", "allowVolumeExpansion": expansion.is_some()});
        objects::create(&client, manifest).await.unwrap();
        let site = Site { client, class: class.to_owned(), expansion, directory: directory.to_owned() };
        Self(tokio::spawn(async move {
            let claims: Api<DynamicObject> =
                Api::all_with(site.client.clone(), &objects::kind("v1", "PersistentVolumeClaim"));
            let pods: Api<DynamicObject> = Api::all_with(site.client.clone(), &objects::kind("v1", "Pod"));
            let changes = |api| watcher(api, watcher::Config::default()).default_backoff().applied_objects();
            // A Pod that comes may be the one that a file system waits for.
            let mut changes = pin!(futures::stream::select(changes(claims), changes(pods)));
            while let Some(change) = changes.next().await {
                let Ok(change) = change else { continue };
                let change = serde_json::to_value(change).unwrap();
                let is_claim = change["kind"] == "PersistentVolumeClaim";
                if is_claim {
                    site.serve(&change).await;
                } else if site.expansion == Some(Expansion::WithNewPod) {
                    site.mount(&change).await;
                }
            }
        }))
    }
}

struct Site {
    client: Client,
    class: String,
    expansion: Option<Expansion>,
    directory: PathBuf,
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl Site {
    async fn serve(&self, claim: &Value) {
        if text(claim, "/spec/storageClassName") != self.class
            || !claim["metadata"]["deletionTimestamp"].is_null()
        {
            return;
        }
        let wanted = text(claim, "/spec/resources/requests/storage");
        if text(claim, "/spec/volumeName").is_empty() {
            self.bind(claim, wanted).await;
        } else if text(claim, "/status/capacity/storage") != wanted {
            let is_new = claim["status"]["capacity"].is_null();
            match self.expansion {
                _ if is_new => self.grow(claim, wanted).await,
                Some(Expansion::AtOnce) => self.grow(claim, wanted).await,
                Some(Expansion::WithNewPod) if claim["status"]["conditions"].is_null() => {
                    let condition = json!({"type": "FileSystemResizePending", "status": "True",
                        "lastTransitionTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()});
                    self.patch_status(claim, &json!({"conditions": [condition]})).await;
                }
                Some(Expansion::WithNewPod | Expansion::Never) | None => {}
            }
        }
        self.mark(claim).await;
    }

    /// Marks a claim that is bound. Once in many runs the scheduler misses that the claim of a Pod was bound, and would
    /// reconcile again after minutes: it handles each change of the claim.
    async fn mark(&self, claim: &Value) {
        let is_bound = text(claim, "/status/phase") == "Bound";
        if !is_bound || !claim["metadata"]["annotations"][SEEN_BOUND].is_null() {
            return;
        }
        let (namespace, name) = (text(claim, "/metadata/namespace"), text(claim, "/metadata/name"));
        let mark = Patch::Merge(json!({"metadata": {"annotations": {SEEN_BOUND: "true"}}}));
        drop(self.claims(namespace).patch(name, &PatchParams::default(), &mark).await);
    }

    /// Makes a volume for the claim.
    async fn bind(&self, claim: &Value, wanted: &str) {
        let (namespace, name) = (text(claim, "/metadata/namespace"), text(claim, "/metadata/name"));
        let volume_name = format!("{namespace}-{name}-{}", text(claim, "/metadata/uid"));
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume_name},
            "spec": {"capacity": {"storage": wanted}, "accessModes": claim["spec"]["accessModes"],
                "storageClassName": self.class, "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace,
                    "name": name, "uid": claim["metadata"]["uid"]},
                "hostPath": {"path": self.directory.join(&volume_name), "type": "DirectoryOrCreate"}}});
        let volumes: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &objects::kind("v1", "PersistentVolume"));
        // Made by an earlier reconcile of the claim.
        drop(volumes.create(&PostParams::default(), &serde_json::from_value(volume).unwrap()).await);
        let bound = Patch::Merge(json!({"spec": {"volumeName": volume_name}}));
        drop(self.claims(namespace).patch(name, &PatchParams::default(), &bound).await);
        let bound = Patch::Merge(json!({"status": {"phase": "Bound"}}));
        drop(volumes.patch_status(&volume_name, &PatchParams::default(), &bound).await);
    }

    /// The volume of the claim is as large as wanted.
    async fn grow(&self, claim: &Value, wanted: &str) {
        let volumes: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &objects::kind("v1", "PersistentVolume"));
        let capacity = Patch::Merge(json!({"spec": {"capacity": {"storage": wanted}}}));
        let volume = text(claim, "/spec/volumeName");
        drop(volumes.patch(volume, &PatchParams::default(), &capacity).await);
        let status = json!({"phase": "Bound", "accessModes": claim["spec"]["accessModes"],
            "capacity": {"storage": wanted}, "conditions": null});
        self.patch_status(claim, &status).await;
    }

    /// The claims of a Pod that came after they began to wait for it are mounted with the file system grown.
    async fn mount(&self, pod: &Value) {
        let (namespace, created) =
            (text(pod, "/metadata/namespace"), text(pod, "/metadata/creationTimestamp"));
        for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
            let name = text(volume, "/persistentVolumeClaim/claimName");
            let Ok(Some(claim)) = self.claims(namespace).get_opt(name).await else { continue };
            let claim = serde_json::to_value(claim).unwrap();
            let since = text(&claim, "/status/conditions/0/lastTransitionTime");
            let is_ours = text(&claim, "/spec/storageClassName") == self.class;
            if is_ours && !since.is_empty() && created > since {
                self.grow(&claim, text(&claim, "/spec/resources/requests/storage")).await;
            }
        }
    }

    async fn patch_status(&self, claim: &Value, status: &Value) {
        let (namespace, name) = (text(claim, "/metadata/namespace"), text(claim, "/metadata/name"));
        let patch = Patch::Merge(json!({"status": status}));
        // A claim that has changed meanwhile is reconciled again.
        drop(self.claims(namespace).patch_status(name, &PatchParams::default(), &patch).await);
    }

    fn claims(&self, namespace: &str) -> Api<DynamicObject> {
        objects::namespaced(&self.client, &objects::kind("v1", "PersistentVolumeClaim"), namespace)
    }
}
