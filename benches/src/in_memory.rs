//! An API server that keeps its objects in memory: as many as no machine at hand could hold with etcd, under as much
//! change as is wanted.
//!
//! ```text
//!   requests --> request   what is asked for        --> store     objects as JSON, and their last changes
//!            <-- answer    lists, watches, objects  <-- write     what a create, a patch and a delete make of an object
//!                                                       admission creations pass the mutating webhooks
//! ```
//!
//! It keeps the API server's rules of versions, conflicts, pages, watches, bookmarks, status subresources, generations and
//! graceful ends. It has no schemas, and converts, validates and collects nothing: whoever depends on that needs a
//! [`kit::ApiServer`].

mod admission;
mod answer;
mod request;
mod store;
mod write;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kube::{Client, Config};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::calls::Calls;

pub use request::Kind;
pub use store::{Key, Store};

/// A running server, until it is dropped.
pub struct ApiServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

/// What all requests share.
struct Shared {
    store: Arc<Store>,
    calls: Mutex<Calls>,
    /// Where the mutating webhooks are served.
    webhooks: Option<SocketAddr>,
    uid_prefix: AtomicU32,
    uids: AtomicU64,
}

impl ApiServer {
    /// Starts it on a free port. Creations pass the mutating webhooks that are registered, at port `webhooks` of this
    /// machine.
    pub async fn start(webhooks: Option<u16>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let shared = Arc::new(Shared {
            store: Arc::default(),
            calls: Mutex::default(),
            webhooks: webhooks.map(|port| (Ipv4Addr::LOCALHOST, port).into()),
            uid_prefix: AtomicU32::new(0),
            uids: AtomicU64::new(0),
        });
        let router = answer::router(shared.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("it never ends") });
        Self { shared, address, task }
    }

    /// The objects.
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// Writes a kubeconfig that leads here.
    pub fn kubeconfig(&self, directory: &Path) -> PathBuf {
        let path = directory.join(format!("kubeconfig-{}", self.address.port()));
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: memory\n\
             clusters: [{{name: memory, cluster: {{server: \"http://{}\"}}}}]\n\
             contexts: [{{name: memory, context: {{cluster: memory, user: memory}}}}]\n\
             users: [{{name: memory, user: {{}}}}]\n",
            self.address
        );
        std::fs::write(&path, text).expect("the kubeconfig can be written");
        path
    }

    /// A new client.
    pub fn client(&self) -> Client {
        let url = format!("http://{}", self.address).parse().expect("a URL");
        Client::try_from(Config::new(url)).expect("the configuration makes a client")
    }

    /// From now on UIDs begin with these eight hexadecimal digits.
    pub fn begin_uids_with(&self, prefix: u32) {
        self.shared.uid_prefix.store(prefix, Ordering::Relaxed);
    }

    /// The calls so far.
    pub fn calls(&self) -> Calls {
        self.shared.calls.lock().unwrap().clone()
    }

    /// Creates an object without any admission.
    pub fn put(&self, manifest: impl Into<Value>) {
        let manifest: Value = manifest.into();
        let path = request::collection(&manifest);
        let request = request::Request::parse("POST", &path, "").expect("a collection");
        self.shared.create(&request, manifest).expect("an object can be created");
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn uid(&self) -> String {
        let number = self.uids.fetch_add(1, Ordering::Relaxed);
        format!("{:08x}-0000-4000-8000-{number:012x}", self.uid_prefix.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
