//! Controller `pod-readiness-controller`: gives every Pod with the readiness gate `KruisePodReady` the
//! condition of that name (spec 30 §10), so that the gate we injected never keeps a Pod from ready.

use std::sync::Arc;

use cluster::watched::Key;
use cluster::write::{self, PatchKind};
use kube::Client;
use planner::pod::readiness_gate;
use tokio::sync::mpsc;

use crate::panics::Containment;
use crate::pods::Pods;
use crate::queue::{self, Next, Settings};
use crate::{Context, ReconcileError, now, pod_reference, triggers};

const SETTINGS: Settings = Settings { name: "pod-readiness-controller", workers: 3 };

/// Reconciles the Pods that wait. Ends never.
pub async fn run(context: Context, pods: Arc<Pods>) {
    let (sender, keys) = mpsc::unbounded_channel();
    let waiting = triggers::forward(pods.waiting().subscribe(), sender, triggers::changed);
    let client = context.client.clone();
    let containment = Arc::new(Containment::new(SETTINGS.name, context.metrics.clone(), client.clone()));
    let queue = queue::run(SETTINGS, &context.metrics, keys, move |key| {
        let (client, pods, containment) = (client.clone(), pods.clone(), containment.clone());
        async move {
            let object = || pods.waiting().get(&key).map(|pod| pod_reference(&*pod));
            containment.contain(object, reconcile(&client, &pods, &key)).await
        }
    });
    tokio::join!(waiting, queue);
}

async fn reconcile(client: &Client, pods: &Pods, key: &Key) -> Result<Next, ReconcileError> {
    let Some(pod) = pods.waiting().get(key) else { return Ok(Next::Done) };
    let Some(patch) = readiness_gate::initial_condition(pod.json(), now().now)? else {
        return Ok(Next::Done);
    };
    let path = format!("/api/v1/namespaces/{}/pods/{}/status", key.0, key.1);
    match write::patch(client, &path, PatchKind::StrategicMerge, patch).await {
        // Gone, or another Pod of that name by now, of which the watch will tell.
        Err(error) if cluster::client::is_outdated(&error) => Ok(Next::Done),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(Next::Done),
    }
}
