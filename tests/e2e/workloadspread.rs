//! WorkloadSpreads on a real API server with Kubernetes' controllers and scheduler
//! (docs/behaviour/workloadspread.md#acceptance-scenarios).

mod adaptive;
mod custom;
mod existing;
mod leaving;
mod objects;
mod parallel;
mod placing;
mod pod_security;
mod restart;
mod scaling;

use std::collections::BTreeMap;
use std::sync::Arc;

use kit::builders::{Object, object, pod, workload};
use kit::fake_nodes::{self, FakeNodes};
use kit::objects::is_ready;
use kit::{ApiServer, Shared, wait_for};
use kube::Client;
use serde_json::{Value, json};

use crate::product::{self, NAMESPACE, Product};
use crate::support::{
    Shop, Stored, call, create, direct_of, in_conflict, in_use, message, patched, pod_review, review,
};

const MARK: &str = "apps.kruise.io/matched-workloadspread";
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const CLONESET: (&str, &str) = ("apps.kruise.io/v1beta1", "CloneSet");

/// Custom workloads and what lies between them and their Pods.
const WHITE_LIST: &str = r#"{"workloads":[{"Group":"kubeflow.org","Version":"v1","Kind":"TFJob",
    "subResources":[{"Group":"kubeflow.org","Version":"v1","Kind":"TFGroup"}]},{"Group":"kubeflow.org","Kind":"TFScaled"}]}"#;

/// The API server of these tests.
struct Site {
    server: ApiServer,
    product: Product,
}

async fn site() -> Arc<Site> {
    static SITE: Shared<Site> = Shared::new();
    SITE.get(async || {
        let options = kit::Options::default().with_controller_manager().with_scheduler();
        let server = product::server(options).await;
        let client = server.client();
        for kind in ["TFJob", "TFGroup", "TFScaled"] {
            define(&server, kind).await;
        }
        let list = json!({"WorkloadSpread_Watch_Custom_Workload_WhiteList": WHITE_LIST});
        let map =
            object("v1", "ConfigMap", "kruise-configuration").in_namespace(NAMESPACE).with("/data", list);
        Stored::create(&client, map).await;
        let product = Product::serve(&server, product::Options::default()).await;
        in_use(&server).await;
        Site { server, product }
    })
    .await
}

/// Speaks with the program of [`site`] as its API server does.
async fn program() -> Client {
    let site = site().await;
    direct_of(&site.server, site.product.port).await
}

/// A kind of `kubeflow.org` with any spec, whose `scale` is at `spec.size`.
pub(crate) async fn define(server: &ApiServer, kind: &str) {
    let plural = format!("{}s", kind.to_lowercase());
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": any}});
    if kind == "TFScaled" {
        version["subresources"] =
            json!({"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}});
    }
    let definition =
        object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &format!("{plural}.kubeflow.org"))
            .with(
                "/spec",
                json!({"group": "kubeflow.org", "scope": "Namespaced", "versions": [version],
            "names": {"plural": plural, "kind": kind}}),
            );
    Stored::create(&server.client(), definition).await;
    let path = format!("/apis/kubeflow.org/v1/{plural}");
    wait_for("the kind to be served", async || {
        match call(&server.client(), "GET", &path, &Value::Null).await {
            (200, _) => Ok(()),
            (_, answer) => Err(answer),
        }
    })
    .await;
}

/// A namespace with a workload `web`, its WorkloadSpread `ws`, and a node in each of the zones `a` and `b`.
struct Field {
    shop: Shop,
    /// They end with the test.
    _nodes: FakeNodes,
}

impl Field {
    async fn open(prefix: &str) -> Self {
        Self::open_on(&site().await.server, prefix).await
    }

    /// The subset that the program gives a Pod which is to be created, if it gives one. The Pod takes a slot there.
    async fn offered(&self, program: &Client, pod: &Value) -> String {
        let answer = review(program, &pod_review(&self.shop.namespace, "CREATE", "", pod)).await;
        // Who does not know the WorkloadSpread yet leaves the Pod as it is.
        if answer["allowed"] == true && answer["patch"].is_null() {
            return String::new();
        }
        subset(&patched(pod, &answer))
    }

    /// Waits until the program gives a Pod that subset.
    async fn wait_offered(&self, program: &Client, pod: &Value, wanted: &str) {
        wait_for("the program to know the WorkloadSpread", async || {
            let given = self.offered(program, pod).await;
            if given == wanted { Ok(()) } else { Err(given) }
        })
        .await;
    }

    /// On an API server of the test's own.
    async fn open_on(server: &ApiServer, prefix: &str) -> Self {
        let shop = Shop::open_on(server, prefix).await;
        // Nodes of this test alone: Pods choose them by a label of its namespace.
        let options = fake_nodes::Options::nodes(2).in_namespace(&shop.namespace);
        let options = ["a", "b"].into_iter().enumerate().fold(options, |options, (index, zone)| {
            options.label(index, "zone", zone).label(index, "field", &shop.namespace)
        });
        let nodes = FakeNodes::start(shop.client.clone(), options).await;
        Self { shop, _nodes: nodes }
    }

    /// The workload `web`, whose Pods run on the nodes of this test.
    fn web(&self, (api_version, kind): (&str, &str)) -> Object {
        workload(api_version, kind, "web")
            .in_namespace(&self.shop.namespace)
            .matching("app", "web")
            .container("main", "nginx:1.25")
            .with("/spec/template/spec/nodeSelector", json!({"field": self.shop.namespace}))
            .with("/spec/template/spec/terminationGracePeriodSeconds", 1)
    }

    /// A Pod of a workload that no controller makes.
    fn pod_of(&self, owner: &Value, name: &str) -> Object {
        pod(name)
            .in_namespace(&self.shop.namespace)
            .label("app", "web")
            .container("main", "nginx:1.25")
            .controlled_by(owner)
            .with("/spec/nodeSelector", json!({"field": self.shop.namespace}))
    }

    /// A WorkloadSpread `ws` of the workload `web`.
    fn spread(&self, (api_version, kind): (&str, &str), subsets: Value) -> Object {
        object("apps.kruise.io/v1beta1", "WorkloadSpread", "ws")
            .in_namespace(&self.shop.namespace)
            .with("/spec/targetRef", json!({"apiVersion": api_version, "kind": kind, "name": "web"}))
            .with("/spec/subsets", subsets)
    }

    async fn create(&self, manifest: Object) -> Stored {
        Stored::create(&self.shop.client, manifest).await
    }

    /// Creates a WorkloadSpread and waits until admission and controller know it.
    async fn divide(&self, spread: Object) -> Stored {
        let spread = spread.build();
        let stored = Stored::create(&self.shop.client, spread.clone()).await;
        let mut rival = spread;
        rival["metadata"]["name"] = json!("rival");
        in_conflict(&self.shop.client, rival).await;
        self.observed(&stored).await;
        stored
    }

    /// Waits until what is created now was created in a later second than `stored`.
    async fn second_after(&self, stored: &Stored) {
        let before = stored.get().await.1["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
        wait_for("the next second", async || {
            let (_, answer) = create(&self.shop.client, self.shop.pod("clock"), "?dryRun=All").await;
            let now = answer["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
            if *now > *before { Ok(()) } else { Err(answer.clone()) }
        })
        .await;
    }

    /// Waits until the controller has reconciled the newest spec.
    async fn observed(&self, spread: &Stored) -> Value {
        self.status(spread, "the spec to be looked at", |_| true).await
    }

    /// The status, once the newest spec was reconciled and `holds` accepts it.
    async fn status(&self, spread: &Stored, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, async || {
            let spread = spread.get().await.1;
            let seen = spread["status"]["observedGeneration"] == spread["metadata"]["generation"];
            if seen && holds(&spread["status"]) {
                Ok(spread["status"].clone())
            } else {
                Err((spread["status"].clone(), self.summary().await))
            }
        })
        .await
    }

    /// Waits until the totals are these: name, Pods, free slots.
    async fn totals(&self, spread: &Stored, totals: &[(&str, i64, i64)]) {
        let expected: Vec<(String, i64, i64)> = totals
            .iter()
            .map(|(name, replicas, missing)| ((*name).to_owned(), *replicas, *missing))
            .collect();
        self.status(spread, &format!("the totals {totals:?}"), |status| {
            let items = status["subsetStatuses"].as_array().into_iter().flatten();
            let counted = items.map(|item| {
                let number = |key: &str| item[key].as_i64().unwrap_or(i64::MIN);
                (
                    item["name"].as_str().unwrap_or_default().to_owned(),
                    number("replicas"),
                    number("missingReplicas"),
                )
            });
            counted.eq(expected.iter().cloned())
        })
        .await;
    }

    /// The Pods that are neither ended nor being deleted.
    async fn pods(&self) -> Vec<Value> {
        let path = format!("/api/v1/namespaces/{}/pods", self.shop.namespace);
        let list = call(&self.shop.client, "GET", &path, &Value::Null).await.1;
        let mut pods = list["items"].as_array().unwrap().clone();
        pods.retain(|pod| {
            pod["metadata"]["deletionTimestamp"].is_null()
                && !["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or_default())
        });
        pods
    }

    /// How many Pods each subset has; those of none are under an empty name.
    async fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for pod in self.pods().await {
            *counts.entry(subset(&pod)).or_default() += 1;
        }
        counts
    }

    /// Waits until the subsets have that many Pods.
    async fn placed(&self, counts: &[(&str, usize)]) {
        let expected: BTreeMap<String, usize> = counts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect();
        wait_for(&format!("the Pods to be placed as {counts:?}"), async || {
            if self.counts().await == expected { Ok(()) } else { Err(self.summary().await) }
        })
        .await;
    }

    /// Waits until the Pods of a subset have these costs, in any order.
    async fn costs(&self, name: &str, costs: &[&str]) {
        let mut expected: Vec<&str> = costs.to_vec();
        expected.sort_unstable();
        wait_for(&format!("the costs {costs:?} in {name:?}"), async || {
            let pods = self.pods().await;
            let mut found: Vec<&str> = pods.iter().filter(|pod| subset(pod) == name).map(cost).collect();
            found.sort_unstable();
            if found == expected { Ok(()) } else { Err(self.summary().await) }
        })
        .await;
    }

    /// Waits until that many Pods are ready, and gives all.
    async fn ready(&self, count: usize) -> Vec<Value> {
        wait_for(&format!("{count} Pods to be ready"), async || {
            let pods = self.pods().await;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            if ready == count && pods.len() == count { Ok(pods) } else { Err(self.summary().await) }
        })
        .await
    }

    /// A Pod by name.
    fn pod(&self, name: &str) -> Stored {
        let path = format!("/api/v1/namespaces/{}/pods/{name}", self.shop.namespace);
        Stored::existing(&self.shop.client, path, Value::Null)
    }

    /// Asks for an eviction.
    async fn evict(&self, pod: &str, options: Value) -> (u16, Value) {
        self.pod(pod).evict(&options).await
    }

    /// Has kubectl ask once for an eviction that is refused: our client would ask again and again. Asks again where the
    /// program could not read the Pod in time.
    async fn refused_eviction(&self, pod: &str) -> String {
        let path = format!("/api/v1/namespaces/{}/pods/{pod}/eviction", self.shop.namespace);
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": pod, "namespace": self.shop.namespace}});
        let server = &site().await.server;
        wait_for("the eviction to be judged", async || {
            let words = ["create", "--raw", &path, "-f", "-"];
            let refused = server.kubectl_with_input(words, &eviction.to_string()).await.failure();
            if refused.contains("try again") { Err(refused) } else { Ok(refused) }
        })
        .await
    }

    /// Waits for an Event of the WorkloadSpread with this reason, and gives its message.
    async fn event(&self, reason: &str) -> String {
        self.reported("WorkloadSpread", reason, 1).await.remove(0)
    }

    /// Waits for that many Events with this reason about objects of a kind, and gives their messages.
    async fn reported(&self, kind: &str, reason: &str, count: usize) -> Vec<String> {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.shop.namespace);
        wait_for(&format!("{count} Events {reason}"), async || {
            let list = call(&self.shop.client, "GET", &path, &Value::Null).await.1;
            let events = list["items"].as_array().unwrap();
            let found =
                events.iter().filter(|event| event["regarding"]["kind"] == kind && event["reason"] == reason);
            let notes: Vec<String> = found.map(|event| event["note"].as_str().unwrap().to_owned()).collect();
            if notes.len() >= count { Ok(notes) } else { Err((events.len(), notes)) }
        })
        .await
    }

    /// Waits until a ReplicaSet has that many Pods. Its controller pauses longer after each failure, but reconciles at
    /// once at one that changes.
    async fn nudged(&self, set: &Stored, count: usize) {
        let mut nudges = 0;
        wait_for(&format!("{count} Pods"), async || {
            if self.pods().await.len() == count {
                return Ok(());
            }
            nudges += 1;
            set.patch(&json!({"metadata": {"annotations": {"nudges": nudges.to_string()}}})).await;
            Err(self.summary().await)
        })
        .await;
    }

    /// What a failure shows.
    async fn summary(&self) -> Vec<String> {
        let line = |pod: &Value| {
            let (name, node) = (&pod["metadata"]["name"], &pod["spec"]["nodeName"]);
            format!("{name} in {:?} on {node} costs {:?} ready={}", subset(pod), cost(pod), is_ready(pod))
        };
        self.pods().await.iter().map(line).collect()
    }
}

/// The subset that a Pod says it is in, or an empty text.
fn subset(pod: &Value) -> String {
    mark(pod)["subset"].as_str().unwrap_or_default().to_owned()
}

fn mark(pod: &Value) -> Value {
    let text = pod["metadata"]["annotations"][MARK].as_str().unwrap_or("{}");
    serde_json::from_str(text).unwrap()
}

fn cost(pod: &Value) -> &str {
    pod["metadata"]["annotations"][COST].as_str().unwrap_or_default()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// The list of the only version, or of this one.
fn versioned<'v>(status: &'v Value, version: &str) -> &'v Value {
    &status["versionedSubsetStatuses"][version]
}

const IGNORED: &str = "versionIgnored";

/// Two subsets, the first with this maximum.
fn first(max: impl Into<Value>) -> Value {
    json!([{"name": "a", "maxReplicas": max.into()}, {"name": "b"}])
}

fn zone(zone: &str) -> Value {
    json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]})
}
