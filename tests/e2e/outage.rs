//! Replicas that leave, come back, or are alone: upgrade from an older storage version, rolling restart,
//! an API server that goes away, and a cluster at rest.

mod audit;
mod rest;
mod restored;
mod rolling;
mod upgrade;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kit::builders::{Object, sidecar_set};
use kit::{ApiServer, wait_for, wait_within};
use kube::Client;
use serde_json::{Value, json};

use crate::product::{self, Options, Product};
use crate::service::{self, Endpoint};
use crate::support::{Shop, create, direct_of, in_use, names, patched, pod_review, review};
use audit::Audit;

type Replica = (Product, Endpoint);

/// docs/behaviour/server.md#shutdown, and an outage of the API server.
#[tokio::test(flavor = "multi_thread")]
async fn calls_are_answered_through_restarts_and_outages() {
    let audit = Audit::new();
    let options = audit
        .arguments()
        .into_iter()
        .fold(kit::Options::default(), |options, argument| options.argument(&argument));
    let server = product::server(options).await;
    let mut replicas = [start(&server).await, start(&server).await];
    for (product, _) in &mut replicas {
        product.wait_ready().await;
    }
    in_use(&server).await;
    let shop = Shop::open_on(&server, "outage").await;
    shop.stock([shop.sidecar_set("log").container("log", "busybox:1.36")]).await;
    for (product, _) in &replicas {
        let direct = direct_of(&server, product.port).await;
        wait_for("the replica to know the SidecarSet", async || match injected(&direct, &shop).await {
            Ok(containers) if containers == ["log", "main"] => Ok(()),
            answer => Err(answer),
        })
        .await;
    }

    a_pod_costs_no_call(&shop, &audit).await;
    a_cluster_at_rest_sees_no_writes(&audit).await;
    let product = a_replica_leaves_without_a_failed_call(&shop, replicas).await;
    cached_answers_outlive_the_api_server(&server, &shop, &product.0, &audit).await;
    assert!(product.0.stop().await.success());
}

async fn start(server: &ApiServer) -> Replica {
    // The leader does not ask whether it is called.
    let options = Options::default().drain("40s").argument("--webhook-silence=24h");
    // Calls may take long.
    let options = options.argument("--webhook-timeout-seconds=30");
    let product = Product::start(server, options).await;
    let endpoint = service::join(server, &product).await;
    (product, endpoint)
}

/// docs/behaviour/pod-mutation.md#what-a-review-waits-for, in a light form: Pods whose owner nobody knows,
/// several at a time.
async fn a_pod_costs_no_call(shop: &Shop, audit: &Audit) {
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "unknown", "uid": "4ad0c5ab-9a3c-4d12-8a1f-05d1d1ad1a8b"}});
    let pod = shop.pod("web").controlled_by(&owner).build();
    audit.quiet().await;
    let mark = audit.mark();
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let (client, pod) = (shop.client.clone(), pod.clone());
            tokio::spawn(async move {
                for _ in 0..50 {
                    let (code, pod) = create(&client, pod.clone(), "?dryRun=All").await;
                    assert_eq!(code, 201, "{pod:#}");
                    assert_eq!(names(&pod["spec"]["containers"]), ["log", "main"]);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let calls = audit.since(mark);
    // Watches end by themselves, those that began together at the same time.
    let ours = calls.iter().filter(|call| call.resource != "leases" && call.verb != "watch");
    let beside = ours.collect::<Vec<_>>();
    assert!(beside.len() < 10, "500 Pods must not cost calls: {beside:?}");
}

/// docs/behaviour/server.md#a-cluster-at-rest: at most 10 writes a minute, which are those of the Lease, and
/// no polling.
async fn a_cluster_at_rest_sees_no_writes(audit: &Audit) {
    audit.quiet().await;
    let (mark, begun) = (audit.mark(), Instant::now());
    // The length of the measurement, not a condition.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let calls = audit.since(mark);
    // A renewal in not quite seven seconds.
    let renewals = 1 + usize::try_from(begun.elapsed().as_secs() / 6).unwrap();
    let (lease, beside): (Vec<_>, Vec<_>) = calls.iter().partition(|call| call.resource == "leases");
    assert!(beside.iter().all(|call| call.verb == "watch"), "{beside:?}");
    assert!(lease.iter().filter(|call| call.is_write()).count() <= renewals, "{lease:?}");
}

/// docs/behaviour/server.md#shutdown: the replica that is called leaves under load.
async fn a_replica_leaves_without_a_failed_call(shop: &Shop, replicas: [Replica; 2]) -> Replica {
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load: Vec<_> = (0..4)
        .map(|_| tokio::spawn(call_on(shop.client.clone(), unselected(shop), stop.clone(), answered.clone())))
        .collect();
    let more = async |count: usize| {
        let target = answered.load(Ordering::Relaxed) + count;
        wait_for("calls to be answered", async || {
            let answered = answered.load(Ordering::Relaxed);
            if answered >= target { Ok(()) } else { Err(answered) }
        })
        .await;
    };
    let [a, b] = replicas;
    let before = [reviews(&a.0).await, reviews(&b.0).await];
    more(100).await;
    // The replica that gets the calls at the moment leaves.
    let gained = [reviews(&a.0).await - before[0], reviews(&b.0).await - before[1]];
    let (leaving, staying) = if gained[0] >= gained[1] { (a, b) } else { (b, a) };
    leaving.0.terminate();
    wait_within(Duration::from_secs(35), "it to turn unready", async || match leaving.0.readiness().await {
        Ok((500, reason)) if reason.contains("stopping") => Ok(()),
        answer => Err(answer),
    })
    .await;
    assert_eq!(leaving.0.liveness().await.unwrap().0, 200, "it still lives");
    let (mut product, _endpoint) = leaving;
    assert!(product.wait_exit().await.success());
    assert!(!product.log().contains("were not answered"), "{}", product.log());
    more(100).await;
    stop.store(true, Ordering::Relaxed);
    for task in load {
        task.await.unwrap();
    }
    staying
}

/// A SidecarSet that selects nothing here.
fn unselected(shop: &Shop) -> Object {
    sidecar_set(&shop.name("load")).matching("no", "one").container("main", "busybox:1.36")
}

async fn call_on(client: Client, set: Object, stop: Arc<AtomicBool>, answered: Arc<AtomicUsize>) {
    let set = set.build();
    while !stop.load(Ordering::Relaxed) {
        let (code, answer) = create(&client, set.clone(), "?dryRun=All").await;
        assert_eq!(code, 201, "{answer:#}");
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reviews that a replica has answered.
async fn reviews(product: &Product) -> u64 {
    let metrics = product.metrics().await;
    let counts = metrics.lines().filter(|line| line.starts_with("kutter_admission_reviews{"));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

async fn cached_answers_outlive_the_api_server(
    server: &ApiServer,
    shop: &Shop,
    product: &Product,
    audit: &Audit,
) {
    let direct = direct_of(server, product.port).await;
    assert_eq!(injected(&direct, shop).await.unwrap(), ["log", "main"]);
    server.stop();
    wait_for("the API server to be away", async || match shop.client.apiserver_version().await {
        Err(_) => Ok(()),
        Ok(version) => Err(version),
    })
    .await;
    assert_eq!(injected(&direct, shop).await.unwrap(), ["log", "main"]);
    let conversion = conversion_of_a_clone_set(&direct).await;
    assert_eq!(conversion["result"]["status"], "Success", "{conversion:#}");
    assert_eq!(product.readiness().await.unwrap(), (200, "ok".to_owned()));
    assert_eq!(product.liveness().await.unwrap().0, 200);

    let mark = audit.mark();
    server.restart().await;
    in_use(server).await;
    shop.settle().await;
    shop.stock([shop.sidecar_set("late").container("late", "busybox:1.36")]).await;
    assert_eq!(injected(&direct, shop).await.unwrap(), ["late", "log", "main"]);
    wait_for("the Lease", async || {
        let metrics = product.metrics().await;
        if metrics.contains("kruise_manager_is_leader 1") { Ok(()) } else { Err(product.log()) }
    })
    .await;
    // Each reader lists a kind once at most, and once again where the Lease was lost meanwhile.
    let mut lists = BTreeMap::new();
    for call in audit.since(mark).into_iter().filter(|call| call.verb == "list" && call.succeeded) {
        *lists.entry(call.resource).or_insert(0) += 1;
    }
    assert!(lists.iter().all(|(kind, count)| *count <= 2 * readers(kind)), "{lists:?}");
}

/// How many caches and controllers of one replica follow a kind, at most: ControllerRevisions have three
/// readers. Secrets have four: certificates, copies of ResourceDistributions, pull Secrets, and their copies.
/// StatefulSets are of two groups.
fn readers(kind: &str) -> u64 {
    match kind {
        "statefulsets" => 5,
        "secrets" => 4,
        _ => 3,
    }
}

/// The containers of a Pod that a replica is asked about itself; else its answer.
async fn injected(direct: &Client, shop: &Shop) -> Result<Vec<String>, Value> {
    let pod = shop.pod("web").build();
    let answer = review(direct, &pod_review(&shop.namespace, "CREATE", "", &pod)).await;
    if answer["patch"].is_null() {
        return Err(answer);
    }
    let pod = patched(&pod, &answer);
    Ok(names(&pod["spec"]["containers"]).iter().map(|name| (*name).to_owned()).collect())
}

/// The answer to a conversion, which needs neither caches nor the API server
/// (docs/behaviour/api-and-registration.md#version-conversion).
async fn conversion_of_a_clone_set(direct: &Client) -> Value {
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": [
            {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "a"}, "spec": {}}]},
    });
    let (code, mut answer) = crate::support::call(direct, "POST", "/convert", &review).await;
    assert_eq!(code, 200, "{answer:#}");
    answer["response"].take()
}
