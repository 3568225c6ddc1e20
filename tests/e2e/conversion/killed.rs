//! The webhook is killed in the middle of conversions
//! (docs/behaviour/api-and-registration.md#version-conversion).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kit::{ApiServer, wait_for};
use kube::Client;
use serde_json::{Value, json};

use super::{COUNTED, Sample, content, samples};
use crate::product::{self, Options, Product};
use crate::service;
use crate::support::{Stored, call, in_use};

const KILLS: usize = 3;

/// An object that somebody edits in its other version, over and over.
struct Edited {
    stored: Stored,
    /// As it was first, without what edits change.
    before: Value,
    /// The same in the other version.
    other: Value,
    /// Edits that were acknowledged, and those that were tried.
    acknowledged: Arc<AtomicUsize>,
    tried: Arc<AtomicUsize>,
}

/// What no edit changes.
fn unedited(mut object: Value) -> Value {
    for label in ["edit", "outage", super::HASH] {
        object["metadata"]["labels"].as_object_mut().unwrap().remove(label);
    }
    if COUNTED.iter().any(|kind| object["kind"] == *kind) {
        object["status"] = Value::Null;
        let is_filled_in = object["kind"] == "StatefulSet";
        let divides = object["kind"] == "WorkloadSpread" || is_filled_in;
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            annotations.remove("kutter.io/sidecarset-pods");
            // What its older version lacks is all in its status, or filled in.
            if divides {
                annotations.remove("kutter.io/converted-fields");
            }
        }
        let metadata = object["metadata"].as_object_mut().unwrap();
        if metadata["annotations"].as_object().is_none_or(serde_json::Map::is_empty) {
            metadata.remove("annotations");
        }
    }
    content(object)
}

impl Edited {
    async fn create(client: &Client, sample: &Sample) -> Self {
        let stored = sample.create(client).await;
        let before = unedited(stored.get().await.1);
        let other = unedited(stored.in_version("v1alpha1").get().await.1);
        Self { stored, before, other, acknowledged: Arc::default(), tried: Arc::default() }
    }

    /// Reads and writes it in the other version until `stop`.
    fn edit(&self, client: Client, stop: Arc<AtomicBool>) -> tokio::task::JoinHandle<()> {
        let path = self.stored.in_version("v1alpha1").path;
        let (acknowledged, tried) = (self.acknowledged.clone(), self.tried.clone());
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let (code, mut object) = call(&client, "GET", &path, &Value::Null).await;
                if code != 200 {
                    continue;
                }
                let number = tried.fetch_add(1, Ordering::Relaxed) + 1;
                object["metadata"]["labels"]["edit"] = json!(number.to_string());
                if call(&client, "PUT", &path, &object).await.0 == 200 {
                    acknowledged.store(number, Ordering::Relaxed);
                }
            }
        })
    }

    /// The edit that was acknowledged last.
    fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// The object is what it was, with an edit that is no older than the one that was acknowledged.
    fn check(&self, acknowledged: usize, now: Value) {
        let edit = now["metadata"]["labels"]["edit"].as_str().unwrap_or("0").parse::<usize>().unwrap();
        let tried = self.tried.load(Ordering::Relaxed);
        assert!((acknowledged..=tried).contains(&edit), "{edit} of {acknowledged} to {tried}");
        assert_eq!(unedited(now), self.before, "{}", self.stored.path);
    }

    /// It is as whole in the other version as it was before all edits.
    fn check_other(&self, (code, now): (u16, Value)) {
        assert_eq!(code, 200, "{now:#}");
        assert_eq!(unedited(now), self.other, "{}", self.stored.path);
    }
}

/// Reads in the stored version need no webhook; after the restart both versions are whole.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_when_the_webhook_is_killed_in_the_middle_of_conversions() {
    let server = product::server(kit::Options::default()).await;
    let mut running = started(&server).await;
    let (client, namespace) = (server.client(), server.namespace("killed").await);
    let mut all = Vec::new();
    for sample in samples(&namespace, "v1beta1") {
        all.push(Edited::create(&client, &sample).await);
    }
    for _ in 0..KILLS {
        let stop = Arc::new(AtomicBool::new(false));
        // Each editor has connections of its own.
        let editors: Vec<_> = all.iter().map(|one| one.edit(server.client(), stop.clone())).collect();
        let counts = || all.iter().map(Edited::acknowledged).collect::<Vec<_>>();
        let before = counts();
        wait_for("every object to be edited", async || {
            let now = counts();
            if now.iter().zip(&before).all(|(now, before)| now > before) { Ok(()) } else { Err(now) }
        })
        .await;
        running.0.kill().await;
        reads_go_on(&client, &all).await;
        stop.store(true, Ordering::Relaxed);
        for editor in editors {
            editor.await.unwrap();
        }
        running.1.leave().await;
        running = started(&server).await;
        for one in &all {
            one.check(one.acknowledged(), one.stored.get().await.1);
            one.check_other(one.stored.in_version("v1alpha1").get().await);
        }
    }
    assert!(running.0.stop().await.success());
}

async fn started(server: &ApiServer) -> (Product, service::Endpoint) {
    let mut product = Product::start(server, Options::default()).await;
    let endpoint = service::join(server, &product).await;
    product.wait_ready().await;
    in_use(server).await;
    (product, endpoint)
}

/// With nobody there to convert.
async fn reads_go_on(client: &Client, all: &[Edited]) {
    let mut unconverted = 0;
    for one in all {
        // Kinds that the API server converts by itself are edited all the time.
        let acknowledged = one.acknowledged();
        let (code, now) = one.stored.get().await;
        assert_eq!(code, 200, "{now:#}");
        one.check(acknowledged, now);
        let list = one.stored.path.rsplit_once('/').unwrap().0;
        let (code, list) = call(client, "GET", list, &Value::Null).await;
        assert_eq!(code, 200, "{list:#}");
        // A list of images has jobs of its own.
        let items = list["items"].as_array().unwrap().iter();
        let ours = items.filter(|item| item["metadata"]["ownerReferences"].is_null()).count();
        assert_eq!(ours, 1, "{list:#}");
        match one.stored.in_version("v1alpha1").get().await {
            (200, now) => one.check_other((200, now)),
            (500, answer) if answer.to_string().contains("conversion webhook for") => unconverted += 1,
            (code, answer) => panic!("{code} {answer:#}"),
        }
        // Where no webhook has a say, they can be written as well.
        let edit = json!({"metadata": {"labels": {"outage": "x"}}});
        match call(client, "PATCH", &one.stored.path, &edit).await {
            (200, now) => one.check(acknowledged, now),
            (500, answer) if answer.to_string().contains("failed calling webhook") => {}
            (code, answer) => panic!("{code} {answer:#}"),
        }
    }
    assert!(unconverted > 0, "the webhook answers still");
}
