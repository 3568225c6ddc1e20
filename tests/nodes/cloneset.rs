//! CloneSets with real containers: what restarts, and what stays.

use std::time::Duration;

use futures::StreamExt;
use kit::builders::{Object, workload};
use kit::objects::is_ready;
use kit::{objects, wait_within};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::chronicle::Chronicle;
use crate::docs::{self, Reader};
use crate::site::Site;

const TIMEOUT: Duration = Duration::from_secs(120);
const STATE: &str = "lifecycle.apps.kruise.io/state";
const REGISTERED: &str = "example.com/registered";

#[tokio::test]
async fn the_walk_through_of_clonesets_works() {
    let Some(site) = Site::installed().await else { return };
    let namespace = site.server().namespace("walk").await;
    docs::cloneset(site.server(), &namespace).await;
}

/// Launch order, grace period, and a Pod that a finalizer holds back from its deletion.
#[tokio::test]
async fn updates_in_place_keep_their_order_and_hooks_hold_pods() {
    let Some(site) = Site::installed().await else { return };
    let namespace = site.server().namespace("inplace").await;
    docs::in_place_update(site.server(), &namespace).await;
}

/// Scenario 38 of docs/behaviour/in-place-update.md#acceptance-scenarios, as its page tells it: one container restarts where
/// it is, and reads what its ConfigMap contains now.
#[tokio::test]
async fn a_container_follows_its_config_map() {
    let Some(site) = Site::installed().await else { return };
    let namespace = site.server().namespace("configuration").await;
    let pods = async || {
        let list = site.core(&namespace, "pods?labelSelector=app=greeter").await;
        let mut pods = list["items"].as_array().unwrap().clone();
        pods.sort_by_key(|pod| text(pod, "/metadata/name").to_owned());
        pods
    };
    let chronicle = Chronicle::begin(&site.server().client(), &namespace).await;
    let mut page = Reader::open(site.server(), &namespace, "configuration.md").await;
    page.read("A container that follows its ConfigMap").await;
    page.end();
    let after = pods().await;
    assert_eq!(after.len(), 2);
    for pod in &after {
        let name = text(pod, "/metadata/name");
        let lives = chronicle.course(name, |pod| text(pod, "/metadata/uid").to_owned()).await;
        assert_eq!(lives, [text(pod, "/metadata/uid")], "the Pods stay");
        let restarts = |container: &str| {
            let statuses = pod["status"]["containerStatuses"].as_array().unwrap().iter();
            let mut found = statuses.filter(|status| status["name"] == container);
            found.next().unwrap()["restartCount"].clone()
        };
        assert_eq!((restarts("main"), restarts("proxy")), (json!(1), json!(0)), "{pod:#}");
        for (previous, says) in [(true, "says hello"), (false, "says good morning")] {
            let log = site.log(&namespace, name, "main", previous).await;
            assert!(log.contains(says), "{log}");
        }
    }
    site.kubectl(&format!("delete cloneset greeter -n {namespace}")).await.success();
}

/// A CloneSet named `web`.
struct Fleet<'s> {
    site: &'s Site,
    namespace: String,
}

impl<'s> Fleet<'s> {
    async fn open(site: &'s Site, prefix: &str, refine: impl FnOnce(Object) -> Object) -> Self {
        let namespace = site.server().namespace(prefix).await;
        let rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1});
        let set = workload("apps.kruise.io/v1beta1", "CloneSet", "web")
            .in_namespace(&namespace)
            .matching("app", "web")
            .container("main", "nginx:1.25")
            .with("/spec/template/spec/terminationGracePeriodSeconds", 0)
            .with("/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": rolling}));
        objects::create(&site.server().client(), refine(set)).await.unwrap();
        Self { site, namespace }
    }

    fn pods(&self) -> Api<DynamicObject> {
        pods(&self.site.server().client(), &self.namespace)
    }

    /// Changes a field of the template's only container.
    async fn change(&self, field: &str, value: &Value) {
        let pointer = format!("/spec/template/spec/containers/0/{field}");
        let patch = json!([{"op": "replace", "path": pointer, "value": value}]);
        let patch = format!("--patch={patch}");
        let words = ["patch", "cloneset", "web", "-n", &self.namespace, "--type=json", &patch];
        self.site.server().kubectl(words).await.success();
    }

    /// The Pods by name, once all that are wanted are available at the newest revision.
    async fn complete(&self) -> Vec<Value> {
        wait_within(TIMEOUT, "the CloneSet to be complete", async || {
            let set = self.site.kruise(&self.namespace, "clonesets/web").await;
            let status = &set["status"];
            let observed = status["observedGeneration"] == set["metadata"]["generation"];
            let mut counts = ["replicas", "updatedReplicas", "availableReplicas"].into_iter();
            let counted = counts.all(|count| status[count] == set["spec"]["replicas"]);
            if observed && counted { Ok(()) } else { Err(status.clone()) }
        })
        .await;
        let list = self.site.core(&self.namespace, "pods").await;
        list["items"].as_array().unwrap().clone()
    }

    async fn close(self) {
        self.site.kubectl(&format!("delete cloneset web -n {}", self.namespace)).await.success();
    }
}

fn pods(client: &Client, namespace: &str) -> Api<DynamicObject> {
    objects::namespaced(client, &objects::kind("v1", "Pod"), namespace)
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn state(pod: &Value) -> String {
    pod["metadata"]["labels"][STATE].as_str().unwrap_or_default().to_owned()
}

fn image(pod: &Value) -> &str {
    text(pod, "/spec/containers/0/image")
}

/// Identity, address and restarts of a Pod, and the container that it runs.
fn life(pod: &Value) -> (&str, &str, i64, &str) {
    let status = &pod["status"]["containerStatuses"][0];
    (
        text(pod, "/metadata/uid"),
        text(pod, "/status/podIP"),
        status["restartCount"].as_i64().unwrap(),
        text(status, "/containerID"),
    )
}

/// A program of its own, as users write them: it registers Pods that are to serve, and takes those out that are
/// to be updated.
fn registrar(pods: Api<DynamicObject>) -> JoinSet<()> {
    let mut task = JoinSet::new();
    task.spawn(async move {
        let mut events = watcher(pods.clone(), watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            let Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) = event else { continue };
            let state = pod.labels().get(STATE).map(String::as_str);
            let wanted = match state {
                Some("PreparingNormal" | "Updated") => json!("true"),
                Some("PreparingUpdate") => Value::Null,
                _ => continue,
            };
            let known = pod.labels().get(REGISTERED).map_or(Value::Null, |label| json!(label));
            if known != wanted {
                let patch = Patch::Merge(json!({"metadata": {"labels": {REGISTERED: wanted}}}));
                while pods.patch(&pod.name_any(), &PatchParams::default(), &patch).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    });
    task
}

/// Scenarios 19 and 22 of docs/behaviour/lifecycle.md, with real containers and a program that serves the
/// hooks by a label.
#[tokio::test]
async fn a_program_registers_pods_by_the_label_of_their_hooks() {
    let Some(site) = Site::installed().await else { return };
    let hook = json!({"labelsHandler": {REGISTERED: "true"}});
    let fleet = Fleet::open(&site, "registered", |set| {
        set.replicas(2).with("/spec/lifecycle", json!({"preNormal": hook, "inPlaceUpdate": hook}))
    })
    .await;
    let chronicle = Chronicle::begin(&site.server().client(), &fleet.namespace).await;
    // Nobody registers them yet.
    wait_within(TIMEOUT, "both Pods to be ready", async || {
        let set = site.kruise(&fleet.namespace, "clonesets/web").await;
        let status = &set["status"];
        let both = status["readyReplicas"] == 2;
        assert!(status["availableReplicas"].as_i64().unwrap_or(0) == 0, "{status:#}");
        if both { Ok(()) } else { Err(status.clone()) }
    })
    .await;
    let _program = registrar(fleet.pods());
    let before = fleet.complete().await;

    let rollout = Chronicle::begin(&site.server().client(), &fleet.namespace).await;
    fleet.change("image", &json!("nginx:1.26")).await;
    let after = fleet.complete().await;
    for (before, after) in before.iter().zip(&after) {
        let ((uid, ip, restarts, id), (new_uid, new_ip, new_restarts, new_id)) = (life(before), life(after));
        assert_eq!((uid, ip, restarts + 1), (new_uid, new_ip, new_restarts));
        assert_ne!(id, new_id);
        let registered = |pod: &Value| pod["metadata"]["labels"][REGISTERED] == "true";
        let course = chronicle
            .course(text(after, "/metadata/name"), |pod| {
                (state(pod), registered(pod), image(pod) == "nginx:1.26")
            })
            .await;
        let step = |(state, registered, new): (&str, bool, bool)| (state.to_owned(), registered, new);
        let expected = [
            ("PreparingNormal", false, false),
            ("PreparingNormal", true, false),
            ("Normal", true, false),
            ("PreparingUpdate", true, false),
            ("PreparingUpdate", false, false),
            ("Updating", false, true),
            ("Updated", false, true),
            ("Updated", true, true),
            ("Normal", true, true),
        ];
        assert_eq!(course, expected.map(step));
    }
    assert_eq!(rollout.order(|pod| image(pod) == "nginx:1.26").await.len(), 2);
    let registered = |pods: &[&Value]| {
        pods.iter().filter(|pod| is_ready(pod) && pod["metadata"]["labels"][REGISTERED] == "true").count()
    };
    assert_eq!(rollout.range(registered).await, (1, 2), "one serves at any time");
    fleet.close().await;
}

/// A native sidecar gets another image: it alone restarts, in front of a container that goes on.
#[tokio::test]
async fn a_native_sidecar_changes_beside_a_container_that_runs_on() {
    let Some(site) = Site::installed().await else { return };
    let fleet = Fleet::open(&site, "proxied", |set| {
        let set = set.replicas(1).init_container("proxy", "busybox:1.36");
        set.having("restartPolicy", "Always").having("command", json!(["sleep", "infinity"]))
    })
    .await;
    let before = fleet.complete().await.remove(0);
    let chronicle = Chronicle::begin(&site.server().client(), &fleet.namespace).await;
    let patch = r#"--patch=[{"op": "replace", "path": "/spec/template/spec/initContainers/0/image", "value": "nginx:1.26"}]"#;
    let words = ["patch", "cloneset", "web", "-n", &fleet.namespace, "--type=json", patch];
    site.server().kubectl(words).await.success();
    let after = fleet.complete().await.remove(0);
    assert_eq!(life(&after), life(&before), "the Pod and its container are as they were");
    assert_eq!(text(&after, "/spec/initContainers/0/image"), "nginx:1.26");
    let sidecar = |pod: &Value| pod["status"]["initContainerStatuses"][0].clone();
    let (old, new) = (sidecar(&before), sidecar(&after));
    assert_eq!((&new["restartCount"], &new["ready"]), (&json!(1), &json!(true)));
    assert_ne!(old["imageID"], new["imageID"]);
    let name = text(&before, "/metadata/name");
    assert_eq!(chronicle.course(name, is_ready).await, [true, false, true], "out of service meanwhile");
    let record = text(&after, "/metadata/annotations/apps.kruise.io~1inplace-update-state");
    let record: Value = serde_json::from_str(record).unwrap();
    assert_eq!(record["lastContainerStatuses"], json!({"proxy": {"imageID": old["imageID"]}}));
    fleet.close().await;
}

/// Scenario 27 of docs/behaviour/in-place-update.md, with a real kubelet: the processor's share changes under
/// a running container.
#[tokio::test]
async fn a_resize_touches_no_container() {
    let Some(site) = Site::installed().await else { return };
    let cpu = |limit: &str| json!({"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": limit, "memory": "64Mi"}});
    let fleet = Fleet::open(&site, "resized", |set| set.replicas(1).having("resources", cpu("200m"))).await;
    let before = fleet.complete().await.remove(0);
    let name = text(&before, "/metadata/name").to_owned();
    let quota = async || {
        // As the second and as the first version of control groups show it.
        let shown = "cat /sys/fs/cgroup/cpu.max 2>/dev/null || cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us";
        let words = ["exec", &name, "-n", &fleet.namespace, "--", "sh", "-c", shown];
        let shown = site.server().kubectl(words).await.success();
        shown.split_whitespace().next().unwrap_or_default().to_owned()
    };
    assert_eq!(quota().await, "20000");
    let chronicle = Chronicle::begin(&site.server().client(), &fleet.namespace).await;
    fleet.change("resources", &cpu("300m")).await;
    let after = fleet.complete().await.remove(0);
    assert_eq!(life(&after), life(&before));
    assert_eq!(quota().await, "30000");
    for part in ["/spec/containers/0", "/status/containerStatuses/0"] {
        assert_eq!(text(&after, &format!("{part}/resources/limits/cpu")), "300m");
    }
    assert_eq!(chronicle.course(&name, is_ready).await, [true]);
    let record = text(&after, "/metadata/annotations/apps.kruise.io~1inplace-update-state");
    let record: Value = serde_json::from_str(record).unwrap();
    assert_eq!((&record["updateResources"], state(&after)), (&json!(true), "Normal".to_owned()));
    fleet.close().await;
}
