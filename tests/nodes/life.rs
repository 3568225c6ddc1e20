//! Install, refused uninstall, uninstall, and install again, as Helm does them.

use std::time::Instant;

use kit::{objects, wait_for};

use crate::site::{NAMESPACE, RELEASE, Site, TIMEOUT, clone_set, injected};

/// docs/behaviour/server.md#start(a) and 16, docs/behaviour/server.md#uninstall-guard.
#[tokio::test]
async fn an_uninstall_is_refused_while_workloads_exist_and_leaves_a_cluster_that_works() {
    let Some(site) = Site::alone().await else { return };
    let server = site.server();
    let namespace = site.namespace_with_sidecars("life").await;
    let labels = site.get(&format!("/api/v1/namespaces/{NAMESPACE}")).await["metadata"]["labels"].clone();
    // The agent of the nodes needs it: it mounts directories of its node.
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "privileged");

    objects::create(&server.client(), clone_set(&namespace)).await.unwrap();
    let entries = site.entries().await;
    let ids = async || {
        let mut ids: Vec<String> =
            site.replicas(NAMESPACE).await.iter().map(|pod| pod["metadata"]["uid"].to_string()).collect();
        ids.sort();
        ids
    };
    let before = ids().await;
    site.uninstall().await.failure();
    let reason = site.kubectl(&format!("logs job/{RELEASE}-finalizer -n {NAMESPACE}")).await.success();
    assert_eq!(reason.trim(), "there still exists some clonesets in the cluster");
    assert_eq!((ids().await, site.entries().await), (before, entries));
    assert!(injected(&site.try_pod(&namespace).await.unwrap()));

    // Helm remembers the attempt; going back to the same revision clears that.
    let history =
        server.helm(["history", RELEASE, "--max=1", "--output=json", "--namespace=default"]).await.success();
    let history: serde_json::Value = serde_json::from_str(&history).unwrap();
    let revision = history[0]["revision"].to_string();
    server.helm(["rollback", RELEASE, &revision, "--wait", "--namespace=default"]).await.success();
    site.upgrade(&[]).await.success();

    site.kubectl(&format!("delete cloneset web -n {namespace}")).await.success();
    site.uninstall().await.success();
    assert!(site.entries().await.is_empty());
    wait_for("the API server to call nobody any more", async || {
        let pod = site.try_pod(&namespace).await?;
        if injected(&pod) { Err(pod.to_string()) } else { Ok(()) }
    })
    .await;
    let free = format!("run free -n {namespace} --image=nginx:1.25 --labels=tier=web");
    site.kubectl(&free).await.success();
    let crds = site.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").await["items"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(crds, 18);
    let left =
        site.kubectl("get clusterroles,clusterrolebindings,priorityclasses --output=name").await.success();
    assert!(!left.contains("kruise"), "{left}");

    // A namespace that somebody made, with no labels of ours.
    site.kubectl("create namespace by-hand").await.success();
    let start = Instant::now();
    let values = ["--set=installation.namespace=by-hand", "--set=installation.createNamespace=false"];
    site.upgrade(&values).await.success();
    site.wait_in_use().await;
    assert!(start.elapsed() < TIMEOUT, "{:?}", start.elapsed());
    wait_for("a Pod to get its sidecar", async || {
        let pod = site.try_pod(&namespace).await?;
        if injected(&pod) { Ok(()) } else { Err(pod.to_string()) }
    })
    .await;
    site.kubectl("delete pods --all -n by-hand --grace-period=0 --force").await.success();
    site.kubectl("rollout status deployment/kruise-controller-manager -n by-hand --timeout=4m")
        .await
        .success();
    server.helm(["uninstall", RELEASE, "--namespace=default", "--wait"]).await.success();
    site.kubectl("delete namespace by-hand").await.success();
}
