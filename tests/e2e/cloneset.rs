//! What the controller of CloneSets does to Pods, claims, revisions and its status
//! (docs/behaviour/cloneset.md#acceptance-scenarios and
//! docs/behaviour/in-place-update.md#acceptance-scenarios).

mod fields;
pub mod gates;
mod hooks;
mod inplace;
mod order;
mod restart_on;
mod revisions;
mod rollout;
mod scale;
mod takeover;
mod trouble;

use kit::builders::{Object, workload};
use kit::fake_nodes;
use kit::{ApiServer, wait_for};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::fleet::{
    Fleet, IN_PLACE_UPDATE_READY, LIFECYCLE_STATE, NEW, OLD, REVISION, SPECIFIED_DELETE, condition, image,
    is_available, is_ready, label, name, restarts, uid, uids, with_image,
};
use crate::support::{Shop, create, named, shared};

const INSTANCE_ID: &str = "apps.kruise.io/cloneset-instance-id";
const STATE: &str = "apps.kruise.io/inplace-update-state";
const GRACE: &str = "apps.kruise.io/inplace-update-grace";
const KRUISE_POD_READY: &str = "KruisePodReady";

/// The CloneSet that the tests begin with; they complete it.
fn clone_set(shop: &Shop, version: &str) -> Object {
    workload(&format!("apps.kruise.io/{version}"), "CloneSet", "web")
        .in_namespace(&shop.namespace)
        .matching("app", "web")
        .container("main", OLD)
}

/// Sets `updateStrategy` of v1beta1.
fn rolling(set: Object, policy: &str, settings: Value) -> Object {
    let mut settings = settings;
    settings["podUpdatePolicy"] = policy.into();
    set.with("/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": settings}))
}

/// Pods are updated in place, all at a time where `settings` do not say otherwise.
fn in_place(set: Object, mut settings: Value) -> Object {
    if settings["maxUnavailable"].is_null() {
        settings["maxUnavailable"] = "100%".into();
    }
    rolling(set, "InPlaceIfPossible", settings)
}

/// Each Pod has a claim `data`.
fn with_claim(set: Object) -> Object {
    set.with(
        "/spec/volumeClaimTemplates",
        json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}]),
    )
}

/// The shared API server, once it asks the program about CloneSets.
async fn asked() -> &'static ApiServer {
    static ASKED: OnceCell<()> = OnceCell::const_new();
    let server = shared().await.0;
    ASKED.get_or_init(async || asks(server).await).await;
    server
}

/// Waits until the API server asks the program about CloneSets.
pub async fn asks(server: &ApiServer) {
    let shop = Shop::open_on(server, "cloneset-asked").await;
    let set = clone_set(&shop, "v1beta1").build();
    wait_for("CloneSets to get their defaults", async || {
        match create(&shop.client, set.clone(), "?dryRun=All").await {
            (201, set) if set["spec"]["revisionHistoryLimit"] == 10 => Ok(()),
            (_, answer) => Err(answer),
        }
    })
    .await;
}

impl Fleet {
    /// A CloneSet whose Pods are all available. `refine` completes it.
    async fn launch(prefix: &str, refine: impl FnOnce(Object) -> Object) -> Self {
        Self::launch_on(asked().await, prefix, refine).await
    }

    async fn launch_on(server: &ApiServer, prefix: &str, refine: impl FnOnce(Object) -> Object) -> Self {
        let options = fake_nodes::Options::nodes(2).binding_pods();
        let set = |shop: &Shop| refine(clone_set(shop, "v1beta1").in_company());
        let fleet = Self::found(server, prefix, options, set).await;
        fleet.complete().await;
        fleet
    }
}

/// A time of an object.
fn time(text: &Value) -> jiff::Timestamp {
    text.as_str().unwrap().parse().unwrap()
}

/// The record of the update in place.
fn update_state(pod: &Value) -> Value {
    serde_json::from_str(crate::support::annotation(pod, STATE)).unwrap()
}
