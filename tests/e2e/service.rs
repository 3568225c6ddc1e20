//! The Service of the program, with endpoints that follow the readiness of its replicas, as in a cluster.

use std::time::{Duration, Instant};

use kit::api_server::{host_address, mirror_endpoints};
use kit::{ApiServer, wait_for};
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::product::{self, NAMESPACE, Product};
use crate::support::call;

/// The name of the Service.
pub const SERVICE: &str = "kruise-webhook-service";
/// How late the endpoints are.
const PERIOD: Duration = Duration::from_millis(100);
/// How long a replica fails its probe before its endpoint is unready, with the chart.
const TIMEOUT: Duration = Duration::from_secs(4);

/// The endpoint of one replica; it is kept up to date until this is dropped.
pub struct Endpoint {
    client: Client,
    path: String,
    task: JoinHandle<()>,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Endpoint {
    /// Waits until calls may come.
    pub async fn ready(&self) {
        wait_for("the endpoint to be ready", async || {
            let slice = call(&self.client, "GET", &self.path, &Value::Null).await.1;
            if slice["endpoints"][0]["conditions"]["ready"] == true { Ok(()) } else { Err(slice) }
        })
        .await;
    }

    /// Takes the endpoint away: the replica is gone.
    pub async fn leave(self) {
        self.task.abort();
        let (code, answer) = call(&self.client, "DELETE", &self.path, &Value::Null).await;
        assert_eq!(code, 200, "{answer:#}");
        mirror_endpoints(&self.client, NAMESPACE, SERVICE).await;
    }
}

/// Adds a replica to the Service: calls come to it only while it is ready.
pub async fn join(server: &ApiServer, replica: &Product) -> Endpoint {
    let client = server.client();
    let services = format!("/api/v1/namespaces/{NAMESPACE}/services");
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE},
        "spec": {"ports": [{"name": "https", "port": 443}]},
    });
    let (code, answer) = call(&client, "POST", &services, &service).await;
    assert!(code == 201 || code == 409, "{answer:#}");
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices");
    let name = format!("{SERVICE}-{}", replica.port);
    let slice = |ready: bool| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": SERVICE}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": replica.port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [host_address()], "conditions": {"ready": ready}}],
        })
    };
    let (code, answer) = call(&client, "POST", &slices, &slice(false)).await;
    assert_eq!(code, 201, "{answer:#}");
    let changes = [slice(false), slice(true)].map(|slice| json!({"endpoints": slice["endpoints"]}));
    let (path, health) = (format!("{slices}/{name}"), replica.health);
    let task = tokio::spawn(follow(client.clone(), path.clone(), health, changes));
    Endpoint { client, path, task }
}

/// Keeps the endpoint as ready as the replica; `changes` say unready and ready. Who stops or is gone is unready at
/// once, as a Pod that is deleted.
async fn follow(client: Client, path: String, health: u16, changes: [Value; 2]) {
    let mut known = false;
    let mut failing_since: Option<Instant> = None;
    loop {
        let answer = product::get(health, "/readyz").await;
        let leaves = match &answer {
            Ok((_, body)) => body.contains("stopping"),
            Err(error) => !error.starts_with("no answer"),
        };
        let mut ready = matches!(answer, Ok((200, _)));
        if ready {
            failing_since = None;
        } else {
            let since = failing_since.get_or_insert_with(Instant::now);
            ready = known && !leaves && since.elapsed() < TIMEOUT;
        }
        if ready != known && set(&client, &path, &changes[usize::from(ready)]).await {
            known = ready;
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// False where the API server is away.
async fn set(client: &Client, path: &str, change: &Value) -> bool {
    let request = axum::http::Request::patch(path).header("content-type", "application/merge-patch+json");
    let is_set = client.request_text(request.body(change.to_string().into_bytes()).unwrap()).await.is_ok();
    mirror_endpoints(client, NAMESPACE, SERVICE).await;
    is_set
}
