//! A rotation of authority and leaf while everybody calls
//! (docs/behaviour/server.md#rotation-of-certificates).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kit::wait_for;
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::testbed::*;

/// Between two calls: up to 200 in a second.
const PAUSE: Duration = Duration::from_millis(5);
/// How far the callers' view is behind what is published.
const LAG: Duration = Duration::from_secs(1);
/// From the publication to the new leaf: far more than [`LAG`].
const LONG: SignedDuration = SignedDuration::from_secs(15);
/// The most calls at a time.
const AT_A_TIME: usize = 64;
/// The fewest calls before the new leaf, and the fewest after it.
const FEWEST: usize = 20;

/// The bundles that the webhook entries published, and since when.
type History = Arc<Mutex<VecDeque<(Instant, Vec<String>)>>>;

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_fails_no_call_and_closes_no_connection() {
    let bed = Testbed::start().await;
    // Five years old: usable, and by a long time of renewal due together with its authority.
    let old = aged(YEAR * 5);
    bed.store(&old).await;
    let settings = || {
        let mut settings = bed.settings();
        settings.timing.uptake = LONG;
        settings
    };
    let mut replicas = [(); 2].map(|()| bed.replica(settings()));
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
    let answered = Arc::<AtomicUsize>::default();
    let calling = tokio::spawn(call(addresses.clone(), history.clone(), answered.clone(), stopped));

    // One replica with a longer time of renewal starts the rotation for all.
    let mut longer = settings();
    longer.timing.renew_before = YEAR * 6;
    let mut writer = bed.replica(longer);
    writer.registered().await;
    let started = Instant::now();
    let bundle = bed.bundle().await;
    assert_eq!(certs::certificates(&bundle).len(), 2);
    let new_only = bundle.strip_suffix(&old.authorities).expect("the old authority comes last");
    let calls = || answered.load(Ordering::Relaxed);
    let mut known = Vec::new();
    for address in &addresses {
        wait_for("the new leaf", async || connect(*address, new_only).await.map(drop)).await;
        known.push(calls());
    }
    assert!(started.elapsed() < Duration::from_secs(300), "nothing but the end of the wait wakes a replica");
    // The new leaf for a while.
    tokio::time::sleep(LAG).await;
    wait_for("calls that meet the new leaf", async || match calls() {
        now if now >= known[1] + FEWEST => Ok(()),
        now => Err(now),
    })
    .await;
    drop(stop);
    let failures = calling.await.unwrap();
    watching.abort();
    assert_eq!(failures, Vec::<String>::new(), "{} calls were answered", calls());
    assert!(known[0] >= FEWEST, "{known:?}");
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

/// Calls each address in turn, trusting what it sees; what failed.
async fn call(
    addresses: Vec<SocketAddr>,
    history: History,
    answered: Arc<AtomicUsize>,
    mut stopped: tokio::sync::oneshot::Receiver<()>,
) -> Vec<String> {
    let (mut calls, mut pause) = (JoinSet::new(), interval(PAUSE));
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let places = Arc::new(Semaphore::new(AT_A_TIME));
    let mut addresses = addresses.into_iter().cycle();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            _ = pause.tick() => {}
        }
        let place = places.clone().acquire_owned().await.unwrap();
        let (address, bundles) = (addresses.next().unwrap(), view(&history).unwrap());
        let bundle = bundles[calls.len() % bundles.len()].clone();
        let answered = answered.clone();
        calls.spawn(async move {
            let _place = place;
            let mut stream = connect(address, &bundle).await.map_err(|error| error.to_string())?;
            if !echoes(&mut stream).await {
                return Err("no answer".to_owned());
            }
            answered.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
    }
    calls.join_all().await.into_iter().filter_map(Result::err).collect()
}
