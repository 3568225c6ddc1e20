//! Pull Secrets of ImagePullJobs.

use super::*;

const REFERENCES: &str = "imagepulljobs.kruise.io/references";

pub(super) async fn secret(town: &Town, namespace: &str, name: &str) -> Stored {
    let secret = object("v1", "Secret", name).in_namespace(namespace);
    let secret = secret.with("/type", json!("kubernetes.io/dockerconfigjson"));
    town.create(secret.with("/data", json!({".dockerconfigjson": "e30="}))).await
}

/// The copies of this town's Secrets.
pub(super) async fn copies(town: &Town) -> Vec<Value> {
    let path = format!("/api/v1/namespaces/{CONFIG}/secrets");
    let list = call(&town.client, "GET", &path, &Value::Null).await.1;
    let source = |secret: &&Value| {
        let source = secret["metadata"]["annotations"]["imagepulljobs.kruise.io/source-key"].as_str();
        source.is_some_and(|source| source.starts_with(&format!("{}/", town.name)))
    };
    list["items"].as_array().unwrap().iter().filter(source).cloned().collect()
}

#[tokio::test]
async fn jobs_share_a_copy_of_their_secret_that_follows_it_and_goes_with_them() {
    let town = Town::open("copied", &["slow-a"]).await;
    let source = secret(&town, &town.name, "pull").await;
    let spec = json!({"image": image(&town), "pullSecrets": ["pull", "missing"]});
    let first = town.create(town.job("first", spec.clone())).await;
    shows(&first, &json!({"active": 1})).await;
    let copy = copies(&town).await.remove(0);
    let name = copy["metadata"]["name"].as_str().unwrap();
    assert!(name.strip_prefix("pull-").is_some_and(|hash| hash.len() == 6), "{name}");
    assert_eq!(copy["metadata"]["annotations"]["imagepulljobs.kruise.io/mode"], "batch");
    assert_eq!(copy["type"], "kubernetes.io/dockerconfigjson");
    let node = town.node_image("slow-a").await.get().await.1;
    let references = &node["spec"]["images"][image(&town)]["pullSecrets"];
    assert_eq!(*references, json!([{"namespace": CONFIG, "name": name, "mode": "batch"}]));
    let events = format!("/apis/events.k8s.io/v1/namespaces/{}/events", town.name);
    wait_for("the Event", async || {
        let list = call(&town.client, "GET", &events, &Value::Null).await.1;
        let reported =
            list["items"].as_array().unwrap().iter().any(|event| event["reason"] == "SecretNotFound");
        if reported { Ok(()) } else { Err(list["items"].clone()) }
    })
    .await;

    let second = town.create(town.job("second", spec)).await;
    shows(&second, &json!({"active": 1})).await;
    let both = copies(&town).await;
    assert_eq!(both.len(), 1);
    let users = format!("{0}/first,{0}/second", town.name);
    assert_eq!(both[0]["metadata"]["annotations"][REFERENCES], users);

    source.patch(&json!({"data": {".dockerconfigjson": "e30K"}})).await;
    wait_for("the copy to follow", async || {
        let copy = copies(&town).await.remove(0);
        if copy["data"][".dockerconfigjson"] == "e30K" { Ok(()) } else { Err(copy) }
    })
    .await;

    first.deleted().await;
    first.gone().await;
    assert_eq!(
        copies(&town).await[0]["metadata"]["annotations"][REFERENCES],
        format!("{}/second", town.name)
    );
    second.deleted().await;
    second.gone().await;
    assert!(copies(&town).await.is_empty());
}

#[tokio::test]
async fn a_job_beside_the_agents_secrets_needs_no_copy() {
    let town = Town::open("beside", &["slow-a"]).await;
    let name = format!("{}-own", town.name);
    secret(&town, CONFIG, &name).await;
    let job =
        town.job(&town.name, json!({"image": image(&town), "pullSecrets": [name]})).in_namespace(CONFIG);
    let job = town.create(job).await;
    let (node, expected) = (town.node_image("slow-a").await, json!([{"namespace": CONFIG, "name": name}]));
    wait_for("the reference to the Secret", async || {
        let node = node.get().await.1;
        if node["spec"]["images"][image(&town)]["pullSecrets"] == expected { Ok(()) } else { Err(node) }
    })
    .await;
    let path = format!("/api/v1/namespaces/{CONFIG}/secrets");
    let list = call(&town.client, "GET", &path, &Value::Null).await.1;
    let names =
        list["items"].as_array().unwrap().iter().map(|secret| secret["metadata"]["name"].as_str().unwrap());
    assert_eq!(names.filter(|known| known.starts_with(&name)).count(), 1);
    job.deleted().await;
}
