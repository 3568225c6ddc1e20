//! Requests that delete, evict or change Pods under a PodUnavailableBudget
//! (docs/behaviour/podunavailablebudget.md#refusals).

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use admission::world::{Watched, World};
use cluster::reservation::Reservations;
use http::{Request, Response};
use informers::{Index, Lookup, files};
use kinds::podunavailablebudget::reserve::Rules;
use kit::double::{Objects, Requests, api_server, status};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::service_fn;
use webhooks::Admission;

use crate::support::{ask, ask_within, delete, with_index};

const PATH: &str = "/validate-pod";
const BUDGET: &str = "/apis/policy.kruise.io/v1beta1/namespaces/shop/podunavailablebudgets/web";
const POD: &str = "/api/v1/namespaces/shop/pods/web-0";
const NOTHING_LEFT: &str =
    "podunavailablebudget.policy.kruise.io \"web\" is forbidden: pub unavailable allowed is negative";

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-0", "namespace": "shop", "uid": "u", "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5c4", "uid": "r", "controller": true}],
        },
        "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn budget(left: u32) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1},
        "status": {"desiredAvailable": 1, "unavailableAllowed": left, "currentAvailable": 1 + left, "totalReplicas": 2},
    })
}

fn knowing(budget: &Value) -> Index {
    let mut world = World::new(api::DEFAULT_NAMESPACE);
    world.apply(Watched::PodUnavailableBudget, &budget.to_string()).unwrap();
    Index::fixed(world)
}

/// Admission that knows the Pod, and a budget with so many units left.
fn admission(flags: &str, left: u32) -> Admission {
    let mut objects = files::Objects::default();
    objects.parse("test", &pod().to_string()).unwrap();
    with_index(flags, knowing(&budget(left)), Lookup::files(objects))
}

/// Admission on an API server that has this budget, and answers so to who asks for the Pod.
fn asking(server: &Objects, budget: Value, pod: (u16, String)) -> (Admission, Requests) {
    let index = knowing(&server.put(BUDGET, budget));
    let stored = server.clone();
    let (client, requests) = api_server(move |request| match request.path {
        POD => pod.clone(),
        _ => stored.answer(&request),
    });
    let mut admission = with_index("", index, Lookup::cluster(client.clone()));
    admission.budgets = Reservations::new(Some(client), Rules::new(&admission.gates));
    (admission, requests)
}

fn deletion() -> Value {
    let mut request = delete("pods", "v1", &pod());
    request["namespace"] = json!("shop");
    request
}

fn eviction(name: &str) -> Value {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "shop"}});
    json!({
        "uid": "7f2c9e4a-0002", "kind": {"group": "policy", "version": "v1", "kind": "Eviction"},
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource": "eviction", "name": name,
        "namespace": "shop", "operation": "CREATE", "userInfo": {"username": "alice"}, "object": eviction,
    })
}

#[tokio::test]
async fn a_refusal_has_the_words_and_the_reason_of_the_reference() {
    let admission = admission("", 0);
    for request in [deletion(), eviction("web-0")] {
        let response = ask(&admission, PATH, &request).await;
        let status = json!({"metadata": {}, "message": NOTHING_LEFT, "reason": "Forbidden", "code": 403});
        assert_eq!((&response["allowed"], &response["status"]), (&json!(false), &status));
    }
    let metrics = admission.metrics.render().unwrap();
    let line =
        "pod_unavailable_budget{kind_namespace_name=\"ReplicaSet_shop_web-5c4\",username=\"other\"} 2\n";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn a_refused_eviction_may_be_tried_again_where_that_is_wanted() {
    let mut admission = admission("", 0);
    admission.flags.retry_refused_evictions = true;
    let status = ask(&admission, PATH, &eviction("web-0")).await["status"].clone();
    assert_eq!((&status["code"], &status["reason"]), (&json!(429), &json!("TooManyRequests")));
    assert_eq!(
        (&status["details"]["retryAfterSeconds"], &status["message"]),
        (&json!(10), &json!(NOTHING_LEFT))
    );
    let status = ask(&admission, PATH, &deletion()).await["status"].clone();
    assert_eq!(status["code"], 403);
}

#[tokio::test]
async fn what_the_budget_does_not_hold_passes() {
    let full = admission("", 1);
    let none = admission("", 0);
    let mut elsewhere = deletion();
    elsewhere["namespace"] = json!("other");
    let update = {
        let mut request = deletion();
        request["operation"] = json!("UPDATE");
        request["object"] = json!({"metadata": {}, "spec": {}});
        request
    };
    for (admission, request) in [
        (&full, deletion()),
        (&full, eviction("web-0")),
        (&none, eviction("gone")),
        (&none, elsewhere),
        (&none, update.clone()),
    ] {
        let response = ask(admission, PATH, &request).await;
        assert_eq!(response["allowed"], true, "{request:#} {response:#}");
    }
    let updates = admission_with_updates();
    assert_eq!(ask(&updates, PATH, &update).await["status"]["code"], 403);
}

/// The API server, asked for the Pod, has it, has another one of its name, has none, or can't answer.
#[tokio::test]
async fn only_a_pod_that_may_be_there_takes_a_unit() {
    let found = |uid: &str| (200, json!({"metadata": {"name": "web-0", "uid": uid}}).to_string());
    for (answer, is_counted) in
        [(found("u"), true), (found("v"), false), ((404, status(404)), false), ((500, status(500)), true)]
    {
        for left in [1, 0] {
            let server = Objects::default();
            let (admission, requests) = asking(&server, budget(left), answer.clone());
            let response = ask(&admission, PATH, &deletion()).await;
            assert_eq!(response["allowed"], left > 0 || !is_counted, "{answer:?} {response:#}");
            let status = server.get(BUDGET).unwrap()["status"].clone();
            let taken = u32::from(is_counted && left > 0);
            assert_eq!(status["unavailableAllowed"], left - taken, "{answer:?} {status:#}");
            assert_eq!(status["disruptedPods"]["web-0"].is_string(), taken > 0, "{answer:?} {status:#}");
            let asks = requests.lock().unwrap().iter().filter(|request| request.contains(POD)).count();
            assert_eq!(asks, 1, "{answer:?}");
        }
    }
}

/// The API server takes the question for the Pod and says nothing, for longer than the review lasts or not.
#[tokio::test(start_paused = true)]
async fn a_silent_api_server_holds_no_review_up() {
    let silent = service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
    for (seconds, left, waited, code) in [(5, 1, 2, 200), (5, 0, 2, 403), (1, 1, 1, 504)] {
        let server = Objects::default();
        let (mut admission, _) = asking(&server, budget(left), (404, status(404)));
        admission.lookup = Lookup::cluster(Client::new(silent, "default"));
        let (started, time) = (Instant::now(), Duration::from_secs(seconds));
        let response = ask_within(&admission, PATH, &deletion(), time).await;
        assert_eq!((started.elapsed().as_secs(), &response["status"]["code"]), (waited, &json!(code)));
        let status = server.get(BUDGET).unwrap()["status"].clone();
        assert_eq!(status["disruptedPods"]["web-0"].is_string(), code == 200, "{status:#}");
    }
}

#[tokio::test]
async fn a_pod_of_which_no_uid_is_known_is_that_of_its_name() {
    let server = Objects::default();
    let (admission, _) = asking(&server, budget(1), (200, pod().to_string()));
    let mut request = deletion();
    request["oldObject"]["metadata"]["uid"].take();
    assert_eq!(ask(&admission, PATH, &request).await["allowed"], true);
    assert_eq!(server.get(BUDGET).unwrap()["status"]["unavailableAllowed"], 0);
}

#[tokio::test]
async fn nothing_is_asked_about_a_pod_that_needs_no_unit() {
    let mut recorded = budget(0);
    recorded["status"]["disruptedPods"] =
        json!({"web-0": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()});
    let mut evictions = budget(0);
    evictions["spec"]["protectOperations"] = json!(["EVICT"]);
    for budget in [recorded, evictions] {
        let (admission, requests) = asking(&Objects::default(), budget, (404, status(404)));
        assert_eq!(ask(&admission, PATH, &deletion()).await["allowed"], true);
        let asked = requests.lock().unwrap().clone();
        assert!(!asked.iter().any(|request| request.contains(POD)), "{asked:?}");
    }
}

fn admission_with_updates() -> Admission {
    admission("PodUnavailableBudgetUpdateGate=true", 0)
}

#[tokio::test]
async fn nothing_passes_while_budgets_are_not_known() {
    let index = Index::awaiting(World::new(api::DEFAULT_NAMESPACE), [Watched::PodUnavailableBudget]);
    let admission = with_index("", index, Lookup::files(files::Objects::default()));
    assert_eq!(ask(&admission, PATH, &deletion()).await["status"]["code"], 503);
}
