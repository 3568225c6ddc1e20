//! Which namespaces have a copy.

use std::time::Instant;

use serde_json::{Value, json};

use super::*;
use crate::support::wait_quota;

/// Held by the test that distributes to all namespaces and by the one that makes hundreds of them.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Scenarios 1, 7 and 17.
#[tokio::test]
async fn listed_namespaces_get_copies_and_lose_them() {
    let town = Town::open(3, &[]).await;
    let distribution = town.distribute(town.config_map(), town.listed(&[1, 3])).await;
    let status = counted(&distribution, 2, 2, 0).await;
    assert_sound(&status);
    assert!(status.get("failed").is_none(), "{status}");
    town.only(&[1, 3]).await;
    distribution.patch(&json!({"spec": {"targets": town.listed(&[1])}})).await;
    town.only(&[1]).await;
    counted(&distribution, 1, 1, 0).await;
    distribution.patch(&json!({"spec": {"targets": {"includedNamespaces": null}}})).await;
    town.only(&[]).await;
    let status = counted(&distribution, 0, 0, 0).await;
    assert!(status.get("desired").is_none() && status.get("succeeded").is_none(), "{status}");
}

/// Scenarios 3 and 19.
#[tokio::test]
async fn all_namespaces_are_all_but_those_of_the_system() {
    let _alone = ALONE.lock().await;
    let town = Town::open(1, &[]).await;
    let distribution = town.distribute(town.config_map(), json!({"allNamespaces": true})).await;
    let later = town.add(&town.namespace(2), false).await;
    let everywhere = async || {
        let all = call(&town.client, "GET", "/api/v1/namespaces", &Value::Null).await.1;
        let staying = all["items"].as_array().unwrap().iter();
        let staying = staying.filter(|one| one["metadata"]["deletionTimestamp"].is_null());
        let names = staying.map(|one| one["metadata"]["name"].as_str().unwrap().to_owned());
        let mut names: Vec<_> = names.filter(|name| name != "kube-system" && name != "kube-public").collect();
        names.sort();
        names
    };
    wait_for("copies everywhere", async || match (town.having().await, everywhere().await) {
        (found, expected) if found == expected && found.contains(&town.namespace(2)) => Ok(()),
        both => Err(both),
    })
    .await;
    // One that is deleted is left alone, and counts no more.
    later.deleted().await;
    later.gone().await;
    let object = eventually(&distribution, "the status without the namespace", |object| {
        object["status"]["failed"].is_null() && object["status"]["desired"] == object["status"]["succeeded"]
    })
    .await;
    assert_sound(&object["status"]);
    let mut targets = town.listed(&[1]);
    targets["includedNamespaces"]["list"].as_array_mut().unwrap().push(json!({"name": "kube-system"}));
    targets["allNamespaces"] = json!(false);
    distribution.patch(&json!({"spec": {"targets": targets}})).await;
    counted(&distribution, 1, 1, 0).await;
    town.only(&[1]).await;
}

/// Scenario 8.
#[tokio::test]
async fn a_label_brings_the_copy_and_takes_it_away() {
    let town = Town::open(3, &[1]).await;
    let distribution = town.distribute(town.config_map(), selected(&town)).await;
    town.only(&[1]).await;
    town.stored_namespace(3).label("group", &*town.name).await;
    town.only(&[1, 3]).await;
    counted(&distribution, 2, 2, 0).await;
    town.stored_namespace(3).label("group", Value::Null).await;
    town.only(&[1]).await;
    counted(&distribution, 1, 1, 0).await;
}

/// Scenarios 9 and 20.
#[tokio::test]
async fn a_namespace_that_does_not_exist_is_reported_until_it_does() {
    let town = Town::open(0, &[]).await;
    let mut old = distribution(&town.name, town.config_map(), town.listed(&[1]));
    old["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    old["spec"]["targets"]["namespaceLabelSelector"] = json!({"matchLabels": {"nobody": "has"}});
    let old = Stored::create(&town.client, old).await;
    let new = old.in_version("v1beta1");
    let status = counted(&new, 1, 0, 1).await;
    assert_failed(&status, "NamespaceNotExists", &town.namespaces(&[1]));
    assert_eq!(condition(&status, "NamespaceNotExists")["reason"], "namespace not found or is terminating");
    let spec = new.get().await.1["spec"]["targets"].clone();
    assert_eq!(spec["namespaceSelector"], json!({"matchLabels": {"nobody": "has"}}));
    let read = old.get().await.1;
    assert_eq!(read["status"]["conditions"][5]["failedNamespace"], json!(town.namespaces(&[1])));
    town.add(&town.namespace(1), false).await;
    town.only(&[1]).await;
    assert_sound(&counted(&new, 1, 1, 0).await);
}

/// Scenarios 10 and 11, and what happens when the conflict ends.
#[tokio::test]
async fn what_belongs_to_others_is_left_alone() {
    let town = Town::open(2, &[]).await;
    let foreign = config_map(&town.name, "mine", "1").in_namespace(&town.namespace(1));
    let foreign = Stored::create(&town.client, foreign).await;
    let first = town.distribute(town.config_map(), town.listed(&[1, 2])).await;
    let status = counted(&first, 2, 1, 1).await;
    assert_failed(&status, "ConflictOccurred", &town.namespaces(&[1]));
    assert_eq!(
        condition(&status, "ConflictOccurred")["reason"],
        "conflict with existing resources because of the same namespace, group, version, kind and name"
    );
    assert_eq!(foreign.get().await.1, foreign.object);
    let other = format!("{}-other", town.name);
    let second = distribution(&other, town.config_map(), town.listed(&[2]));
    let second = Stored::create(&town.client, second).await;
    assert_failed(&counted(&second, 1, 0, 1).await, "ConflictOccurred", &town.namespaces(&[2]));

    foreign.deleted().await;
    assert_sound(&counted(&first, 2, 2, 0).await);
    first.deleted().await;
    assert_sound(&counted(&second, 1, 1, 0).await);
    assert_eq!(town.copy(2).get().await.1["metadata"]["annotations"][FROM], json!(other));
}

/// Scenario 12. While the garbage collector works in the foreground, nothing is made again.
#[tokio::test]
async fn copies_go_with_their_resource_distribution() {
    for policy in ["Background", "Foreground"] {
        let town = Town::open(2, &[]).await;
        let distribution = town.distribute(town.config_map(), town.listed(&[1, 2])).await;
        town.only(&[1, 2]).await;
        let (code, answer) = distribution.delete_with(&json!({"propagationPolicy": policy})).await;
        assert_eq!(code, 200, "{answer:#}");
        distribution.gone().await;
        town.only(&[]).await;
    }
}

/// Scenario 27.
#[tokio::test]
async fn one_namespace_of_two_hundred_that_fails_stops_no_other() {
    let _alone = ALONE.lock().await;
    let town = Town::open(0, &[]).await;
    let full = town.namespace(100);
    let numbers: Vec<usize> = (1..=200).collect();
    for some in numbers.chunks(20) {
        let names = town.namespaces(some);
        futures::future::join_all(names.iter().map(|name| town.add(name, true))).await;
    }
    let quota = object("v1", "ResourceQuota", "none").in_namespace(&full);
    let quota = quota.with("/spec", json!({"hard": {"count/configmaps": "0"}}));
    let quota = Stored::create(&town.client, quota).await;
    wait_quota(&town.client, config_map("trial", "a", "1").in_namespace(&full)).await;
    let begun = Instant::now();
    let distribution = town.distribute(town.config_map(), selected(&town)).await;
    let status = counted(&distribution, 200, 199, 1).await;
    println!("200 namespaces: {:?}", begun.elapsed());
    assert_failed(&status, "CreateResourceFailed", &[full]);
    let reason = condition(&status, "CreateResourceFailed")["reason"].as_str().unwrap();
    assert!(reason.contains("exceeded quota"), "{reason}");
    quota.deleted().await;
    assert_sound(&counted(&distribution, 200, 200, 0).await);
    distribution.deleted().await;
}
