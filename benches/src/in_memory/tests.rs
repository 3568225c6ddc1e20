use futures::{AsyncBufReadExt, TryStreamExt};
use kit::builders::{object, pod};
use kube::Client;
use serde_json::{Value, json};

use super::*;

const PODS: &str = "/api/v1/namespaces/shop/pods";

async fn server(pods: usize) -> (ApiServer, Client) {
    kit::install_crypto_provider();
    let server = ApiServer::start(None).await;
    for number in 0..pods {
        server.put(pod(&format!("web-{number}")).in_namespace("shop").label("app", "web"));
    }
    let client = server.client();
    (server, client)
}

/// The answer, or the code of the refusal.
async fn send(client: &Client, method: &str, path: &str, kind: &str, body: Value) -> Result<Value, u16> {
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let request = request.body(body.to_string().into_bytes()).unwrap();
    client.request(request).await.map_err(|error| match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    })
}

async fn get(client: &Client, path: &str) -> Value {
    send(client, "GET", path, "", json!({})).await.unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect()
}

/// The first events of a watch, as their type and the name of their object.
async fn events(client: &Client, query: &str, count: usize) -> Vec<(String, String)> {
    let request = http::Request::get(format!("{PODS}?watch=true&{query}")).body(Vec::new()).unwrap();
    let mut lines = client.request_stream(request).await.unwrap().lines();
    let mut events = Vec::new();
    while events.len() < count {
        let line = lines.try_next().await.unwrap().expect("the watch goes on");
        let event: Value = serde_json::from_str(&line).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events.push((text(&event["type"]), text(&event["object"]["metadata"]["name"])));
    }
    events
}

fn event(what: &str, name: &str) -> (String, String) {
    (what.to_owned(), name.to_owned())
}

#[tokio::test]
async fn a_watch_shows_what_changed_since_its_list_began() {
    let (server, client) = server(3).await;
    let first = get(&client, &format!("{PODS}?limit=2")).await;
    assert_eq!(names(&first), ["web-0", "web-1"]);
    server.store().edit(&Kind::new("", "pods"), &("shop".to_owned(), "web-0".to_owned()), |pod| {
        pod["metadata"]["labels"]["app"] = json!("other");
    });
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = get(&client, &format!("{PODS}?limit=2&continue={token}")).await;
    assert_eq!((names(&second), &second["metadata"]["continue"]), (vec!["web-2"], &json!("")));
    let selected = get(&client, &format!("{PODS}?labelSelector=app%3Dother")).await;
    assert_eq!(names(&selected), ["web-0"]);

    let version = second["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    assert_eq!(first["metadata"]["resourceVersion"], json!(version));
    send(&client, "DELETE", &format!("{PODS}/web-1"), "application/json", json!({})).await.unwrap();
    let seen = events(&client, &format!("resourceVersion={version}"), 2).await;
    assert_eq!(seen, [event("MODIFIED", "web-0"), event("DELETED", "web-1")]);
    let streamed = events(&client, "sendInitialEvents=true&allowWatchBookmarks=true", 3).await;
    assert_eq!(streamed, [event("ADDED", "web-0"), event("ADDED", "web-2"), event("BOOKMARK", "")]);
}

#[tokio::test]
async fn a_write_on_an_older_state_is_refused_and_each_part_has_its_own_way() {
    let (_server, client) = server(1).await;
    let web = format!("{PODS}/web-0");
    let merge = "application/merge-patch+json";
    let seen = get(&client, &web).await;
    let status = json!({"status": {"phase": "Running"}, "spec": {"nodeName": "a"}});
    let running = send(&client, "PATCH", &format!("{web}/status"), merge, status).await.unwrap();
    assert_eq!((&running["status"]["phase"], &running["spec"]), (&json!("Running"), &Value::Null));
    assert_eq!(send(&client, "PUT", &web, "application/json", seen.clone()).await, Err(409));
    let patch =
        json!({"metadata": {"resourceVersion": seen["metadata"]["resourceVersion"]}, "spec": {"a": 1}});
    assert_eq!(send(&client, "PATCH", &web, merge, patch).await, Err(409));
    let change = json!({"status": {"phase": "Failed"}, "spec": {"nodeName": "a"}});
    let changed = send(&client, "PATCH", &web, merge, change.clone()).await.unwrap();
    assert_eq!(
        (&changed["status"]["phase"], &changed["metadata"]["generation"]),
        (&json!("Running"), &json!(2))
    );
    assert_eq!(send(&client, "PATCH", &web, merge, change).await.unwrap(), changed, "nothing changes");
    let again = object("v1", "Pod", "web-0").build();
    assert_eq!(send(&client, "POST", PODS, "application/json", again).await, Err(409));
}

#[tokio::test]
async fn a_pod_on_a_node_ends_when_its_node_lets_it_go() {
    let (_server, client) = server(1).await;
    let web = format!("{PODS}/web-0");
    let json = "application/json";
    let target = json!({"target": {"name": "node-a"}});
    send(&client, "POST", &format!("{web}/binding"), json, target).await.unwrap();
    send(&client, "DELETE", &web, json, json!({})).await.unwrap();
    let ending = get(&client, &web).await;
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 30);
    send(&client, "DELETE", &web, json, json!({"gracePeriodSeconds": 0})).await.unwrap();
    assert_eq!(send(&client, "GET", &web, json, json!({})).await, Err(404));
}
