//! What tests of the agent's parts share: an API server with the kinds of the agent, and a runtime without containers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::kinds::{containerrecreaterequest, nodeimage, nodepodprobe};
use cluster::client::Connector;
use cluster::queue::QueueMetrics;
use cluster::requests::Requests;
use cri::Runtime;
use cri::runtime::Calls;
use k8s_openapi::api::events::v1::Event;
use kit::fake_runtime::{FakeRuntime, Pull};
use kit::{shared, wait_for};
use kube::api::{Api, ListParams};
use kube::{Client, Config};
use prometheus::Registry;
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OnceCell, watch};
use tokio::task::JoinSet;

use crate::metrics::Metrics;

/// The API server, with the kinds of the agent.
pub(crate) async fn server() -> &'static kit::ApiServer {
    static READY: OnceCell<()> = OnceCell::const_new();
    let server = shared().await;
    let ready = READY.get_or_init(async || {
        for kind in [nodeimage::KIND, nodepodprobe::KIND, containerrecreaterequest::KIND] {
            let definition = api::crds::find("apps.kruise.io", kind).unwrap();
            server.kubectl_with_input(["apply", "--server-side", "-f", "-"], definition.yaml).await.success();
        }
        server.wait_established().await;
    });
    ready.await;
    server
}

/// A node without an agent yet: each has a name and a runtime of its own.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) runtime: FakeRuntime,
    pub(crate) registry: Registry,
    /// The parts of the agent.
    pub(crate) agent: JoinSet<()>,
    directory: TempDir,
}

impl Node {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let directory = TempDir::new().unwrap();
        Self {
            name: format!("part-{}", NUMBER.fetch_add(1, Ordering::Relaxed)),
            runtime: FakeRuntime::start(directory.path(), |_| Pull::Hangs),
            registry: Registry::new(),
            agent: JoinSet::new(),
            directory,
        }
    }

    /// What a part of the agent needs: its client, the runtimes, and where it counts.
    pub(crate) async fn tools(&self) -> (Client, Arc<[Runtime]>, Metrics, QueueMetrics) {
        let connector = Connector::new(server().await.config(), Requests::register(&self.registry).unwrap());
        (
            connector.connect("kruise-daemon").unwrap(),
            Arc::new([connected(self.directory.path(), &Calls::register(&self.registry).unwrap()).await]),
            Metrics::register(&self.registry).unwrap(),
            QueueMetrics::register(&self.registry).unwrap(),
        )
    }
}

/// A way to the API server that can be closed for a while.
pub(crate) struct Way {
    pub(crate) config: Config,
    closed: watch::Sender<bool>,
    _open: JoinSet<()>,
}

impl Way {
    pub(crate) async fn open() -> Self {
        let mut config = server().await.config();
        let target = config.cluster_url.authority().unwrap().to_string();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        config.cluster_url = url.parse().unwrap();
        let (closed, is_closed) = watch::channel(false);
        let mut open = JoinSet::new();
        open.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut caller, _)) = listener.accept().await {
                let (mut is_closed, target) = (is_closed.clone(), target.clone());
                connections.spawn(async move {
                    let mut server = TcpStream::connect(target).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut caller, &mut server) => {}
                        _ = is_closed.wait_for(|closed| *closed) => {}
                    }
                });
            }
        });
        Self { config, closed, _open: open }
    }

    pub(crate) fn close(&self, closed: bool) {
        self.closed.send_replace(closed);
    }
}

/// The runtime with a socket in this directory.
pub(crate) async fn connected(directory: &Path, calls: &Calls) -> Runtime {
    let detected = cri::detect(directory, None, calls).await.unwrap();
    detected.runtimes.into_iter().next().unwrap()
}

/// The note of an Event with this reason about an object; Events of cluster-wide objects are in namespace `default`.
pub(crate) async fn reported(namespace: &str, kind: &str, name: &str, reason: &str) -> String {
    let events: Api<Event> = Api::namespaced(server().await.client(), namespace);
    wait_for("an Event", async || {
        let all = events.list(&ListParams::default()).await.unwrap();
        let about = |event: &&Event| {
            let object = event.regarding.clone().unwrap_or_default();
            object.kind.as_deref() == Some(kind)
                && object.name.as_deref() == Some(name)
                && event.reason.as_deref() == Some(reason)
        };
        all.items.iter().find(about).and_then(|event| event.note.clone()).ok_or(reason)
    })
    .await
}
