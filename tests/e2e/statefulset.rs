//! What the controller of StatefulSets does to Pods, claims, revisions and its status
//! (docs/behaviour/statefulset.md).

mod adoption;
mod claims;
mod older_claims;
mod scale;
mod update;

use kit::ApiServer;
use kit::builders::{Object, workload};
use kit::fake_nodes;
use kit::wait_for;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::fleet::{Fleet, OLD, name};
use crate::support::{Shop, create, shared};

/// The StatefulSet that the tests begin with; they complete it.
fn stateful_set(shop: &Shop, version: &str) -> Object {
    workload(&format!("apps.kruise.io/{version}"), "StatefulSet", "web")
        .in_namespace(&shop.namespace)
        .matching("app", "web")
        .container("main", OLD)
        .with("/spec/serviceName", "db")
}

/// Pods are managed all at once.
pub fn parallel(set: Object) -> Object {
    set.with("/spec/podManagementPolicy", "Parallel")
}

/// Pods are updated in place.
pub fn in_place(set: Object) -> Object {
    set.readiness_gate("InPlaceUpdateReady").with(
        "/spec/updateStrategy",
        json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible"}}),
    )
}

/// Settings of a rolling update that recreates Pods.
fn rolling(set: Object, settings: Value) -> Object {
    let mut strategy = json!({"type": "RollingUpdate"});
    strategy["rollingUpdate"] = settings;
    set.with("/spec/updateStrategy", strategy)
}

/// Each Pod has a claim `www` of this size and class.
fn with_claim(set: Object, size: &str, class: &str) -> Object {
    set.with("/spec/volumeClaimTemplates", claim_templates(size, class))
}

fn claim_templates(size: &str, class: &str) -> Value {
    json!([{"metadata": {"name": "www"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": size}}}}])
}

/// New Pods don't become ready.
fn never_ready(set: Object) -> Object {
    set.template_annotation(fake_nodes::READY_AFTER, "never")
}

/// The shared API server, once it asks the program about StatefulSets.
pub async fn asked() -> &'static ApiServer {
    static ASKED: OnceCell<()> = OnceCell::const_new();
    let server = shared().await.0;
    ASKED.get_or_init(async || asks(server).await).await;
    server
}

/// An API server with the controllers of Kubernetes, where gates of StatefulSets are on.
pub async fn gated() -> &'static ApiServer {
    static ASKED: OnceCell<()> = OnceCell::const_new();
    let server = crate::cloneset::gates::site().await;
    ASKED.get_or_init(async || asks(server).await).await;
    server
}

/// Waits until the API server asks the program about StatefulSets.
pub async fn asks(server: &ApiServer) {
    let shop = Shop::open_on(server, "statefulset-asked").await;
    let set = stateful_set(&shop, "v1beta1").build();
    let unselective = stateful_set(&shop, "v1beta1").with("/spec/selector/matchLabels", json!({})).build();
    wait_for("StatefulSets to be reviewed", async || {
        let (code, answer) = create(&shop.client, unselective.clone(), "?dryRun=All").await;
        if code != 422 {
            return Err(answer);
        }
        match create(&shop.client, set.clone(), "?dryRun=All").await {
            (201, set) if set["spec"]["revisionHistoryLimit"] == 10 => Ok(()),
            (_, answer) => Err(answer),
        }
    })
    .await;
}

/// A StatefulSet that was just created. `refine` completes it.
async fn open(server: &ApiServer, prefix: &str, refine: impl FnOnce(Object) -> Object) -> Fleet {
    let options = fake_nodes::Options::nodes(2).binding_pods();
    Fleet::found(server, prefix, options, |shop| refine(stateful_set(shop, "v1beta1").in_company())).await
}

/// A StatefulSet whose Pods are all available.
pub async fn launch(server: &ApiServer, prefix: &str, refine: impl FnOnce(Object) -> Object) -> Fleet {
    let fleet = open(server, prefix, refine).await;
    fleet.complete().await;
    fleet
}

/// The Pods, once they have these names.
async fn named(fleet: &Fleet, names: &[&str]) -> Vec<Value> {
    let what = format!("the Pods {}", names.join(", "));
    fleet.wait_pods(&what, |pods| pods.iter().map(name).collect::<Vec<_>>() == names).await
}

/// Lets a Pod become ready that was not to.
async fn make_ready(fleet: &Fleet, pod: &str) {
    fleet.annotate(pod, fake_nodes::READY_AFTER, "0").await;
}
