//! Which operations take units, with the gates that choose them.

use super::*;
use crate::support::{direct_of, pod_review, shared};

const UNAVAILABLE: &str = "unavailable-pod.kruise.io/x";
const RESIZE: &str = "vpodresize.kb.io";

/// Two Pods that serve, with a budget over them.
async fn two(server: &ApiServer, prefix: &str, spec: Value) -> (Shop, Stored, [Stored; 2]) {
    let shop = Shop::open_on(server, prefix).await;
    let away = spec["maxUnavailable"].as_i64().unwrap();
    let budget = establish(&shop, selecting(2, spec)).await;
    let resources = json!({"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}});
    let pod = |name: &str| shop.pod(name).having("resources", resources.clone());
    let pods = [serving(&shop, pod("a")).await, serving(&shop, pod("b")).await];
    counted(&budget, [away, 2, 2 - away, 2]).await;
    (shop, budget, pods)
}

/// Asks for another image.
async fn roll(pod: &Stored, image: &str) -> (u16, Value) {
    let mut containers = pod.get().await.1["spec"]["containers"].clone();
    containers[0]["image"] = json!(image);
    pod.try_patch(&json!({"spec": {"containers": containers}})).await
}

/// Asks for another CPU request.
async fn resize(pod: &Stored, cpu: &str) -> (u16, Value) {
    let mut containers = pod.get().await.1["spec"]["containers"].clone();
    containers[0]["resources"]["requests"]["cpu"] = json!(cpu);
    pod.try_patch_part("resize", &json!({"spec": {"containers": containers}})).await
}

/// Scenario 6.
#[tokio::test]
async fn a_change_of_the_spec_takes_a_unit_and_one_of_labels_does_not() {
    let spec = json!({"maxUnavailable": 0});
    let (_, _, [pod, _]) = two(&guarded().await.server, "budget-update", spec).await;
    assert_refused(&roll(&pod, "nginx:1.26").await, DELETION);
    pod.label("foo", "bar").await;
}

/// Scenario 7: the gate for updates is off by default.
#[tokio::test]
async fn changes_are_free_without_their_gate() {
    let server = shared().await.0;
    asks(server, true).await;
    let (_, _, [pod, _]) = two(server, "budget-default", json!({"maxUnavailable": 0})).await;
    assert_refused(&pod.delete().await, DELETION);
    assert_passed(&roll(&pod, "nginx:1.26").await);
}

/// Scenario 8.
#[tokio::test]
async fn a_label_takes_a_pod_out_and_back() {
    let spec = json!({"maxUnavailable": 1});
    let (_, budget, [a, b]) = two(&guarded().await.server, "budget-label", spec).await;
    a.label(UNAVAILABLE, "yes").await;
    counted(&budget, [0, 1, 1, 2]).await;
    let answer = b.try_patch(&json!({"metadata": {"labels": {UNAVAILABLE: "yes"}}})).await;
    assert_refused(&answer, DELETION);
    a.label(UNAVAILABLE, Value::Null).await;
    counted(&budget, [1, 2, 1, 2]).await;
}

/// Scenario 12.
#[tokio::test]
async fn only_chosen_operations_take_units() {
    let spec = json!({"maxUnavailable": 0, "protectOperations": ["EVICT"]});
    let (_, _, [a, b]) = two(&guarded().await.server, "budget-chosen", spec).await;
    a.deleted().await;
    assert_refused(&b.evict(&json!({})).await, EVICTION);
}

/// Scenario 38.
#[tokio::test]
async fn a_recorded_pod_takes_no_second_unit() {
    let spec = json!({"maxUnavailable": 1});
    let (_, budget, [a, b]) = two(&guarded().await.server, "budget-again", spec).await;
    // Nobody restarts its container here: the record ends after some seconds. A round that took longer shows
    // nothing.
    let mut round = 0;
    let (refused, status) = wait_for("a round in the time of the record", async || {
        round += 1;
        counted(&budget, [1, 2, 1, 2]).await;
        let began = std::time::Instant::now();
        assert_passed(&roll(&a, &format!("nginx:1.{round}.0")).await);
        assert_passed(&roll(&a, &format!("nginx:1.{round}.1")).await);
        let refused = roll(&b, &format!("nginx:1.{round}.0")).await;
        let status = budget.get().await.1["status"].clone();
        if began.elapsed() < Duration::from_secs(8) { Ok((refused, status)) } else { Err(status) }
    })
    .await;
    assert_refused(&refused, DELETION);
    assert_eq!(status["unavailablePods"].as_object().map(|pods| pods.len()), Some(1), "{status:#}");
}

/// Scenario 41: the reviews are not those of the API server, which asks only about Pods that are there.
#[tokio::test]
async fn a_pod_that_is_not_there_takes_no_unit() {
    let site = guarded().await;
    let spec = json!({"maxUnavailable": 1});
    let (shop, budget, [pod, _]) = two(&site.server, "budget-unknown", spec).await;
    let program = direct_of(&site.server, site.product.port).await;
    let deleted = async |pod: &Value| {
        let mut review = pod_review(&shop.namespace, "DELETE", "", &Value::Null);
        review["request"]["name"] = pod["metadata"]["name"].clone();
        review["request"]["oldObject"] = pod.clone();
        let (code, answer) = call(&program, "POST", "/validate-pod", &review).await;
        assert_eq!((code, &answer["response"]["allowed"]), (200, &json!(true)), "{answer:#}");
        budget.get().await.1["status"].clone()
    };
    let known = pod.get().await.1;
    for pointer in ["/metadata/name", "/metadata/uid"] {
        let mut unknown = known.clone();
        *unknown.pointer_mut(pointer).unwrap() = json!("unknown");
        let status = deleted(&unknown).await;
        assert_eq!(status["unavailableAllowed"], 1, "{pointer}: {status:#}");
        assert!(status["disruptedPods"].is_null(), "{pointer}: {status:#}");
    }
    // One that was created a moment ago is there.
    let new = serving(&shop, shop.pod("new")).await;
    let status = deleted(&new.get().await.1).await;
    assert!(status["disruptedPods"]["new"].is_string(), "{status:#}");
}

/// Scenarios 5 and 33.
#[tokio::test]
async fn gates_choose_what_is_checked() {
    let gates = "PodUnavailableBudgetDeleteGate=false,PodUnavailableBudgetUpdateGate=true,\
                 InPlacePodVerticalScaling=true";
    let site = open(ApiServer::start(kit::Options::default()).await, gates, false).await;
    let (_, budget, [a, b]) = two(&site.server, "budget-gates", json!({"maxUnavailable": 0})).await;
    assert_refused(&roll(&b, "nginx:1.26").await, DELETION);
    assert_passed(&resize(&b, "110m").await);
    a.deleted().await;
    budget.patch(&json!({"spec": {"protectOperations": ["RESIZE"]}})).await;
    counted(&budget, [0, 1, 2, 2]).await;
    // The webhook has a watch of its own.
    let mut size = 120;
    let held = wait_for("resizes to be held", async || {
        size += 1;
        let answer = resize(&b, &format!("{size}m")).await;
        if answer.0 == 200 { Err(size) } else { Ok(answer) }
    })
    .await;
    assert_refused(&held, RESIZE);
    assert_passed(&roll(&b, "nginx:1.26").await);
}

/// Scenario 33 without its gate: a resize is an update.
#[tokio::test]
async fn a_resize_is_an_update_without_its_gate() {
    let spec = json!({"maxUnavailable": 0});
    let (_, _, [pod, _]) = two(&guarded().await.server, "budget-resize", spec).await;
    assert_refused(&resize(&pod, "110m").await, RESIZE);
}
