//! Releases of Deployments, beside Kubernetes' own controller of them.

use super::requests::Requests;
use super::*;
use crate::support::fleet::{image, uids};

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

#[tokio::test(flavor = "multi_thread")]
async fn scenario_9_a_third_version_waits_until_blue_green_is_rolled_back() {
    let strategy = json!({"blueGreen": {"steps": steps(&[json!("100%")])}});
    let release = Release::open("ro-third", deployment(2), strategy).await;
    let chronicle = release.fleet.chronicle().await;
    release.roll(NEW).await;
    release.paused(1).await;
    release.roll(NEWER).await;
    let asks = |status: &Value| status["message"].as_str().unwrap().contains("please rollback first");
    release.reaches("the third version to be refused", asks).await;
    release.roll(OLD).await;
    release.over("False").await;
    release.settled(OLD).await;
    let third = |pods: &[&Value]| pods.iter().filter(|pod| image(pod) == NEWER).count();
    assert_eq!(chronicle.range(third).await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_10_a_newer_version_gives_traffic_back_and_begins_at_the_first_step() {
    let strategy = json!({"canary": {"enableExtraWorkloadForCanary": true,
        "trafficRoutings": traffic::by_ingress(3), "steps": [{"replicas": 1, "traffic": "20%"}]}});
    let release = Release::open("ro-newer", deployment(2), strategy).await;
    let service = traffic::lead(&release).await;
    let requests = Requests::begin(&release.fleet.shop).await;
    let chronicle = release.fleet.chronicle().await;
    let stable = uids(&release.fleet.pods().await);
    release.roll(NEW).await;
    traffic::has_a_fifth(&release, &service, NEW).await;
    let route = release.object("networking.k8s.io/v1", "Ingress", "web-canary");
    let before = route.get().await.1;

    release.roll(NEWER).await;
    wait_for("the canary Ingress of the next release", async || {
        let (code, now) = route.get().await;
        if code == 200 && now["metadata"]["uid"] != before["metadata"]["uid"] { Ok(()) } else { Err(now) }
    })
    .await;
    traffic::has_a_fifth(&release, &service, NEWER).await;
    let newer = |pods: &[&Value]| pods.iter().filter(|pod| image(pod) == NEWER).count();
    assert_eq!(chronicle.range(newer).await, (0, 1));
    let mut left = release.fleet.pods().await;
    left.retain(|pod| image(pod) == OLD);
    assert_eq!(uids(&left), stable);
    requests.reached("web-canary", NEWER).await;
    requests.assert_all_answered_by(&[("web", OLD), ("web-canary", NEW), ("web-canary", NEWER)]);
}
