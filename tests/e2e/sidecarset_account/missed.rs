//! Pods that slip in while admission is away (docs/sidecarset-pods.md#evict-missed-pods).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kit::builders::deployment;
use kit::fake_nodes::{self, FakeNodes};
use kit::{ApiServer, wait_for, wait_within};
use kube::Client;
use serde_json::{Value, json};

use super::{EVICT, INJECTED, account, explain, reason, sidecar};
use crate::product::{self, Options, Product};
use crate::service::{self, Endpoint};
use crate::support::{Shop, Stored, call, in_use};

/// How many Pods there are.
const COUNT: usize = 30;
/// How long the evictions may take, one after the other.
const EVICTIONS: Duration = Duration::from_secs(900);

async fn pods(client: &Client, namespace: &str) -> Vec<Value> {
    let list = call(client, "GET", &format!("/api/v1/namespaces/{namespace}/pods"), &Value::Null).await.1;
    list["items"].as_array().cloned().unwrap_or_default()
}

/// Ready, and not being deleted.
fn serves(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn has_sidecar(pod: &Value) -> bool {
    !pod["metadata"]["annotations"][INJECTED].is_null()
}

async fn serving(client: &Client, namespace: &str, what: &str, count: usize) {
    wait_for(what, async || {
        let serving = pods(client, namespace).await.iter().filter(|pod| serves(pod)).count();
        if serving == count { Ok(()) } else { Err(serving) }
    })
    .await;
}

/// The value of a time series.
async fn metric(product: &Product, set: &str, state: &str) -> Option<usize> {
    let series = format!("kutter_sidecarset_pods{{sidecarset=\"{set}\",state=\"{state}\"}} ");
    product.metrics().await.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok())
}

/// A replica that leaves Pods alone while it is away.
async fn start(server: &ApiServer) -> (Product, Endpoint) {
    let options = Options::default().argument("--pod-failure-policy=Ignore");
    let mut product = Product::start(server, options).await;
    let endpoint = service::join(server, &product).await;
    product.wait_ready().await;
    (product, endpoint)
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_slipped_in_are_reported_and_replaced_within_the_budget() {
    let server = product::server(kit::Options::default().with_controller_manager()).await;
    let (product, endpoint) = start(&server).await;
    in_use(&server).await;
    let shop = Shop::open_on(&server, "missed").await;
    let set = Stored::create(&shop.client, sidecar(shop.sidecar_set("log"))).await;
    shop.settle().await;
    let nodes = fake_nodes::Options::nodes(2).in_namespace(&shop.namespace).binding_pods();
    let _nodes = FakeNodes::start(server.client(), nodes).await;
    // Times of creation are whole seconds.
    tokio::time::sleep(Duration::from_millis(1100)).await;

    endpoint.leave().await;
    assert!(product.stop().await.success());
    let web =
        deployment("web").in_namespace(&shop.namespace).matching("app", "web").with("/spec/replicas", COUNT);
    Stored::create(&shop.client, web.container("main", "nginx:1.25")).await;
    serving(&shop.client, &shop.namespace, "all Pods to be ready without sidecars", COUNT).await;
    assert!(!pods(&shop.client, &shop.namespace).await.iter().any(has_sidecar));

    let (product, _endpoint) = start(&server).await;
    let name = shop.name("log");
    let reported = wait_for("the missed Pods to be told of", async || {
        let reported = account(&set.get().await.1);
        let metric = metric(&product, &name, "missed").await;
        if reported["missed"] == COUNT && metric == Some(COUNT) {
            Ok(reported)
        } else {
            Err((reported, metric))
        }
    })
    .await;
    assert_eq!((&reported["matched"], &reported["injected"]), (&json!(COUNT), &json!(0)));
    let missed = reason(&reported, "Missed").unwrap();
    assert_eq!(missed["pods"].as_array().unwrap().len(), 20, "{missed:#}");
    each_is_reported_once(&shop, &name, missed["message"].as_str().unwrap()).await;
    explained(&server, &shop, &name, &reported).await;

    replaced(&shop, &set, &product, &name).await;
    assert_eq!(set.get().await.1["metadata"]["generation"], 1);
}

async fn each_is_reported_once(shop: &Shop, set: &str, message: &str) {
    let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", shop.namespace);
    let reported = wait_for("an Event for each missed Pod", async || {
        let list = call(&shop.client, "GET", &path, &Value::Null).await.1;
        let events = list["items"].as_array().unwrap().iter();
        let reported: Vec<Value> =
            events.filter(|event| event["reason"] == "SidecarMissed").cloned().collect();
        if reported.len() == COUNT { Ok(reported) } else { Err(reported.len()) }
    })
    .await;
    let mut names: Vec<&str> =
        reported.iter().map(|event| event["regarding"]["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), COUNT);
    for event in &reported {
        assert_eq!(event["note"], format!("SidecarSet {set}: {message}"));
        assert_eq!((&event["related"]["name"], &event["type"]), (&json!(set), &json!("Warning")));
    }
}

/// The command says the same.
async fn explained(server: &ApiServer, shop: &Shop, set: &str, reported: &Value) {
    let missed = reason(reported, "Missed").unwrap();
    let (message, first) = (missed["message"].as_str().unwrap(), missed["pods"][0].as_str().unwrap());
    let output = explain(server, &["sidecarset", set]).await;
    let head =
        format!("SidecarSet {set}: {COUNT} matched, 0 injected, {COUNT} missed\n  {COUNT}: {message}\n");
    assert!(output.stdout.starts_with(&head), "{output:?}");
    let pod = format!("pod/{}", first.split_once('/').unwrap().1);
    let output = explain(server, &[&pod, "-n", &shop.namespace]).await;
    assert!(output.stdout.contains(&format!("  SidecarSet {set}: no: {message}\n")), "{output:?}");
    assert_eq!(output.status.code(), Some(2));
}

/// First a PodDisruptionBudget holds the Pods; then they are replaced, one at a time.
async fn replaced(shop: &Shop, set: &Stored, product: &Product, name: &str) {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": shop.namespace},
        "spec": {"minAvailable": COUNT, "selector": {"matchLabels": {"app": "web"}}},
    });
    let budget = Stored::create(&shop.client, budget).await;
    wait_for("the budget to be counted", async || {
        let status = budget.get().await.1["status"].clone();
        if status["currentHealthy"] == COUNT { Ok(()) } else { Err(status) }
    })
    .await;
    let earlier = pods(&shop.client, &shop.namespace).await;
    let ended = Arc::new(AtomicBool::new(false));
    let watcher = tokio::spawn(fewest(shop.client.clone(), shop.namespace.clone(), ended.clone()));
    set.patch(&json!({"metadata": {"annotations": {EVICT: "1"}}})).await;
    let reported =
        super::reported(set, "the refusal", |reported| reason(reported, "EvictionRefused").is_some()).await;
    let message = reason(&reported, "EvictionRefused").unwrap()["message"].as_str().unwrap();
    assert!(message.contains("disruption budget"), "{message}");
    let uid = |pod: &Value| pod["metadata"]["uid"].clone();
    let now = pods(&shop.client, &shop.namespace).await;
    assert!(earlier.iter().all(|pod| now.iter().any(|other| uid(other) == uid(pod))), "none was evicted");

    budget.deleted().await;
    wait_within(EVICTIONS, "all Pods to be replaced", async || {
        let reported = account(&set.get().await.1);
        let all = pods(&shop.client, &shop.namespace).await;
        let ready = all.iter().filter(|pod| serves(pod) && has_sidecar(pod)).count();
        let metric = metric(product, name, "missed").await;
        if ready == COUNT && reported["injected"] == COUNT && reported["missed"] == 0 && metric == Some(0) {
            Ok(())
        } else {
            Err((ready, reported, metric))
        }
    })
    .await;
    ended.store(true, Ordering::SeqCst);
    assert_eq!(watcher.await.unwrap(), COUNT - 1, "Pods that served at the worst time");
}

/// The smallest number of Pods that served at a time.
async fn fewest(client: Client, namespace: String, ended: Arc<AtomicBool>) -> usize {
    let mut fewest = usize::MAX;
    while !ended.load(Ordering::SeqCst) {
        let serving = pods(&client, &namespace).await.iter().filter(|pod| serves(pod)).count();
        fewest = fewest.min(serving);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    fewest
}
