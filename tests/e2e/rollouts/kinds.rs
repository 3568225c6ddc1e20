//! Releases of kinds that have an order, or one Pod per Node.

use super::*;
use crate::support::fleet::{image, name};

fn two_steps() -> Value {
    json!({"canary": {"steps": steps(&[json!(1), json!("100%")])}})
}

#[tokio::test(flavor = "multi_thread")]
async fn statefulsets_are_released_from_their_highest_ordinal_on() {
    let released = async |prefix: &str, api_version: &str| {
        let set =
            |shop: &Shop| web(shop, api_version, "StatefulSet").with("/spec/serviceName", "web").replicas(3);
        let release = Release::open(prefix, set, two_steps()).await;
        let held = release.roll(NEW).await;
        assert_eq!(held["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 32767, "{held:#}");
        release.paused(1).await;
        let pods = release.fleet.pods().await;
        let new: Vec<String> = pods.iter().filter(|pod| image(pod) == NEW).map(name).collect();
        assert_eq!(new, ["web-2"], "{api_version}");
        release.approve().await;
        release.over("True").await;
        release.settled(NEW).await;
        let workload = release.workload().await;
        let partition = &workload["spec"]["updateStrategy"]["rollingUpdate"]["partition"];
        assert!(partition.is_null() || *partition == 0, "{partition}");
    };
    futures::join!(
        released("ro-stateful", "apps/v1"),
        released("ro-advanced-stateful", "apps.kruise.io/v1beta1"),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemonset_is_released_by_deletions_of_its_pods() {
    const PREFIX: &str = "ro-daemonset";
    let set = |shop: &Shop| {
        web(shop, "apps/v1", "DaemonSet").with("/spec/template/spec/nodeSelector", json!({SITE: PREFIX}))
    };
    let release = Release::open(PREFIX, set, two_steps()).await;
    let ready = async |image: &str| {
        release
            .fleet
            .wait_pods("a Pod on each Node", |pods| {
                with_image(pods, image) == 2 && pods.iter().all(kit::objects::is_ready)
            })
            .await;
    };
    ready(OLD).await;
    let held = release.roll(NEW).await;
    assert_eq!(held["spec"]["updateStrategy"]["type"], "OnDelete", "in the same write: {held:#}");
    release.paused(1).await;
    assert_eq!(release.new_pods().await, 1);
    assert!(release.fleet.event("PodDeleted").await.contains("for batch update"));
    release.approve().await;
    release.over("True").await;
    ready(NEW).await;
    let workload = release.workload().await;
    assert_eq!(workload["spec"]["updateStrategy"]["type"], "RollingUpdate");
    let annotations = workload["metadata"]["annotations"].as_object().unwrap();
    let left: Vec<&String> = annotations.keys().filter(|key| key.contains("rollouts.kruise.io")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn blue_green_of_a_cloneset_grows_with_its_steps() {
    let strategy = json!({"blueGreen": {"steps": steps(&[json!("50%"), json!("100%")])}});
    let settings = json!({"type": "ReCreate", "maxSurge": 0, "maxUnavailable": 1, "partition": 0});
    let set = |shop: &Shop| {
        web(shop, "apps.kruise.io/v1alpha1", "CloneSet")
            .replicas(4)
            .with("/spec/updateStrategy", settings.clone())
    };
    let release = Release::open("ro-blue-cloneset", set, strategy).await;
    let before = release.workload().await["spec"].clone();
    release.roll(NEW).await;
    for (step, new) in [(1, 2), (2, 4)] {
        release.paused(step).await;
        assert_eq!(
            (release.fleet.pods().await.len(), release.new_pods().await),
            (4 + new, new),
            "step {step}"
        );
        release.approve().await;
    }
    release.over("True").await;
    release.settled(NEW).await;
    let after = release.workload().await["spec"].clone();
    assert_eq!(
        (&after["updateStrategy"], &after["minReadySeconds"]),
        (&before["updateStrategy"], &before["minReadySeconds"])
    );
}
