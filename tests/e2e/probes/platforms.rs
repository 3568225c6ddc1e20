//! Pods without an agent, and liveness probes that an agent runs.

use super::*;
use crate::support::annotation;

#[tokio::test]
async fn a_platform_runs_the_probes_and_its_conditions_mark_the_pod() {
    let site = Site::open("platform").await;
    let node = site.shop.name("platform");
    site.add_node(&node, json!({"type": "virtual-kubelet"})).await;
    for name in ["b", "a"] {
        let mut probe = exec(name);
        probe["markerPolicy"] = json!([{"state": "Succeeded", "labels": {name: "true"}}]);
        let marker = site.create(site.marker(name, json!([probe]))).await;
        until("the marker to be known", &marker, |marker| !marker["metadata"]["finalizers"].is_null()).await;
    }
    let listed = |pod: &Value| pod["metadata"]["annotations"]["kruise.io/podprobemarker-list"] == "a,b";
    let pod = site.shop.pod("web").on_node(&node);
    wait_for("both markers to be known", async || {
        let (_, pod) = create(&site.shop.client, pod.clone(), "?dryRun=All").await;
        if listed(&pod) { Ok(()) } else { Err(pod) }
    })
    .await;
    let pod = site.start(pod).await;
    assert!(listed(&pod.object), "{:#}", pod.object);
    let probes = annotation(&pod.object, "kruise.io/podprobe");
    assert!(probes.contains("game.example.com/b") && !probes.contains("markerPolicy"), "{probes}");
    let mut conditions = pod.get().await.1["status"]["conditions"].as_array().unwrap().clone();
    conditions.push(json!({"type": "game.example.com/a", "status": "True"}));
    pod.patch_status(&json!({"conditions": conditions})).await;
    let marked = until("the label", &pod, |pod| pod["metadata"]["labels"]["a"] == "true").await;
    assert_eq!(marked["metadata"]["labels"]["b"], Value::Null);
    let path = format!("/apis/{ALPHA}/nodepodprobes/{node}");
    assert_eq!(call(&site.shop.client, "GET", &path, &Value::Null).await.0, 404);
}
