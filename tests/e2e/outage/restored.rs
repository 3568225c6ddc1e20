//! etcd that is restored from a backup (docs/behaviour/server.md#etcd-restored-from-a-backup).

use kit::builders::workload;
use kit::{ApiServer, wait_for};
use serde_json::{Value, json};

use crate::product::{self, Options, Product};
use crate::registration::get;
use crate::service::{self, Endpoint};
use crate::support::{Stored, in_use};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kruise-system/leases/kruise-manager";

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_begins_anew_from_what_etcd_was_restored_to() {
    let server = product::server(kit::Options::default()).await;
    let (mut product, endpoint) = start(&server).await;
    let namespace = server.namespace("restored").await;
    let set = workload("apps.kruise.io/v1beta1", "CloneSet", "web").in_namespace(&namespace).replicas(1);
    let set = set.matching("app", "web").container("main", "busybox:1.36");
    let set = Stored::create(&server.client(), set.build()).await;
    has_pods(&set, &server, &namespace, 1).await;

    server.back_up().await;
    let version = async || {
        let lease = get(&server.client(), LEASE).await;
        lease["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse::<u64>().ok())
    };
    let backed_up = version().await;
    in_use(&server).await;
    scale(&set, 3).await;
    has_pods(&set, &server, &namespace, 3).await;
    wait_for("the Lease to be renewed", async || {
        let renewed = version().await;
        if renewed > backed_up { Ok(()) } else { Err(renewed) }
    })
    .await;
    server.restore().await;
    assert!(!product.wait_exit().await.success(), "{}", product.log());
    assert!(product.log().contains("etcd was restored from a backup"), "{}", product.log());
    endpoint.leave().await;

    let (product, _endpoint) = start(&server).await;
    has_pods(&set, &server, &namespace, 1).await;
    scale(&set, 2).await;
    has_pods(&set, &server, &namespace, 2).await;
    assert!(product.stop().await.success());
}

async fn start(server: &ApiServer) -> (Product, Endpoint) {
    let options = Options::default()
        .argument("--leader-election-lease-duration=4s")
        .argument("--leader-election-renew-deadline=3s")
        .argument("--leader-election-retry-period=1s");
    let mut product = Product::start(server, options).await;
    let endpoint = service::join(server, &product).await;
    product.wait_ready().await;
    in_use(server).await;
    (product, endpoint)
}

async fn scale(set: &Stored, replicas: usize) {
    let (code, answer) = set.try_patch(&json!({"spec": {"replicas": replicas}})).await;
    assert_eq!(code, 200, "{answer:#}");
}

/// Waits until the workload has so many Pods, and counts them.
async fn has_pods(set: &Stored, server: &ApiServer, namespace: &str, count: usize) {
    wait_for("the Pods of the CloneSet", async || {
        let pods = get(&server.client(), &format!("/api/v1/namespaces/{namespace}/pods")).await;
        let is_staying = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
        let pods = pods["items"].as_array().map_or(0, |pods| pods.iter().filter(is_staying).count());
        let status = set.get().await.1["status"].take();
        if pods == count && status["replicas"] == count { Ok(()) } else { Err((pods, status)) }
    })
    .await;
}
