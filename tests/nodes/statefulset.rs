//! StatefulSets with real containers and volumes: identity, data, updates in place, and volumes that grow.

use std::time::Duration;

use kit::builders::workload;
use kit::{Expansion, Provisioner, objects, wait_within};
use serde_json::{Value, json};

use crate::docs;
use crate::site::Site;

const TIMEOUT: Duration = Duration::from_secs(120);

#[tokio::test]
async fn the_walk_through_of_stateful_sets_works() {
    let Some(site) = Site::installed().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let client = site.server().client();
    let _provisioner = Provisioner::start(client, "expandable", Some(Expansion::AtOnce), folder.path()).await;
    let namespace = site.server().namespace("database").await;
    docs::statefulset(site.server(), &namespace).await;
    site.kubectl("delete storageclass expandable").await.success();
}

/// A StatefulSet `db` whose claims of this class grow with its rollouts.
async fn open(site: &Site, namespace: &str, class: &str) {
    let claim = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}}}]);
    let set = workload("apps.kruise.io/v1beta1", "StatefulSet", "db")
        .in_namespace(namespace)
        .matching("app", "db")
        .container("main", "nginx:1.25")
        .replicas(2)
        .with("/spec/template/spec/terminationGracePeriodSeconds", 0)
        .with("/spec/template/spec/containers/0/imagePullPolicy", "IfNotPresent")
        .with(
            "/spec/template/spec/containers/0/volumeMounts",
            json!([{"name": "data", "mountPath": "/data"}]),
        )
        .with("/spec/volumeClaimTemplates", claim)
        .with("/spec/volumeClaimUpdateStrategy", json!({"type": "OnPodRollingUpdate"}));
    objects::create(&site.server().client(), set).await.unwrap();
    complete(site, namespace).await;
}

/// The Pods by name, once all are available at the newest revision.
async fn complete(site: &Site, namespace: &str) -> Vec<Value> {
    wait_within(TIMEOUT, "the StatefulSet to be complete", async || {
        let set = site.kruise(namespace, "statefulsets/db").await;
        let status = &set["status"];
        let observed = status["observedGeneration"] == set["metadata"]["generation"];
        let mut counts = ["replicas", "updatedReplicas", "availableReplicas"].into_iter();
        let counted = counts.all(|count| status[count] == set["spec"]["replicas"]);
        if observed && counted { Ok(()) } else { Err(status.clone()) }
    })
    .await;
    pods(site, namespace).await
}

/// Deletes the StatefulSet: while there is one, nobody may uninstall the chart.
async fn close(site: &Site, namespace: &str) {
    site.kubectl(&format!("delete statefulsets.apps.kruise.io db -n {namespace}")).await.success();
}

async fn pods(site: &Site, namespace: &str) -> Vec<Value> {
    site.core(namespace, "pods").await["items"].as_array().unwrap().clone()
}

async fn resize(site: &Site, namespace: &str) {
    let path = "/spec/volumeClaimTemplates/0/spec/resources/requests/storage";
    let patch = format!("--patch={}", json!([{"op": "replace", "path": path, "value": "2Gi"}]));
    let words = ["patch", "statefulsets.apps.kruise.io", "db", "-n", namespace, "--type=json", &patch];
    site.server().kubectl(words).await.success();
}

/// Claims that have what they ask for at this size, by name.
async fn grown(site: &Site, namespace: &str) -> Vec<String> {
    let claims = site.core(namespace, "persistentvolumeclaims").await["items"].as_array().unwrap().clone();
    let is_grown = |claim: &&Value| claim["status"]["capacity"]["storage"] == "2Gi";
    claims
        .iter()
        .filter(is_grown)
        .map(|claim| claim["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// A file system that grows with a new Pod gets one, which finds its data again.
#[tokio::test]
async fn a_volume_that_grows_with_a_new_pod_gets_one() {
    let Some(site) = Site::installed().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let client = site.server().client();
    let _provisioner = Provisioner::start(client, "slow", Some(Expansion::WithNewPod), folder.path()).await;
    let namespace = site.server().namespace("grow").await;
    open(&site, &namespace, "slow").await;
    let before = pods(&site, &namespace).await;
    for volume in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::write(volume.unwrap().path().join("kept"), "data").unwrap();
    }
    resize(&site, &namespace).await;
    wait_within(2 * TIMEOUT, "both claims to grow", async || {
        let grown = grown(&site, &namespace).await;
        if grown.len() == 2 { Ok(()) } else { Err(grown) }
    })
    .await;
    let after = complete(&site, &namespace).await;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before["metadata"]["name"], after["metadata"]["name"]);
        assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
        assert_eq!(before["spec"]["volumes"][0], after["spec"]["volumes"][0], "it has its claim again");
    }
    let kept = std::fs::read_dir(folder.path()).unwrap();
    assert_eq!(kept.filter(|volume| volume.as_ref().unwrap().path().join("kept").exists()).count(), 2);
    close(&site, &namespace).await;
    site.kubectl("delete storageclass slow").await.success();
}

/// An expansion that never finishes holds the rollout at its Pod; a class without any is refused.
#[tokio::test]
async fn volumes_that_do_not_grow_hold_up_the_rollout() {
    let Some(site) = Site::installed().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let client = site.server().client();
    let _stuck = Provisioner::start(client.clone(), "stuck", Some(Expansion::Never), folder.path()).await;
    let _fixed = Provisioner::start(client, "fixed", None, folder.path()).await;
    let namespace = site.server().namespace("stuck").await;
    open(&site, &namespace, "stuck").await;
    resize(&site, &namespace).await;
    let wanted = async || {
        let claims =
            site.core(&namespace, "persistentvolumeclaims").await["items"].as_array().unwrap().clone();
        let size =
            |claim: &Value| claim["spec"]["resources"]["requests"]["storage"].as_str().unwrap().to_owned();
        claims.iter().map(size).collect::<Vec<_>>()
    };
    wait_within(TIMEOUT, "the first claim to ask for more", async || {
        let wanted = wanted().await;
        if wanted == ["1Gi", "2Gi"] { Ok(()) } else { Err(wanted) }
    })
    .await;
    complete(&site, &namespace).await;
    assert_eq!(wanted().await, ["1Gi", "2Gi"], "the next one waits");
    let fixed = site.server().namespace("fixed").await;
    open(&site, &fixed, "fixed").await;
    let path = "/spec/volumeClaimTemplates/0/spec/resources/requests/storage";
    let patch = format!("--patch={}", json!([{"op": "replace", "path": path, "value": "2Gi"}]));
    let words = ["patch", "statefulsets.apps.kruise.io", "db", "-n", &fixed, "--type=json", &patch];
    let refused = site.server().kubectl(words).await;
    assert!(
        refused.stderr.contains("storage class fixed does not support volume expansion"),
        "{}",
        refused.stderr
    );
    close(&site, &namespace).await;
    close(&site, &fixed).await;
    site.kubectl("delete storageclass stuck fixed").await.success();
}
