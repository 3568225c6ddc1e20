//! The Pods that wait for a controller: all are watched, only those are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::Raw;
use cluster::watched::{Key, WatchedObject};
use futures::StreamExt;
use kube::core::ApiResource;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use planner::launch_priority::release::PodFacts;
use planner::readiness_gate;
use tokio::sync::mpsc::UnboundedSender;
use tracing::debug;

use crate::now;

/// Pods that wait for a condition or for the start of a container, as last seen.
#[derive(Default)]
pub struct Pods(Mutex<BTreeMap<Key, Raw>>);

impl Pods {
    /// The Pod as last seen, if it still waits for something.
    pub fn get(&self, key: &Key) -> Option<Raw> {
        self.lock().get(key).cloned()
    }

    // The map is held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Raw>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps `pods` current and sends the key of every Pod that a controller must look at. Ends never.
pub async fn watch(
    client: Client,
    pods: std::sync::Arc<Pods>,
    readiness: UnboundedSender<Key>,
    launch: UnboundedSender<Key>,
) {
    let resource = ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        plural: "pods".to_owned(),
    };
    let api: Api<WatchedObject> = Api::all_with(client, &resource);
    let mut events = watcher(api, Config::default().page_size(100)).default_backoff().boxed();
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(pod)) => {
                listed.insert(pod.key());
                see(&pods, &pod, &readiness, &launch);
            }
            Ok(Event::InitDone) => {
                let listed = std::mem::take(&mut listed);
                pods.lock().retain(|key, _| listed.contains(key));
            }
            Ok(Event::Apply(pod)) => see(&pods, &pod, &readiness, &launch),
            Ok(Event::Delete(pod)) => drop(pods.lock().remove(&pod.key())),
            Err(error) => debug!(%error, "the watch of Pods failed, will be tried again"),
        }
    }
}

fn see(pods: &Pods, pod: &WatchedObject, readiness: &UnboundedSender<Key>, launch: &UnboundedSender<Key>) {
    let key = pod.key();
    let needs_condition = matches!(readiness_gate::initial_condition(pod.json(), now().now), Ok(Some(_)));
    let needs_release = PodFacts::read(pod.json())
        .is_ok_and(|facts| !facts.completed && !facts.containers_ready && !facts.waiting.is_empty());
    if !needs_condition && !needs_release {
        pods.lock().remove(&key);
        return;
    }
    pods.lock().insert(key.clone(), pod.raw().clone());
    // A closed queue means that this task is about to be stopped as well.
    if needs_condition {
        drop(readiness.send(key.clone()));
    }
    if needs_release {
        drop(launch.send(key));
    }
}
