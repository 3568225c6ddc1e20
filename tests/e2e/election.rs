//! Who leads, when clocks differ and when the API server is away (scenario 34 of docs/behaviour/server.md).

use std::time::Duration;

use cluster::election::{self, Settings};
use jiff::Timestamp;
use kit::{ApiServer, Options, wait_within};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

fn settings(namespace: &str, identity: &str) -> Settings {
    Settings {
        namespace: namespace.to_owned(),
        name: "election".to_owned(),
        identity: identity.to_owned(),
        lease_duration: Duration::from_secs(4),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(300),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_clock_is_behind_is_left_in_office_until_it_stops_renewing() {
    let client = kit::shared().await.client();
    let namespace = kit::namespace("skewed").await;
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let spec = || {
        let behind = Timestamp::now() - Duration::from_secs(60);
        json!({"holderIdentity": "other", "leaseDurationSeconds": 4, "renewTime": format!("{behind:.6}")})
    };
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "election", "namespace": namespace}, "spec": spec()});
    cluster::write::create(&client, &path, lease.to_string()).await.unwrap();
    let mut election = election::run(client.clone(), settings(&namespace, "me"));

    let (path, start) = (format!("{path}/election"), Instant::now());
    // Twice as long as the Lease holds.
    while start.elapsed() < Duration::from_secs(8) {
        let renewal = json!({"spec": spec()}).to_string();
        cluster::write::patch(&client, &path, cluster::write::PatchKind::Merge, renewal).await.unwrap();
        assert!(!*election.leading.borrow(), "its Lease was taken while it was renewed");
        sleep(Duration::from_millis(500)).await;
    }
    let renewed = Instant::now();
    let leads = timeout(Duration::from_secs(15), election.leading.wait_for(|leads| *leads)).await;
    assert!(leads.is_ok_and(|leads| leads.is_ok()), "an abandoned Lease is taken");
    // The last renewal is half a second old, and two looks may lie between.
    assert!(renewed.elapsed() > Duration::from_millis(2_500), "{:?}", renewed.elapsed());
    election.resign().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_cut_off_stops_before_its_lease_ends() {
    let server = ApiServer::start(Options::default()).await;
    let namespace = server.namespace("cut-off").await;
    let mut one = election::run(server.client(), settings(&namespace, "one"));
    one.leading.wait_for(|leads| *leads).await.unwrap();
    let mut other = election::run(server.client(), settings(&namespace, "other"));

    let stopped = Instant::now();
    server.stop();
    one.leading.wait_for(|leads| !*leads).await.unwrap();
    assert!(stopped.elapsed() < Duration::from_secs(4), "{:?}", stopped.elapsed());
    server.restart().await;
    wait_within(Duration::from_secs(30), "one of both to lead again", async || {
        match (*one.leading.borrow(), *other.leading.borrow()) {
            (true, false) | (false, true) => Ok(()),
            both => Err(both),
        }
    })
    .await;
    // Who resigns is followed at once.
    let (leader, follower) = if *one.leading.borrow() { (one, &mut other) } else { (other, &mut one) };
    leader.resign().await;
    let follows = timeout(Duration::from_secs(3), follower.leading.wait_for(|leads| *leads)).await;
    assert!(follows.is_ok_and(|leads| leads.is_ok()));
}
