//! The pages about restarts and EphemeralJobs. Nodes are fake ones: what the node agent writes is written here.

use std::time::Duration;

use kit::{ApiServer, FakeNodes, fake_nodes};
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::docs::Reader;
use crate::support::{Stored, call, shared};

/// Ends its work with the test.
struct Player(JoinHandle<()>);

impl Drop for Player {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Plays the node agent in a namespace, until it is dropped.
fn play(client: Client, namespace: String) -> Player {
    Player(tokio::spawn(async move {
        let mut looks = tokio::time::interval(Duration::from_millis(50));
        loop {
            looks.tick().await;
            restart(&client, &namespace).await;
            end(&client, &namespace).await;
        }
    }))
}

async fn list(client: &Client, collection: &str) -> Vec<Stored> {
    let (code, list) = call(client, "GET", collection, &Value::Null).await;
    assert_eq!(code, 200, "{list:#}");
    let items = list["items"].as_array().unwrap().clone();
    let stored = items.into_iter().map(|object| {
        let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap());
        Stored::existing(client, path, object)
    });
    stored.collect()
}

/// Takes a request one step on.
async fn restart(client: &Client, namespace: &str) {
    let requests = format!("/apis/apps.kruise.io/v1beta1/namespaces/{namespace}/containerrecreaterequests");
    for request in list(client, &requests).await {
        let waits = !request.object["spec"]["strategy"]["unreadyGracePeriodSeconds"].is_null()
            && request.object["status"]["conditions"].is_null();
        let states = request.object["spec"]["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|container| json!({"name": container["name"], "phase": "Succeeded", "isKilled": true}));
        let status = match request.object["status"]["phase"].as_str() {
            None | Some("") => json!({"phase": "Recreating"}),
            Some("Recreating") if !waits => json!({
                "phase": "Completed", "completionTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                "containerRecreateStates": states.collect::<Vec<_>>(),
            }),
            _ => continue,
        };
        change_status(&request, &status).await;
    }
}

/// Has the fake kubelets end the ephemeral containers of the page.
async fn end(client: &Client, namespace: &str) {
    for pod in list(client, &format!("/api/v1/namespaces/{namespace}/pods")).await {
        if pod.object["metadata"]["annotations"][fake_nodes::EXIT].is_null() {
            let ends = json!({"metadata": {"annotations": {fake_nodes::EXIT: "look=0,one=0"}}});
            let (code, answer) = pod.try_patch(&ends).await;
            assert!(matches!(code, 200 | 404), "{answer:#}");
        }
    }
}

/// The object may be gone by now.
async fn change_status(object: &Stored, status: &Value) {
    let (code, answer) = object.try_patch_part("status", &json!({"status": status})).await;
    assert!(matches!(code, 200 | 404), "{answer:#}");
}

async fn with_nodes(prefix: &str) -> (&'static ApiServer, String, FakeNodes, Player) {
    let server = shared().await.0;
    let namespace = server.namespace(prefix).await;
    let options = fake_nodes::Options::nodes(1).binding_pods().in_namespace(&namespace);
    let nodes = FakeNodes::start(server.client(), options).await;
    let player = play(server.client(), namespace.clone());
    (server, namespace, nodes, player)
}

#[tokio::test]
async fn the_page_about_restarts_works() {
    let (server, namespace, nodes, player) = with_nodes("docs-restart").await;
    let mut page = Reader::open(server, &namespace, "containerrecreaterequest.md").await;
    page.read("A Pod").await;
    let printed = page.read("Restart a container").await;
    assert!(printed.contains("Completed"), "{printed}");
    let states = page.read("Did it work?").await;
    assert!(states.contains("main Succeeded"), "{states}");
    page.read("Several containers, in order").await;
    page.read("Let traffic drain first").await;
    page.read("In the end").await;
    page.end();
    drop((nodes, player));
}

#[tokio::test]
async fn the_page_about_ephemeral_jobs_works() {
    let (server, namespace, nodes, player) = with_nodes("docs-ejob").await;
    let mut page = Reader::open(server, &namespace, "ephemeraljob.md").await;
    page.read("Some Pods").await;
    let printed = page.read("Look into all of them").await;
    assert!(printed.contains("Succeeded"), "{printed}");
    page.read("Only some, and not yet").await;
    page.read("In the end").await;
    page.end();
    drop((nodes, player));
}
