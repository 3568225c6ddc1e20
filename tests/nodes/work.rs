//! What the program is there for, with real containers.

use kit::builders::{deployment, pod};
use kit::{objects, wait_for, wait_within};
use serde_json::{Value, json};

use crate::site::{Site, TIMEOUT, injected};

fn state<'a>(pod: &'a Value, container: &str) -> &'a Value {
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    statuses
        .filter(|status| status["name"] == container)
        .map(|status| &status["state"])
        .next()
        .unwrap_or(&Value::Null)
}

#[tokio::test]
async fn sidecars_run_deletes_are_refused_and_a_dry_run_shows_both() {
    let Some(site) = Site::installed().await else { return };
    let namespace = site.namespace_with_sidecars("shop").await;
    assert!(injected(&site.try_pod(&namespace).await.unwrap()));

    let front = deployment("front")
        .in_namespace(&namespace)
        .matching("app", "front")
        .replicas(2)
        .label("policy.kruise.io/delete-protection", "Always")
        .template_label("tier", "web")
        .container("main", "nginx:1.25");
    objects::create(&site.server().client(), front).await.unwrap();
    site.kubectl(&format!("rollout status deployment/front -n {namespace} --timeout=4m")).await.success();
    let pods = site.core(&namespace, "pods").await;
    for pod in pods["items"].as_array().unwrap() {
        assert!(
            state(pod, "main")["running"].is_object() && state(pod, "sidecar")["running"].is_object(),
            "{pod:#}"
        );
    }

    let refusal = site.kubectl(&format!("delete deployment front -n {namespace}")).await.failure();
    assert!(refusal.contains("forbidden by ResourcesProtectionDeletion"), "{refusal}");
    let label = format!("label namespace {namespace} policy.kruise.io/delete-protection=Cascading");
    site.kubectl(&label).await.success();
    let refusal = site.kubectl(&format!("delete namespace {namespace} --dry-run=server")).await.failure();
    assert!(refusal.contains("active pods 2>0"), "{refusal}");
    site.kubectl(&format!("label deployment front -n {namespace} policy.kruise.io/delete-protection-"))
        .await
        .success();
    site.kubectl(&format!("delete deployment front -n {namespace}")).await.success();
}

/// Scenario 25 of docs/behaviour/lifecycle.md, as a kubelet sees it.
#[tokio::test]
async fn a_container_waits_until_those_of_higher_priority_are_ready() {
    let Some(site) = Site::installed().await else { return };
    let namespace = site.server().namespace("ordered").await;
    let ordered = pod("ordered")
        .in_namespace(&namespace)
        .annotation("apps.kruise.io/container-launch-priority", "Ordered")
        .container("first", "nginx:1.25")
        .having(
            "readinessProbe",
            json!({"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}),
        )
        .container("second", "nginx:1.26")
        .having("env", json!([{"name": "SERVE_PORT", "value": "81"}]))
        .with("/spec/terminationGracePeriodSeconds", 0);
    objects::create(&site.server().client(), ordered).await.unwrap();
    let read = async || site.core(&namespace, "pods/ordered").await;
    wait_for("the second container to wait for the first", async || {
        let pod = read().await;
        let waits = state(&pod, "second")["waiting"]["reason"] == "CreateContainerConfigError";
        if waits && state(&pod, "first")["running"].is_object() { Ok(()) } else { Err(pod["status"].clone()) }
    })
    .await;
    site.kubectl(&format!("exec ordered -n {namespace} -c first -- touch /tmp/ready")).await.success();
    site.kubectl(&format!("wait pod/ordered -n {namespace} --for=condition=Ready --timeout=4m"))
        .await
        .success();
    wait_for("the Pod to be marked as completed", async || {
        let annotations = read().await["metadata"]["annotations"].clone();
        let done = annotations["apps.kruise.io/container-launch-priority-completed"] == "true";
        if done { Ok(()) } else { Err(annotations) }
    })
    .await;
}

/// docs/behaviour/lifecycle.md#kruisepodready.
#[tokio::test]
async fn a_pod_with_the_readiness_gate_turns_ready() {
    let Some(site) = Site::installed().await else { return };
    let namespace = site.server().namespace("gated").await;
    let gated = pod("gated")
        .in_namespace(&namespace)
        .readiness_gate("KruisePodReady")
        .container("main", "nginx:1.25")
        .with("/spec/terminationGracePeriodSeconds", 0);
    objects::create(&site.server().client(), gated).await.unwrap();
    wait_within(TIMEOUT, "the Pod to be ready", async || {
        let conditions = site.core(&namespace, "pods/gated").await["status"]["conditions"].clone();
        let holds = |kind: &str| {
            let mut all = conditions.as_array().into_iter().flatten();
            all.any(|condition| condition["type"] == kind && condition["status"] == "True")
        };
        if holds("KruisePodReady") && holds("Ready") { Ok(()) } else { Err(conditions.clone()) }
    })
    .await;
}
