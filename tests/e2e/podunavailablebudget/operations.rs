//! Which operations take units, with the gates that choose them.

use super::*;
use crate::support::{gated, shared};

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

/// Scenarios 5 and 33.
#[tokio::test]
async fn gates_choose_what_is_checked() {
    let server = &gated().await.server;
    asks(server, false).await;
    let (_, budget, [a, b]) = two(server, "budget-gates", json!({"maxUnavailable": 0})).await;
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
