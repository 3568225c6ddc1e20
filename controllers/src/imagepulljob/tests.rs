use jiff::Timestamp;
use kit::double::Objects;
use planner::server::world::World;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::fake;
use crate::workload::events::Told;
use crate::workload::pods::Pods;

const JOB: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/imagepulljobs/pull";
const NODES: &str = "/apis/apps.kruise.io/v1beta1/nodeimages";

struct Site {
    controller: Controller,
    server: Objects,
    requests: fake::Requests,
    _told: mpsc::Receiver<Told>,
}

fn key() -> Key {
    ("shop".to_owned(), "pull".to_owned())
}

/// The answer to a JSON Patch of a NodeImage. Node `n2` refuses all.
fn patched(server: &Objects, path: &str, patch: &str) -> (u16, String) {
    let Some(stored) = server.get(path) else { return (404, fake::status(404)) };
    if path.ends_with("/n2") {
        return (422, fake::status(422));
    }
    let operations: Value = serde_json::from_str(patch).unwrap();
    if operations[0]["value"] != stored["metadata"]["resourceVersion"] {
        return fake::conflict("Conflict");
    }
    let mut after = stored;
    for operation in operations.as_array().unwrap() {
        let pointer = operation["path"].as_str().unwrap();
        match pointer {
            "/spec" => after["spec"] = operation["value"].clone(),
            "/metadata/resourceVersion" => {}
            _ => after["spec"]["images"]["nginx"] = operation["value"].clone(),
        }
    }
    (200, server.put(path, after).to_string())
}

impl Site {
    /// A job on so many nodes, from `n1` on but without `n2`.
    fn open(nodes: usize, parallelism: usize) -> Self {
        let server = Objects::default();
        let answering = server.clone();
        let (client, requests) = fake::api_server(move |request| {
            if request.method == "PATCH" && request.path.starts_with(NODES) {
                return patched(&answering, request.path, request.body);
            }
            answering.answer(&request)
        });
        let context = Context::fixed(client, World::new("kruise-system"));
        let stores =
            Arc::new(Stores::new(Arc::new(Pods::new(false)), context.index.clone(), "kruise-system"));
        let (teller, told) = events::teller("PullImage");
        let controller = Controller::new(context, Arc::new(Images::default()), stores, teller);
        let site = Self { controller, server, requests, _told: told };
        let job = json!({
            "metadata": {"namespace": "shop", "name": "pull", "uid": "u", "generation": 1},
            "spec": {"image": "nginx:1", "parallelism": parallelism, "completionPolicy": {"type": "Always"}},
        });
        let job = site.server.put(JOB, job);
        site.controller.images.jobs.apply(Job::read(&job.to_string()).unwrap());
        (1..=nodes + 1).filter(|number| *number != 2).for_each(|number| site.node(number));
        site
    }

    /// The API server and the watch have this node.
    fn node(&self, number: usize) {
        let metadata = json!({"name": format!("n{number}"), "uid": format!("u{number}")});
        let node = json!({"metadata": metadata, "spec": {}, "status": {"desired": 0}});
        self.see(&self.server.put(&format!("{NODES}/n{number}"), node));
    }

    fn see(&self, node: &Value) {
        self.controller.images.nodes.apply(NodeImage::read(&node.to_string()).unwrap());
    }

    /// The agents pull everything that they are asked for.
    fn pull(&self) {
        for (path, mut node) in self.server.under(NODES) {
            let task = &node["spec"]["images"]["nginx"]["tags"][0];
            if task.is_null() || !node["status"]["imageStatuses"].is_null() {
                continue;
            }
            let status = json!({"tag": "1", "version": task["version"], "phase": "Succeeded",
                "completionTime": Timestamp::now().to_string()});
            node["status"]["imageStatuses"] = json!({"nginx": {"tags": [status]}});
            self.see(&self.server.put(&path, node));
        }
    }

    fn count(&self, what: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|request| request.starts_with(what)).count()
    }

    /// Goes on until the job is over.
    async fn complete(&self) {
        while self.server.get(JOB).unwrap()["status"]["completionTime"].is_null() {
            match self.controller.reconcile(&key()).await.unwrap() {
                Next::After(pause) => tokio::time::sleep(pause).await,
                Next::Done => {}
            }
            self.pull();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_on_thousands_of_nodes_costs_one_write_for_each_and_few_for_itself() {
    for (nodes, parallelism) in [(5000, 5000), (600, 10)] {
        let site = Site::open(nodes, parallelism);
        let begun = Instant::now();
        site.complete().await;
        assert_eq!(site.count(&format!("PATCH {NODES}/")), nodes);
        assert_eq!(site.count(&format!("GET {NODES}")), 0);
        let most = 2 + usize::try_from(begun.elapsed().as_secs()).unwrap() / 3;
        let written = site.count(&format!("PATCH {JOB}/status"));
        assert!(written <= most, "{written} of {most}");
        let status = site.server.get(JOB).unwrap()["status"].clone();
        assert_eq!((&status["desired"], &status["succeeded"]), (&json!(nodes), &json!(nodes)));
        // Two writes for the finalizer, which is there before and gone after.
        site.controller.finish(&key(), &site.controller.images.jobs.get(&key()).unwrap()).await.unwrap();
        assert_eq!(site.count(&format!("PATCH {JOB} ")), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_changed_meanwhile_is_read_again() {
    let site = Site::open(1, 1);
    let path = format!("{NODES}/n1");
    let mut changed = site.server.get(&path).unwrap();
    changed["spec"] = json!({"images": {"other": {"tags": []}}});
    site.server.put(&path, changed);
    site.complete().await;
    assert_eq!((site.count("GET "), site.count(&format!("PATCH {path}"))), (1, 2));
    let images = site.server.get(&path).unwrap()["spec"]["images"].clone();
    assert!(images.get("other").is_some() && images.get("nginx").is_some(), "{images}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_refuses_leaves_its_turn_to_the_next() {
    let site = Site::open(2, 1);
    site.node(2);
    let first = site.controller.reconcile(&key()).await.unwrap();
    assert!(matches!(first, Next::Done | Next::After(_)));
    site.pull();
    tokio::time::sleep(SOON).await;
    let error = site.controller.reconcile(&key()).await.unwrap_err();
    assert!(
        matches!(&error, ReconcileError::Nodes { failed: 1, first } if first.starts_with("n2: ")),
        "{error}"
    );
    assert_eq!(site.count(&format!("PATCH {NODES}/n3")), 1);
}
