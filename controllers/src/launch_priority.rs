//! Controller `container-launch-priority-controller`: releases the containers of a Pod from high to
//! low priority by adding keys to the ConfigMap `<pod>-barrier` (spec 30 §17).

use std::sync::Arc;
use std::time::Duration;

use cluster::watched::Key;
use cluster::write::{self, PatchKind};
use kube::Client;
use planner::launch_priority::{self, Step};
use tokio::sync::mpsc;

use crate::Context;
use crate::pods::Pods;
use crate::queue::{self, Next, Settings};

const SETTINGS: Settings = Settings { name: "container-launch-priority-controller", workers: 4 };
/// A Pod is looked at again after this time even if no event tells of it (users' pain 8).
const SAFETY_NET: Duration = Duration::from_secs(300);

/// Reconciles the Pods whose keys arrive.
pub async fn run(context: Context, pods: Arc<Pods>, keys: mpsc::UnboundedReceiver<Key>) {
    let client = context.client.clone();
    queue::run(SETTINGS, &context.metrics, keys, move |key| {
        let (client, pods) = (client.clone(), pods.clone());
        async move { reconcile(&client, &pods, &key).await }
    })
    .await;
}

async fn reconcile(client: &Client, pods: &Pods, key: &Key) -> Result<Next, kube::Error> {
    let Some(pod) = pods.get(key) else { return Ok(Next::Done) };
    let (namespace, name) = key;
    let collection = format!("/api/v1/namespaces/{namespace}/configmaps");
    let barrier = format!("{collection}/{name}-barrier");
    loop {
        let released = write::get(client, &barrier).await?;
        let (path, kind, body) = match launch_priority::next_step(pod.get(), released.as_deref()) {
            Step::Wait => return Ok(Next::After(SAFETY_NET)),
            Step::CreateBarrier(body) => {
                match write::create(client, &collection, body).await {
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    answer => drop(answer?),
                }
                continue;
            }
            Step::Release(body) => (barrier.clone(), PatchKind::Merge, body),
            Step::Complete(body) => {
                (format!("/api/v1/namespaces/{namespace}/pods/{name}"), PatchKind::Merge, body)
            }
            Step::Done => return Ok(Next::Done),
        };
        match write::patch(client, &path, kind, body).await {
            // The Pod is gone, or the ConfigMap was deleted between two steps: begin again if need be.
            Err(error) if cluster::client::is_not_found(&error) => return Ok(Next::After(Duration::from_secs(1))),
            answer => drop(answer?),
        }
        if path != barrier {
            return Ok(Next::Done);
        }
    }
}
