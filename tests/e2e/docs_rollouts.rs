//! The pages about Rollouts.

use kit::{FakeNodes, fake_nodes};

use crate::docs::Reader;
use crate::rollouts::site;

async fn open(page: &str) -> (Reader, FakeNodes) {
    let server = &site().await.server;
    let namespace = server.namespace("ro-docs").await;
    let options = fake_nodes::Options::nodes(2).in_namespace(&namespace).binding_pods();
    let nodes = FakeNodes::start(server.client(), options).await;
    (Reader::open(server, &namespace, page).await, nodes)
}

#[track_caller]
fn assert_contains(printed: &str, parts: &[&str]) {
    for part in parts {
        assert!(printed.contains(part), "{part}: {printed}");
    }
}

/// How many Pods of an application run an image.
async fn running(page: &Reader, app: &str, image: &str) -> usize {
    let images = "-o jsonpath='{.items[*].spec.containers[0].image}'";
    let images = page.shell(&format!("kubectl get pods -l app={app} {images}")).await.success();
    images.split(' ').filter(|one| *one == image).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_rollouts_works() {
    let (mut page, _nodes) = open("rollouts.md").await;
    let printed = page.read("A workload and its Rollout").await;
    assert_contains(&printed, &["Healthy: releases CloneSet web in batches", "/web: at rest\n"]);
    let printed = page.read("What a release would do").await;
    assert_contains(
        &printed,
        &["with 5 Pods in batches", "1     1    4    -        approval", "create  BatchRelease  web"],
    );
    let printed = page.read("Release").await;
    assert_contains(&printed, &[" Step:             1/4\n", "     State:        StepPaused\n"]);
    assert_eq!(running(&page, "web", "nginx:1.26").await, 1);
    let printed = page.read("Why does it wait?").await;
    assert_contains(
        &printed,
        &["pods: 1 of 5 have new version", "remedy: kubectl kruise rollout approve rollout/web"],
    );
    assert!(printed.ends_with("not complete: code 2\n"), "{printed}");
    let printed = page.read("Approve, or jump").await;
    assert_contains(&printed, &["web approved\n", "rollout \"web\" successfully rolled out\n"]);
    assert_eq!(running(&page, "web", "nginx:1.26").await, 5);
    let printed = page.read("Roll back").await;
    assert!(printed.ends_with("False"), "{printed}");
    assert_eq!(running(&page, "web", "nginx:1.27").await, 0);
    let printed = page.read("Hold a release").await;
    assert_contains(&printed, &["web paused\n", "web approved\n", "web resumed\n"]);
    page.read("Stop acting").await;
    assert_eq!(running(&page, "web", "nginx:1.28").await, 5);
    let printed = page.read("A Deployment").await;
    assert_contains(&printed, &["rollout \"shop\" successfully rolled out\n"]);
    assert_eq!(running(&page, "shop", "nginx:1.26").await, 3);
    page.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_rollouts_and_traffic_works() {
    let (mut page, _nodes) = open("rollouts-traffic.md").await;
    let printed = page.read("An Ingress").await;
    assert_contains(
        &printed,
        &["header user=tester", "change  Service       shop", "create  Ingress       shop-canary"],
    );
    let printed = page.read("Chosen requests first, then a share").await;
    assert_contains(
        &printed,
        &["nginx.ingress.kubernetes.io/canary-by-header: user", "successfully rolled out"],
    );
    let weight = printed.lines().any(|line| line.starts_with("20"));
    assert!(weight, "{printed}");
    let (_, end) = printed.rsplit_once("successfully rolled out").unwrap();
    assert!(!end.contains("shop-canary"), "{end}");

    let weights = |old: u8, new: u8| {
        let backend = |name: &str, weight: u8| format!(r#""name":"{name}","port":80,"weight":{weight}"#);
        [backend("pay", old), backend("pay-canary", new)]
    };
    let printed = page.read("Blue-green").await;
    for weight in weights(50, 50) {
        assert_contains(&printed, &[&weight]);
    }
    let printed = page.read("Back to the old Pods, and on").await;
    for weight in weights(100, 0) {
        assert_contains(&printed, &[&weight]);
    }
    assert_contains(&printed, &["pay rolled back\n", "pay approved\n", "successfully rolled out"]);
    assert_eq!(
        (running(&page, "pay", "nginx:1.26").await, running(&page, "pay", "nginx:1.25").await),
        (2, 0)
    );
    page.end();
}
