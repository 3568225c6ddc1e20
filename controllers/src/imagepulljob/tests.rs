use admission::world::World;
use jiff::Timestamp;
use kinds::imagepulljob::copies;
use kit::double::Objects;
use serde_json::{Value, json};
use tokio::time::Instant;

use tokio::sync::mpsc;

use super::*;
use crate::fake;
use crate::workload::pods::Pods;
use crate::workload::store::follow::{Readable, Sink};
use cluster::event_sender::PendingEvent;

const JOB: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/imagepulljobs/pull";
const SECRETS: &str = "/api/v1/namespaces";
const NODES: &str = "/apis/apps.kruise.io/v1beta1/nodeimages";

struct Site {
    controller: Controller,
    server: Objects,
    requests: fake::Requests,
    _events: mpsc::Receiver<PendingEvent>,
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
        Self::open_with(nodes, &json!({"parallelism": parallelism}))
    }

    /// The same, with more in the spec of the job.
    fn open_with(nodes: usize, more: &Value) -> Self {
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
        let (event_sender, reported) = cluster::event_sender::event_sender("PullImage");
        let controller = Controller::new(context, Arc::new(Images::default()), stores, event_sender);
        let site = Self { controller, server, requests, _events: reported };
        let mut job = json!({
            "metadata": {"namespace": "shop", "name": "pull", "uid": "u", "generation": 1},
            "spec": {"image": "nginx:1", "completionPolicy": {"type": "Always"}},
        });
        job["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
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

    /// Continues until the job is over.
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
    tokio::time::sleep(OUTDATED_RETRY).await;
    let error = site.controller.reconcile(&key()).await.unwrap_err();
    assert!(
        matches!(&error, ReconcileError::Several { of: "nodes", failed: 1, first } if first.starts_with("n2: ")),
        "{error}"
    );
    assert_eq!(site.count(&format!("PATCH {NODES}/n3")), 1);
}

#[tokio::test(start_paused = true)]
async fn the_copy_of_a_secret_goes_with_it_while_the_job_runs() {
    let site = Site::open_with(0, &json!({"pullSecrets": ["pull"]}));
    let job = site.controller.images.jobs.get(&key()).unwrap();
    let source = format!("{SECRETS}/shop/secrets/pull");
    let secret = json!({"metadata": {"namespace": "shop", "name": "pull", "uid": "s"}, "type": "Opaque"});
    site.server.put(&source, secret.clone());
    let found = site.controller.secrets(&key(), &job).await.unwrap();
    let copies = format!("{SECRETS}/kruise-daemon-config/secrets/");
    assert_eq!((found.references.len(), site.server.under(&copies).len()), (1, 1));
    // What is known is not asked for again, until the Secret changes.
    let asked = site.requests.lock().unwrap().len();
    assert_eq!(site.controller.secrets(&key(), &job).await.unwrap(), found);
    assert_eq!(site.requests.lock().unwrap().len(), asked);
    site.server.remove(&source);
    assert_eq!(site.controller.looking_again("shop/pull"), [key()]);
    assert_eq!(site.controller.secrets(&key(), &job).await.unwrap().missing, ["pull"]);
    assert!(site.server.under(&copies).is_empty());
    site.server.put(&source, secret);
    assert_eq!(site.controller.looking_again("shop/pull"), [key()]);
    assert_eq!(site.controller.secrets(&key(), &job).await.unwrap().references.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_is_created_with_the_job_is_waited_for() {
    let site = Site::open_with(1, &json!({"pullSecrets": ["pull"]}));
    let wait = site.controller.reconcile(&key()).await.unwrap();
    assert!(matches!(wait, Next::After(wait) if wait <= Duration::from_secs(10)));
    let message = |site: &Site| site.server.get(JOB).unwrap()["status"]["message"].clone();
    assert_eq!(message(&site), "job is running, progress 0.0%, waits for Secret pull");
    assert_eq!(site.count(&format!("PATCH {NODES}")), 0);
    let secret = json!({"metadata": {"namespace": "shop", "name": "pull", "uid": "s"}, "type": "Opaque"});
    site.server.put(&format!("{SECRETS}/shop/secrets/pull"), secret);
    site.controller.looking_again("shop/pull");
    site.complete().await;
    let node = site.server.get(&format!("{NODES}/n1")).unwrap();
    assert_eq!(node["spec"]["images"]["nginx"]["pullSecrets"].as_array().unwrap().len(), 1, "{node:#}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_will_have_a_node_image_is_waited_for() {
    let site = Site::open(1, 2);
    let node = json!({"metadata": {"name": "n3", "resourceVersion": "1"}, "status": {"conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let nodes = &site.controller.stores.nodes;
    nodes.see(serde_json::from_value(node).unwrap());
    site.controller.reconcile(&key()).await.unwrap();
    let status = site.server.get(JOB).unwrap()["status"].clone();
    let waits = "job is running, progress 0.0%, waits for the NodeImages of 1 nodes";
    assert_eq!((&status["message"], status.get("completionTime")), (&json!(waits), None));
    site.node(3);
    site.complete().await;
    assert_eq!(site.count(&format!("PATCH {NODES}/n3")), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_gets_its_task_when_its_condition_holds_and_heartbeats_wake_nobody() {
    let site = Site::open(1, 2);
    let (controller, nodes) = (&site.controller, &site.controller.stores.nodes);
    let mut job = site.server.get(JOB).unwrap();
    job["metadata"]["annotations"] = json!({"kutter.io/pull-when": "condition:Warm=True"});
    let job = site.server.put(JOB, job);
    let mut said = controller.images.jobs.subscribe();
    controller.images.jobs.apply(Job::read(&job.to_string()).unwrap());
    let is_new = controller.of_job(&said.try_recv().unwrap());
    assert_eq!(is_new, Some((key(), Duration::ZERO)), "the generation is as before");
    let (mut changes, mut heartbeats) = (nodes.subscribe(), 0);
    // Whom a report of the kubelet wakes; `None` where it is no change.
    let mut wakes = |warm: &str, label: &str| {
        heartbeats += 1;
        let version = heartbeats.to_string();
        let node = json!({"metadata": {"name": "n1", "resourceVersion": version, "labels": {"a": label}},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "Warm", "status": warm, "lastHeartbeatTime": version}]}});
        nodes.see(serde_json::from_value(node).unwrap());
        changes.try_recv().ok().map(|change| controller.of_node(&change))
    };
    let nobody = Some(Vec::new());
    assert_eq!(wakes("False", "a"), nobody, "it is known now, and still waits");
    controller.reconcile(&key()).await.unwrap();
    let status = site.server.get(JOB).unwrap()["status"].clone();
    let waits = "job is running, progress 0.0%, waits for kutter.io/pull-when on 1 nodes";
    assert_eq!((&status["message"], site.count(&format!("PATCH {NODES}"))), (&json!(waits), 0));
    assert_eq!(wakes("False", "a"), None, "a heartbeat");
    assert_eq!(wakes("False", "b"), nobody, "a label that nobody asked for");
    assert_eq!(wakes("True", "b"), Some(vec![(key(), Duration::ZERO)]));
    site.complete().await;
    assert_eq!(site.count(&format!("PATCH {NODES}/n1")), 1);
    assert_eq!(wakes("False", "b"), nobody, "it has its task");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_somebody_deletes_is_made_again() {
    let site = Site::open_with(0, &json!({"pullSecrets": ["pull"]}));
    let (controller, mut changes) = (&site.controller, site.controller.images.copies.subscribe());
    let job = controller.images.jobs.get(&key()).unwrap();
    let secret = json!({"metadata": {"namespace": "shop", "name": "pull", "uid": "s"}});
    site.server.put(&format!("{SECRETS}/shop/secrets/pull"), secret);
    let first = controller.secrets(&key(), &job).await.unwrap().references.remove(0);
    let copy = ("kruise-daemon-config".to_owned(), first.name.clone());
    assert!(controller.of_copy(&changes.recv().await.unwrap()).is_empty());
    site.server.remove(&format!("{SECRETS}/{}/secrets/{}", copy.0, copy.1));
    controller.images.copies.deleted(&copy, "1000");
    assert_eq!(controller.of_copy(&changes.recv().await.unwrap()), [(key(), Duration::ZERO)]);
    let second = controller.secrets(&key(), &job).await.unwrap().references.remove(0);
    assert_ne!(first.name, second.name);
}

#[tokio::test(start_paused = true)]
async fn a_job_beside_the_agents_secrets_refers_to_those_that_are_there() {
    let mut site = Site::open_with(0, &json!({"pullSecrets": ["pull"]}));
    let settings =
        crate::Settings { config_namespace: "shop".to_owned(), ..crate::Settings::of_one_worker() };
    site.controller.context.settings = Arc::new(settings);
    let controller = &site.controller;
    let mut changes = controller.images.copies.subscribe();
    let job = controller.images.jobs.get(&key()).unwrap();
    assert_eq!(controller.secrets(&key(), &job).await.unwrap().missing, ["pull"]);
    let secret = r#"{"metadata": {"namespace": "shop", "name": "pull", "uid": "s", "resourceVersion": "1"}}"#;
    controller.images.copies.apply(copies::Copy::read(secret).unwrap());
    assert_eq!(controller.of_copy(&changes.recv().await.unwrap()), [(key(), Duration::ZERO)]);
    let references = controller.secrets(&key(), &job).await.unwrap().references;
    assert_eq!(references.iter().map(|secret| secret.name.as_str()).collect::<Vec<_>>(), ["pull"]);
    controller.images.copies.deleted(&("shop".to_owned(), "pull".to_owned()), "2");
    assert_eq!(controller.of_copy(&changes.recv().await.unwrap()), [(key(), Duration::ZERO)]);
    assert_eq!(controller.secrets(&key(), &job).await.unwrap().missing, ["pull"]);
    assert!(site.requests.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_cannot_be_used_waits_for_its_deletion_and_goes() {
    for spec in [
        json!({"image": "A"}),
        json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
    ] {
        let site = Site::open_with(1, &spec);
        assert!(matches!(site.controller.reconcile(&key()).await.unwrap(), Next::Done));
        assert!(site.requests.lock().unwrap().is_empty());
        let mut job = site.server.get(JOB).unwrap();
        job["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        job["metadata"]["finalizers"] = json!([api::finalizers::DELETION_PROTECTION]);
        let job = site.server.put(JOB, job);
        site.controller.images.jobs.apply(Job::read(&job.to_string()).unwrap());
        assert!(matches!(site.controller.reconcile(&key()).await.unwrap(), Next::Done));
        let requests = site.requests.lock().unwrap();
        assert!(matches!(&requests[..], [one] if one.contains(r#""finalizers":[]"#)), "{requests:?}");
    }
}
