//! Stops one container of a Pod (docs/behaviour/restarts.md#how-a-container-is-stopped). The kubelet starts it again.

use std::time::Duration;

use agent::stop::{Hook, HttpHook, left};
use cluster::event_sender::EventSender;
use cluster::events::about_in;
use cluster::resource::PODS;
use cluster::write;
use cri::{CriError, Runtime};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use pod::observed::ObservedPod;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;
use values::event::Event;

use crate::http::{self, Get};
use crate::metrics::Metrics;

/// What stops containers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Stops {
    pub(crate) client: Client,
    pub(crate) event_sender: EventSender,
    pub(crate) metrics: Metrics,
    /// For whom, in metrics.
    pub(crate) by: &'static str,
}

/// A container that is to be stopped.
pub(crate) struct Order<'o> {
    pub(crate) runtime: &'o Runtime,
    /// Its ID in the runtime.
    pub(crate) id: &'o str,
    /// Its name.
    pub(crate) name: &'o str,
    /// Namespace, name and UID of its Pod.
    pub(crate) pod: [&'o str; 3],
    /// How long its hook and its end may take together.
    pub(crate) grace: Duration,
    /// What runs before.
    pub(crate) hook: Option<&'o Hook>,
    /// What the Event says.
    pub(crate) message: String,
}

impl Order<'_> {
    /// The container as Events refer to it.
    fn object(&self) -> ObjectReference {
        let [namespace, name, uid] = self.pod;
        let field_path = Some(format!("spec.containers{{{}}}", self.name));
        ObjectReference { field_path, ..about_in(namespace, "v1", "Pod", name, uid) }
    }
}

impl Stops {
    /// Runs the hook of a container and stops it, all in its time.
    pub(crate) async fn stop(&self, order: &Order<'_>) -> Result<(), CriError> {
        let killing = Event { warning: false, reason: "Killing", message: order.message.clone() };
        self.event_sender.record(order.object(), killing);
        let begun = Instant::now();
        if let Some(hook) = order.hook.filter(|_| !order.grace.is_zero()) {
            let ran = timeout(order.grace, self.run(order, hook)).await;
            if let Err(why) = ran.unwrap_or_else(|_| Err("it takes too long".to_owned())) {
                // The output of the hook may hold secrets, and is not published.
                debug!(id = order.id, why, "the preStop hook of a container failed");
                let message = "PreStopHook failed".to_owned();
                let failed = Event { warning: true, reason: "FailedPreStopHook", message };
                self.event_sender.record(order.object(), failed);
            }
        }
        order.runtime.stop(order.id, left(order.grace, begun.elapsed())).await?;
        self.metrics.stopped(self.by);
        Ok(())
    }

    async fn run(&self, order: &Order<'_>, hook: &Hook) -> Result<(), String> {
        match hook {
            Hook::Exec(command) => {
                let answer = order.runtime.exec(order.id, command.clone(), order.grace).await;
                match answer.map_err(|error| error.to_string())?.exit_code {
                    0 => Ok(()),
                    code => Err(format!("it ended with code {code}")),
                }
            }
            Hook::Http(hook) => self.ask(order, hook).await,
            Hook::Sleep(time) => {
                sleep(*time).await;
                Ok(())
            }
            Hook::Unsupported => Err("it is of a kind that nobody can run".to_owned()),
        }
    }

    /// Sends the request of a hook. Any answer is a good one.
    async fn ask(&self, order: &Order<'_>, hook: &HttpHook) -> Result<(), String> {
        let host = match &hook.host {
            Some(host) => host.clone(),
            None => self.address(order).await.ok_or("the address of the Pod is not known")?,
        };
        let port = hook.port.ok_or("it names no port of the container")?;
        let get = Get { host, port, path: hook.path.clone(), tls: hook.tls, headers: hook.headers.clone() };
        http::get_even_plain(&get, order.grace).await.map(drop).map_err(|error| error.to_string())
    }

    /// The address of the order's Pod: on the network of the host only the Pod itself has it.
    async fn address(&self, order: &Order<'_>) -> Option<String> {
        let sandbox = order.runtime.container(order.id).await.ok()??.pod_sandbox_id;
        if let Some(address) = order.runtime.address(&sandbox).await.ok()? {
            return Some(address);
        }
        let [namespace, name, uid] = order.pod;
        let path = PODS.namespaced(namespace).name(name);
        let pod = ObservedPod::read(&write::get(&self.client, &path).await.ok()??).ok()?;
        let address = Some(pod.status.pod_ip.to_string()).filter(|address| !address.is_empty());
        address.filter(|_| *pod.metadata.uid == *uid)
    }
}
