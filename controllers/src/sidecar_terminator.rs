//! Controller `sidecarterminator-controller`: ends the sidecars of job Pods when their main containers are
//! done (docs/behaviour/sidecarset.md#sidecarterminator). On real nodes it asks for that by a
//! ContainerRecreateRequest. Runs with gate `SidecarTerminator`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cluster::resource::{NODES, PODS};
use cluster::watched::Key;
use cluster::write;
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::sidecar_terminator::{self, Action};
use kube::Client;
use pod::node_fit::is_virtual;
use serde::Deserialize;

use crate::workload::builder::{Builder, Next, OUTDATED_RETRY, QueueSettings, Reconciler, changed};
use crate::workload::carry_out::{Carried, carry_out};
use crate::workload::pods::Pods;
use crate::workload::recreate::recreate;
use crate::workload::store::Kept;
use crate::{Context, ReconcileError, now};
use cluster::event_sender::EventSender;

const NAME: &str = "sidecarterminator-controller";
/// A Pod that stays due is reconciled again after this time: a request may have been deleted, or failed.
const SAFETY_NET: Duration = Duration::from_secs(300);

/// Reconciles the Pods whose sidecars have to end. Never returns.
pub async fn run(context: Context, pods: Arc<Pods>) {
    let settings = QueueSettings { name: NAME, workers: context.settings.sidecarterminator_workers };
    let (client, of_pods) = (context.client.clone(), pods.subscribe());
    Builder::new(&context, settings, "Terminate", |event_sender| Terminator::new(client, pods, event_sender))
        .woken_by(of_pods, |all, change| {
            changed(all, change).filter(|_| change.new.as_deref().is_some_and(sidecar_terminator::is_due))
        })
        .run()
        .await;
}

struct Terminator {
    client: Client,
    pods: Arc<Pods>,
    event_sender: EventSender,
}

impl Reconciler for Terminator {
    type Key = Key;
    type Error = ReconcileError;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let Some(pod) = self.pods.get(key).filter(|pod| sidecar_terminator::is_due(pod)) else {
            return Ok(Next::Done);
        };
        let virtual_node = self.is_virtual(&pod.spec.node_name).await?;
        for action in sidecar_terminator::plan(&pod, virtual_node, now().now) {
            let event = match action {
                Action::Warn(event) => Some(event),
                Action::Recreate(request, event) => {
                    recreate(&self.client, &pod, request).await?.then_some(event)
                }
                Action::Write(write, event) => {
                    match carry_out(&self.client, &self.pods, &pod, &[write]).await? {
                        Carried::Written(_) => event,
                        Carried::Outdated => return Ok(Next::After(OUTDATED_RETRY)),
                    }
                }
            };
            if let Some(event) = event {
                self.event_sender.record(pod.reference(&PODS), event);
            }
        }
        Ok(Next::After(SAFETY_NET))
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        self.pods.get(key).map(|pod| pod.reference(&PODS))
    }
}

impl Terminator {
    fn new(client: Client, pods: Arc<Pods>, event_sender: EventSender) -> Self {
        Self { client, pods, event_sender }
    }

    async fn is_virtual(&self, node: &str) -> Result<bool, ReconcileError> {
        #[derive(Deserialize)]
        struct Node {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            labels: Option<BTreeMap<String, String>>,
        }
        let text = write::get(&self.client, &NODES.all().name(node)).await?;
        let Some(text) = text else { return Err(ReconcileError::NoNode(node.to_owned())) };
        let node: Node = serde_json::from_str(&text).map_err(ReconcileError::of_object("Node"))?;
        let labels = node.metadata.labels.unwrap_or_default();
        Ok(is_virtual(&labels))
    }
}

#[cfg(test)]
mod tests;
