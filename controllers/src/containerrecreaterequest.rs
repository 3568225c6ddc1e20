//! Controller `containerrecreaterequest-controller`: what continues in the cluster while the node agent restarts the
//! containers of a ContainerRecreateRequest (docs/behaviour/restarts.md#the-controller-of-containerrecreaterequests).
//! What to do is decided by `kinds::containerrecreaterequest`. Runs with the gate `KruiseDaemon`.

use std::sync::Arc;
use std::time::Duration;

use api::features::Feature;
use api::kinds::containerrecreaterequest::{API_VERSION, ContainerRecreateRequest, KIND, PLURAL};
use api::labels::CRR_POD_UID;
use cluster::resource::Resource;
use cluster::watched::Key;
use cluster::write::{self, PatchKind, deletion, unless_outdated};
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::containerrecreaterequest::step::{Step, is_over, reads_pod, step};
use kube::Client;
use pod::observed::ObservedPod;
use pod::write::PodWrite;

use crate::metrics::objects;
use crate::workload::builder::{Builder, Next, QUICK_RETRY, QueueSettings, Reconciler, touched};
use crate::workload::carry_out::{Carried, carry_out};
use crate::workload::pods::Pods;
use crate::workload::store::follow::{Readable, is_gone};
use crate::workload::store::{Change, Identity, Kept, Store};
use crate::{Context, ReconcileError, now};

const NAME: &str = "containerrecreaterequest-controller";
const REQUESTS: Resource<'_> = Resource::new(API_VERSION, PLURAL, KIND);
/// Writes in one reconcile. No request needs more at a time.
const STEPS: usize = 8;

impl Kept for ContainerRecreateRequest {
    /// The UID of the Pod, of a request that is not over.
    type Group = Box<str>;

    fn identity(&self) -> Identity<'_> {
        Identity::from(&self.metadata)
    }

    fn groups(&self) -> Vec<Box<str>> {
        let uid = self.metadata.labels.get(CRR_POD_UID).filter(|_| !is_over(self));
        uid.map(|uid| uid.as_str().into()).into_iter().collect()
    }
}

impl Readable for ContainerRecreateRequest {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }

    fn is_gone(&self) -> bool {
        is_gone(&self.metadata)
    }
}

struct Controller {
    client: Client,
    requests: Store<ContainerRecreateRequest>,
    pods: Arc<Pods>,
}

/// Whether requests are carried out.
pub(crate) fn is_on(context: &Context) -> bool {
    context.settings.gates.enabled(Feature::KruiseDaemon)
}

/// Reconciles requests. Never returns.
pub async fn run(context: Context, pods: Arc<Pods>) {
    let settings = QueueSettings { name: NAME, workers: context.settings.crr_workers };
    let of_pods = pods.subscribe();
    let controller = Controller { client: context.client.clone(), requests: Store::default(), pods };
    Builder::new(&context, settings, "Recreate", |_| controller)
        .watches((REQUESTS, "containerrecreaterequests"), |all| &all.requests, touched)
        .shows(&objects::containerrecreaterequest::TABLE, |all| all.requests.all(), |request| request)
        .woken_by(of_pods, Controller::of_pod)
        .run()
        .await;
}

impl Reconciler for Controller {
    type Key = Key;
    type Error = ReconcileError;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        for _ in 0..STEPS {
            let Some(request) = self.requests.get(key) else {
                self.pods.leave_single(KIND, key);
                return Ok(Next::Done);
            };
            let pod = if reads_pod(&request) {
                let uid = request.metadata.labels.get(CRR_POD_UID).map_or("", String::as_str);
                self.pods.single(&self.client, (KIND, key), (&request.spec.pod_name, uid)).await?
            } else {
                self.pods.leave_single(KIND, key);
                None
            };
            if let Some(next) = self.take(&request, pod.as_deref()).await? {
                return Ok(next);
            }
        }
        Ok(Next::After(QUICK_RETRY))
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        self.requests.get(key).map(|request| request.reference(&REQUESTS))
    }
}

impl Controller {
    /// The unfinished requests of a Pod.
    fn of_pod(&self, change: &Change<ObservedPod>) -> Vec<(Key, Duration)> {
        let Some(pod) = change.states().next() else { return Vec::new() };
        let requests = self.requests.group(&pod.metadata.uid);
        requests.iter().map(|request| (request.key(), Duration::ZERO)).collect()
    }

    /// Takes the next step; `None` where another one follows.
    async fn take(
        &self,
        request: &ContainerRecreateRequest,
        pod: Option<&ObservedPod>,
    ) -> Result<Option<Next>, ReconcileError> {
        let path = REQUESTS.namespaced(request.namespace()).name(request.name());
        let written = match step(request, pod, now().now) {
            Step::Wait(rest) => return Ok(Some(rest.map_or(Next::Done, Next::After))),
            Step::Pod(write) => return self.write_pod(pod, write).await,
            Step::Delete => {
                let options = deletion(request.uid(), Some(request.resource_version()));
                let deleted = unless_outdated(write::delete(&self.client, &path, options).await)?;
                return Ok(Some(deleted.map_or(Next::After(QUICK_RETRY), |_| Next::Done)));
            }
            Step::Request(patch) => write::patch(&self.client, &path, PatchKind::Merge, patch).await,
            Step::Status(patch) => {
                write::patch(&self.client, &path.subresource("status"), PatchKind::Merge, patch).await
            }
        };
        let is_written = self.requests.take_in(KIND, written)?;
        Ok((!is_written).then_some(Next::After(QUICK_RETRY)))
    }

    async fn write_pod(
        &self,
        pod: Option<&ObservedPod>,
        write: PodWrite,
    ) -> Result<Option<Next>, ReconcileError> {
        let Some(pod) = pod else { return Ok(Some(Next::Done)) };
        match carry_out(&self.client, &self.pods, pod, &[write]).await? {
            Carried::Written(_) => Ok(None),
            Carried::Outdated => Ok(Some(Next::After(QUICK_RETRY))),
        }
    }
}
