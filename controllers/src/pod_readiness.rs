//! Controller `pod-readiness-controller`: gives every Pod with the readiness gate `KruisePodReady` the
//! condition of that name (spec 30 §10), so that the gate we injected never keeps a Pod from ready.

use std::sync::Arc;

use cluster::watched::Key;
use cluster::write::{self, PatchKind};
use planner::moment::Moment;
use planner::readiness_gate;
use tokio::sync::mpsc;

use crate::pods::Pods;
use crate::queue::{self, Next, Settings};
use crate::{Context, now};

const SETTINGS: Settings = Settings { name: "pod-readiness-controller", workers: 3 };

/// Reconciles the Pods whose keys arrive.
pub async fn run(context: Context, pods: Arc<Pods>, keys: mpsc::UnboundedReceiver<Key>) {
    let client = context.client.clone();
    queue::run(SETTINGS, &context.metrics, keys, move |key| {
        let (client, pods) = (client.clone(), pods.clone());
        async move { reconcile(&client, &pods, &key, now()).await }
    })
    .await;
}

async fn reconcile(client: &kube::Client, pods: &Pods, key: &Key, moment: Moment) -> Result<Next, kube::Error> {
    let Some(patch) = pods.get(key).and_then(|pod| readiness_gate::initial_condition(pod.get(), moment)) else {
        return Ok(Next::Done);
    };
    let path = format!("/api/v1/namespaces/{}/pods/{}/status", key.0, key.1);
    match write::patch(client, &path, PatchKind::StrategicMerge, patch).await {
        Err(error) if cluster::client::is_not_found(&error) => Ok(Next::Done),
        answer => answer.map(|_| Next::Done),
    }
}
