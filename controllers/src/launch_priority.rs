//! Controller `container-launch-priority-controller`: releases the containers of a Pod from high to low
//! priority by adding keys to the ConfigMap `<pod>-barrier`
//! (docs/behaviour/launch-priority.md#release-of-the-containers).

use std::sync::Arc;
use std::time::Duration;

use cluster::ErrorReason;
use cluster::resource::{CONFIG_MAPS, PODS};
use cluster::watched::Key;
use cluster::write::{self, PatchKind, unless_outdated};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use pod::launch_priority::barrier_name;
use pod::launch_priority::release::{Barrier, PodFacts, Step, open_patch, release};

use crate::workload::builder::{Builder, Next, QueueSettings, Reconciler, changed};
use crate::workload::pods::Pods;
use crate::workload::store::Kept;
use crate::{Context, ReconcileError};

const SETTINGS: QueueSettings = QueueSettings { name: "container-launch-priority-controller", workers: 4 };
/// A Pod that waits is reconciled again after this time even if no event reports it
/// (docs/behaviour/launch-priority.md#release-of-the-containers).
const SAFETY_NET: Duration = Duration::from_secs(300);
/// A barrier is created or taken over, gets a key, and the Pod is completed: a server that drops what
/// we write must not keep us at it.
const MAX_STEPS: usize = 4;

/// Reconciles the Pods that wait. Never returns.
pub async fn run(context: Context, pods: Arc<Pods>) {
    let waiting = pods.waiting().subscribe();
    let reconciler = LaunchPriority { client: context.client.clone(), pods };
    Builder::new(&context, SETTINGS, "Reconcile", |_| reconciler).woken_by(waiting, changed).run().await;
}

struct LaunchPriority {
    client: Client,
    pods: Arc<Pods>,
}

impl Reconciler for LaunchPriority {
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
    advance(client, pods, &PodFacts::read(pod.json()).map_err(ReconcileError::of_object("Pod"))?).await
}

/// Carries steps out until the Pod has to wait. A write that finds another state than the one it was
/// decided for fails (404, 409) and is decided anew.
async fn advance(client: &Client, pods: &Pods, pod: &PodFacts) -> Result<Next, ReconcileError> {
    if pod.waiting.is_empty() {
        // It waits for its first condition.
        return Ok(Next::Done);
    }
    let collection = CONFIG_MAPS.namespaced(&pod.namespace);
    let path = collection.name(&barrier_name(&pod.name));
    let mut barrier = write::get(client, &path).await?.as_deref().map(read).transpose()?;
    for _ in 0..MAX_STEPS {
        let after = match release(pod, barrier.as_ref()) {
            Step::Wait => break,
            Step::CreateBarrier => match write::create(client, &collection, pod.barrier()).await {
                // The Pod's namespace is being deleted and there is nothing to do.
                Err(error)
                    if matches!(
                        error.reason(),
                        ErrorReason::NotFound | ErrorReason::NamespaceTerminating
                    ) =>
                {
                    break;
                }
                answer => answer?,
            },
            Step::TakeOver { resource_version } => {
                let patch = pod.take_over_patch(&resource_version);
                write::patch(client, &path, PatchKind::Merge, patch).await?
            }
            Step::Open { key, resource_version } => {
                let patch = open_patch(&key, &resource_version);
                write::patch(client, &path, PatchKind::Merge, patch).await?
            }
            Step::Complete => return complete(client, pods, pod).await,
        };
        barrier = Some(read(&after)?);
    }
    Ok(Next::After(SAFETY_NET))
}

fn read(barrier: &str) -> Result<Barrier, ReconcileError> {
    Barrier::read(barrier).map_err(ReconcileError::of_object("ConfigMap"))
}

async fn complete(client: &Client, pods: &Pods, pod: &PodFacts) -> Result<Next, ReconcileError> {
    let path = PODS.namespaced(&pod.namespace).name(&pod.name);
    let answer = write::patch(client, &path, PatchKind::Merge, pod.completed_patch()).await;
    if let Some(completed) = unless_outdated(answer)? {
        // News of an earlier state would have it completed once more.
        pods.written(&completed)?;
    }
    Ok(Next::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::workload::store::follow::Sink;
    use serde_json::{Value, json};

    const OLD: &str = r#"{"metadata":{"resourceVersion":"7","ownerReferences":[{"uid":"old"}]},"data":{"p_1":"true","p_0":"true"}}"#;
    const TAKEN: &str = r#"{"metadata":{"resourceVersion":"8","ownerReferences":[{"uid":"new"}]}}"#;
    const OPENED: &str =
        r#"{"metadata":{"resourceVersion":"9","ownerReferences":[{"uid":"new"}]},"data":{"p_1":"true"}}"#;

    fn pod(waiting: &[i64]) -> PodFacts {
        PodFacts {
            namespace: "n".to_owned(),
            name: "web-0".to_owned(),
            uid: "new".to_owned(),
            waiting: waiting.iter().copied().collect(),
            ..PodFacts::default()
        }
    }

    #[tokio::test]
    async fn a_recreated_pod_gets_its_keys_one_by_one_in_its_own_barrier() {
        let (client, requests) = fake::api_server(|request| match request {
            fake::Request { method: "GET", .. } => (200, OLD.to_owned()),
            fake::Request { body, .. } if body.contains(r#""resourceVersion":"7""#) => {
                (200, TAKEN.to_owned())
            }
            fake::Request { body, .. } if body.contains(r#""resourceVersion":"8""#) => {
                (200, OPENED.to_owned())
            }
            _ => (500, "{}".to_owned()),
        });
        assert_eq!(
            advance(&client, &Pods::new(false), &pod(&[1, 0])).await.unwrap(),
            Next::After(SAFETY_NET)
        );
        let path = "PATCH /api/v1/namespaces/n/configmaps/web-0-barrier";
        assert_eq!(
            requests.lock().unwrap().split_off(1),
            [
                format!("{path} {}", pod(&[]).take_over_patch("7")),
                format!("{path} {}", open_patch("p_1", "8"))
            ]
        );
    }

    #[tokio::test]
    async fn a_pod_without_priorities_costs_no_call() {
        let (client, requests) = fake::api_server(|_| (404, fake::status(404)));
        assert_eq!(advance(&client, &Pods::new(false), &pod(&[])).await.unwrap(), Next::Done);
        assert!(requests.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_barrier_that_changed_meanwhile_is_reconciled_again() {
        for barrier in [OLD, TAKEN] {
            let (client, requests) = fake::api_server(move |request| match request.method {
                "GET" => (200, barrier.to_owned()),
                _ => (409, fake::status(409)),
            });
            let error = advance(&client, &Pods::new(false), &pod(&[1, 0])).await.unwrap_err();
            assert!(matches!(error, ReconcileError::Api(error) if error.reason() == ErrorReason::Conflict));
            assert_eq!(requests.lock().unwrap().len(), 2);
        }
    }

    #[tokio::test]
    async fn a_pod_of_another_identity_is_not_completed() {
        let (client, requests) = fake::api_server(|request| match request.method {
            "GET" => (200, OPENED.to_owned()),
            _ => (409, fake::status(409)),
        });
        assert_eq!(advance(&client, &Pods::new(false), &pod(&[1])).await.unwrap(), Next::Done);
        let path = "PATCH /api/v1/namespaces/n/pods/web-0";
        assert_eq!(requests.lock().unwrap().last(), Some(&format!("{path} {}", pod(&[]).completed_patch())));
    }

    #[tokio::test]
    async fn a_pod_is_completed_once_though_the_watch_stays_behind() {
        let barrier = json!({"name": "KRUISE_CONTAINER_BARRIER",
            "valueFrom": {"configMapKeyRef": {"name": "web-0-barrier", "key": "p_1"}}});
        let pod = |version: &str, annotations: Value| {
            json!({"metadata": {"namespace": "n", "name": "web-0", "uid": "new", "resourceVersion": version,
                "annotations": annotations}, "spec": {"containers": [{"name": "main", "env": [barrier]}]}})
            .to_string()
        };
        let completed = pod("2", json!({"apps.kruise.io/container-launch-priority-completed": "true"}));
        let (client, requests) = fake::api_server(move |request| match request.method {
            "GET" => (200, OPENED.to_owned()),
            _ => (200, completed.clone()),
        });
        let pods = Pods::new(false);
        pods.list_begins();
        pods.see(serde_json::from_str(&pod("1", json!({}))).unwrap());
        pods.list_ends();
        for _ in 0..2 {
            reconcile(&client, &pods, &("n".to_owned(), "web-0".to_owned())).await.unwrap();
        }
        let patched = requests.lock().unwrap().iter().filter(|request| request.starts_with("PATCH")).count();
        assert_eq!(patched, 1);
    }
}
