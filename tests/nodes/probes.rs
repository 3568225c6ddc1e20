//! Probes that agents run in real containers (docs/behaviour/probes.md).

use kit::builders::{object, pod};
use kit::{objects, wait_within};
use serde_json::{Value, json};

use crate::site::{Site, TIMEOUT};

/// Serves one page, and stops on a request.
const PROGRAM: &str = "mkdir /tmp/www; echo nobody here > /tmp/www/idle; trap 'exit 0' TERM; httpd -f -p 8080 -h /tmp/www & wait";

/// Status and message of a condition.
fn condition<'p>(pod: &'p Value, kind: &str) -> (&'p str, &'p str) {
    let found = objects::condition(pod, kind);
    (found["status"].as_str().unwrap_or_default(), found["message"].as_str().unwrap_or_default())
}

/// Status and message of both conditions.
fn both(pod: &Value) -> [(&str, &str); 2] {
    ["game.example.com/idle", "game.example.com/page"].map(|kind| condition(pod, kind))
}

/// Scenarios 5 and 10 of docs/behaviour/probes.md#acceptance-scenarios.
#[tokio::test]
async fn commands_and_requests_in_real_containers_mark_their_pod() {
    let Some(site) = Site::installed().await else { return };
    let (client, namespace) = (site.server().client(), site.server().namespace("probes").await);
    let game = pod("game").in_namespace(&namespace).label("app", "game").container("main", "busybox:1.36");
    let game = game.having("command", json!(["sh", "-c", PROGRAM]));
    objects::create(&client, game).await.unwrap();
    let idle = json!({"name": "idle", "containerName": "main", "podConditionType": "game.example.com/idle",
        "probe": {"exec": {"command": ["cat", "/tmp/www/idle"]}, "periodSeconds": 1, "timeoutSeconds": 10},
        "markerPolicy": [{"state": "Succeeded", "labels": {"idle": "true", "free": "yes"}},
            {"state": "Failed", "labels": {"idle": "false"}}]});
    let page = json!({"name": "page", "containerName": "main", "podConditionType": "game.example.com/page",
        "probe": {"httpGet": {"path": "/idle", "port": 8080}, "periodSeconds": 1, "timeoutSeconds": 10}});
    let marker = object("apps.kruise.io/v1alpha1", "PodProbeMarker", "game").in_namespace(&namespace);
    let spec = json!({"selector": {"matchLabels": {"app": "game"}}, "probes": [idle, page]});
    objects::create(&client, marker.with("/spec", spec)).await.unwrap();

    let until = async |what: &str, holds: &dyn Fn(&Value) -> bool| {
        wait_within(TIMEOUT, what, async || {
            let pod = site.core(&namespace, "pods/game").await;
            if holds(&pod) { Ok(pod) } else { Err(format!("{pod:#}")) }
        })
        .await
    };
    let is_found = |pod: &Value| {
        let [idle, page] = both(pod);
        let succeeds = idle.0 == "True" && idle.1.starts_with("nobody here") && page.0 == "True";
        succeeds && !pod["metadata"]["labels"]["idle"].is_null()
    };
    let found = until("both to succeed", &is_found).await;
    let labels = &found["metadata"]["labels"];
    assert_eq!((&labels["idle"], &labels["free"]), (&json!("true"), &json!("yes")));

    site.kubectl(&format!("exec game -n {namespace} -- rm /tmp/www/idle")).await.success();
    let is_marked = |pod: &Value| {
        let [idle, page] = both(pod);
        let fails = idle.0 == "False" && idle.1.contains("No such file");
        let is_missing = page == ("False", "HTTP probe failed with statuscode: 404");
        fails && is_missing && pod["metadata"]["labels"]["idle"] == "false"
    };
    let failed = until("both to fail", &is_marked).await;
    assert!(failed["metadata"]["labels"]["free"].is_null(), "{failed:#}");
    site.kubectl(&format!("delete podprobemarker,pod --all -n {namespace} --wait=false")).await.success();
}
