//! Results of probes on Pods.

use super::*;

#[tokio::test]
async fn each_result_has_its_condition_and_its_labels() {
    let site = Site::open("results").await;
    let pod = site.running("web").await;
    let mut idle = exec("idle");
    idle["markerPolicy"] = json!([
        {"state": "Succeeded", "labels": {"idle": "true", "free": "yes"}},
        {"state": "Failed", "labels": {"idle": "false"}, "annotations": {"busy": "yes"}},
    ]);
    site.create(site.marker("game", json!([idle]))).await;
    site.runs(&["game#idle"]).await;
    site.report(&pod, &[("game#idle", "Succeeded", "nobody here")]).await;
    let marked = until("the labels", &pod, |pod| pod["metadata"]["labels"]["idle"] == "true").await;
    assert_eq!(marked["metadata"]["labels"]["free"], "yes");
    let written = condition(&marked, "game.example.com/idle");
    assert_eq!((&written["status"], &written["message"]), (&json!("True"), &json!("nobody here")));
    assert!(written["lastProbeTime"].is_string() && written["lastTransitionTime"].is_string(), "{written}");
    // What the kubelet wrote stays.
    assert_eq!(condition(&marked, "Initialized")["status"], "True");

    site.report(&pod, &[("game#idle", "Unknown", "")]).await;
    let is_false = |pod: &Value| condition(pod, "game.example.com/idle")["status"] == "False";
    let unknown = until("the condition", &pod, is_false).await;
    assert_eq!(unknown["metadata"]["labels"], marked["metadata"]["labels"]);

    site.report(&pod, &[("game#idle", "Failed", "HTTP probe failed with statuscode: 500")]).await;
    let failed = until("the labels", &pod, |pod| pod["metadata"]["labels"]["idle"] == "false").await;
    assert_eq!(failed["metadata"]["labels"]["free"], Value::Null);
    assert_eq!(failed["metadata"]["annotations"]["busy"], "yes");
    let written = condition(&failed, "game.example.com/idle");
    assert_eq!(written["message"], "HTTP probe failed with statuscode: 500");
}

#[tokio::test]
async fn two_probes_for_one_condition_are_reported() {
    let site = Site::open("results").await;
    let pod = site.running("web").await;
    for name in ["a", "b"] {
        site.create(site.marker(name, json!([exec("idle")]))).await;
    }
    site.runs(&["a#idle", "b#idle"]).await;
    site.report(&pod, &[("b#idle", "Succeeded", "from b"), ("a#idle", "Failed", "from a")]).await;
    let written =
        until("the condition", &pod, |pod| !condition(pod, "game.example.com/idle").is_null()).await;
    assert_eq!(condition(&written, "game.example.com/idle")["message"], "from b");
    let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", site.shop.namespace);
    wait_for("the Event", async || {
        let events = call(&site.shop.client, "GET", &path, &Value::Null).await.1;
        let reported = events["items"]
            .as_array()
            .is_some_and(|events| events.iter().any(|event| event["reason"] == "ProbeConditionConflict"));
        if reported { Ok(()) } else { Err(events) }
    })
    .await;
}
