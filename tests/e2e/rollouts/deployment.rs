//! Releases of Deployments, beside Kubernetes' own controller of them.

use super::*;

const CANARY: &str = "rollouts.kruise.io/canary-deployment";

fn deployment(replicas: u32) -> impl FnOnce(&Shop) -> Object {
    move |shop| web(shop, "apps/v1", "Deployment").replicas(replicas)
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_6_a_deployment_is_released_in_batches_of_its_own_pods() {
    let strategy = json!({"canary": {"steps": steps(&[json!("30%"), json!("100%")])}});
    let release = Release::open("ro-deployment", deployment(10), strategy).await;
    let held = release.roll(NEW).await;
    assert_eq!(held["spec"]["paused"], true, "in the same write: {held:#}");
    release.paused(1).await;
    let is_held = async || {
        let spec = &release.workload().await["spec"];
        assert_eq!((&spec["paused"], &spec["strategy"]["type"]), (&json!(true), &json!("Recreate")));
        assert_eq!(release.new_pods().await, 3);
    };
    is_held().await;
    let words = ["rollout", "resume", "deployment/web", "-n", &release.fleet.shop.namespace];
    site().await.server.kubectl(words).await;
    is_held().await;

    release.approve().await;
    release.over("True").await;
    release.settled(NEW).await;
    let spec = &release.workload().await["spec"];
    assert_eq!(spec["strategy"]["type"], "RollingUpdate");
    assert_ne!(spec["paused"], true);
    let sets = release.fleet.list("apis/apps/v1", "replicasets").await;
    assert_eq!(sets.len(), 2, "Kubernetes' own controller makes no further one");
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_7_a_second_deployment_runs_new_pods_until_the_end() {
    let strategy = json!({"canary": {"enableExtraWorkloadForCanary": true, "steps": steps(&[json!(2)])}});
    let release = Release::open("ro-second", deployment(3), strategy).await;
    let canaries = async || {
        let mut all = release.fleet.list("apis/apps/v1", "deployments").await;
        all.retain(|one| one["metadata"]["labels"][CANARY] == "web");
        all
    };
    release.roll(NEW).await;
    release.paused(1).await;
    let second = canaries().await;
    assert_eq!(second.iter().map(|one| one["spec"]["replicas"].clone()).collect::<Vec<_>>(), [2]);
    assert_eq!((release.fleet.pods().await.len(), release.new_pods().await), (5, 2));
    release.approve().await;
    release.over("True").await;
    wait_for("the second Deployment and its Pods to go", async || {
        let pods = release.fleet.pods().await.len();
        if canaries().await.is_empty() && pods == 3 { Ok(()) } else { Err(pods) }
    })
    .await;
    release.settled(NEW).await;
}
