//! One workload with nodes for its Pods, whatever its kind.

use kit::builders::Object;
use kit::fake_nodes::{self, FakeNodes};
pub use kit::objects::{condition, is_ready};
use kit::{ApiServer, Output, wait_for};
use serde_json::{Value, json};

use super::{Shop, Stored, call, named, names, shared};
use crate::chronicle::Chronicle;
use crate::product;

pub const LIFECYCLE_STATE: &str = "lifecycle.apps.kruise.io/state";
pub const SPECIFIED_DELETE: &str = "apps.kruise.io/specified-delete";
pub const REVISION: &str = "controller-revision-hash";
pub const IN_PLACE_UPDATE_READY: &str = "InPlaceUpdateReady";
pub const OLD: &str = "nginx:1.25";
pub const NEW: &str = "nginx:1.26";

/// A workload named `web` alone in its namespace, with nodes for its Pods.
pub struct Fleet {
    pub shop: Shop,
    pub set: Stored,
    pub nodes: FakeNodes,
}

impl Fleet {
    /// A workload made by `set` on nodes with these options.
    pub async fn found(
        server: &ApiServer,
        prefix: &str,
        nodes: fake_nodes::Options,
        set: impl FnOnce(&Shop) -> Object,
    ) -> Self {
        let shop = Shop::open_on(server, prefix).await;
        let nodes = FakeNodes::start(shop.client.clone(), nodes.in_namespace(&shop.namespace)).await;
        let set = Stored::create(&shop.client, set(&shop)).await;
        Self { shop, set, nodes }
    }

    /// Follows what happens to the Pods from now on.
    pub async fn chronicle(&self) -> Chronicle {
        Chronicle::begin(&self.shop.client, &self.shop.namespace).await
    }

    /// Changes fields of `spec` by merge patch.
    pub async fn change(&self, spec: Value) {
        self.set.patch(&json!({"spec": spec})).await;
    }

    /// Changes fields of `rollingUpdate`.
    pub async fn change_rolling(&self, settings: Value) {
        self.change(json!({"updateStrategy": {"rollingUpdate": settings}})).await;
    }

    /// Gives the container `main` this image.
    pub async fn roll(&self, image: &str) {
        self.roll_and(image, json!({})).await;
    }

    /// [`roll`](Self::roll), together with other changes of `spec`.
    pub async fn roll_and(&self, image: &str, also: Value) {
        let mut containers = self.set.get().await.1["spec"]["template"]["spec"]["containers"].clone();
        containers[0]["image"] = json!(image);
        self.containers_and(containers, also).await;
    }

    /// Replaces the containers of the template.
    pub async fn containers(&self, containers: Value) {
        self.containers_and(containers, json!({})).await;
    }

    pub async fn containers_and(&self, containers: Value, also: Value) {
        let mut spec = also;
        spec["template"] = json!({"spec": {"containers": containers}});
        self.change(spec).await;
    }

    /// Changes every container of the template in one edit, which running Pods take: all of them stay, and their
    /// containers keep their places. Gives the Pods once `complete` is over.
    pub async fn change_all(
        &self,
        change: impl Fn(&mut Value),
        complete: impl AsyncFn(&Self) -> Value,
    ) -> Vec<Value> {
        let mut containers = self.set.get().await.1["spec"]["template"]["spec"]["containers"].clone();
        assert!(!names(&containers).is_sorted(), "{containers:#}");
        let before = self.pods().await;
        containers.as_array_mut().unwrap().iter_mut().for_each(change);
        self.containers(containers.clone()).await;
        complete(self).await;
        let after = self.pods().await;
        assert_eq!(uids(&after), uids(&before));
        for pod in &after {
            assert_eq!(names(&pod["spec"]["containers"]), names(&containers));
        }
        after
    }

    /// [`change_all`](Self::change_all) with their images: each container has restarted once.
    pub async fn roll_all(&self, complete: impl AsyncFn(&Self) -> Value) {
        for pod in self.change_all(|container| container["image"] = json!(NEW), complete).await {
            for container in pod["spec"]["containers"].as_array().unwrap() {
                let name = container["name"].as_str().unwrap();
                assert_eq!((&container["image"], restarts(&pod, name)), (&json!(NEW), 1), "{pod:#}");
            }
        }
    }

    /// [`change_all`](Self::change_all) with their limits of CPU: no container restarts.
    pub async fn resize_all(&self, complete: impl AsyncFn(&Self) -> Value) {
        let change = |container: &mut Value| container["resources"]["limits"]["cpu"] = json!("300m");
        for pod in self.change_all(change, complete).await {
            for status in pod["status"]["containerStatuses"].as_array().unwrap() {
                assert_eq!(status["resources"]["limits"]["cpu"], "300m", "{status:#}");
                assert_eq!(status["restartCount"], 0);
            }
        }
    }

    /// Sets `replicas` through the scale subresource.
    pub async fn scale(&self, replicas: u32) {
        let path = format!("{}/scale", self.set.path);
        let body = json!({"spec": {"replicas": replicas}});
        let (code, answer) = call(&self.shop.client, "PATCH", &path, &body).await;
        assert_eq!(code, 200, "{answer:#}");
    }

    /// The workload, once the controller has reconciled its newest spec and `holds` accepts it.
    pub async fn observed(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, async || {
            let set = self.set.get().await.1;
            let seen = set["status"]["observedGeneration"] == set["metadata"]["generation"];
            if seen && holds(&set) { Ok(set) } else { Err((set["status"].clone(), self.summary().await)) }
        })
        .await
    }

    /// The status, once the newest spec was reconciled and these fields hold.
    pub async fn status(&self, what: &str, fields: Value) -> Value {
        let fields = fields.as_object().unwrap();
        let set =
            self.observed(what, |set| fields.iter().all(|(key, value)| set["status"][key] == *value)).await;
        set["status"].clone()
    }

    /// The controller has reconciled the newest spec, and done what it does at first.
    pub async fn settled(&self) -> Value {
        self.status("the spec to be looked at", json!({})).await
    }

    /// Waits until all Pods that are wanted are there, at the newest revision and available.
    pub async fn complete(&self) -> Value {
        let set = self
            .observed("the workload to be complete", |set| {
                let status = &set["status"];
                let counts = ["replicas", "updatedReplicas", "availableReplicas"];
                counts.iter().all(|count| status[count] == set["spec"]["replicas"])
                    && status["currentRevision"] == status["updateRevision"]
            })
            .await;
        set["status"].clone()
    }

    pub async fn list(&self, api: &str, plural: &str) -> Vec<Value> {
        let path = format!("/{api}/namespaces/{}/{plural}", self.shop.namespace);
        let (code, list) = call(&self.shop.client, "GET", &path, &Value::Null).await;
        assert_eq!(code, 200, "{list:#}");
        list["items"].as_array().unwrap().clone()
    }

    /// The Pods that are not being deleted, by name.
    pub async fn pods(&self) -> Vec<Value> {
        staying(self.list("api/v1", "pods").await)
    }

    /// The names of [`pods`](Self::pods).
    pub async fn names(&self) -> Vec<String> {
        self.pods().await.iter().map(name).collect()
    }

    /// The claims that are not being deleted, by name. Nobody lifts their finalizers here.
    pub async fn claims(&self) -> Vec<Value> {
        staying(self.list("api/v1", "persistentvolumeclaims").await)
    }

    /// The ControllerRevisions, the newest last.
    pub async fn revisions(&self) -> Vec<Value> {
        let mut revisions = self.list("apis/apps/v1", "controllerrevisions").await;
        revisions.sort_by_key(|revision| revision["revision"].as_i64());
        revisions
    }

    /// A Pod by name.
    pub fn pod(&self, name: &str) -> Stored {
        let path = format!("/api/v1/namespaces/{}/pods/{name}", self.shop.namespace);
        Stored::existing(&self.shop.client, path, Value::Null)
    }

    /// Sets an annotation of a Pod.
    pub async fn annotate(&self, pod: &str, key: &str, value: impl Into<Value>) {
        self.pod(pod).patch(&json!({"metadata": {"annotations": {key: value.into()}}})).await;
    }

    /// The controller has observed the Pods as they are now: a watch that shows a later change of a Pod, which is
    /// unready for a moment, has shown what came before.
    pub async fn pods_seen(&self) {
        let names = self.names().await;
        self.annotate(&names[0], fake_nodes::READY_AFTER, "never").await;
        self.status("the Pods to be seen", json!({"readyReplicas": names.len() - 1})).await;
        self.annotate(&names[0], fake_nodes::READY_AFTER, "0").await;
        self.complete().await;
    }

    /// The Pods, once `hold` accepts them.
    pub async fn wait_pods(&self, what: &str, hold: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        wait_for(what, async || {
            let pods = self.pods().await;
            if hold(&pods) { Ok(pods) } else { Err(self.summary().await) }
        })
        .await
    }

    /// A Pod, once `holds` accepts it.
    pub async fn wait_pod(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let pod = self.pod(name);
        wait_for(what, async || {
            let now = pod.get().await.1;
            if holds(&now) { Ok(now) } else { Err(self.summary().await) }
        })
        .await
    }

    /// Waits for an Event of the workload with this reason, and gives its message.
    pub async fn event(&self, reason: &str) -> String {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.shop.namespace);
        wait_for(&format!("the Event {reason}"), async || {
            let list = call(&self.shop.client, "GET", &path, &Value::Null).await.1;
            let events = list["items"].as_array().unwrap();
            let found = events.iter().find(|event| {
                event["regarding"]["kind"] == self.set.object["kind"] && event["reason"] == reason
            });
            found.map(|event| event["note"].as_str().unwrap().to_owned()).ok_or(events.len())
        })
        .await
    }

    /// What `kutter explain` prints about the workload.
    pub async fn explained(&self) -> Output {
        let kubeconfig = format!("--kubeconfig={}", shared().await.0.kubeconfig().display());
        let kind = self.set.object["kind"].as_str().unwrap().to_lowercase();
        let words = ["explain", &kind, "web", "-n", &self.shop.namespace, &kubeconfig];
        product::run(&words).await
    }

    /// What a failure shows.
    pub async fn summary(&self) -> Vec<String> {
        let pods = self.list("api/v1", "pods").await;
        let line = |pod: &Value| {
            let ending = if pod["metadata"]["deletionTimestamp"].is_null() { "" } else { " ending" };
            let (image, revision) = (image(pod), label(pod, REVISION));
            let (state, ready) = (label(pod, LIFECYCLE_STATE), is_ready(pod));
            format!("{} {image} {revision} {state} ready={ready}{ending}", name(pod))
        };
        pods.iter().map(line).collect()
    }
}

pub fn staying(objects: Vec<Value>) -> Vec<Value> {
    objects.into_iter().filter(|object| object["metadata"]["deletionTimestamp"].is_null()).collect()
}

pub fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

pub fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

pub fn uids(objects: &[Value]) -> Vec<String> {
    objects.iter().map(uid).collect()
}

/// The label's value, or an empty text.
pub fn label<'v>(object: &'v Value, key: &str) -> &'v str {
    object["metadata"]["labels"][key].as_str().unwrap_or_default()
}

/// The image that the container `main` is to have.
pub fn image(pod: &Value) -> &str {
    named(&pod["spec"]["containers"], "main")["image"].as_str().unwrap()
}

pub fn restarts(pod: &Value, container: &str) -> i64 {
    named(&pod["status"]["containerStatuses"], container)["restartCount"].as_i64().unwrap()
}

/// As docs/behaviour/cloneset.md#counting-pods counts, without minReadySeconds.
pub fn is_available(pod: &Value) -> bool {
    let gate = condition(pod, IN_PLACE_UPDATE_READY);
    pod["status"]["phase"] == "Running"
        && is_ready(pod)
        && label(pod, LIFECYCLE_STATE) == "Normal"
        && (gate.is_null() || gate["status"] == "True")
}

/// The update in place of the Pod to [`NEW`] has begun.
pub fn has_begun(pod: &Value) -> bool {
    image(pod) == NEW || condition(pod, IN_PLACE_UPDATE_READY)["status"] == "False"
}

/// How many Pods have this image.
pub fn with_image(pods: &[Value], wanted: &str) -> usize {
    pods.iter().filter(|pod| image(pod) == wanted).count()
}

/// A claim template of each of these names, and the first container mounts them.
pub fn mounting(names: &[&str]) -> [(&'static str, Value); 2] {
    let claim = |name: &&str| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let mount = |name: &&str| json!({"name": name, "mountPath": format!("/{name}")});
    [
        ("/spec/volumeClaimTemplates", names.iter().map(claim).collect()),
        ("/spec/template/spec/containers/0/volumeMounts", names.iter().map(mount).collect()),
    ]
}

/// The volumes of a Pod that are claims.
pub fn claim_volumes(pod: &Value) -> Vec<&str> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let claims = volumes.filter(|volume| volume["persistentVolumeClaim"].is_object());
    claims.filter_map(|volume| volume["name"].as_str()).collect()
}
