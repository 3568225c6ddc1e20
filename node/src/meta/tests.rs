//! The agent against a real API server and a runtime without containers. The kubelet is played.

use api::annotations::RUNTIME_CONTAINERS_META;
use cri::messages::ExecSyncResponse;
use k8s_openapi::api::core::v1::Pod;
use kit::fake_runtime::Asked;
use kit::{wait_for, wait_until};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use values::hash::deep_hash;

use super::*;
use crate::pods;
use crate::testing::{Node, reported, server};

/// A node with its agent.
struct Site {
    node: Node,
    namespace: String,
    api: Api<Pod>,
}

impl Site {
    async fn open() -> Self {
        let mut site = Self::without_agent().await;
        site.start().await;
        site
    }

    async fn without_agent() -> Self {
        let namespace = server().await.namespace("meta").await;
        let api = Api::namespaced(server().await.client(), &namespace);
        Self { node: Node::new(), namespace, api }
    }

    /// Starts the agent.
    async fn start(&mut self) {
        let node = &mut self.node;
        let (client, runtimes, metrics, queues) = node.tools().await;
        let (name, pods) = (node.name.clone(), Arc::new(pods::pods()));
        node.agent.spawn(run(Meta {
            client: client.clone(),
            node: name.clone(),
            runtimes,
            metrics,
            queues,
            pods: pods.clone(),
            with_environment: true,
        }));
        node.agent.spawn(async move { pods::watch(client, &name, &pods).await });
    }

    /// Creates a Pod of the node whose container `main` shows label `l`; gives its UID.
    async fn create(&self, name: &str, owners: &Value) -> String {
        let field = json!({"fieldRef": {"fieldPath": "metadata.labels['l']"}});
        let manifest = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {"l": "1"},
                "ownerReferences": owners},
            "spec": {"nodeName": self.node.name, "terminationGracePeriodSeconds": 7, "containers": [
                {"name": "main", "image": "i:1", "env": [{"name": "L", "valueFrom": field}]}]}});
        let pod = kit::objects::create(&server().await.client(), manifest).await.unwrap();
        pod.metadata.uid.unwrap()
    }

    /// The kubelet starts the container of a Pod for the `number`th time, and says so.
    async fn runs(&self, name: &str, uid: &str, number: u32) {
        let hash = ("io.kubernetes.container.hash", "8e45cbd0");
        let grace = ("io.kubernetes.pod.terminationGracePeriod", "7");
        let hook = ("io.kubernetes.container.preStopHandler", r#"{"exec":{"command":["bye"]}}"#);
        self.node.runtime.run_container([&self.namespace, name, uid], "main", number, &[hash, grace, hook]);
        let status = json!({"name": "main", "image": "i:1", "imageID": "i", "ready": true,
            "restartCount": number, "containerID": format!("containerd://main-{number}-of-{uid}"),
            "state": {"running": {}}});
        self.patch(name, &json!({"status": {"phase": "Running", "containerStatuses": [status]}})).await;
    }

    async fn patch(&self, name: &str, patch: &Value) {
        let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
        self.api.patch_status(name, &params, &patch).await.unwrap();
    }

    /// The variables that containers show from now on.
    fn shows(&self, label: &'static str) {
        self.node.runtime.answer_commands(move |_| ExecSyncResponse {
            stdout: format!("PATH=/bin\nL={label}\n").into_bytes(),
            ..ExecSyncResponse::default()
        });
    }

    /// Waits until a Pod is reported with this container and this value of its variable.
    async fn reported(&self, name: &str, uid: &str, number: u32, label: &str) {
        let hash = deep_hash(&format!(r#"[{{"name":"L","value":"{label}"}}]"#));
        let hashes = format!(r#"{{"plainHash":2386938832,"extractedEnvFromMetadataHash":{hash}}}"#);
        let head = format!(r#""name":"main","containerID":"containerd://main-{number}-of-{uid}""#);
        let wanted = format!(r#"{{"containers":[{{{head},"restartCount":{number},"hashes":{hashes}}}]}}"#);
        let holds = |pod: &Pod| report(pod).is_some_and(|found| *found == wanted);
        wait_until(&self.api, name, "is reported", holds).await;
    }
}

fn report(pod: &Pod) -> Option<&String> {
    pod.metadata.annotations.as_ref()?.get(RUNTIME_CONTAINERS_META)
}

fn clone_set() -> Value {
    json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "c", "uid": "c", "controller": true}])
}

#[tokio::test]
async fn a_pod_of_a_workload_is_reported_and_a_bare_one_never() {
    let site = Site::open().await;
    site.shows("1");
    let (bare, web) = (site.create("bare", &json!([])).await, site.create("web", &clone_set()).await);
    site.runs("bare", &bare, 0).await;
    site.runs("web", &web, 0).await;
    site.reported("web", &web, 0, "1").await;
    assert!(report(&site.api.get("bare").await.unwrap()).is_none());
    assert_eq!(site.node.runtime.asked().len(), 1, "and its container is asked once");
}

#[tokio::test]
async fn an_agent_that_starts_reports_the_containers_that_it_finds() {
    let mut site = Site::without_agent().await;
    site.shows("1");
    let uid = site.create("web", &clone_set()).await;
    site.runs("web", &uid, 0).await;
    site.start().await;
    site.reported("web", &uid, 0, "1").await;
}

#[tokio::test]
async fn an_update_in_place_restarts_a_container_that_shows_an_old_label_once() {
    let site = Site::open().await;
    site.shows("1");
    let uid = site.create("web", &clone_set()).await;
    site.runs("web", &uid, 0).await;
    site.reported("web", &uid, 0, "1").await;
    // Somebody edits the label: nothing follows. Then an update does.
    site.patch("web", &json!({"metadata": {"labels": {"l": "2"}}})).await;
    let updating = json!([{"type": "InPlaceUpdateReady", "status": "False"}]);
    site.patch("web", &json!({"metadata": {"labels": {"l": "3"}}, "status": {"conditions": updating}})).await;
    // What its hook took is not granted again.
    let is_stop =
        |asked: &Asked| matches!(asked, Asked::Stop(id, 1..=7) if *id == format!("main-0-of-{uid}"));
    wait_for("the container to stop", async || match site.node.runtime.asked() {
        asked if asked.iter().any(is_stop) => Ok(()),
        asked => Err(asked),
    })
    .await;
    site.shows("3");
    site.runs("web", &uid, 1).await;
    site.reported("web", &uid, 1, "3").await;
    let is_question = |asked: &Asked| matches!(asked, Asked::Exec(_, command) if *command == ["env"]);
    let asked: Vec<Asked> =
        site.node.runtime.asked().into_iter().filter(|asked| !is_question(asked)).collect();
    let hook = Asked::Exec(format!("main-0-of-{uid}"), vec!["bye".to_owned()]);
    assert!(asked.len() == 2 && asked[0] == hook && is_stop(&asked[1]), "{asked:?}");
    let note = reported(&site.namespace, "Pod", "web", "Killing").await;
    assert_eq!(note, "Stopping containerID main by container meta restarter");
}

#[tokio::test]
async fn a_container_that_does_not_tell_its_variables_is_asked_again() {
    let site = Site::open().await;
    site.node.runtime.answer_commands(|_| ExecSyncResponse { exit_code: 127, ..ExecSyncResponse::default() });
    let uid = site.create("web", &clone_set()).await;
    site.runs("web", &uid, 0).await;
    let reported_the_rest =
        |pod: &Pod| report(pod).is_some_and(|recorded| !recorded.contains("extractedEnv"));
    wait_until(&site.api, "web", "is reported without its variables", reported_the_rest).await;
    site.shows("1");
    site.reported("web", &uid, 0, "1").await;
}
