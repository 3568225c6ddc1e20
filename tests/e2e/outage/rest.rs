//! A cluster at rest (docs/behaviour/server.md#a-cluster-at-rest).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kit::builders::workload;
use kit::fake_nodes::{self, FakeNodes};
use kit::wait_for;
use serde_json::{Value, json};

use super::audit::Audit;
use super::{readers, start};
use crate::product;
use crate::support::{Shop, Stored, call, in_use};

/// A little more than a minute: what is done once a minute shows.
const MEASURED: Duration = Duration::from_secs(65);

/// Two replicas with objects of all kinds that controllers act on: nothing is asked for, and nothing is
/// written but the Lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_minute_at_rest_costs_no_call_but_those_for_the_lease() {
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
    let shop = Shop::open_on(&server, "rest").await;
    let nodes = fake_nodes::Options::nodes(2).in_namespace(&shop.namespace).binding_pods();
    let _nodes = FakeNodes::start(shop.client.clone(), nodes).await;
    // A Pod that was there before, so that the account has something to report.
    shop.admit(shop.pod("missed").controlled_by(&json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "unknown", "uid": "4ad0c5ab-9a3c-4d12-8a1f-05d1d1ad1a8b"},
    })))
    .await;
    shop.stock([shop.sidecar_set("log").container("log", "busybox:1.36")]).await;
    let set = workload("apps.kruise.io/v1beta1", "CloneSet", "web").in_namespace(&shop.namespace);
    let set = set.matching("app", "web").replicas(5).container("main", "nginx:1.25");
    let set = Stored::create(&shop.client, set).await;
    wait_for("the CloneSet to be complete", async || {
        let status = set.get().await.1["status"].clone();
        if status["readyReplicas"] == 5 { Ok(()) } else { Err(status) }
    })
    .await;

    let path = format!("/apis/apps.kruise.io/v1beta1/sidecarsets/{}", shop.name("log"));
    let sidecars = Stored::existing(&shop.client, path, Value::Null);
    wait_for("the account to be complete", async || {
        let annotations = sidecars.get().await.1["metadata"]["annotations"].clone();
        let account = annotations["kutter.io/sidecarset-pods"].as_str().unwrap_or("{}");
        let account: Value = serde_json::from_str(account).unwrap();
        // A replica may not have heard of the SidecarSet yet when it admits a Pod: such a Pod counts as missed.
        let counted = |what: &str| account[what].as_u64().unwrap_or(0);
        if (counted("matched"), counted("injected") + counted("missed")) == (6, 5) {
            Ok(())
        } else {
            Err(account)
        }
    })
    .await;

    // They come half a minute after their Nodes.
    wait_for("the NodeImages of both nodes", async || {
        let path = "/apis/apps.kruise.io/v1beta1/nodeimages";
        let (_, list) = call(&shop.client, "GET", path, &Value::Null).await;
        if list["items"].as_array().is_some_and(|items| items.len() == 2) { Ok(()) } else { Err(list) }
    })
    .await;

    audit.quiet().await;
    let (mark, begun) = (audit.mark(), Instant::now());
    // The length of the measurement, not a condition.
    tokio::time::sleep(MEASURED).await;
    let calls = audit.since(mark);
    // A machine that stalls measures for longer.
    let at_most =
        |count: u64| count + count * begun.elapsed().as_secs().saturating_sub(MEASURED.as_secs()) / 60;
    let mut counts = BTreeMap::new();
    for call in calls {
        *counts.entry((call.verb, call.resource)).or_insert(0_u64) += 1;
    }
    let is_lease = |resource: &str| resource == "leases";
    let beside = |(verb, resource): &(String, String)| !is_lease(resource) && verb != "watch";
    assert!(!counts.keys().any(beside), "{counts:?}");
    let lease: u64 =
        counts.iter().filter(|((_, resource), _)| is_lease(resource)).map(|(_, count)| count).sum();
    assert!(lease > 0, "the log tells of nothing");
    // Two replicas: one renews the Lease, the other reads it.
    assert!(lease <= at_most(50), "{counts:?}");
    let writes =
        |((verb, _), _): &(&(String, String), &u64)| !["get", "list", "watch"].contains(&verb.as_str());
    let written: u64 = counts.iter().filter(writes).map(|(_, count)| count).sum();
    // A renewal in not quite seven seconds, and what a standby notes of the last review.
    assert!(written <= at_most(13), "{counts:?}");
    // They end by themselves after about five minutes, those that began together at the same time.
    let lasts = |((verb, resource), count): (&(String, String), &u64)| {
        verb != "watch" || *count <= at_most(2 * readers(resource))
    };
    assert!(counts.iter().all(lasts), "{counts:?}");
}
