//! The simulated kubelet, against a real API server.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kit::builders::{self, config_map};
use kit::fake_nodes::{self, FakeNodes, Options};
use kit::{objects, wait_until};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

/// A namespace with one fake node, and its Pods.
async fn node(test: &str) -> (kube::Client, String, FakeNodes, Api<Pod>) {
    let client = kit::shared().await.client();
    let namespace = kit::namespace(test).await;
    let nodes =
        FakeNodes::start(client.clone(), Options::nodes(1).in_namespace(&namespace).binding_pods()).await;
    let pods = Api::namespaced(client.clone(), &namespace);
    (client, namespace, nodes, pods)
}

fn condition(pod: &Pod, kind: &str) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind).map(|condition| condition.status.clone())
}

fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").as_deref() == Some("True")
}

fn container<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.iter().find(|status| status.name == name)
}

fn waiting_reason<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    container(pod, name)?.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}

#[tokio::test]
async fn pod_runs_is_updated_in_place_and_ends() {
    let (client, namespace, nodes, pods) = node("life").await;
    let web = builders::pod("web").in_namespace(&namespace).container("main", "nginx:1.24");
    objects::create(&client, web).await.unwrap();
    let first = wait_until(&pods, "web", "is ready", is_ready).await;
    assert_eq!(first.spec.as_ref().unwrap().node_name.as_ref(), nodes.names().first());
    assert_eq!(first.status.as_ref().unwrap().phase.as_deref(), Some("Running"));

    let image = json!({"spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]}});
    pods.patch("web", &PatchParams::default(), &Patch::Strategic(image)).await.unwrap();
    let updated = wait_until(&pods, "web", "runs the new image", |pod| {
        container(pod, "main").is_some_and(|status| status.restart_count == 1 && status.ready)
    })
    .await;
    // A settled Pod costs no more writes: what a kubelet reports is what is already there.
    let note = json!({"metadata": {"annotations": {"note": "seen"}}});
    let noted = pods.patch("web", &PatchParams::default(), &Patch::Merge(note)).await.unwrap();
    objects::create(&client, builders::pod("later").in_namespace(&namespace).container("main", "nginx:1.24"))
        .await
        .unwrap();
    wait_until(&pods, "later", "is ready", is_ready).await;
    assert_eq!(pods.get("web").await.unwrap().metadata.resource_version, noted.metadata.resource_version);
    let (before, after) = (container(&first, "main").unwrap(), container(&updated, "main").unwrap());
    assert_eq!(after.image, "nginx:1.25");
    assert_ne!(after.image_id, before.image_id);
    assert_ne!(after.container_id, before.container_id);

    pods.delete("web", &DeleteParams::default()).await.unwrap();
    kit::wait_for("the Pod to be gone", async || match pods.get_opt("web").await {
        Ok(None) => Ok(()),
        other => Err(other),
    })
    .await;
}

#[tokio::test]
async fn readiness_gate_holds_ready_back() {
    let (client, namespace, _nodes, pods) = node("gate").await;
    let gated = builders::pod("gated")
        .in_namespace(&namespace)
        .container("main", "nginx:1.24")
        .readiness_gate("test/Gate");
    objects::create(&client, gated).await.unwrap();
    let held = wait_until(&pods, "gated", "has ready containers", |pod| {
        condition(pod, "ContainersReady").as_deref() == Some("True")
    })
    .await;
    assert_eq!(condition(&held, "Ready").as_deref(), Some("False"));

    let open = json!({"status": {"conditions": [{"type": "test/Gate", "status": "True"}]}});
    pods.patch_status("gated", &PatchParams::default(), &Patch::Strategic(open)).await.unwrap();
    wait_until(&pods, "gated", "is ready", is_ready).await;
}

#[tokio::test]
async fn launch_barrier_waits_for_the_key_of_its_config_map() {
    let (client, namespace, _nodes, pods) = node("barrier").await;
    let barrier = builders::pod("barrier")
        .in_namespace(&namespace)
        .container("first", "nginx:1.24")
        .container("second", "nginx:1.24")
        .env_from_config_map("BARRIER", "steps", "p_1");
    objects::create(&client, barrier).await.unwrap();
    let held = |pod: &Pod| waiting_reason(pod, "second") == Some("CreateContainerConfigError");
    let pod = wait_until(&pods, "barrier", "is held back", held).await;
    assert!(container(&pod, "first").unwrap().ready);
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));

    objects::create(&client, config_map("steps", "p_2", "").in_namespace(&namespace)).await.unwrap();
    let names_key = |pod: &Pod| {
        container(pod, "second").is_some_and(|status| format!("{status:?}").contains("find key p_1"))
    };
    wait_until(&pods, "barrier", "misses only the key", names_key).await;
    let maps = Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(client, &namespace);
    maps.patch("steps", &PatchParams::default(), &Patch::Merge(json!({"data": {"p_1": ""}}))).await.unwrap();
    wait_until(&pods, "barrier", "is ready", is_ready).await;
}

#[tokio::test]
async fn faults_are_injected_by_annotations_and_lifted_again() {
    let (client, namespace, _nodes, pods) = node("faults").await;
    let broken = builders::pod("broken")
        .in_namespace(&namespace)
        .annotation(fake_nodes::CRASH, "main")
        .container("main", "nginx:1.24");
    objects::create(&client, broken).await.unwrap();
    wait_until(&pods, "broken", "crashes", |pod| waiting_reason(pod, "main") == Some("CrashLoopBackOff"))
        .await;
    let lifted = json!({"metadata": {"annotations": {fake_nodes::CRASH: null}}});
    pods.patch("broken", &PatchParams::default(), &Patch::Merge(lifted)).await.unwrap();
    wait_until(&pods, "broken", "is ready", is_ready).await;

    let job = builders::pod("job")
        .in_namespace(&namespace)
        .annotation(fake_nodes::EXIT, "main=0")
        .with("/spec/restartPolicy", "Never")
        .init_container("setup", "busybox:1.36")
        .container("main", "busybox:1.36");
    objects::create(&client, job).await.unwrap();
    let succeeded =
        |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Succeeded");
    wait_until(&pods, "job", "succeeds", succeeded).await;
}

#[tokio::test]
async fn hundreds_of_pods_become_ready_together() {
    let (client, namespace, _nodes, pods) = node("many").await;
    let creations = (0..300).map(|index| {
        let pod =
            builders::pod(&format!("web-{index}")).in_namespace(&namespace).container("main", "nginx:1.24");
        objects::create(&client, pod)
    });
    futures::future::try_join_all(creations).await.unwrap();
    kit::wait_for("300 Pods to be ready", async || {
        let ready =
            pods.list(&Default::default()).await.unwrap().items.iter().filter(|pod| is_ready(pod)).count();
        if ready == 300 { Ok(()) } else { Err(ready) }
    })
    .await;
}
