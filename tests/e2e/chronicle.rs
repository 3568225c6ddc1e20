//! What a watch shows of the Pods of a namespace, state after state: for claims about what never happens
//! and about what comes before what.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use kit::wait_for;
use kube::api::{Api, DynamicObject, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// The Pods of one moment, by name.
pub type Moment = BTreeMap<String, Arc<Value>>;

/// Follows the Pods until it is dropped.
pub struct Chronicle {
    pods: Api<DynamicObject>,
    moments: Arc<Mutex<Vec<Moment>>>,
    _task: JoinSet<()>,
}

impl Chronicle {
    /// Begins with the Pods that there are.
    pub async fn begin(client: &Client, namespace: &str) -> Self {
        let pods: Api<DynamicObject> =
            kit::objects::namespaced(client, &kit::objects::kind("v1", "Pod"), namespace);
        let moments = Arc::new(Mutex::new(Vec::new()));
        let (listed, began) = oneshot::channel();
        let (mut listed, record, watched) = (Some(listed), Arc::clone(&moments), pods.clone());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut events = watcher(watched, watcher::Config::default()).default_backoff().boxed();
            let mut moment = Moment::new();
            let mut is_listing = true;
            while let Some(event) = events.next().await {
                let Ok(event) = event else { continue };
                match event {
                    watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => {
                        moment.insert(pod.name_any(), Arc::new(serde_json::to_value(pod).unwrap()));
                    }
                    watcher::Event::Delete(pod) => drop(moment.remove(&pod.name_any())),
                    watcher::Event::Init => {
                        is_listing = true;
                        moment.clear();
                    }
                    watcher::Event::InitDone => is_listing = false,
                }
                // A list is one moment, also when the watch begins anew.
                if !is_listing {
                    record.lock().unwrap().push(moment.clone());
                    _ = listed.take().map(|listed| listed.send(()));
                }
            }
        });
        began.await.unwrap();
        Self { pods, moments, _task: task }
    }

    /// All moments so far, once the watch shows what a list does.
    pub async fn moments(&self) -> Vec<Moment> {
        wait_for("the watch to show the newest Pods", async || {
            let list = self.pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let listed: BTreeMap<String, String> =
                list.iter().map(|pod| (pod.name_any(), pod.resource_version().unwrap_or_default())).collect();
            let moments = self.moments.lock().unwrap().clone();
            let version =
                |pod: &Value| pod["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
            let shown = moments.last().map(|moment| {
                moment.iter().map(|(name, pod)| (name.clone(), version(pod))).collect::<BTreeMap<_, _>>()
            });
            if shown.as_ref() == Some(&listed) {
                Ok(moments)
            } else {
                Err(format!("{shown:?} instead of {listed:?}"))
            }
        })
        .await
    }

    /// The least and the greatest of what `count` gives for the Pods that are not being deleted.
    pub async fn range(&self, count: impl Fn(&[&Value]) -> usize) -> (usize, usize) {
        let counts: Vec<usize> = self.moments().await.iter().map(|moment| count(&staying(moment))).collect();
        (*counts.iter().min().unwrap(), *counts.iter().max().unwrap())
    }

    /// The different values that `of` gave for one Pod, in their order.
    pub async fn course<T: PartialEq>(&self, pod: &str, of: impl Fn(&Value) -> T) -> Vec<T> {
        let moments = self.moments().await;
        let mut course: Vec<T> =
            moments.iter().filter_map(|moment| moment.get(pod)).map(|pod| of(pod)).collect();
        course.dedup();
        course
    }

    /// The names of the Pods in the order in which they came to be as `holds` says.
    pub async fn order(&self, holds: impl Fn(&Value) -> bool) -> Vec<String> {
        let mut order = Vec::new();
        for moment in self.moments().await {
            let found = moment.iter().filter(|(_, pod)| holds(pod)).map(|(name, _)| name.clone());
            let new: Vec<String> = found.filter(|name| !order.contains(name)).collect();
            order.extend(new);
        }
        order
    }
}

/// The Pods of a moment that are not being deleted.
pub fn staying(moment: &Moment) -> Vec<&Value> {
    let pods = moment.values().map(|pod| &**pod);
    pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect()
}
