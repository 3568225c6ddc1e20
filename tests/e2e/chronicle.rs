//! What a watch shows of the Pods of a namespace, state after state: for claims about what never happens
//! and about what comes before what.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use kit::objects::condition;
use kit::wait_for;
use kube::api::{Api, DynamicObject, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// The Pods of one moment, by name.
pub type Moment = BTreeMap<String, Arc<Value>>;

/// Many times what a step takes on an idle machine, and below a clock of a second.
const NO_CLOCK: Duration = Duration::from_millis(900);

/// Follows the Pods until it is dropped.
pub struct Chronicle {
    pods: Api<DynamicObject>,
    moments: Arc<Mutex<Vec<(Instant, Moment)>>>,
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
                    record.lock().unwrap().push((Instant::now(), moment.clone()));
                    _ = listed.take().map(|listed| listed.send(()));
                }
            }
        });
        began.await.unwrap();
        Self { pods, moments, _task: task }
    }

    /// All moments so far, once the watch shows what a list does.
    pub async fn moments(&self) -> Vec<Moment> {
        self.timed().await.into_iter().map(|(_, moment)| moment).collect()
    }

    /// [`moments`](Self::moments), and when the watch showed them.
    async fn timed(&self) -> Vec<(Instant, Moment)> {
        wait_for("the watch to show the newest Pods", async || {
            let list = self.pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let listed: BTreeMap<String, String> =
                list.iter().map(|pod| (pod.name_any(), pod.resource_version().unwrap_or_default())).collect();
            let moments = self.moments.lock().unwrap().clone();
            let version =
                |pod: &Value| pod["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
            let shown = moments.last().map(|(_, moment)| {
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

    /// Pods had their turns one by one, each as soon as the kubelet had reported the last of the one before
    /// (docs/behaviour/in-place-update.md#what-a-rollout-waits-for). `has_begun` says whose turn has come.
    pub async fn assert_no_clock(&self, kind: &str, has_begun: impl Fn(&Value) -> bool) {
        let report = |pod: &Arc<Value>| {
            let status = &pod["status"];
            (
                status["phase"].clone(),
                status["containerStatuses"].clone(),
                condition(pod, "Ready")["status"].clone(),
            )
        };
        let moments = self.timed().await;
        let mut turns: Vec<(usize, &String)> = Vec::new();
        for (at, (_, moment)) in moments.iter().enumerate() {
            let begun = moment.iter().filter(|(_, pod)| has_begun(pod)).map(|(name, _)| name);
            let new: Vec<_> = begun
                .filter(|name| !turns.iter().any(|(_, known)| known == name))
                .map(|name| (at, name))
                .collect();
            turns.extend(new);
        }
        let mut pauses = Vec::new();
        for turn in turns.windows(2) {
            let [(_, before), (at, _)] = turn else { continue };
            let reported = moments[..*at].windows(2).rev().find(|pair| {
                let [old, new] = [&pair[0], &pair[1]].map(|(_, moment)| moment.get(*before).map(report));
                old != new
            });
            pauses.push(moments[*at].0.duration_since(reported.expect("a report")[1].0));
        }
        pauses.sort_unstable();
        let median = pauses[pauses.len() / 2];
        println!("{kind}: the next step {median:?} after the last report, as the median of {pauses:?}");
        assert!(median < NO_CLOCK, "{kind}: {pauses:?}");
    }

    /// The last moment that the watch has shown so far.
    pub fn latest(&self) -> Moment {
        self.moments.lock().unwrap().last().map(|(_, moment)| moment.clone()).unwrap_or_default()
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
