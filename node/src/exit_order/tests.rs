//! The agent against a real API server and a runtime without containers. The kubelet is played.

use k8s_openapi::api::core::v1::Pod;
use kit::fake_runtime::Asked;
use kit::wait_for;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::*;
use crate::pods;
use crate::testing::{Node, reported, server};

fn container(name: &str, after: &str) -> Value {
    let (name_argument, after) = (format!("--name={name}"), format!("--after={after}"));
    let command = ["/.kruise-exit/hook", "wait", &name_argument, &after, "--grace=30", "--tail=2"];
    json!({"name": name, "image": "i:1", "lifecycle": {"preStop": {"exec": {"command": command}}}})
}

#[tokio::test]
async fn containers_of_a_deleted_pod_are_held_and_let_go_in_their_order() {
    let namespace = server().await.namespace("exit").await;
    let mut node = Node::new();
    let (client, runtimes, metrics, _) = node.tools().await;
    let (name, known) = (node.name.clone(), Arc::new(pods::pods()));
    let order =
        ExitOrder { client: client.clone(), node: name.clone(), runtimes, metrics, pods: known.clone() };
    node.agent.spawn(run(order));
    node.agent.spawn(async move { pods::watch(client, &name, &known).await });
    let containers =
        [json!({"name": "main", "image": "i:1"}), container("log", "main"), container("envoy", "main,log")];
    let manifest = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"nodeName": node.name, "terminationGracePeriodSeconds": 30, "containers": containers}});
    let api: Api<Pod> = Api::namespaced(server().await.client(), &namespace);
    let uid = kit::objects::create(&server().await.client(), manifest).await.unwrap().metadata.uid.unwrap();
    let statuses: Vec<Value> = ["main", "log", "envoy"]
        .map(|name| {
            node.runtime.run_container([&namespace, "web", &uid], name, 0, &[]);
            json!({"name": name, "image": "i:1", "imageID": "i", "ready": true, "restartCount": 0,
            "containerID": format!("containerd://{name}-0-of-{uid}"), "state": {"running": {}}})
        })
        .into();
    let status = json!({"status": {"phase": "Running", "containerStatuses": statuses}});
    api.patch_status("web", &kube::api::PatchParams::default(), &kube::api::Patch::Strategic(&status))
        .await
        .unwrap();
    assert_eq!(node.runtime.asked(), [], "while it runs");
    api.delete("web", &DeleteParams::default()).await.unwrap();

    let heard = |wanted: &'static [(&'static str, &'static str)]| {
        let runtime = &node.runtime;
        wait_for("hooks to be told", async move || {
            let said = |asked: Asked| match asked {
                Asked::Exec(id, command) => Some((id.split('-').next()?.to_owned(), command.get(3)?.clone())),
                Asked::Stop(..) => None,
            };
            let mut found: Vec<_> = runtime.asked().into_iter().filter_map(said).collect();
            // Both get the message to wait at a time.
            let holds = found.len().min(2);
            found[..holds].sort();
            let wanted: Vec<_> =
                wanted.iter().map(|(name, state)| ((*name).to_owned(), format!("--state={state}"))).collect();
            if found == wanted { Ok(()) } else { Err(found) }
        })
    };
    heard(&[("envoy", "hold"), ("log", "hold")]).await;
    node.runtime.exit_container(&format!("main-0-of-{uid}"));
    heard(&[("envoy", "hold"), ("log", "hold"), ("log", "release")]).await;
    node.runtime.exit_container(&format!("log-0-of-{uid}"));
    heard(&[("envoy", "hold"), ("log", "hold"), ("log", "release"), ("envoy", "release")]).await;
    let note = reported(&namespace, "Pod", "web", "ContainerExitReleased").await;
    assert!(note.starts_with("Container ") && note.ends_with(" exited"), "{note}");
}
