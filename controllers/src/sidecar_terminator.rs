//! Controller `sidecarterminator-controller`: ends the sidecars of job Pods when their main containers
//! are done (spec 20 §11). On real nodes it asks for that by a ContainerRecreateRequest. Runs with gate
//! `SidecarTerminator`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cluster::events::{Recorder, Severity};
use cluster::watched::Key;
use cluster::write;
use kube::Client;
use planner::kinds::sidecar_terminator::{self, Action, RecreateRequest};
use planner::pod::observed::ObservedPod;
use planner::workload::event::Event;
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::carry_out::{Outcome, carry_out};
use crate::panics::Containment;
use crate::pods::Pods;
use crate::queue::{self, Next};
use crate::{Context, ReconcileError, now, pod_reference, triggers};

const NAME: &str = "sidecarterminator-controller";
/// Pause before a Pod is looked at again that had changed when it was to be written to.
const SOON: Duration = Duration::from_secs(1);
/// A Pod that stays due is looked at again after this time: a request may have been deleted, or failed.
const SAFETY_NET: Duration = Duration::from_secs(300);

/// Reconciles the Pods whose sidecars have to end. Ends never.
pub async fn run(context: Context, pods: Arc<Pods>) {
    let (sender, keys) = mpsc::unbounded_channel();
    let changed = triggers::forward(pods.subscribe(), sender, |change| {
        triggers::changed(change).filter(|_| change.new.as_deref().is_some_and(sidecar_terminator::is_due))
    });
    let client = context.client.clone();
    let containment = Arc::new(Containment::new(NAME, context.metrics.clone(), client.clone()));
    let terminator = Arc::new(Terminator::new(client, pods));
    let settings = queue::Settings { name: NAME, workers: context.settings.sidecarterminator_workers };
    let queue = queue::run(settings, &context.metrics, keys, move |key| {
        let (terminator, containment) = (terminator.clone(), containment.clone());
        async move {
            let object = || terminator.pods.get(&key).map(|pod| pod_reference(&*pod));
            containment.contain(object, terminator.reconcile(&key)).await
        }
    });
    tokio::join!(changed, queue);
}

struct Terminator {
    client: Client,
    pods: Arc<Pods>,
    recorder: Recorder,
    /// Of Pods that are due, the warning that was told last.
    warned: Mutex<HashMap<Key, Warned>>,
}

/// The UID of a Pod, and what was told of it.
type Warned = (Box<str>, String);

impl Terminator {
    fn new(client: Client, pods: Arc<Pods>) -> Self {
        Self { recorder: Recorder::new(client.clone(), NAME, None), client, pods, warned: Mutex::default() }
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let Some(pod) = self.pods.get(key).filter(|pod| sidecar_terminator::is_due(pod)) else {
            self.warned.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            return Ok(Next::Done);
        };
        let virtual_node = self.is_virtual(&pod.spec.node_name).await?;
        for action in sidecar_terminator::plan(&pod, virtual_node, now().now) {
            let event = match action {
                Action::Warn(event) => self.is_news(key, &pod, &event).then_some(event),
                Action::Recreate(request, event) => self.recreate(&pod, request).await?.then_some(event),
                Action::Write(write, event) => {
                    match carry_out(&self.client, &self.pods, &pod, &[write]).await? {
                        Outcome::Written(_) => event,
                        Outcome::Outdated => return Ok(Next::After(SOON)),
                    }
                }
            };
            if let Some(event) = event {
                self.tell(&pod, &event).await;
            }
        }
        Ok(Next::After(SAFETY_NET))
    }

    /// False if this was told of the Pod already.
    fn is_news(&self, key: &Key, pod: &ObservedPod, event: &Event) -> bool {
        let warned = (pod.metadata.uid.clone(), event.message.clone());
        let mut all = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(key.clone(), warned.clone()) != Some(warned)
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
        let text = write::get(&self.client, &format!("/api/v1/nodes/{node}")).await?;
        let Some(text) = text else { return Err(ReconcileError::NoNode(node.to_owned())) };
        let labels = serde_json::from_str::<Node>(&text)?.metadata.labels.unwrap_or_default();
        Ok(labels.get("type").is_some_and(|kind| kind == "virtual-kubelet"))
    }

    /// Creates the request; false where there is one of its name.
    async fn recreate(&self, pod: &ObservedPod, request: RecreateRequest) -> Result<bool, ReconcileError> {
        let namespace = &pod.metadata.namespace;
        let path =
            format!("/apis/{}/v1beta1/namespaces/{namespace}/containerrecreaterequests", api::APPS_GROUP);
        match write::create(&self.client, &path, request.json).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(true),
        }
    }

    async fn tell(&self, pod: &ObservedPod, event: &Event) {
        let severity = if event.warning { Severity::Warning } else { Severity::Normal };
        self.recorder
            .record(&pod_reference(pod), severity, "Terminate", event.reason, event.message.clone())
            .await;
    }
}

#[cfg(test)]
mod tests;
