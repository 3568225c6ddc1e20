//! The agent against a real API server and a runtime without containers. The kubelet and the controller are played.

use api::kinds::containerrecreaterequest::{ContainerRecreateState, FailurePolicy};
use cri::messages::ExecSyncResponse;
use kit::fake_runtime::Asked;
use kit::{wait_for, wait_until};
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::testing::{Node, reported, server};

/// A node with a Pod `web` of containers `a` and `b`, and its agent.
struct Site {
    node: Node,
    namespace: String,
    api: Api<DynamicObject>,
}

impl Site {
    async fn open() -> Self {
        let namespace = server().await.namespace("recreate").await;
        let mut node = Node::new();
        let (client, runtimes, metrics, queues) = node.tools().await;
        let requests = Arc::new(requests());
        let name = node.name.clone();
        node.agent.spawn(run(Recreate { client, node: name, runtimes, metrics, queues, requests }));
        let api = Api::namespaced_with(server().await.client(), &namespace, &REQUESTS.api_resource());
        let site = Self { node, namespace, api };
        site.runs("a", 0);
        site.runs("b", 0);
        site
    }

    /// The kubelet starts a container of this name for the `number`th time.
    fn runs(&self, name: &str, number: u32) {
        self.node.runtime.run_container([&self.namespace, "web", &self.uid()], name, number, &[]);
    }

    fn uid(&self) -> String {
        format!("uid-{}", self.node.name)
    }

    fn id(&self, name: &str, number: u32) -> String {
        format!("{name}-{number}-of-{}", self.uid())
    }

    /// A container of a request, as admission leaves it.
    fn container(&self, name: &str, hook: &Value) -> Value {
        let id = format!("containerd://{}", self.id(name, 0));
        let mut container = json!({"name": name, "statusContext": {"containerID": id, "restartCount": 0}});
        if !hook.is_null() {
            container["preStop"] = hook.clone();
        }
        container
    }

    async fn ask(&self, name: &str, containers: &[Value], strategy: &Value) {
        let labels = json!({CRR_NODE_NAME: self.node.name, CRR_ACTIVE: "true", CRR_POD_UID: self.uid()});
        let manifest = json!({"apiVersion": API_VERSION, "kind": KIND,
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels},
            "spec": {"podName": "web", "containers": containers, "strategy": strategy}});
        kit::objects::create(&server().await.client(), manifest).await.unwrap();
    }

    async fn status(&self, name: &str, patch: &Value) {
        let patch = json!({"status": patch});
        self.api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// The controller sees these containers ready.
    async fn ready(&self, request: &str, containers: &[(&str, u32)]) {
        let observed = containers.iter().map(|(name, number)| {
            let id = format!("containerd://{}", self.id(name, *number));
            json!({"name": name, "ready": true, "restartCount": number, "containerID": id})
        });
        self.status(request, &json!({"containerStatusSnapshot": observed.collect::<Vec<_>>()})).await;
    }

    async fn until(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&ContainerRecreateRequest) -> bool,
    ) -> ContainerRecreateRequest {
        let read =
            |object: &DynamicObject| serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap();
        read(&wait_until(&self.api, name, what, |object| holds(&read(object))).await)
    }

    async fn completed(&self, name: &str) -> ContainerRecreateRequest {
        self.until(name, "is completed", |request| request.status.phase == Phase::Completed).await
    }

    /// Waits until the runtime was asked for so many things, and gives them.
    async fn asked(&self, number: usize) -> Vec<Asked> {
        wait_for("the runtime to be asked", async || match self.node.runtime.asked() {
            asked if asked.len() >= number => Ok(asked),
            asked => Err(asked),
        })
        .await
    }

    fn stop(&self, name: &str, number: u32, seconds: i64) -> Asked {
        Asked::Stop(self.id(name, number), seconds)
    }
}

fn state<'r>(request: &'r ContainerRecreateRequest, name: &str) -> &'r ContainerRecreateState {
    let mut states = request.status.container_recreate_states.iter();
    states.find(|state| state.name == name).unwrap()
}

/// The phase of a container, and whether it was stopped.
fn progress(request: &ContainerRecreateRequest, name: &str) -> Option<(Phase, bool)> {
    let mut states = request.status.container_recreate_states.iter();
    states.find(|state| state.name == name).map(|state| (state.phase.clone(), state.is_killed))
}

#[tokio::test]
async fn a_container_is_restarted_and_everybody_is_told() {
    let site = Site::open().await;
    site.ask("one", &[site.container("a", &json!(null))], &json!({})).await;
    let stopped = Some((Phase::Recreating, true));
    site.until("one", "has stopped its container", |request| progress(request, "a") == stopped).await;
    assert_eq!(site.asked(1).await, [site.stop("a", 0, 30)]);
    site.runs("a", 1);
    site.ready("one", &[("a", 1)]).await;
    let after = site.completed("one").await;
    assert_eq!((state(&after, "a").phase.clone(), after.status.message.as_str()), (Phase::Succeeded, ""));
    assert!(after.status.completion_time.is_some());
    let note = reported(&site.namespace, "Pod", "web", "Killing").await;
    assert_eq!(note, "Stopping container a by ContainerRecreateRequest one");
    assert_eq!(site.asked(1).await.len(), 1);
}

#[tokio::test]
async fn containers_in_order_wait_for_each_other_and_others_do_not() {
    let site = Site::open().await;
    let both = [site.container("a", &json!(null)), site.container("b", &json!(null))];
    site.ask("ordered", &both, &json!({"orderedRecreate": true})).await;
    let stopped = Some((Phase::Recreating, true));
    site.until("ordered", "has stopped a", |request| progress(request, "a") == stopped).await;
    site.runs("a", 1);
    // Something has changed, and still a is not ready.
    site.status("ordered", &json!({"message": "look"})).await;
    site.ready("ordered", &[("a", 1)]).await;
    let observed = site.until("ordered", "goes on", |request| progress(request, "b") == stopped).await;
    assert_eq!(state(&observed, "a").phase, Phase::Succeeded);
    assert_eq!(site.asked(2).await, [site.stop("a", 0, 30), site.stop("b", 0, 30)]);
    site.runs("b", 1);
    site.ready("ordered", &[("a", 1), ("b", 1)]).await;
    site.completed("ordered").await;

    let site = Site::open().await;
    let both = [site.container("a", &json!(null)), site.container("b", &json!(null))];
    site.ask("free", &both, &json!({})).await;
    assert_eq!(site.asked(2).await, [site.stop("a", 0, 30), site.stop("b", 0, 30)]);
}

#[tokio::test]
async fn requests_for_a_pod_take_turns() {
    let site = Site::open().await;
    let hold = site.id("a", 0);
    site.node.runtime.hold(&hold);
    site.ask("first", &[site.container("a", &json!(null))], &json!({})).await;
    site.asked(1).await;
    site.ask("second", &[site.container("b", &json!(null))], &json!({})).await;
    // Also while a container of the first one ends.
    site.until("second", "waits", |request| request.status.phase == Phase::Pending).await;
    site.node.runtime.let_go();
    site.runs("a", 1);
    site.ready("first", &[("a", 1)]).await;
    site.completed("first").await;
    site.until("second", "has its turn", |request| request.status.phase == Phase::Recreating).await;
    assert_eq!(site.asked(2).await, [site.stop("a", 0, 30), site.stop("b", 0, 30)]);
}

#[tokio::test]
async fn a_hook_is_asked_at_the_address_of_the_pod_before_the_container_stops() {
    let site = Site::open().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let hook = json!({"httpGet": {"port": port, "path": "/end?now"}});
    site.ask("http", &[site.container("a", &hook)], &json!({})).await;
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut text = [0; 1024];
    let length = stream.read(&mut text).await.unwrap();
    let text = String::from_utf8_lossy(&text[..length]).into_owned();
    assert!(text.starts_with("GET /end?now HTTP/1.1\r\n"), "{text}");
    assert!(site.node.runtime.asked().is_empty());
    stream.write_all(b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    drop(stream);
    let Asked::Stop(id, _) = site.asked(1).await.remove(0) else { panic!("no stop") };
    assert_eq!(id, site.id("a", 0));
}

#[tokio::test]
async fn a_hook_that_fails_is_told_and_stops_nothing_from_going_on() {
    let site = Site::open().await;
    site.node.runtime.answer_commands(|_| ExecSyncResponse {
        stdout: b"a secret".to_vec(),
        exit_code: 1,
        ..ExecSyncResponse::default()
    });
    let command = json!({"exec": {"command": ["/.kruise-exit/hook", "wait", "--name=a"]}});
    let strategy = json!({"terminationGracePeriodSeconds": 2});
    site.ask("hooked", &[site.container("a", &command)], &strategy).await;
    let words = ["/.kruise-exit/hook", "wait", "--no-wait", "--name=a"].map(str::to_owned);
    let ran = Asked::Exec(site.id("a", 0), words.into());
    assert_eq!(site.asked(2).await, [ran, site.stop("a", 0, 2)], "no less than two seconds");
    assert_eq!(reported(&site.namespace, "Pod", "web", "FailedPreStopHook").await, "PreStopHook failed");
}

#[tokio::test]
async fn a_request_for_another_runtime_ends() {
    let site = Site::open().await;
    let mut container = site.container("a", &json!(null));
    container["statusContext"]["containerID"] = json!("docker://0f");
    site.ask("docker", &[container], &json!({})).await;
    let message = site.completed("docker").await.status.message;
    assert_eq!(message, "failed to find runtime service: there is no runtime docker");
    assert!(site.node.runtime.asked().is_empty());
}

#[tokio::test]
async fn a_stop_that_has_begun_is_finished_and_the_next_one_does_not_begin() {
    let site = Site::open().await;
    site.node.runtime.hold(&site.id("a", 0));
    let both = [site.container("a", &json!(null)), site.container("b", &json!(null))];
    site.ask("late", &both, &json!({})).await;
    site.asked(1).await;
    // The deadline passes: the controller ends the request.
    site.status("late", &json!({"phase": "Completed", "completionTime": "2026-01-01T00:00:00Z"})).await;
    let inactive = json!({"metadata": {"labels": {CRR_ACTIVE: null}}});
    site.api.patch("late", &PatchParams::default(), &Patch::Merge(inactive)).await.unwrap();
    site.node.runtime.let_go();
    let stopped = Some((Phase::Recreating, true));
    let after = site.until("late", "tells of the stop", |request| progress(request, "a") == stopped).await;
    assert_eq!(progress(&after, "b"), Some((Phase::Pending, false)));
    assert_eq!(after.status.phase, Phase::Completed);
    assert_eq!(site.node.runtime.asked(), [site.stop("a", 0, 30)]);
}

#[tokio::test]
async fn a_container_that_can_not_be_stopped_is_reported_and_the_policy_says_what_follows() {
    for policy in [FailurePolicy::Fail, FailurePolicy::Ignore] {
        let site = Site::open().await;
        site.node.runtime.refuse_stops("device busy");
        let both = [site.container("a", &json!(null)), site.container("b", &json!(null))];
        site.ask("busy", &both, &json!({"failurePolicy": policy})).await;
        let after = site.completed("busy").await;
        assert_eq!(state(&after, "a").message, "kill container error: device busy");
        let is_ignored = policy == FailurePolicy::Ignore;
        assert_eq!(state(&after, "b").phase == Phase::Failed, is_ignored);
    }
}
