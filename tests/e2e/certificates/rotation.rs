//! Rotations while the API server calls (docs/behaviour/server.md#callers and
//! docs/behaviour/server.md#rotation-of-certificates).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::builders::pod;
use kit::{ApiServer, objects, wait_for};
use kube::Client;
use serde_json::{Value, json};
use values::segment::{Segment, split};

use super::trusts;
use crate::conversion::samples;
use crate::product::{self, NAMESPACE, Options};
use crate::registration::{Replica, authority, patch, paths, published, secret_path};
use crate::support::{Stored, call, create, direct, in_use, pod_review};

/// The API server of these tests sees a change at once, and has this time nevertheless: what happens within it can be
/// checked.
const UPTAKE: &str = "--registration-uptake=10s";

/// The options of a replica that rotates soon.
pub fn impatient() -> Options {
    Options::default().argument(UPTAKE)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_under_load_loses_no_call() {
    let server = product::server(kit::Options::default()).await;
    let mut replicas = Vec::new();
    for _ in 0..2 {
        replicas.push(Replica::ready(&server, impatient()).await);
    }
    in_use(&server).await;
    published(&server.client()).await;
    let ports: Vec<u16> = replicas.iter().map(|replica| replica.product.port).collect();
    without_losing_a_call(&server, "CloneSet", async {
        replaces_its_segment(&server, &ports, &json!({"path-segments": null})).await;
        replaces_its_certificate(&server, &ports).await;
    })
    .await;
    for replica in replicas {
        replica.stop().await;
    }
}

/// Makes the program register another segment by a change of its Secret. Calls with the former one are answered for a
/// while, and then no more.
async fn replaces_its_segment(server: &ApiServer, ports: &[u16], change: &Value) {
    let client = server.client();
    let former = registered(&client, None).await;
    patch(&client, &secret_path("kruise-webhook-certs"), &json!({"data": change})).await;
    let present = registered(&client, Some(former)).await;
    let late = former.before("/mutate-pod");
    let asked = pod("asked").in_namespace("default").container("main", "nginx:1.25").build();
    let asked = pod_review("default", "CREATE", "", &asked);
    let bundle = authority(&client).await;
    let mut callers = Vec::new();
    for port in ports {
        let caller = direct(*port, &bundle).await;
        let (code, answer) = call(&caller, "POST", &late, &asked).await;
        assert_eq!((code, &answer["response"]["allowed"]), (200, &json!(true)), "{answer:#}");
        callers.push(caller);
    }
    for caller in &callers {
        wait_for("the former segment to count no more", async || {
            match call(caller, "POST", &late, &asked).await {
                (404, _) => Ok(()),
                answer => Err(answer),
            }
        })
        .await;
    }
    let stored = objects::secret_text(&client, NAMESPACE, "kruise-webhook-certs", "path-segments").await;
    assert_eq!(Segment::parse_all(&stored), [present]);
}

/// An authority whose key is lost is replaced, and with it the certificate and the segment.
async fn replaces_its_certificate(server: &ApiServer, ports: &[u16]) {
    let client = server.client();
    let former = decoded(&authority(&client).await);
    let lost = json!({"ca-key.pem": null, "cert.pem": null, "tls.crt": null});
    replaces_its_segment(server, ports, &lost).await;
    let bundle = decoded(&published(&client).await);
    let youngest = bundle.strip_suffix(&former).expect("the former authority comes last");
    for port in ports {
        wait_for("the new certificate to be served", async || {
            if trusts(*port, &STANDARD.encode(youngest)).await { Ok(()) } else { Err(port) }
        })
        .await;
    }
}

fn decoded(bundle: &str) -> String {
    String::from_utf8(STANDARD.decode(bundle).unwrap()).unwrap()
}

/// Waits until everything is called behind one segment, which is not this one.
async fn registered(client: &Client, former: Option<Segment>) -> Segment {
    wait_for("one segment everywhere", async || {
        let segments: BTreeSet<Option<Segment>> =
            paths(client).await.iter().map(|path| split(path).0).collect();
        match Vec::from_iter(segments)[..] {
            [Some(segment)] if Some(segment) != former => Ok(segment),
            ref segments => Err(segments.len()),
        }
    })
    .await
}

/// Has the API server ask for reviews and conversions until the changes are over: of Pods, and of a kind that is stored
/// in another version. None fails.
pub async fn without_losing_a_call(server: &ApiServer, kind: &str, changes: impl Future<Output = ()>) {
    let client = server.client();
    let namespace = server.namespace("load").await;
    let mut samples = samples(&namespace, "v1alpha1").into_iter();
    let mut workload = samples.find(|sample| sample.object["kind"] == kind).unwrap().object;
    let stored = Stored::create(&client, workload.clone()).await;
    workload["metadata"]["name"] = "asked".into();
    let web = pod("asked").in_namespace(&namespace).container("main", "nginx:1.25").build();
    let trial = Stored::existing(&client, format!("{}?dryRun=All", stored.path), Value::Null);
    let edit = json!({"metadata": {"labels": {"team": "y"}}});
    let over = AtomicBool::new(false);
    let changes = async {
        changes.await;
        over.store(true, Ordering::Relaxed);
    };
    let ((), pods, workloads, edits, reads) = futures::join!(
        changes,
        calls(&over, async || create(&client, web.clone(), "?dryRun=All").await),
        calls(&over, async || create(&client, workload.clone(), "?dryRun=All").await),
        calls(&over, async || trial.try_patch(&edit).await),
        calls(&over, async || stored.get().await),
    );
    let counts = [pods, workloads, edits, reads];
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
}

/// Calls on and on; how often until it was over.
async fn calls(over: &AtomicBool, ask: impl AsyncFn() -> (u16, Value)) -> usize {
    const PAUSE: Duration = Duration::from_millis(50);
    let mut pace = tokio::time::interval(PAUSE);
    let mut count = 0;
    while !over.load(Ordering::Relaxed) {
        pace.tick().await;
        let (code, answer) = ask().await;
        assert!((200..300).contains(&code), "after {count} calls: {answer:#}");
        count += 1;
    }
    count
}
