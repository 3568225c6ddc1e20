//! The cluster: its nodes, what runs on them, and everything in it that must not change.

use std::collections::BTreeMap;

use api::crds::{ALL, Scope};
use kit::ApiServer;
use kit::builders::{Object, object, pod};
use kit::fake_nodes::{self, FakeNodes};
use kit::wait_for;
use serde_json::{Value, json};

use crate::product::NAMESPACE;
use crate::support::fleet::{IN_PLACE_UPDATE_READY, OLD, is_ready, name, uid};
use crate::support::{Shop, Stored, call};

/// Where copies of pull secrets lie.
pub const DAEMON_CONFIG: &str = "kruise-daemon-config";
pub const KRUISE_POD_READY: &str = "KruisePodReady";
/// When OpenKruise was at work.
pub const THEN: &str = "2026-07-01T10:00:00Z";

/// A cluster with two nodes, where objects are stored in one version.
pub struct Place {
    pub server: ApiServer,
    pub shop: Shop,
    /// Another namespace.
    pub other: String,
    pub version: &'static str,
    pub nodes: FakeNodes,
}

impl Place {
    /// With the definitions of `version` on the server.
    pub async fn open(server: ApiServer, version: &'static str) -> Self {
        let shop = Shop::open_on(&server, "left").await;
        let other = server.namespace("other").await;
        Stored::create(&shop.client, object("v1", "Namespace", DAEMON_CONFIG)).await;
        let options = fake_nodes::Options::nodes(2).binding_pods();
        let nodes = FakeNodes::start(shop.client.clone(), options).await;
        Self { server, shop, other, version, nodes }
    }

    pub fn is_old(&self) -> bool {
        self.version == "v1alpha1"
    }

    pub fn api_version(&self) -> String {
        format!("apps.kruise.io/{}", self.version)
    }

    /// The node where Pods run, or the other one.
    pub fn node(&self, index: usize) -> &str {
        &self.nodes.names()[index]
    }

    /// An object of the namespace in the version that is stored.
    pub fn object(&self, kind: &str, name: &str, spec: Value) -> Object {
        object(&self.api_version(), kind, name).in_namespace(&self.shop.namespace).with("/spec", spec)
    }

    pub async fn create(&self, manifest: impl Into<Value>) -> Stored {
        Stored::create(&self.shop.client, manifest).await
    }

    /// Creates an object with its status.
    pub async fn create_with(&self, manifest: impl Into<Value>, status: &Value) -> Stored {
        let stored = self.create(manifest).await;
        stored.patch_status(status).await;
        stored
    }

    /// An object in its newest version.
    pub fn newest(&self, stored: &Stored) -> Stored {
        Stored::existing(&self.shop.client, newest(stored), Value::Null)
    }

    /// The references of what OpenKruise made for an object.
    pub fn owner(&self, owner: &Stored) -> Value {
        json!([{"apiVersion": self.api_version(), "kind": owner.object["kind"], "name": name(&owner.object),
            "uid": uid(&owner.object), "controller": true, "blockOwnerDeletion": true}])
    }

    /// A revision of a workload, whose hash ends its name and is the value of a label.
    pub async fn revision(&self, owner: &Stored, labels: &Value, hash: (&str, &str), data: Value) -> String {
        let revision = format!("{}-{}", name(&owner.object), hash.1);
        let manifest = object("apps/v1", "ControllerRevision", &revision)
            .in_namespace(&self.shop.namespace)
            .with("/metadata/labels", labels.clone())
            .label(hash.0, hash.1)
            .with("/metadata/ownerReferences", self.owner(owner))
            .with("/data", data)
            .with("/revision", 1);
        self.create(manifest).await;
        revision
    }

    /// A Pod on the first node.
    pub fn pod(&self, name: &str) -> Object {
        pod(name)
            .in_namespace(&self.shop.namespace)
            .on_node(self.node(0))
            .container("main", OLD)
            .having("imagePullPolicy", "IfNotPresent")
    }

    /// Creates a Pod and waits until it is ready, with its gates open and with further conditions.
    pub async fn run(&self, pod: Object, more: &[Value]) -> Stored {
        let pod = self.create(pod).await;
        let gates = pod.object["spec"]["readinessGates"].as_array().into_iter().flatten();
        let open = |gate: &Value| json!({"type": gate["conditionType"], "status": "True", "lastTransitionTime": THEN});
        let mut wanted: Vec<Value> = gates.map(open).collect();
        for condition in wanted.iter_mut().filter(|condition| condition["type"] == KRUISE_POD_READY) {
            condition["message"] = "[]".into();
        }
        wanted.extend_from_slice(more);
        wait_for("the Pod to be ready", async || {
            let now = pod.get().await.1;
            let mut all = now["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let has = |wanted: &Value| {
                let mut same = all.iter().filter(|one| one["type"] == wanted["type"]);
                same.any(|one| wanted.as_object().unwrap().iter().all(|(field, value)| one[field] == *value))
            };
            if wanted.iter().all(has) {
                return if is_ready(&now) { Ok(()) } else { Err(now["status"].clone()) };
            }
            // The node writes conditions too: a patch of this kind replaces the list.
            all.retain(|known| !wanted.iter().any(|condition| condition["type"] == known["type"]));
            all.extend_from_slice(&wanted);
            let version = &now["metadata"]["resourceVersion"];
            let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": all}});
            pod.try_patch_part("status", &patch).await;
            Err(now["status"].clone())
        })
        .await;
        pod
    }

    /// Everything that must not change, by path.
    pub async fn state(&self) -> BTreeMap<String, Value> {
        let namespace = &self.shop.namespace;
        let mut collections: Vec<String> = [
            format!("/api/v1/namespaces/{}/configmaps", self.other),
            format!("/api/v1/namespaces/{DAEMON_CONFIG}/secrets"),
            format!("/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions"),
            format!("/apis/apps/v1/namespaces/{namespace}/controllerrevisions"),
        ]
        .into();
        for plural in ["pods", "configmaps", "secrets", "persistentvolumeclaims"] {
            collections.push(format!("/api/v1/namespaces/{namespace}/{plural}"));
        }
        for kind in ALL {
            let version = if kind.versions.contains(&self.version) { self.version } else { "v1alpha1" };
            let inside = match kind.scope {
                Scope::Cluster => String::new(),
                Scope::Namespaced => format!("namespaces/{namespace}/"),
            };
            collections.push(format!("/apis/{}/{version}/{inside}{}", kind.group, kind.plural));
        }
        let mut all = BTreeMap::new();
        for path in collections {
            let (code, mut list) = call(&self.shop.client, "GET", &path, &Value::Null).await;
            assert_eq!(code, 200, "{path}: {list:#}");
            for mut object in list["items"].take().as_array().unwrap().clone() {
                for field in ["resourceVersion", "managedFields"] {
                    object["metadata"].as_object_mut().unwrap().remove(field);
                }
                all.insert(format!("{path}/{}", name(&object)), object);
            }
        }
        all
    }
}

/// The readiness gates that Pods of in-place updated workloads have.
pub fn gated(pod: Object) -> Object {
    pod.readiness_gate(IN_PLACE_UPDATE_READY).readiness_gate(KRUISE_POD_READY)
}

/// Whether an answer, by its HTTP code and the object, shows an edit.
type Shows = Box<dyn Fn(u16, &Value) -> bool>;

/// Something that somebody may edit once Kutter is there, and how Kutter answers.
pub struct Subject {
    pub stored: Stored,
    /// The name of its controller in metrics.
    pub controller: &'static str,
    /// What is patched, in the newest version.
    pub edit: Value,
    pub edited_at: String,
    /// Where the answer shows.
    pub shown_at: String,
    pub shows: Shows,
}

impl Subject {
    /// An object whose edit is answered in the object.
    pub fn new(
        stored: Stored,
        controller: &'static str,
        edit: Value,
        shows: impl Fn(&Value) -> bool + 'static,
    ) -> Self {
        let path = newest(&stored);
        let shows = Box::new(move |code: u16, object: &Value| code == 200 && shows(object));
        Self { stored, controller, edit, edited_at: path.clone(), shown_at: path, shows }
    }

    /// The answer shows elsewhere.
    pub fn shown_by(mut self, path: String, shows: impl Fn(u16, &Value) -> bool + 'static) -> Self {
        (self.shown_at, self.shows) = (path, Box::new(shows));
        self
    }

    /// Its status is edited, as the agent of a node does.
    pub fn by_its_agent(mut self) -> Self {
        self.edited_at.push_str("/status");
        self
    }
}

/// Its path in the newest version.
pub fn newest(stored: &Stored) -> String {
    let old =
        ["ephemeraljobs", "podprobemarkers", "nodepodprobes"].iter().any(|kind| stored.path.contains(kind));
    stored.in_version(if old { "v1alpha1" } else { "v1beta1" }).path
}

/// The newest spec was reconciled.
pub fn is_observed(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
}
