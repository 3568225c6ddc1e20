//! Who leads, when clocks differ and when the API server is away (scenario 34 of docs/behaviour/server.md).

use std::time::Duration;

use cluster::election::{self, Settings};
use jiff::Timestamp;
use kit::{ApiServer, Options, wait_for};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

/// Longer than this machine should stall.
const LEASE: Duration = Duration::from_secs(30);

fn settings(namespace: &str, identity: &str) -> Settings {
    Settings {
        namespace: namespace.to_owned(),
        name: "election".to_owned(),
        identity: identity.to_owned(),
        lease_duration: LEASE,
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
        json!({"holderIdentity": "other", "leaseDurationSeconds": LEASE.as_secs(),
            "renewTime": format!("{behind:.6}")})
    };
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "election", "namespace": namespace}, "spec": spec()});
    cluster::write::create(&client, &path, lease.to_string()).await.unwrap();
    let mut election = election::run(client.clone(), settings(&namespace, "me"));

    let (path, start) = (format!("{path}/election"), Instant::now());
    let mut renewed = start;
    // Longer than the Lease holds.
    while start.elapsed() < LEASE + Duration::from_secs(2) {
        renewed = Instant::now();
        let renewal = json!({"spec": spec()}).to_string();
        cluster::write::patch(&client, &path, cluster::write::PatchKind::Merge, renewal).await.unwrap();
        assert!(!*election.leading.borrow(), "its Lease was taken while it was renewed");
        sleep(Duration::from_millis(500)).await;
    }
    let leads = timeout(LEASE * 4, election.leading.wait_for(|leads| *leads)).await;
    assert!(leads.is_ok_and(|leads| leads.is_ok()), "an abandoned Lease is taken");
    // The Lease counts from the look that found it renewed.
    assert!(renewed.elapsed() >= LEASE, "{:?}", renewed.elapsed());
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
    assert!(stopped.elapsed() < LEASE, "{:?}", stopped.elapsed());
    server.restart().await;
    wait_for("one of both to lead again", async || match (*one.leading.borrow(), *other.leading.borrow()) {
        (true, false) | (false, true) => Ok(()),
        both => Err(both),
    })
    .await;
    // Who resigns is followed at once.
    let (leader, follower) = if *one.leading.borrow() { (one, &mut other) } else { (other, &mut one) };
    leader.resign().await;
    let follows = timeout(LEASE - Duration::from_secs(1), follower.leading.wait_for(|leads| *leads)).await;
    assert!(follows.is_ok_and(|leads| leads.is_ok()));
}
