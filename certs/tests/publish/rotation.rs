//! A rotation of authority and leaf while everybody calls
//! (docs/behaviour/server.md#rotation-of-certificates).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kit::wait_for;
use kube::{Api, Client};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::testbed::*;

/// Between two calls: 200 in a second.
const PAUSE: Duration = Duration::from_millis(5);
/// How far the callers' view is behind what is published.
const LAG: Duration = Duration::from_secs(1);

/// The bundles that the webhook entries published, and since when.
type History = Arc<Mutex<VecDeque<(Instant, Vec<String>)>>>;

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_fails_none_of_200_calls_a_second_and_closes_no_connection() {
    let bed = Testbed::start().await;
    // Five years old: usable, and by a long time of renewal due together with its authority.
    let old = aged(YEAR * 5);
    bed.store(&old).await;
    let mut replicas = [(); 2].map(|()| bed.replica(bed.settings()));
    let mut addresses = Vec::new();
    for replica in &mut replicas {
        replica.registered().await;
        addresses.push(replica.listen().await);
    }
    let mut open = connect(addresses[0], &old.authorities).await.unwrap();
    let history: History = Arc::default();
    let watching = tokio::spawn(watch(bed.client.clone(), history.clone()));
    wait_for("a view of what is published", async || view(&history).map(drop).ok_or(())).await;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let calling = tokio::spawn(call(addresses.clone(), history.clone(), stopped));

    // One replica with a longer time of renewal starts the rotation for all.
    let mut settings = bed.settings();
    settings.timing.renew_before = YEAR * 6;
    let mut writer = bed.replica(settings);
    writer.registered().await;
    let started = Instant::now();
    let bundle = bed.bundle().await;
    assert_eq!(certs::certificates(&bundle).len(), 2);
    let new_only = bundle.strip_suffix(&old.authorities).expect("the old authority comes last");
    for address in &addresses {
        wait_for("the new leaf", async || connect(*address, new_only).await.map(drop)).await;
    }
    assert!(started.elapsed() < Duration::from_secs(30), "nothing but the end of the wait wakes a replica");
    // The new leaf for a while.
    tokio::time::sleep(LAG).await;
    drop(stop);
    let (calls, time, failures) = calling.await.unwrap();
    watching.abort();
    assert_eq!(failures, Vec::<String>::new(), "of {calls} calls");
    assert!(calls as f64 > 0.9 * time.as_secs_f64() / PAUSE.as_secs_f64(), "{calls} in {time:?}");
    assert!(echoes(&mut open).await, "a connection from before the rotation still works");
    bed.assert_published(&bundle).await;
}

/// Writes down what the entries publish.
async fn watch(client: Client, history: History) {
    let configurations = Api::<MutatingWebhookConfiguration>::all(client);
    let mut pause = interval(Duration::from_millis(20));
    loop {
        pause.tick().await;
        // Whatever comes is the state of this moment or a later one.
        let now = Instant::now();
        let live = json!(configurations.get(MUTATING).await.unwrap());
        let entries = live["webhooks"].as_array().unwrap();
        let bundles: Vec<String> =
            entries.iter().map(|entry| decode(&entry["clientConfig"]["caBundle"])).collect();
        let mut history = history.lock().unwrap();
        if history.back().is_none_or(|(_, known)| *known != bundles) {
            history.push_back((now, bundles));
        }
    }
}

/// What an API server that is [`LAG`] behind trusts now.
fn view(history: &History) -> Option<Vec<String>> {
    let history = history.lock().unwrap();
    let seen = history.iter().rev().find(|(since, _)| since.elapsed() >= LAG);
    seen.map(|(_, bundles)| bundles.clone())
}

/// Calls each address in turn, trusting what it sees; how many calls, how long, and what failed.
async fn call(
    addresses: Vec<SocketAddr>,
    history: History,
    mut stopped: tokio::sync::oneshot::Receiver<()>,
) -> (usize, Duration, Vec<String>) {
    let (mut calls, mut pause, started) = (JoinSet::new(), interval(PAUSE), Instant::now());
    let mut addresses = addresses.into_iter().cycle();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            _ = pause.tick() => {}
        }
        let (address, bundles) = (addresses.next().unwrap(), view(&history).unwrap());
        let bundle = bundles[calls.len() % bundles.len()].clone();
        calls.spawn(async move {
            let mut stream = connect(address, &bundle).await.map_err(|error| error.to_string())?;
            if echoes(&mut stream).await { Ok(()) } else { Err("no answer".to_owned()) }
        });
    }
    let (count, time) = (calls.len(), started.elapsed());
    let failures = calls.join_all().await.into_iter().filter_map(Result::err).collect();
    (count, time, failures)
}
