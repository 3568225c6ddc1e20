//! What PodUnavailableBudgets let pass and what they refuse, counted by the controller and taken by admission
//! (docs/behaviour/podunavailablebudget.md#acceptance-scenarios). What budgets may say is tested in
//! `podunavailablebudget_admission`.

mod operations;
mod parallel;
mod pods;
mod workloads;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kit::builders::{Object, deployment, object, workload};
use kit::{ApiServer, Shared, wait_for, wait_within};
use serde_json::{Value, json};

use crate::product::{self, Product};
use crate::support::{Shop, Site, Stored, call, in_conflict, in_use};

const MARK: &str = "pub.kruise.io/related-pub";
const OLDER_MARK: &str = "kruise.io/related-pub";
const NOTHING_LEFT: &str = "pub unavailable allowed is negative";
const DELETION: &str = "vpod.kb.io";
const EVICTION: &str = "vpodeviction.kb.io";

/// An API server with the controllers of Kubernetes, on which budgets protect Pods from everything.
pub async fn guarded() -> Arc<Site> {
    static SITE: Shared<Site> = Shared::new();
    SITE.get(async || open(kit::Options::default().with_controller_manager()).await).await
}

/// The program on an API server, once it is asked about all that takes units.
async fn open(options: kit::Options) -> Site {
    let server = product::server(options).await;
    let options = product::Options::default().gates("PodUnavailableBudgetUpdateGate=true");
    let product = Product::serve(&server, options).await;
    in_use(&server).await;
    asks(&server, true).await;
    Site { server, product }
}

/// Waits until the API server asks the program about deletions of Pods or, where the gates leave these out, about
/// changes.
pub async fn asks(server: &ApiServer, about_deletions: bool) {
    let shop = Shop::open_on(server, "budget-asked").await;
    let (budget, pods) = protected(&shop, 1, 0).await;
    let change = json!({"metadata": {"labels": {"unavailable-pod.kruise.io/asked": "yes"}}});
    wait_for("changes of Pods to be refused", async || {
        let answer = match about_deletions {
            true => pods[0].delete_dry().await,
            false => call(&shop.client, "PATCH", &format!("{}?dryRun=All", pods[0].path), &change).await,
        };
        if answer.0 == 403 { Ok(()) } else { Err(answer) }
    })
    .await;
    budget.deleted().await;
}

/// A budget of the shop's Pods, named `web`.
fn budget(shop: &Shop, spec: Value) -> Object {
    object("policy.kruise.io/v1beta1", "PodUnavailableBudget", "web")
        .in_namespace(&shop.namespace)
        .with("/spec", spec)
}

/// Creates a budget of the shop's Pods and waits until admission knows it, which has a watch of its own. By
/// an old count it lets no Pod go.
pub async fn establish(shop: &Shop, spec: Value) -> Stored {
    let stored = Stored::create(&shop.client, budget(shop, spec.clone())).await;
    in_conflict(&shop.client, budget(shop, spec).with("/metadata/name", "rival")).await;
    stored
}

/// The spec of a budget that counts so many Pods labelled `app=web`, of any owner.
fn selecting(total: usize, limit: Value) -> Value {
    let mut spec = limit;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    spec["protectTotalReplicas"] = json!(total);
    spec
}

/// Waits until the controller has counted the newest spec, with these numbers: allowed, current, desired and total.
pub async fn counted(budget: &Stored, numbers: [i64; 4]) -> Value {
    wait_for("the budget to be counted", async || {
        let now = budget.get().await.1;
        let status = &now["status"];
        let found = ["unavailableAllowed", "currentAvailable", "desiredAvailable", "totalReplicas"]
            .map(|name| status[name].as_i64());
        let is_new = status["observedGeneration"] == now["metadata"]["generation"];
        if is_new && found == numbers.map(Some) { Ok(status.clone()) } else { Err(status.clone()) }
    })
    .await
}

/// A Pod that serves, on no node: a deletion takes it away at once.
async fn serving(shop: &Shop, pod: Object) -> Stored {
    let pod = Stored::create(&shop.client, pod).await;
    serve(&pod, true).await;
    pod
}

/// So many Pods that serve, with a budget over them that lets some be away.
async fn protected(shop: &Shop, count: usize, away: i64) -> (Stored, Vec<Stored>) {
    let budget = establish(shop, selecting(count, json!({"maxUnavailable": away}))).await;
    let pods = (0..count).map(|number| serving(shop, shop.pod(&format!("web-{number}"))));
    let pods = join_all(pods).await;
    let total = i64::try_from(count).unwrap();
    counted(&budget, [away, total, total - away, total]).await;
    (budget, pods)
}

/// Has a budget protect or release Pods that are not ready.
async fn choose(budget: &Stored, word: &str) {
    budget.patch(&json!({"metadata": {"annotations": {"kutter.io/unhealthy-pods": word}}})).await;
}

/// Serves from now on, or does not.
async fn serve(pod: &Stored, is_ready: bool) {
    let ready = if is_ready { "True" } else { "False" };
    pod.patch_status(&json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]})).await;
}

/// The Pods of a shop.
async fn list(shop: &Shop) -> Vec<Stored> {
    let path = format!("/api/v1/namespaces/{}/pods", shop.namespace);
    let list = call(&shop.client, "GET", &path, &Value::Null).await.1;
    let items = list["items"].as_array().unwrap().clone();
    let stored = |pod: Value| {
        let path = format!("{path}/{}", pod["metadata"]["name"].as_str().unwrap());
        Stored::existing(&shop.client, path, pod)
    };
    items.into_iter().map(stored).collect()
}

/// The refusal of a budget named `web`, as clients see it.
#[track_caller]
fn assert_refused(answer: &(u16, Value), webhook: &str) {
    let (code, status) = answer;
    assert_eq!(*code, 403, "{status:#}");
    let expected = format!(
        "admission webhook \"{webhook}\" denied the request: podunavailablebudget.policy.kruise.io \"web\" is forbidden: {NOTHING_LEFT}"
    );
    assert_eq!((&status["message"], &status["reason"]), (&json!(expected), &json!("Forbidden")));
}

#[track_caller]
fn assert_passed((code, answer): &(u16, Value)) {
    assert!((200..300).contains(code), "{answer:#}");
}

/// Waits for an Event about an object of this name with this reason.
async fn reported(shop: &Shop, name: &str, reason: &str) -> Value {
    let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", shop.namespace);
    wait_for(&format!("the Event {reason}"), async || {
        let list = call(&shop.client, "GET", &path, &Value::Null).await.1;
        let events = list["items"].as_array().unwrap();
        let found =
            events.iter().find(|event| event["regarding"]["name"] == name && event["reason"] == reason);
        found.cloned().ok_or(events.len())
    })
    .await
}
