//! What the program counts is written down, and its caches have a size (docs/behaviour/server.md#metrics).

use std::collections::{BTreeMap, BTreeSet};

use kit::builders::workload;
use kit::wait_for;
use serde_json::Value;

use crate::support::{Shop, Stored, shared};

/// Many: other tests come and go.
const SETS: u64 = 200;
const CLONE_SETS: &str = r#"{cache="cloneset-controller",kind="CloneSet"}"#;
const CACHES: [&str; 6] = [
    CLONE_SETS,
    r#"{cache="admission",kind="SidecarSet"}"#,
    r#"{cache="admission",kind="Namespace"}"#,
    r#"{cache="sidecarset-controller",kind="SidecarSet"}"#,
    r#"{cache="pods",kind="Pod"}"#,
    r#"{cache="sidecarset-accounts",kind="Pod"}"#,
];
const PAGE: &str = include_str!("../../docs/metrics.md");

/// Sizes of caches by cache and kind.
fn sizes(metrics: &str) -> BTreeMap<String, u64> {
    let series = metrics.lines().filter_map(|line| line.strip_prefix("kutter_cache_objects"));
    series
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(labels, size)| (labels.to_owned(), size.parse().unwrap()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sizes_of_caches_follow_what_is_in_the_cluster() {
    let (_, product) = shared().await;
    let shop = Shop::open("sizes").await;
    let clone_sets = async || sizes(&product.metrics().await).get(CLONE_SETS).copied();
    wait_for("all caches to be counted", async || {
        let sizes = sizes(&product.metrics().await);
        if CACHES.iter().all(|cache| sizes.contains_key(*cache)) { Ok(()) } else { Err(sizes) }
    })
    .await;
    let before = clone_sets().await.unwrap();
    for number in 0..SETS {
        let set = workload("apps.kruise.io/v1beta1", "CloneSet", &format!("web-{number}"));
        let set = set.in_namespace(&shop.namespace).matching("app", "web").replicas(0);
        Stored::create(&shop.client, set.container("main", "nginx:1.25")).await;
    }
    wait_for("the CloneSets to be counted", async || match clone_sets().await {
        Some(now) if now >= before + SETS / 2 => Ok(()),
        now => Err((before, now)),
    })
    .await;
    let path = format!("/apis/apps.kruise.io/v1beta1/namespaces/{}/clonesets", shop.namespace);
    Stored::existing(&shop.client, path, Value::Null).deleted().await;
    wait_for("the CloneSets not to be counted", async || match clone_sets().await {
        Some(now) if now < before + SETS / 2 => Ok(()),
        now => Err((before, now)),
    })
    .await;
}

/// No metric of ours without a line in the documentation, and none there that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn every_metric_of_ours_is_on_its_page() {
    let (_, product) = shared().await;
    let shop = Shop::open("documented").await;
    shop.stock([shop.sidecar_set("log").container("log", "busybox:1.36")]).await;
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `kutter_"));
    let names = rows.map(|row| format!("kutter_{}", row.split(['`', '{']).next().unwrap()));
    let documented: BTreeSet<String> = names.collect();
    wait_for("the page to say what is served", async || {
        let text = product.metrics().await;
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let served =
            types.filter_map(|line| line.split(' ').next()).filter(|name| name.starts_with("kutter_"));
        let served: BTreeSet<String> = served.map(str::to_owned).collect();
        if served == documented { Ok(()) } else { Err((served, documented.clone())) }
    })
    .await;
}
