//! What a watch shows of the Pods of a namespace, state after state: for claims about what never happens
//! and about what comes before what.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// The Pods of one moment, by name.
pub(super) type Moment = BTreeMap<String, Arc<Value>>;

/// Follows the Pods until it is dropped.
pub(super) struct Chronicle {
    moments: Arc<Mutex<Vec<Moment>>>,
    _task: JoinSet<()>,
}

impl Chronicle {
    /// Begins with the Pods that there are.
    pub(super) async fn begin(client: &Client, namespace: &str) -> Self {
        let pods = kit::objects::namespaced(client, &kit::objects::kind("v1", "Pod"), namespace);
        let moments = Arc::new(Mutex::new(Vec::new()));
        let (listed, began) = oneshot::channel();
        let (mut listed, record) = (Some(listed), Arc::clone(&moments));
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut events = watcher(pods, watcher::Config::default()).default_backoff().boxed();
            let mut moment = Moment::new();
            while let Some(event) = events.next().await {
                let Ok(event) = event else { continue };
                match event {
                    watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => {
                        moment.insert(pod.name_any(), Arc::new(serde_json::to_value(pod).unwrap()));
                    }
                    watcher::Event::Delete(pod) => drop(moment.remove(&pod.name_any())),
                    watcher::Event::Init => moment.clear(),
                    watcher::Event::InitDone => drop(listed.take().map(|listed| listed.send(()))),
                }
                if listed.is_none() {
                    record.lock().unwrap().push(moment.clone());
                }
            }
        });
        began.await.unwrap();
        Self { moments, _task: task }
    }

    /// All moments so far.
    pub(super) fn moments(&self) -> Vec<Moment> {
        self.moments.lock().unwrap().clone()
    }

    /// The least and the greatest of what `count` gives for the Pods that are not being deleted.
    pub(super) fn range(&self, count: impl Fn(&[&Value]) -> usize) -> (usize, usize) {
        let counts: Vec<usize> = self.moments().iter().map(|moment| count(&staying(moment))).collect();
        (*counts.iter().min().unwrap(), *counts.iter().max().unwrap())
    }

    /// The different values that `of` gave for one Pod, in their order.
    pub(super) fn course<T: PartialEq>(&self, pod: &str, of: impl Fn(&Value) -> T) -> Vec<T> {
        let mut course: Vec<T> =
            self.moments().iter().filter_map(|moment| moment.get(pod)).map(|pod| of(pod)).collect();
        course.dedup();
        course
    }
}

/// The Pods of a moment that are not being deleted.
pub(super) fn staying(moment: &Moment) -> Vec<&Value> {
    let pods = moment.values().map(|pod| &**pod);
    pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect()
}
