//! What a copy holds, and what becomes of edits.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use values::hash::hex_sha256;

use super::*;

/// The hash that a client computes of what it reads.
async fn hash(distribution: &Stored, client: &Client) -> String {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        spec: Spec<'a>,
    }
    #[derive(Deserialize)]
    struct Spec<'a> {
        #[serde(borrow)]
        resource: &'a RawValue,
    }
    let request = axum::http::Request::get(&distribution.path).body(Vec::new()).unwrap();
    let text = client.request_text(request).await.unwrap();
    let object: Object<'_> = serde_json::from_str(&text).unwrap();
    hex_sha256(object.spec.resource.get())
}

/// Scenarios 4, 5, 6, 22 and 28.
#[tokio::test]
async fn copies_follow_the_resource_and_edits_are_put_back() {
    let town = Town::open(2, &[]).await;
    let resource = town.config_map().with("/data/b", "<&>");
    let distribution = town.distribute(resource, town.listed(&[1, 2])).await;
    counted(&distribution, 2, 2, 0).await;
    let copy = town.copy(1);
    let made = copy.get().await.1;
    assert_eq!(
        made["metadata"]["ownerReferences"],
        json!([{"apiVersion": BETA, "kind": KIND, "name": town.name, "uid": distribution.object["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true}])
    );
    let annotations = &made["metadata"]["annotations"];
    let first = hash(&distribution, &town.client).await;
    assert_eq!((&annotations[FROM], &annotations[HASH]), (&json!(town.name), &json!(first)));
    assert!(first.len() == 64 && first.bytes().all(|byte| byte.is_ascii_hexdigit()), "{first}");

    let wanted = json!({"a": "1", "b": "<&>"});
    copy.patch(&json!({"data": {"a": "2", "c": "3"}, "metadata": {"labels": {"x": "y"}}})).await;
    eventually(&copy, "the data to be put back", |copy| copy["data"] == wanted).await;
    copy.deleted().await;
    eventually(&copy, "the copy to be made again", |copy| copy["data"] == wanted).await;

    copy.label("x", "y").await;
    distribution.patch(&json!({"spec": {"resource": {"data": {"a": "4"}}}})).await;
    let second = hash(&distribution, &town.client).await;
    assert_ne!(first, second);
    for number in [1, 2] {
        eventually(&town.copy(number), "the new data", |copy| {
            copy["data"]["a"] == "4" && copy["metadata"]["annotations"][HASH] == json!(second)
        })
        .await;
    }
    assert_eq!(copy.get().await.1["metadata"]["labels"], json!({"x": "y"}));

    distribution.patch(&json!({"spec": {"resource": {"metadata": {"labels": {"l": "m"}}}}})).await;
    let labels = |labels: Value| move |copy: &Value| copy["metadata"]["labels"] == labels;
    eventually(&copy, "the label", labels(json!({"x": "y", "l": "m"}))).await;
    distribution.patch(&json!({"spec": {"resource": {"metadata": {"labels": null}}}})).await;
    eventually(&copy, "the label to go", labels(json!({"x": "y"}))).await;
    counted(&distribution, 2, 2, 0).await;
}

/// Scenario 23; owners of others stay.
#[tokio::test]
async fn a_copy_of_an_older_release_is_taken_over() {
    let town = Town::open(1, &[]).await;
    let distribution = town.distribute(town.config_map(), town.listed(&[1])).await;
    counted(&distribution, 1, 1, 0).await;
    let copy = town.copy(1);
    let mut owners = copy.get().await.1["metadata"]["ownerReferences"].clone();
    owners[0]["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    let namespace = town.stored_namespace(1).get().await.1;
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "name": town.namespace(1), "uid": namespace["metadata"]["uid"]});
    owners.as_array_mut().unwrap().push(other.clone());
    copy.patch(&json!({"metadata": {"ownerReferences": owners}})).await;
    distribution.patch(&json!({"spec": {"resource": {"data": {"a": "2"}}}})).await;
    let copy = eventually(&copy, "the new data", |copy| copy["data"]["a"] == "2").await;
    let owners = copy["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 2, "{owners:?}");
    assert!(owners.contains(&other), "{owners:?}");
    assert!(
        owners.iter().any(|owner| owner["apiVersion"] == BETA && owner["controller"] == true),
        "{owners:?}"
    );
    assert_sound(&counted(&distribution, 1, 1, 0).await);
}

/// Scenario 24.
#[tokio::test]
async fn an_immutable_copy_is_reported_until_it_is_deleted() {
    let town = Town::open(2, &[]).await;
    let distribution = town.distribute(town.config_map(), town.listed(&[1, 2])).await;
    counted(&distribution, 2, 2, 0).await;
    distribution.patch(&json!({"spec": {"resource": {"immutable": true}}})).await;
    for number in [1, 2] {
        eventually(&town.copy(number), "an immutable copy", |copy| copy["immutable"] == true).await;
    }
    distribution.patch(&json!({"spec": {"resource": {"data": {"a": "2"}}}})).await;
    let status = counted(&distribution, 2, 0, 2).await;
    assert_failed(&status, "UpdateResourceFailed", &town.namespaces(&[1, 2]));
    for number in [1, 2] {
        town.copy(number).deleted().await;
        eventually(&town.copy(number), "the new data", |copy| copy["data"]["a"] == "2").await;
    }
    assert_sound(&counted(&distribution, 2, 2, 0).await);
}

/// Scenario 26, and 25.
#[tokio::test]
async fn a_secret_is_compared_as_kubernetes_stores_it() {
    let town = Town::open(2, &[]).await;
    let secret = object("v1", "Secret", &town.name).with("/stringData", json!({"password": "hush"}));
    let distribution = town.distribute(secret, town.listed(&[1])).await;
    counted(&distribution, 1, 1, 0).await;
    let copy = town.copy_of("secrets", 1);
    let made = copy.get().await.1;
    assert_eq!((&made["data"], &made["type"]), (&json!({"password": "aHVzaA=="}), &json!("Opaque")));
    // The pass after this one has another namespace to see to.
    distribution.patch(&json!({"spec": {"targets": town.listed(&[1, 2])}})).await;
    counted(&distribution, 2, 2, 0).await;
    assert_eq!(copy.get().await.1, made);

    let table = site().await.server.kubectl(["get", "distributor", &town.name]).await.success();
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines, [vec!["NAME", "TOTAL", "SUCCEED", "FAILED"], vec![&*town.name, "2", "2"]]);
    distribution.patch(&json!({"spec": {"targets": town.listed(&[])}})).await;
    copy.gone().await;
}
