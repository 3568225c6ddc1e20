//! Lifecycle hooks hold Pods at their turns (docs/behaviour/cloneset.md#acceptance-scenarios and
//! docs/behaviour/in-place-update.md#acceptance-scenarios).

use serde_json::{Value, json};

use super::{
    Fleet, KRUISE_POD_READY, LIFECYCLE_STATE, NEW, SPECIFIED_DELETE, condition, in_place, is_ready, label,
    name,
};
use crate::support::call;
use kit::wait_for;

const HOOK: &str = "example.com/hook";

fn in_state(pods: &[Value], state: &str) -> Vec<Value> {
    pods.iter().filter(|pod| label(pod, LIFECYCLE_STATE) == state).cloned().collect()
}

/// The one Pod that waits for its deletion.
async fn held(fleet: &Fleet) -> Value {
    let pods = fleet.wait_pods("a Pod to be held", |pods| in_state(pods, "PreparingDelete").len() == 1).await;
    in_state(&pods, "PreparingDelete").remove(0)
}

/// A key that holds the Pods back, of another program than ours.
const FOREIGN: &str = r#"{"userAgent":"Maintenance","key":"drain"}"#;

/// Puts the gate of a Pod to what another program would: shut, with these keys.
async fn shut(fleet: &Fleet, pod: &str, keys: &[&str]) {
    let stored = fleet.pod(pod);
    wait_for("the gate to be shut", async || {
        let now = stored.get().await.1;
        let mut conditions = now["status"]["conditions"].as_array().unwrap().clone();
        conditions.retain(|condition| condition["type"] != KRUISE_POD_READY);
        conditions.push(json!({
            "type": KRUISE_POD_READY, "status": "False", "message": format!("[{}]", keys.join(",")),
            "lastTransitionTime": "2026-07-01T10:00:00Z",
        }));
        let version = &now["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}});
        match call(&fleet.shop.client, "PATCH", &format!("{}/status", stored.path), &patch).await {
            (200, _) => Ok(()),
            (_, answer) => Err(answer),
        }
    })
    .await;
}

fn gate(pod: &Value) -> (&str, &str) {
    let gate = condition(pod, KRUISE_POD_READY);
    (gate["status"].as_str().unwrap(), gate["message"].as_str().unwrap_or_default())
}

/// Scenario 24 of docs/behaviour/lifecycle.md: the first to release leaves the gate shut, the last
/// opens it.
#[tokio::test]
async fn the_gate_stays_shut_while_anybody_has_a_key() {
    let ours = |hook: &str| format!(r#"{{"userAgent":"Lifecycle","key":"{hook}"}}"#);
    let (deleting, updating) = (ours("preDeleteHook"), ours("preUpdateHook"));
    let fleet = Fleet::launch("cloneset-keys", |set| {
        let mark = json!({"markPodNotReady": true, "labelsHandler": {HOOK: "true"}});
        let set = in_place(set.replicas(1), json!({})).template_label(HOOK, "true");
        set.with("/spec/lifecycle", json!({"preDelete": mark, "inPlaceUpdate": mark}))
    })
    .await;
    let pod = &fleet.names().await[0];
    let stored = fleet.pod(pod);
    let state = async |state: &str| {
        fleet.wait_pod(pod, &format!("state {state}"), |pod| label(pod, LIFECYCLE_STATE) == state).await
    };
    for (image, foreign_goes_first) in [(NEW, false), ("nginx:1.27", true)] {
        shut(&fleet, pod, &[FOREIGN]).await;
        fleet.roll(image).await;
        let held = state("PreparingUpdate").await;
        assert_eq!(gate(&held), ("False", format!("[{updating},{FOREIGN}]").as_str()));
        if foreign_goes_first {
            shut(&fleet, pod, &[&updating]).await;
        }
        stored.label(HOOK, Value::Null).await;
        let released = state("Updated").await;
        if foreign_goes_first {
            assert_eq!(gate(&released), ("True", "[]"));
        } else {
            assert_eq!(gate(&released), ("False", format!("[{FOREIGN}]").as_str()));
        }
        stored.label(HOOK, "true").await;
        let now = state("Normal").await;
        assert_eq!(gate(&now), gate(&released));
    }

    shut(&fleet, pod, &[FOREIGN]).await;
    stored.label(SPECIFIED_DELETE, "true").await;
    let held = state("PreparingDelete").await;
    assert_eq!(gate(&held), ("False", format!("[{deleting},{FOREIGN}]").as_str()));
    assert!(!is_ready(&held), "{held:#}");
}

/// Scenario 17 of docs/behaviour/lifecycle.md.
#[tokio::test]
async fn a_finalizer_of_the_hook_holds_the_pod() {
    const FINALIZER: &str = "example.com/unregister";
    let fleet = Fleet::launch("cloneset-finalizer", |set| {
        let set = set.replicas(2).with("/spec/template/metadata/finalizers", json!([FINALIZER]));
        set.with("/spec/lifecycle/preDelete/finalizersHandler", json!([FINALIZER]))
    })
    .await;
    fleet.scale(1).await;
    let pod = held(&fleet).await;
    assert!(pod["metadata"]["deletionTimestamp"].is_null());
    let stored = fleet.pod(&name(&pod));
    stored.patch(&json!({"metadata": {"finalizers": null}})).await;
    stored.gone().await;
    fleet.complete().await;
    // The other one's finalizer would keep the namespace for ever.
    for pod in fleet.names().await {
        fleet.pod(&pod).patch(&json!({"metadata": {"finalizers": null}})).await;
    }
}
