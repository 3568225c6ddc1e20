//! PodProbeMarkers.

use super::*;
use crate::support::message;

#[tokio::test]
async fn what_a_marker_may_not_say_is_refused() {
    let site = Site::open("ppm").await;
    let probe = |change: &Value| {
        let mut probe = exec("idle");
        json_patch::merge(&mut probe, change);
        json!([probe])
    };
    for (probes, refusal) in [
        (probe(&json!({"name": "a#b"})), "probe name can't contains '#'."),
        (probe(&json!({"probe": {"exec": null}})), "must specify a handler type"),
        (
            probe(&json!({"probe": {"exec": null, "tcpSocket": {"port": 80, "host": "a"}}})),
            "host field in probes is not allowed",
        ),
        (
            probe(&json!({"podConditionType": null})),
            "podConditionType and markerPolicy cannot be empty at the same time",
        ),
        (probe(&json!({"podConditionType": "Ready"})), "podConditionType can't be Ready"),
    ] {
        let answer = create(&site.shop.client, site.marker("game", probes), "?dryRun=All").await;
        assert_eq!(answer.0, 400, "{answer:?}");
        assert!(message(&answer).contains(refusal), "{answer:?}");
    }
    let http = json!({"probe": {"exec": null, "httpGet": {"path": "/health", "port": "http"}}});
    let game = site.create(site.marker("game", probe(&http))).await;
    let answer = game.try_patch(&json!({"spec": {"selector": {"matchLabels": {"app": "db"}}}})).await;
    assert_eq!(answer.0, 400, "{answer:?}");
    assert!(message(&answer).ends_with("selector must be immutable"), "{answer:?}");
}

#[tokio::test]
async fn a_marker_counts_its_pods_and_goes_when_no_agent_runs_its_probes() {
    let site = Site::open("ppm").await;
    let pods = [site.running("one").await, site.running("two").await];
    let game = site.create(site.marker("game", json!([exec("idle")]))).await;
    let counts = |count: u32| move |marker: &Value| marker["status"]["matchedPods"] == count;
    let counted = until("both Pods to be counted", &game, counts(2)).await;
    assert_eq!(counted["status"]["observedGeneration"], counted["metadata"]["generation"]);
    assert_eq!(counted["metadata"]["finalizers"], json!(["kruise.io/node-pod-probe-cleanup"]));
    site.runs(&["game#idle", "game#idle"]).await;
    pods[0].label("app", "db").await;
    until("one Pod to be counted", &game, counts(1)).await;
    site.runs(&["game#idle"]).await;
    game.deleted().await;
    game.gone().await;
    site.runs(&[]).await;
}
