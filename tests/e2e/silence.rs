//! An API server that does not reach the program, and says nothing of it
//! (docs/behaviour/server.md#silence-of-the-api-server).

use kit::builders::pod;
use kit::{ApiServer, wait_for};

use crate::product::{self, Options};
use crate::registration::{Replica, event};
use crate::support::{create, in_use};

/// Instead of ten minutes.
const WINDOW: &str = "--webhook-silence=20s";

/// One replica leads, the other is called; then nobody is.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_do_not_come_though_pods_are_created_are_noticed() {
    let server = ApiServer::start(kit::Options::default()).await;
    product::install(&server).await;
    let namespace = server.namespace("unheard").await;
    let client = server.client();
    let options = Options::default().argument(WINDOW).argument("--pod-failure-policy=Ignore");
    let leader = Replica::ready(&server, options.clone()).await;
    in_use(&server).await;
    wait_for("it to lead", async || {
        let metrics = leader.product.metrics().await;
        if metrics.contains("kruise_manager_is_leader 1") { Ok(()) } else { Err(metrics) }
    })
    .await;
    // Whoever has learnt of the second knows that calls do not reach the first.
    let leader = leader.unrouted().await;
    let called = Replica::ready(&server, options).await;

    // Pods come and are reviewed, for longer than it takes to notice a silence. What is tested is that nothing happens.
    let began = std::time::Instant::now();
    let mut number = 0;
    let mut another = async || {
        number += 1;
        let pod = pod(&format!("web-{number}")).in_namespace(&namespace).container("main", "nginx:1.25");
        let (code, answer) = create(&client, pod, "").await;
        assert_eq!(code, 201, "{answer:#}");
    };
    let silent = async || leader.metrics().await.lines().any(|line| line == "kutter_webhook_silent 1");
    while began.elapsed().as_secs() < 40 {
        another().await;
        assert!(!silent().await, "{}", leader.log());
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }

    called.stop().await;
    wait_for("the silence to be noticed", async || {
        another().await;
        if silent().await { Ok(()) } else { Err(leader.log()) }
    })
    .await;
    event(&client, "WebhookSilent").await;
    assert!(leader.log().contains("no review of one came for"), "{}", leader.log());

    let _endpoint = crate::service::join(&server, &leader).await;
    wait_for("calls to be heard again", async || {
        another().await;
        if silent().await { Err(leader.log()) } else { Ok(()) }
    })
    .await;
    assert!(leader.stop().await.success());
}
