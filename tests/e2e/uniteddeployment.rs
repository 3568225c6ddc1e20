//! UnitedDeployments on a real API server, without controllers of Kubernetes: what becomes of Deployments, StatefulSets and
//! Pods is up to the tests (docs/behaviour/uniteddeployment.md).

mod adaptive;
mod admission;
mod revisions;
mod workloads;

use std::collections::BTreeMap;

use kit::builders::{Object, object};
use kit::wait_for;
use kube::Client;
use serde_json::{Value, json};

use crate::support::{Shop, Stored, call, create, message, shared};

const BETA: &str = "apps.kruise.io/v1beta1";
const SUBSET: &str = "apps.kruise.io/subset-name";
const REVISION: &str = "apps.kruise.io/controller-revision-hash";
const PATCH: &str = "apps.kruise.io/subset-patch";

/// The template of a kind of workload, by its name in `spec.template`.
fn template(member: &str, image: &str) -> Value {
    let pods = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"initContainers": [{"name": "proxy", "image": "busybox:1.36", "restartPolicy": "Always"}],
            "containers": [{"name": "main", "image": image}, {"name": "aa", "image": "busybox:1.36"}]}});
    let mut template = json!({});
    let selector = json!({"matchLabels": {"app": "web"}});
    let mut spec = json!({"selector": selector, "template": pods});
    if member == "statefulSetTemplate" {
        spec["serviceName"] = "web".into();
    }
    template[member] = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    template
}

/// A UnitedDeployment with these subsets and what else its spec says.
fn manifest(namespace: &str, member: &str, subsets: &Value, more: &Value) -> Object {
    let mut spec = json!({"replicas": 6, "selector": {"matchLabels": {"app": "web"}},
        "template": template(member, "nginx:1.25"), "topology": {"subsets": subsets}});
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    object(BETA, "UnitedDeployment", "web").in_namespace(namespace).with("/spec", spec)
}

fn collection_of(namespace: &str, member: &str) -> String {
    let (group, plural) = match member {
        "statefulSetTemplate" => ("apps/v1", "statefulsets"),
        "deploymentTemplate" => ("apps/v1", "deployments"),
        "cloneSetTemplate" => (BETA, "clonesets"),
        _ => (BETA, "statefulsets"),
    };
    format!("/apis/{group}/namespaces/{namespace}/{plural}")
}

/// A UnitedDeployment of a namespace, and its workloads.
struct United {
    client: Client,
    namespace: String,
    stored: Stored,
    collection: String,
}

impl United {
    async fn create(shop: &Shop, member: &str, subsets: Value, more: Value) -> Self {
        let stored = Stored::create(&shop.client, manifest(&shop.namespace, member, &subsets, &more)).await;
        let collection = collection_of(&shop.namespace, member);
        Self { client: shop.client.clone(), namespace: shop.namespace.clone(), stored, collection }
    }

    async fn edit(&self, spec: Value) {
        self.stored.patch(&json!({"spec": spec})).await;
    }

    /// The live workloads of one collection that it owns, by subset.
    async fn all(&self, collection: &str) -> BTreeMap<String, Value> {
        let (_, list) = call(&self.client, "GET", collection, &Value::Null).await;
        let items = list["items"].as_array().unwrap_or_else(|| panic!("{list:#}")).iter();
        let own = items.filter(|child| {
            child["metadata"]["ownerReferences"][0]["uid"] == self.stored.object["metadata"]["uid"]
                && child["metadata"]["deletionTimestamp"].is_null()
        });
        own.map(|child| (child["metadata"]["labels"][SUBSET].as_str().unwrap().to_owned(), child.clone()))
            .collect()
    }

    /// Its workloads, once they are to have so many Pods.
    async fn shares(&self, expected: &[(&str, i64)]) -> BTreeMap<String, Value> {
        let expected: BTreeMap<String, i64> =
            expected.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect();
        wait_for("the shares of the subsets", async || {
            let all = self.all(&self.collection).await;
            let shares: BTreeMap<String, i64> = all
                .iter()
                .map(|(name, child)| (name.clone(), child["spec"]["replicas"].as_i64().unwrap_or(1)))
                .collect();
            if shares == expected {
                Ok(all)
            } else {
                Err((shares, self.stored.get().await.1["status"].take()))
            }
        })
        .await
    }

    /// A workload, as an object to be changed.
    fn child(&self, child: &Value) -> Stored {
        let name = child["metadata"]["name"].as_str().unwrap();
        Stored::existing(&self.client, format!("{}/{name}", self.collection), child.clone())
    }

    /// Its status, once it holds.
    async fn status(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, async || {
            let mut stored = self.stored.get().await.1;
            if holds(&stored["status"]) { Ok(stored["status"].take()) } else { Err(stored["status"].take()) }
        })
        .await
    }

    /// What an Event of this reason says, once there is one that holds this text.
    async fn reported(&self, reason: &str, text: &str) {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.namespace);
        wait_for("the Event", async || {
            let (_, list) = call(&self.client, "GET", &path, &Value::Null).await;
            let is_meant = |event: &Value| {
                event["reason"] == reason
                    && event["regarding"]["uid"] == self.stored.object["metadata"]["uid"]
                    && event["note"].as_str().unwrap().contains(text)
            };
            if list["items"].as_array().unwrap().iter().any(is_meant) { Ok(()) } else { Err(list) }
        })
        .await;
    }

    /// The Pods of a subset, once there are so many.
    async fn pods(&self, subset: &str, count: usize) -> Vec<Stored> {
        let path = format!("/api/v1/namespaces/{}/pods", self.namespace);
        let selector = format!("{path}?labelSelector={SUBSET}%3D{subset}");
        wait_for("the Pods of a subset", async || {
            let (_, mut list) = call(&self.client, "GET", &selector, &Value::Null).await;
            let mut pods = std::mem::take(list["items"].as_array_mut().unwrap());
            pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
            if pods.len() != count {
                return Err(pods);
            }
            let stored = pods.into_iter().map(|pod| {
                let name = pod["metadata"]["name"].as_str().unwrap();
                Stored::existing(&self.client, format!("{path}/{name}"), pod.clone())
            });
            Ok(stored.collect())
        })
        .await
    }
}

/// A Pod runs and is ready, or finds no capacity.
async fn place(pod: &Stored, has_room: bool) {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    if !has_room {
        let refused = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": now});
        pod.patch_status(&json!({"phase": "Pending", "conditions": [refused]})).await;
        return;
    }
    let ready = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
    let statuses = json!([{"name": "main", "ready": true, "restartCount": 0, "image": "nginx:1.25", "imageID": "x",
        "containerID": "x://1", "state": {"running": {"startedAt": now}}}]);
    let conditions = [ready("PodScheduled"), ready("ContainersReady"), ready("Ready")];
    pod.patch_status(&json!({"phase": "Running", "conditions": conditions, "containerStatuses": statuses}))
        .await;
}
