//! Controller `pod-readiness-controller`: gives every Pod with the readiness gate `KruisePodReady` the
//! condition of that name, so that the gate we injected never keeps a Pod from ready.
//!
//! Pods of CloneSets get it from the controller of CloneSets, in one patch with their other first conditions.
//! A Pod that its CloneSet lets go gets it here.

use std::sync::Arc;

use cluster::resource::PODS;
use cluster::watched::Key;
use cluster::write::{self, PatchKind, unless_outdated};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use pod::observed::ObservedPod;
use pod::readiness_gate;

use crate::workload::builder::{Builder, Next, QueueSettings, Reconciler, changed};
use crate::workload::pods::{Pods, is_left_to_workload};
use crate::workload::store::Kept;
use crate::{Context, ReconcileError, now};

const SETTINGS: QueueSettings = QueueSettings { name: "pod-readiness-controller", workers: 3 };

/// Reconciles the Pods that wait. Never returns.
pub async fn run(context: Context, pods: Arc<Pods>) {
    let waiting = pods.waiting().subscribe();
    let reconciler = PodReadiness { client: context.client.clone(), pods };
    Builder::new(&context, SETTINGS, "Reconcile", |_| reconciler).woken_by(waiting, changed).run().await;
}

struct PodReadiness {
    client: Client,
    pods: Arc<Pods>,
}

impl Reconciler for PodReadiness {
    type Key = Key;
    type Error = ReconcileError;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        reconcile(&self.client, &self.pods, key).await
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        self.pods.waiting().get(key).map(|pod| pod.reference(&PODS))
    }
}

async fn reconcile(client: &Client, pods: &Pods, key: &Key) -> Result<Next, ReconcileError> {
    let Some(pod) = pods.waiting().get(key) else { return Ok(Next::Done) };
    let pod = ObservedPod::read(pod.json()).map_err(ReconcileError::of_object("Pod"))?;
    if is_left_to_workload(&pod) {
        return Ok(Next::Done);
    }
    let Some(patch) = readiness_gate::initial_condition(&pod, now().now) else { return Ok(Next::Done) };
    let path = PODS.namespaced(&key.0).name(&key.1).subresource("status");
    let answer = unless_outdated(write::patch(client, &path, PatchKind::StrategicMerge, patch).await)?;
    // A change of the Pod that the watch reports before this one must not lead to the same write again.
    answer.map(|text| pods.written(&text)).transpose()?;
    Ok(Next::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::workload::store::follow::Sink;
    use serde_json::json;

    /// What is asked about a Pod with the gate whose controller is of this kind, though the watch stays behind.
    async fn asked(api_version: &str, kind: &str) -> (bool, Vec<String>) {
        let condition = json!({"type": "KruisePodReady", "status": "True"});
        let written = json!({
            "metadata": {"namespace": "n", "name": "p", "uid": "u", "resourceVersion": "2"},
            "spec": {"readinessGates": [{"conditionType": "KruisePodReady"}]}, "status": {"conditions": [condition]},
        });
        let (client, requests) = fake::api_server(move |_| (200, written.to_string()));
        let pods = Pods::new(false);
        let owner =
            json!({"apiVersion": api_version, "kind": kind, "name": "web", "uid": "o", "controller": true});
        let metadata = json!({"namespace": "n", "name": "p", "uid": "u", "resourceVersion": "1", "ownerReferences": [owner]});
        let pod =
            json!({"metadata": metadata, "spec": {"readinessGates": [{"conditionType": "KruisePodReady"}]}});
        pods.list_begins();
        pods.see(serde_json::from_str(&pod.to_string()).unwrap());
        pods.list_ends();
        let key = ("n".to_owned(), "p".to_owned());
        for _ in 0..2 {
            reconcile(&client, &pods, &key).await.unwrap();
        }
        let requests = requests.lock().unwrap().clone();
        (pods.waiting().get(&key).is_some(), requests)
    }

    #[tokio::test]
    async fn a_pod_gets_its_first_condition_from_one_controller() {
        for (api_version, kind) in [
            ("apps.kruise.io/v1beta1", "BroadcastJob"),
            ("apps/v1", "ReplicaSet"),
            ("example.com/v1", "CloneSet"),
        ] {
            let (waits, requests) = asked(api_version, kind).await;
            assert!(waits && requests.len() == 1, "{kind}: {requests:?}");
            assert!(requests[0].starts_with("PATCH /api/v1/namespaces/n/pods/p/status "), "{requests:?}");
        }
        for (version, kind) in [
            ("v1alpha1", "CloneSet"),
            ("v1beta1", "CloneSet"),
            ("v1beta1", "StatefulSet"),
            ("v1beta1", "DaemonSet"),
        ] {
            let asked = asked(&format!("apps.kruise.io/{version}"), kind).await;
            assert_eq!(asked, (false, Vec::new()), "the controller of the workload writes it");
        }
    }
}
