//! NodeImages.

use super::*;

fn fake(town: &Town, name: &str, task: Value) -> Object {
    object(BETA, "NodeImage", &town.node(name))
        .label("apps.kruise.io/fake-nodeimage", "true")
        .with("/spec/images/ubuntu/tags", Value::Array(vec![task]))
}

#[tokio::test]
async fn a_ready_node_has_a_node_image_with_its_labels_until_it_goes() {
    let town = Town::open("nodes", &[]).await;
    let machine = town.add_node("virtual", json!({"type": "virtual-kubelet"})).await;
    let node = town.add_node("real", json!({"zone": "a"})).await;
    let image = town.node_image("real").await;
    let first = image.get().await.1;
    assert_eq!(
        (&first["metadata"]["labels"]["zone"], &first["metadata"]["generation"]),
        (&json!("a"), &json!(1))
    );
    node.label("zone", "b").await;
    wait_for("the label to follow", async || {
        let labels = image.get().await.1["metadata"]["labels"].clone();
        if labels["zone"] == "b" { Ok(()) } else { Err(labels) }
    })
    .await;
    node.deleted().await;
    image.gone().await;
    let path = format!("/apis/{BETA}/nodeimages/{}", town.node("virtual"));
    assert_eq!(call(&town.client, "GET", &path, &Value::Null).await.0, 404);
    machine.deleted().await;
}

#[tokio::test]
async fn a_task_is_completed_and_needs_a_time_to_live() {
    let town = Town::open("tags", &[]).await;
    let answer = create(&town.client, fake(&town, "a", json!({"tag": "latest"})), "?dryRun=All").await;
    assert!(
        message(&answer).ends_with("pullPolicy.ttlSecondsAfterFinished for ubuntu/latest must set"),
        "{answer:?}"
    );
    assert_eq!(answer.0, 400);
    let policy = json!({"ttlSecondsAfterFinished": 9});
    let task = json!({"tag": "latest", "pullPolicy": policy});
    let (code, stored) = create(&town.client, fake(&town, "a", task), "?dryRun=All").await;
    assert_eq!(code, 201, "{stored:#}");
    let task = &stored["spec"]["images"]["ubuntu"]["tags"][0];
    assert!(task["createdAt"].is_string());
    let expected = json!({"ttlSecondsAfterFinished": 9, "timeoutSeconds": 600, "backoffLimit": 3});
    assert_eq!(task["pullPolicy"], expected);
}

#[tokio::test]
async fn a_finished_task_leaves_after_its_time() {
    let town = Town::open("ttl", &[]).await;
    let task = json!({"tag": "latest", "pullPolicy": {"ttlSecondsAfterFinished": 3}});
    let node = town.create(fake(&town, "done", task)).await;
    let completed = wait_for("the pull to end", async || {
        let status = node.get().await.1["status"].clone();
        let time = &status["imageStatuses"]["ubuntu"]["tags"][0]["completionTime"];
        time.as_str().map(|time| time.parse::<Timestamp>().unwrap()).ok_or(status.clone())
    })
    .await;
    wait_for("the task to leave", async || {
        let spec = node.get().await.1["spec"].clone();
        if spec["images"].as_object().is_none_or(serde_json::Map::is_empty) { Ok(()) } else { Err(spec) }
    })
    .await;
    let stayed = Timestamp::now().duration_since(completed);
    assert!(stayed >= SignedDuration::from_secs(3), "{stayed}");
    node.deleted().await;
}

#[tokio::test]
async fn a_silent_agent_fails_its_task() {
    let town = Town::open("silence", &[]).await;
    let owner =
        json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": town.name, "name": "own", "uid": "u"});
    let task = json!({"tag": "latest", "version": 3, "createdAt": ago(601), "ownerReferences": [owner],
        "pullPolicy": {"ttlSecondsAfterFinished": 9000}});
    let node = town.create(fake(&town, "silent", task)).await;
    let now = shows(&node, &json!({"failed": 1, "desired": 1})).await;
    let status = &now["status"]["imageStatuses"]["ubuntu"]["tags"][0];
    assert_eq!((&status["phase"], &status["version"]), (&json!("Failed"), &json!(3)));
    assert_eq!(status["message"], "node has not responded for a long time");
    for (namespace, name) in [(town.name.as_str(), "own".to_owned()), ("default", town.node("silent"))] {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let note = wait_for("the Event", async || {
            let list = call(&town.client, "GET", &path, &Value::Null).await.1;
            let mut events = list["items"].as_array().unwrap().iter();
            let found = events
                .find(|event| event["regarding"]["name"] == *name && event["reason"] == "PullImageFailed");
            found.map(|event| event["note"].clone()).ok_or(list["items"].as_array().unwrap().len())
        })
        .await;
        let expected = "Failed to pull image ubuntu:latest on node";
        assert!(note.as_str().unwrap().starts_with(expected), "{note}");
    }
    node.deleted().await;
}
