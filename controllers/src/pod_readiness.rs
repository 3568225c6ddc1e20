//! Controller `pod-readiness-controller`: gives every Pod with the readiness gate `KruisePodReady` the
//! condition of that name (spec 30 §10), so that the gate we injected never keeps a Pod from ready.

use std::sync::Arc;

use cluster::Retry;
use cluster::resource::PODS;
use cluster::watched::Key;
use cluster::write::{self, PatchKind};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use planner::pod::readiness_gate;
use tokio::sync::mpsc;

use crate::workload::pods::Pods;
use crate::workload::queue::{self, Next, QueueSettings, Reconciler};
use crate::workload::{events, triggers};
use crate::{Context, ReconcileError, now, pod_reference};

const SETTINGS: QueueSettings = QueueSettings { name: "pod-readiness-controller", workers: 3 };

/// Reconciles the Pods that wait. Ends never.
pub async fn run(context: Context, pods: Arc<Pods>) {
    let (sender, keys) = mpsc::unbounded_channel();
    let waiting = triggers::forward(pods.waiting().subscribe(), sender, triggers::changed);
    let readiness = Arc::new(PodReadiness { client: context.client.clone(), pods });
    tokio::join!(waiting, queue::serve(SETTINGS, &context, keys, readiness, events::teller("Reconcile")));
}

struct PodReadiness {
    client: Client,
    pods: Arc<Pods>,
}

impl Reconciler for PodReadiness {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        reconcile(&self.client, &self.pods, key).await
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        self.pods.waiting().get(key).map(|pod| pod_reference(&*pod))
    }
}

async fn reconcile(client: &Client, pods: &Pods, key: &Key) -> Result<Next, ReconcileError> {
    let Some(pod) = pods.waiting().get(key) else { return Ok(Next::Done) };
    let condition = readiness_gate::initial_condition(pod.json(), now().now);
    let Some(patch) = condition.map_err(ReconcileError::of_object("Pod"))? else { return Ok(Next::Done) };
    let path = PODS.namespaced(&key.0).name(&key.1).subresource("status");
    match write::patch(client, &path, PatchKind::StrategicMerge, patch).await {
        // Gone, or another Pod of that name by now, of which the watch will tell.
        Err(error) if error.retry() == Retry::Now => Ok(Next::Done),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(Next::Done),
    }
}
