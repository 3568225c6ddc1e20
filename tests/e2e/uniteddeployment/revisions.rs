//! Updates: revisions, partitions, and Pods that hinder them.

use super::*;

async fn revisions(united: &United) -> Vec<(String, i64)> {
    let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions", united.namespace);
    let (_, list) = call(&united.client, "GET", &path, &Value::Null).await;
    let own = list["items"].as_array().unwrap().iter().filter(|revision| {
        revision["metadata"]["ownerReferences"][0]["uid"] == united.stored.object["metadata"]["uid"]
    });
    let mut own: Vec<(String, i64)> = own
        .map(|revision| {
            (
                revision["metadata"]["name"].as_str().unwrap().to_owned(),
                revision["revision"].as_i64().unwrap(),
            )
        })
        .collect();
    own.sort_by_key(|revision| revision.1);
    own
}

/// The newest revision, once its number is this.
async fn newest(united: &United, number: i64) -> String {
    wait_for("the revision", async || {
        let all = revisions(united).await;
        let newest = all.last().filter(|newest| newest.1 == number).map(|newest| newest.0.clone());
        let reported = united.stored.get().await.1["status"]["updatedRevision"].take();
        newest.filter(|newest| reported == **newest).ok_or((all, reported))
    })
    .await
}

#[tokio::test]
async fn an_older_template_has_its_revision_again() {
    let shop = Shop::open("united-back").await;
    let united =
        United::create(&shop, "cloneSetTemplate", json!([{"name": "a"}]), json!({"replicas": 0})).await;
    let first = newest(&united, 1).await;
    assert!(first.starts_with("web-"), "{first}");
    united.edit(json!({"template": template("cloneSetTemplate", "nginx:1.26")})).await;
    let second = newest(&united, 2).await;
    united.edit(json!({"template": template("cloneSetTemplate", "nginx:1.25")})).await;
    assert_eq!(newest(&united, 3).await, first);
    assert_eq!(revisions(&united).await, [(second, 2), (first.clone(), 3)]);
    let children = united.shares(&[("a", 0)]).await;
    assert_eq!(children["a"]["metadata"]["labels"][REVISION], first);
    // Revisions of CloneSets have labels too, so that they are found and limited.
    let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions/{first}", shop.namespace);
    let (_, revision) = call(&shop.client, "GET", &path, &Value::Null).await;
    assert_eq!(revision["metadata"]["labels"]["app"], "web");
}

#[tokio::test]
async fn history_is_limited() {
    let shop = Shop::open("united-history").await;
    let more = json!({"replicas": 0, "revisionHistoryLimit": 2});
    let united = United::create(&shop, "deploymentTemplate", json!([{"name": "a"}]), more).await;
    newest(&united, 1).await;
    for number in 2..=6 {
        united.edit(json!({"template": template("deploymentTemplate", &format!("nginx:1.{number}"))})).await;
        newest(&united, number).await;
    }
    let last = newest(&united, 6).await;
    let kept = wait_for("old revisions to go", async || {
        let all = revisions(&united).await;
        if all.len() <= 3 { Ok(all) } else { Err(all) }
    })
    .await;
    assert_eq!(kept.last().unwrap().0, last);
}

#[tokio::test]
async fn a_broken_pod_of_a_stateful_set_is_replaced() {
    let shop = Shop::open("united-broken").await;
    let united =
        United::create(&shop, "statefulSetTemplate", json!([{"name": "a"}]), json!({"replicas": 1})).await;
    let children = united.shares(&[("a", 1)]).await;
    let child = &children["a"];
    let name = format!("{}-0", child["metadata"]["name"].as_str().unwrap());
    let mut owner = child.clone();
    (owner["apiVersion"], owner["kind"]) = ("apps/v1".into(), "StatefulSet".into());
    let mut pod = kit::builders::pod(&name).in_namespace(&shop.namespace).controlled_by(&owner);
    for key in [SUBSET, REVISION] {
        pod = pod.label(key, child["metadata"]["labels"][key].as_str().unwrap());
    }
    let pod = Stored::create(&shop.client, pod.label("app", "web").container("main", "none:1")).await;
    let uid = pod.object["metadata"]["uid"].clone();
    united.edit(json!({"template": template("statefulSetTemplate", "nginx:1.26")})).await;
    wait_for("the broken Pod to go", async || match pod.get().await {
        (404, _) => Ok(()),
        (_, now) if now["metadata"]["uid"] != uid || !now["metadata"]["deletionTimestamp"].is_null() => {
            Ok(())
        }
        (_, now) => Err(now),
    })
    .await;
}

#[tokio::test]
async fn a_rollout_ends_when_all_pods_are_ready() {
    let shop = Shop::open("united-rollout").await;
    let subsets = json!([{"name": "a"}, {"name": "b"}]);
    let united = United::create(&shop, "cloneSetTemplate", subsets, json!({"replicas": 2})).await;
    let first = newest(&united, 1).await;
    for subset in ["a", "b"] {
        place(&united.pods(subset, 1).await[0], true).await;
    }
    let status = united
        .status("the Pods to be ready", |status| {
            status["updatedReadyReplicas"] == 2 && status["readyReplicas"] == 2
        })
        .await;
    assert_eq!(
        (&status["replicas"], &status["readyReplicas"], &status["updatedReplicas"]),
        (&json!(2), &json!(2), &json!(2))
    );
    united.edit(json!({"template": template("cloneSetTemplate", "nginx:1.26")})).await;
    let second = newest(&united, 2).await;
    let is_rolling = |status: &Value| {
        let conditions = status["conditions"].as_array().unwrap();
        conditions.iter().any(|one| {
            one["type"] == "UnitedDeploymentUpdated"
                && one["status"] == "False"
                && one["reason"] == "UnitedDeploymentRevisionUpdating"
        })
    };
    let status = united.status("the rollout to be told", is_rolling).await;
    assert_eq!((&status["currentRevision"], &status["updatedRevision"]), (&json!(first), &json!(second)));
    for subset in ["a", "b"] {
        let pod = wait_for("the Pod to be replaced", async || {
            let pod = united.pods(subset, 1).await.remove(0);
            if pod.object["metadata"]["labels"][REVISION] == second { Ok(pod) } else { Err(pod.object) }
        })
        .await;
        place(&pod, true).await;
    }
    let is_over = |status: &Value| status["currentRevision"] == second && status["updatedReadyReplicas"] == 2;
    united.status("the rollout to end", is_over).await;
}
