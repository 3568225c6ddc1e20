//! An API server that does not reach the program, and says nothing of it
//! (docs/behaviour/server.md#silence-of-the-api-server).

use kit::wait_for;
use serde_json::json;

use crate::product::{self, Options, Product};
use crate::registration::{Replica, event, get, patch};
use crate::support::in_use;

/// Instead of ten minutes.
const WINDOW: &str = "--webhook-silence=5s";

/// What the leader says of the silence.
async fn silent(leader: &Product, expected: bool) {
    let line = format!("kutter_webhook_silent {}", u8::from(expected));
    wait_for(&line, async || {
        if leader.metrics().await.lines().any(|known| known == line) { Ok(()) } else { Err(leader.log()) }
    })
    .await;
}

/// One replica leads, the other is called; then nobody is.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_do_not_come_are_noticed_though_nobody_creates_pods() {
    let server = product::server(kit::Options::default()).await;
    let client = server.client();
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    patch(&client, "/api/v1/namespaces/default", &json!({"metadata": {"labels": labels}})).await;
    // What is refused is reported by details alone.
    let options =
        Options::default().argument(WINDOW).argument("--pod-failure-policy=Ignore").argument("--v=5");
    // Behind the Service is another replica than the one that leads.
    let called = Replica::ready(&server, options.clone().argument("--webhooks-only")).await;
    let mut leader = Product::start(&server, options).await;
    leader.wait_ready().await;
    in_use(&server).await;
    wait_for("it to lead", async || {
        let metrics = leader.metrics().await;
        if metrics.contains("kruise_manager_is_leader 1") { Ok(()) } else { Err(metrics) }
    })
    .await;

    // The second answers what the first asks.
    let reviews = "kutter_admission_reviews{code=\"200\",webhook=\"/mutate-pod\"} ";
    let answered = async || {
        let metrics = called.product.metrics().await;
        let count = metrics.lines().find_map(|line| line.strip_prefix(reviews)).unwrap_or("0").to_owned();
        count.parse::<u64>().unwrap()
    };
    let before = answered().await;
    wait_for("the leader to ask three times", async || match answered().await {
        count if count >= before + 3 => Ok(()),
        count => Err((count, leader.log())),
    })
    .await;
    silent(&leader, false).await;
    for words in ["without its review", "violates PodSecurity"] {
        assert!(!leader.log().contains(words), "{words}: {}", leader.log());
    }
    let pods = get(&client, "/api/v1/pods").await;
    assert_eq!(pods["items"], json!([]), "nothing is stored");

    called.stop().await;
    silent(&leader, true).await;
    event(&client, "WebhookSilent").await;
    assert!(leader.log().contains("a Pod was let in without its review"), "{}", leader.log());

    let _endpoint = crate::service::join(&server, &leader).await;
    silent(&leader, false).await;
    assert!(leader.log().contains("calls for reviews of Pods again"), "{}", leader.log());
    assert!(leader.stop().await.success());
}
