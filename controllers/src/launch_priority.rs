//! Controller `container-launch-priority-controller`: releases the containers of a Pod from high to
//! low priority by adding keys to the ConfigMap `<pod>-barrier` (spec 30 §17).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cluster::watched::Key;
use cluster::write::{self, PatchKind};
use kube::Client;
use planner::launch_priority::barrier_name;
use planner::launch_priority::release::{PodFacts, Step, completed_patch, open_patch, release};
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::pods::Pods;
use crate::queue::{self, Next, Settings};
use crate::{Context, ReconcileError};

const SETTINGS: Settings = Settings { name: "container-launch-priority-controller", workers: 4 };
/// A Pod that waits is looked at again after this time even if no event tells of it (users' pain 8).
const SAFETY_NET: Duration = Duration::from_secs(300);

#[derive(Deserialize)]
struct Barrier {
    data: Option<BTreeMap<String, String>>,
}

/// Reconciles the Pods whose keys arrive.
pub async fn run(context: Context, pods: Arc<Pods>, keys: mpsc::UnboundedReceiver<Key>) {
    let client = context.client.clone();
    queue::run(SETTINGS, &context.metrics, keys, move |key| {
        let (client, pods) = (client.clone(), pods.clone());
        async move { reconcile(&client, &pods, &key).await }
    })
    .await;
}

async fn reconcile(client: &Client, pods: &Pods, key: &Key) -> Result<Next, ReconcileError> {
    let Some(pod) = pods.get(key) else { return Ok(Next::Done) };
    let facts = PodFacts::read(pod.get())?;
    let collection = format!("/api/v1/namespaces/{}/configmaps", facts.namespace);
    let barrier = format!("{collection}/{}", barrier_name(&facts.name));
    let mut keys = released(client, &barrier).await?;
    if release(&facts, keys.as_ref()) == Step::CreateBarrier {
        match write::create(client, &collection, facts.barrier()).await {
            // Somebody was faster, or the Pod's namespace is being deleted and there is nothing to do.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(kube::Error::Api(status)) if status.message.contains("being terminated") => {}
            answer => drop(answer?),
        }
        keys = released(client, &barrier).await?;
    }
    match release(&facts, keys.as_ref()) {
        Step::Wait | Step::CreateBarrier => return Ok(Next::After(SAFETY_NET)),
        Step::Open { key, completes } => {
            write::patch(client, &barrier, PatchKind::Merge, open_patch(&key)).await?;
            if !completes {
                return Ok(Next::After(SAFETY_NET));
            }
        }
        Step::Complete => {}
    }
    complete(client, &facts).await
}

/// The keys of the barrier; `None` while there is none.
async fn released(client: &Client, barrier: &str) -> Result<Option<BTreeSet<String>>, ReconcileError> {
    let Some(text) = write::get(client, barrier).await? else { return Ok(None) };
    let barrier: Barrier = serde_json::from_str(&text)?;
    Ok(Some(barrier.data.unwrap_or_default().into_keys().collect()))
}

async fn complete(client: &Client, facts: &PodFacts) -> Result<Next, ReconcileError> {
    let path = format!("/api/v1/namespaces/{}/pods/{}", facts.namespace, facts.name);
    match write::patch(client, &path, PatchKind::Merge, completed_patch()).await {
        Err(error) if cluster::client::is_not_found(&error) => Ok(Next::Done),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(Next::Done),
    }
}
