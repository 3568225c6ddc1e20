//! NodeImages, ImagePullJobs and ImageListPullJobs on one API server, whose nodes' agents the test plays
//! (docs/behaviour/images.md#acceptance-scenarios).

mod agent;
mod jobs;
mod lists;
mod nodes;
mod page;
mod secrets;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jiff::{SignedDuration, Timestamp};
use kit::builders::{Object, object};
use kit::{ApiServer, Shared, wait_for};
use kube::Client;
use serde_json::{Value, json};

use crate::product::{self, Product};
use crate::support::agents::Agents;
use crate::support::{Site, Stored, call, create, in_use, message};

const BETA: &str = "apps.kruise.io/v1beta1";
const FINALIZER: &str = "apps.kruise.io/deletion-protection";
const CONFIG: &str = "kruise-daemon-config";

struct Place {
    site: Site,
    agents: Agents,
}

/// The API server with the program on it, once it reviews ImagePullJobs, and with agents.
async fn place() -> Arc<Place> {
    static PLACE: Shared<Place> = Shared::new();
    PLACE
        .get(async || {
            let server = product::server(kit::Options::default()).await;
            let client = server.client();
            // The chart makes it.
            let (code, answer) = create(&client, object("v1", "Namespace", CONFIG), "").await;
            assert!(matches!(code, 201 | 409), "{answer:#}");
            let product = serve(&server).await;
            in_use(&server).await;
            let wrong = object(BETA, "ImagePullJob", "probe").in_namespace("default");
            let wrong = wrong.with("/spec", json!({"image": "A", "completionPolicy": {}})).build();
            wait_for("ImagePullJobs to be reviewed", async || {
                match create(&client, wrong.clone(), "?dryRun=All").await {
                    (400, _) => Ok(()),
                    (_, answer) => Err(answer),
                }
            })
            .await;
            let agents = Agents::start(server.config());
            Place { site: Site { server, product }, agents }
        })
        .await
}

/// The program with the controllers of images.
async fn serve(server: &ApiServer) -> Product {
    Product::serve(server, options()).await
}

fn options() -> product::Options {
    product::Options::default()
        .gates("ImagePullJobGate=true")
        .argument("--nodeimage-creation-delay=0s")
        .argument("--imagepulljob-workers=8")
}

/// Nodes and a namespace that only one test uses.
struct Town {
    client: Client,
    /// The namespace, and the label `town` of its nodes.
    name: String,
}

impl Town {
    /// A namespace and ready nodes with these ends of their names, whose NodeImages the program knows.
    async fn open(prefix: &str, nodes: &[&str]) -> Self {
        Self::open_on(&place().await.site.server, prefix, nodes).await
    }

    /// The same on this API server.
    async fn open_on(server: &ApiServer, prefix: &str, nodes: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let town =
            Self { client: server.client(), name: server.namespace(&format!("{prefix}-{number}")).await };
        for node in nodes {
            town.add_node(node, json!({})).await;
        }
        for node in nodes {
            town.node_image(node).await;
        }
        if !nodes.is_empty() {
            // A job counts the nodes that the program knows.
            let job = town.create(town.job("probe", json!({"image": image(&town), "parallelism": 0}))).await;
            shows(&job, &json!({"desired": nodes.len()})).await;
            job.deleted().await;
            job.gone().await;
        }
        town
    }

    fn node(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// A node that is ready, with more labels.
    async fn add_node(&self, name: &str, labels: Value) -> Stored {
        let mut all = labels;
        all["town"] = json!(self.name);
        let node = object("v1", "Node", &self.node(name)).with("/metadata/labels", all);
        let node = Stored::create(&self.client, node).await;
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        node.patch_status(&json!({"conditions": [ready]})).await;
        node
    }

    /// A NodeImage, once it is there.
    async fn node_image(&self, node: &str) -> Stored {
        let path = format!("/apis/{BETA}/nodeimages/{}", self.node(node));
        let stored = Stored::existing(&self.client, path, Value::Null);
        wait_for("the NodeImage", async || match stored.get().await {
            (200, _) => Ok(()),
            (_, answer) => Err(answer),
        })
        .await;
        stored
    }

    /// A job for the nodes of this town, with more in its spec. Without a limit it serves many at a time.
    fn job(&self, name: &str, spec: Value) -> Object {
        self.of_kind("ImagePullJob", name, spec)
    }

    fn of_kind(&self, kind: &str, name: &str, spec: Value) -> Object {
        let mut all = json!({"completionPolicy": {}, "parallelism": 100});
        if spec.get("podSelector").is_none() {
            all["selector"] = json!({"matchLabels": {"town": self.name}});
        }
        let Value::Object(members) = spec else { panic!("a spec is an object") };
        all.as_object_mut().unwrap().extend(members);
        object(BETA, kind, name).in_namespace(&self.name).with("/spec", all)
    }

    async fn create(&self, job: Object) -> Stored {
        Stored::create(&self.client, job).await
    }

    /// The tasks of an image on a node.
    async fn tasks(&self, node: &str, image: &str) -> Vec<Value> {
        let node = self.node_image(node).await.get().await.1;
        node["spec"]["images"][image]["tags"].as_array().cloned().unwrap_or_default()
    }
}

/// An image that only this test pulls.
fn image(town: &Town) -> String {
    format!("registry.example.com/{}", town.name)
}

/// Waits until the status holds this; gives the object.
async fn shows(stored: &Stored, expected: &Value) -> Value {
    wait_for(&format!("the status {expected}"), async || {
        let now = stored.get().await.1;
        let fits = expected.as_object().unwrap().iter().all(|(name, value)| now["status"][name] == *value);
        if fits { Ok(now) } else { Err(now["status"].clone()) }
    })
    .await
}

fn ago(seconds: i64) -> String {
    (Timestamp::now() - SignedDuration::from_secs(seconds)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
