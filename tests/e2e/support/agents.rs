//! The agents of nodes, played by the test: they write the status of NodeImages as agents do that pull.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use jiff::Timestamp;
use kube::core::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::call;

/// The agents of all nodes. Those of nodes with `bad` in their name fail, those with `slow` go on to pull, and those
/// with `silent` never answer.
pub struct Agents {
    watched: Arc<Watched>,
    /// The agents end with it.
    _work: oneshot::Sender<()>,
}

#[derive(Default)]
struct Watched {
    unfinished: Mutex<HashSet<(String, String)>>,
    peak: AtomicUsize,
    counted: Mutex<String>,
}

impl Agents {
    /// Agents that work from now on, in a thread of their own: the runtime of a test ends with it, and others need the
    /// agents too.
    pub fn start(config: Config) -> Self {
        let watched = Arc::new(Watched::default());
        let seen = watched.clone();
        let (work, ended) = oneshot::channel();
        std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    () = seen.work(config) => {}
                    _ = ended => {}
                }
            });
        });
        Self { watched, _work: work }
    }

    /// Counts from now on how many nodes have an unfinished task for this image.
    pub fn count(&self, image: &str) {
        image.clone_into(&mut self.watched.counted.lock().unwrap());
        self.watched.unfinished.lock().unwrap().clear();
        self.watched.peak.store(0, Ordering::Relaxed);
    }

    /// The most there were at a time.
    pub fn peak(&self) -> usize {
        self.watched.peak.load(Ordering::Relaxed)
    }
}

impl Watched {
    async fn work(&self, config: Config) {
        let client = Client::try_from(config).unwrap();
        let kind = kit::objects::kind("apps.kruise.io/v1beta1", "NodeImage");
        let nodes: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        let mut events = watcher(nodes, watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            if let Ok(watcher::Event::Apply(node) | watcher::Event::InitApply(node)) = event {
                self.look(&client, &serde_json::to_value(node).unwrap()).await;
            }
        }
    }

    async fn look(&self, client: &Client, node: &Value) {
        let name = node["metadata"]["name"].as_str().unwrap();
        let phase = match name {
            name if name.contains("silent") => return,
            name if name.contains("slow") => "Pulling",
            name if name.contains("bad") => "Failed",
            _ => "Succeeded",
        };
        let mut statuses = node["status"]["imageStatuses"].clone();
        let (mut changed, mut succeeded) = (false, 0);
        for (image, spec) in node["spec"]["images"].as_object().into_iter().flatten() {
            for task in spec["tags"].as_array().into_iter().flatten() {
                let known = statuses[image]["tags"].as_array().cloned().unwrap_or_default();
                let of_tag = known.iter().find(|status| status["tag"] == task["tag"]);
                let is_done = of_tag.is_some_and(|status| status["version"] == task["version"]);
                self.note(name, image, is_done && phase != "Pulling");
                if is_done {
                    continue;
                }
                changed = true;
                succeeded += 1;
                let mut status = json!({"tag": task["tag"], "version": task["version"], "phase": phase,
                    "startTime": Timestamp::now().to_string()});
                if phase != "Pulling" {
                    status["completionTime"] =
                        json!(Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
                }
                if phase == "Failed" {
                    status["message"] = json!("no such image");
                }
                let mut tags: Vec<Value> =
                    known.into_iter().filter(|other| other["tag"] != task["tag"]).collect();
                tags.push(status);
                statuses[image] = json!({"tags": tags});
            }
        }
        if changed {
            let path = format!("/apis/apps.kruise.io/v1beta1/nodeimages/{name}/status");
            let status = json!({"status": {"desired": succeeded, "imageStatuses": statuses}});
            // A NodeImage that is deleted meanwhile needs no status.
            call(client, "PATCH", &path, &status).await;
        }
    }

    /// Keeps count of unfinished tasks.
    fn note(&self, node: &str, image: &str, is_done: bool) {
        if *self.counted.lock().unwrap() != image {
            return;
        }
        let mut unfinished = self.unfinished.lock().unwrap();
        let task = (node.to_owned(), image.to_owned());
        if is_done {
            unfinished.remove(&task);
        } else {
            unfinished.insert(task);
        }
        self.peak.fetch_max(unfinished.len(), Ordering::Relaxed);
    }
}
