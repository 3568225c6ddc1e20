//! The controller with an API server that makes trouble.

use std::future::ready;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use admission::world::{Watched, World};
use api::features::FeatureGates;
use api::kinds::cloneset::{API_VERSION, KIND};
use cluster::watched::Key;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::workload::snapshot::Environment;
use kit::double::Objects;
use kit::fake_nodes::reported;
use kit::merge::strategic_merge;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{advance, timeout};
use values::event::Event;

use super::*;
use crate::fake::{self, Request, Requests};
use crate::metrics::Metrics;
use crate::workload::builder::{Next, Reconciler};
use crate::workload::controller::{Controller, Stored};
use crate::workload::memory;
use crate::workload::pods::Pods;
use crate::workload::store::follow::Sink;
use crate::workload::store::{Change, Kept};
use crate::{ReconcileError, Settings};
use cluster::event_sender::PendingEvent;

mod writes;

/// Decides over the requests that it wants to.
trait Trouble: Fn(&Request<'_>) -> Option<(u16, String)> + Clone + Send + Sync + 'static {}
impl<T: Fn(&Request<'_>) -> Option<(u16, String)> + Clone + Send + Sync + 'static> Trouble for T {}

const SET: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/clonesets/web";
const BUDGET: &str = "/apis/policy.kruise.io/v1beta1/namespaces/shop/podunavailablebudgets/web";
const SPREAD: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/workloadspreads/ws";
const PODS: &str = "/api/v1/namespaces/shop/pods";
const REVISIONS: &str = "/apis/apps/v1/namespaces/shop/controllerrevisions";
const CLAIMS: &str = "/api/v1/namespaces/shop/persistentvolumeclaims";

struct Site {
    controller: Arc<Controller<CloneSet>>,
    server: Objects,
    requests: Requests,
    events: mpsc::Receiver<PendingEvent>,
    metrics: Arc<Metrics>,
}

/// What the chart lets the program do: API groups, resources and verbs.
fn rights() -> Vec<Value> {
    let manifests =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/manifests.yaml")).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&manifests).unwrap();
    let ours = |object: &&Value| {
        object["kind"] == "ClusterRole" && object["metadata"]["name"] == "kruise-manager-role"
    };
    objects.iter().find(ours).unwrap()["rules"].as_array().unwrap().clone()
}

/// API group, resource and verb of a request, as rules name them.
fn right_for(request: &str) -> (String, String, &'static str) {
    let (method, path) = request.split_once(' ').unwrap();
    let path = path.split([' ', '?']).next().unwrap();
    let (group, rest) = match path.split('/').skip(1).collect::<Vec<_>>().as_slice() {
        ["api", "v1", "namespaces", _, rest @ ..] => (String::new(), rest.to_vec()),
        ["apis", group, _, "namespaces", _, rest @ ..] => ((*group).to_owned(), rest.to_vec()),
        _ => panic!("{request}"),
    };
    let resource = match rest.as_slice() {
        [resource] | [resource, _] => (*resource).to_owned(),
        [resource, _, part] => format!("{resource}/{part}"),
        _ => panic!("{request}"),
    };
    let verb = match (method, rest.len()) {
        ("POST", _) => "create",
        ("PATCH", _) => "patch",
        ("DELETE", _) => "delete",
        ("GET", 1) => "list",
        _ => "get",
    };
    (group, resource, verb)
}

/// A controller whose reconciles are counted.
struct Counted(Arc<Controller<CloneSet>>, AtomicUsize);

impl Reconciler for Counted {
    type Key = Key;
    type Error = ReconcileError;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.reconcile(key).await
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        self.0.object(key)
    }
}

impl Drop for Site {
    /// Whatever was asked for in a test, the chart has to allow it.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let rights = rights();
        for request in self.requests.lock().unwrap().iter() {
            let (group, resource, verb) = right_for(request);
            let has = |list: &Value, word: &str| list.as_array().unwrap().iter().any(|item| item == word);
            let granted = rights.iter().any(|rule| {
                has(&rule["apiGroups"], &group)
                    && has(&rule["resources"], &resource)
                    && has(&rule["verbs"], verb)
            });
            assert!(granted, "the chart does not let the program {verb} {resource} of {group:?}");
        }
    }
}

/// An update changes two containers, which are not in alphabetical order.
fn template(image: &str) -> Value {
    let containers =
        json!([{"name": "main", "image": image}, {"name": "aa", "image": format!("aa/{image}")}]);
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}})
}

impl Site {
    /// A new CloneSet whose Pods are updated in place; `spec` is merged over it.
    fn open(spec: Value, trouble: impl Trouble) -> Self {
        let server = Objects::default();
        let answering = server.clone();
        let (client, requests) =
            fake::api_server(move |request| trouble(&request).unwrap_or_else(|| answering.answer(&request)));
        let gates = FeatureGates::parse("PodUnavailableBudgetUpdateGate=true", "").unwrap();
        let settings = Arc::new(Settings { gates, ..Settings::of_one_worker() });
        let context = Context { settings, ..Context::fixed(client, World::new("kruise-system")) };
        let metrics = context.metrics.clone();
        let (event_sender, recorded) = cluster::event_sender::event_sender("Reconcile");
        let pods = Pods::new(false);
        pods.list_begins();
        pods.list_ends();
        let stores = Arc::new(Stores::new(Arc::new(pods), context.index.clone(), "kruise-system"));
        let controller = Controller::new(context, Environment::default(), stores, event_sender);
        let controller = Arc::new(controller);
        controller.workloads.list_begins();
        controller.workloads.list_ends();
        let site = Self { controller, server, requests, events: recorded, metrics };
        let mut set = json!({
            "apiVersion": API_VERSION, "kind": KIND,
            "metadata": {"name": "web", "namespace": "shop", "uid": "set-uid", "generation": 1},
            "spec": {
                "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                "template": template("nginx:1"),
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {
                    "podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1}},
            },
        });
        strategic_merge(&mut set["spec"], spec);
        site.store_set(set);
        site
    }

    /// One whose Pods all serve.
    async fn running(spec: Value, trouble: impl Trouble) -> Self {
        let mut site = Self::open(spec, trouble);
        for _ in 0..5 {
            site.reconcile().await.unwrap();
            site.kubelet();
        }
        site.reconcile().await.unwrap();
        site.requests.lock().unwrap().clear();
        site.recorded();
        site
    }

    fn store_set(&self, set: Value) {
        let set = self.server.put(SET, set);
        let set: CloneSet = serde_json::from_value(set).unwrap();
        let old = self.controller.workloads.get(&Stored(set.clone()).key());
        self.controller.workloads.apply(Stored(set.clone()));
        self.controller.of_workload(&Change { old, new: Some(Arc::new(Stored(set))) });
    }

    /// The user changes `spec`.
    fn edit(&self, spec: Value) {
        let mut set = self.server.get(SET).unwrap();
        strategic_merge(&mut set["spec"], spec);
        set["metadata"]["generation"] = json!(set["metadata"]["generation"].as_i64().unwrap() + 1);
        self.store_set(set);
    }

    /// A budget of the Pods has so many units left.
    fn budget(&self, left: i64) {
        let budget = json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "budget", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1},
            "status": {"observedGeneration": 1, "unavailableAllowed": left, "currentAvailable": 2 + left,
                "desiredAvailable": 2, "totalReplicas": 3},
        });
        let mut world = World::new("kruise-system");
        world.apply(Watched::PodUnavailableBudget, &self.server.put(BUDGET, budget).to_string()).unwrap();
        self.controller.context.index.publish(world);
    }

    /// A WorkloadSpread divides the Pods over `s0`, `s1` and so on, one Pod in each.
    fn spread(&self, maxima: &[&str], status: &Value) {
        let subset = |(index, max): (usize, &&str)| json!({"name": format!("s{index}"), "maxReplicas": max});
        let subsets: Value = maxima.iter().enumerate().map(subset).collect();
        let spread = json!({
            "metadata": {"namespace": "shop", "name": "ws", "uid": "ws"},
            "spec": {"targetRef": {"apiVersion": API_VERSION, "kind": KIND, "name": "web"}, "subsets": subsets},
            "status": {"versionedSubsetStatuses": {"versionIgnored": status}},
        });
        for (index, (pod, _)) in self.pods().iter().enumerate() {
            let mark = json!({"name": "ws", "subset": format!("s{index}")}).to_string();
            self.touch(
                pod,
                json!({"metadata": {"annotations": {"apps.kruise.io/matched-workloadspread": mark}}}),
            );
        }
        let mut world = World::new("kruise-system");
        world.apply(Watched::WorkloadSpread, &self.server.put(SPREAD, spread).to_string()).unwrap();
        self.controller.context.index.publish(world);
    }

    fn pods(&self) -> Vec<(String, Value)> {
        self.server.under(PODS)
    }

    /// Changes a Pod, which the watch reports.
    fn touch(&self, path: &str, patch: Value) {
        let mut pod = self.server.get(path).unwrap();
        strategic_merge(&mut pod, patch);
        let pod = self.server.put(path, pod);
        self.controller.stores.pods.see(serde_json::from_value(pod).unwrap());
    }

    /// Somebody else takes a Pod away.
    fn lose(&self, path: &str) {
        let pod = self.server.remove(path).unwrap();
        self.controller.stores.pods.gone(&serde_json::from_value(pod).unwrap());
    }

    /// Every Pod runs what it should.
    fn kubelet(&self) {
        for (path, pod) in self.pods() {
            self.touch(&path, json!({"spec": {"nodeName": "node"}, "status": reported(&pod)}));
        }
    }

    /// One reconcile, after the rest from the one before.
    async fn reconcile(&self) -> Result<Next, ReconcileError> {
        if let Some(rest) = self.controller.limiter.rest(&("shop".to_owned(), "web".to_owned())) {
            advance(rest).await;
        }
        self.controller.reconcile(&("shop".to_owned(), "web".to_owned())).await
    }

    /// Reconciles once a second for so many of them, while Pods run what they should.
    async fn pass(&self, seconds: usize) {
        for _ in 0..seconds {
            drop(self.reconcile().await);
            self.kubelet();
            advance(Duration::from_secs(1)).await;
        }
    }

    /// Whatever is refused has been so for a minute longer. The clock by which that counts is never paused.
    fn age(&self) {
        let set: CloneSet = serde_json::from_value(self.server.get(SET).unwrap()).unwrap();
        self.controller.memory(&set, |memory| memory.pauses.age(SignedDuration::from_mins(1)));
    }

    /// Lets the queue work for this time; gives the number of reconciles.
    async fn run(&self, time: Duration) -> usize {
        let (sender, keys) = mpsc::unbounded_channel();
        sender.send(("shop".to_owned(), "web".to_owned())).unwrap();
        let counted = Arc::new(Counted(self.controller.clone(), AtomicUsize::new(0)));
        let settings = QueueSettings { name: NAME, workers: 1 };
        let (event_sender, _events) = cluster::event_sender::event_sender("Reconcile");
        drop(
            timeout(
                time,
                cluster::queue::run(
                    settings,
                    &self.metrics.queues,
                    &event_sender,
                    ready(()),
                    keys,
                    counted.clone(),
                ),
            )
            .await,
        );
        counted.1.load(Ordering::SeqCst)
    }

    /// How many requests begin with this text.
    fn count(&self, text: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|request| request.starts_with(text)).count()
    }

    /// The Events since the last time.
    fn recorded(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.events.try_recv().ok()).map(|recorded| recorded.event).collect()
    }

    fn condition(&self, kind: &str) -> Option<Value> {
        let set = self.server.get(SET).unwrap();
        let mut conditions = set["status"]["conditions"].as_array().into_iter().flatten();
        conditions.find(|condition| condition["type"] == kind).cloned()
    }
}

fn fine(_: &Request<'_>) -> Option<(u16, String)> {
    None
}

/// Answers so to the creation of Pods while it is asked to.
fn no_pods(code: u16, on: &Arc<AtomicBool>) -> impl Trouble {
    let on = on.clone();
    move |request| {
        let creation = request.method == "POST" && request.path == PODS;
        (creation && on.load(Ordering::SeqCst)).then(|| {
            let body: Value = serde_json::from_str(request.body).unwrap();
            let name = body["metadata"]["name"].as_str().unwrap();
            (code, fake::status(code).replace("refused", &format!("{name} is forbidden: exceeded quota")))
        })
    }
}

fn claim() -> Value {
    json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}])
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_tried_again_after_growing_pauses() {
    let on = Arc::new(AtomicBool::new(true));
    let mut site = Site::open(json!({}), no_pods(403, &on));
    let reconciles = site.run(Duration::from_secs(60)).await;
    let (tries, statuses) = (site.count("POST /api/v1/namespaces/shop/pods"), site.count("PATCH"));
    assert!((8..=11).contains(&tries), "{tries} tries");
    assert!(statuses <= tries + 1 && reconciles < 5 * tries, "{statuses} patches, {reconciles} reconciles");
    let recorded = site.recorded();
    assert!(
        recorded.len() == tries && recorded.iter().all(|event| event.reason == "FailedCreate"),
        "{recorded:?}"
    );
    let failed = site.condition("FailedScale").unwrap();
    assert!(failed["message"].as_str().unwrap().contains("exceeded quota"), "{failed}");
    on.store(false, Ordering::SeqCst);
    site.run(memory::PAUSE.1).await;
    assert_eq!(site.pods().len(), 3);
    assert!(site.condition("FailedScale").is_none());
}

#[tokio::test(start_paused = true)]
async fn what_a_user_changes_is_tried_at_once() {
    let on = Arc::new(AtomicBool::new(true));
    let site = Site::open(json!({}), no_pods(403, &on));
    site.run(Duration::from_secs(60)).await;
    on.store(false, Ordering::SeqCst);
    site.edit(json!({"replicas": 1}));
    site.run(Duration::from_secs(1)).await;
    assert_eq!(site.pods().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_planned_is_reported_once() {
    let mut claims = claim();
    claims[0]["spec"]["accessModes"] = json!("ReadWriteOnce");
    let site = Site::open(json!({"volumeClaimTemplates": claims}), fine);
    let reconciles = site.run(Duration::from_secs(60)).await;
    assert!(reconciles < 6, "{reconciles} reconciles");
    assert_eq!((site.count("PATCH"), site.count("POST")), (1, 0));
    for kind in ["FailedScale", "kutter.io/Blocked"] {
        let recorded = site.condition(kind).unwrap();
        assert!(recorded["message"].as_str().unwrap().contains("accessModes"), "{recorded}");
    }
}

/// A CloneSet with Pods under update, and one Pod too few that can't be created.
async fn under_update(code: u16) -> Site {
    let on = Arc::new(AtomicBool::new(false));
    let budget = json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}});
    let site = Site::running(budget, no_pods(code, &on)).await;
    site.edit(json!({"template": template("nginx:2")}));
    site.reconcile().await.unwrap();
    on.store(true, Ordering::SeqCst);
    site.edit(json!({"replicas": 4}));
    site.kubelet();
    site.requests.lock().unwrap().clear();
    site
}

#[tokio::test(start_paused = true)]
async fn updates_go_on_while_no_pod_can_be_created() {
    for code in [403, 500, 504] {
        let site = under_update(code).await;
        let updated = |site: &Site| {
            let ends = |(_, pod): &&(String, Value)| {
                pod["spec"]["containers"][0]["image"] == "nginx:2"
                    && pod["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] == "Normal"
            };
            site.pods().iter().filter(ends).count()
        };
        for _ in 0..4 {
            drop(site.reconcile().await);
            site.kubelet();
        }
        assert!(site.count("POST /api/v1/namespaces/shop/pods") > 0 && updated(&site) > 0, "{code}");
        site.pass(40).await;
        assert_eq!((updated(&site), site.pods().len()), (3, 3), "{code}: others follow");
    }
}

#[tokio::test(start_paused = true)]
async fn others_are_updated_in_place_of_a_pod_that_may_not_be() {
    let kept = Arc::new(Mutex::new(String::new()));
    let refusing = kept.clone();
    let mut site = Site::running(json!({}), move |request| {
        let changes = request.method == "PATCH" && request.body.contains("nginx:2");
        let path = request.path.split('?').next().unwrap();
        (changes && path == *refusing.lock().unwrap()).then(|| (422, fake::status(422)))
    })
    .await;
    let path = site.pods()[0].0.clone();
    kept.lock().unwrap().clone_from(&path);
    site.edit(json!({"template": template("nginx:2")}));
    site.pass(60).await;
    let old = |site: &Site| -> Vec<String> {
        let is_old = |(_, pod): &(String, Value)| pod["spec"]["containers"][0]["image"] == "nginx:1";
        site.pods().into_iter().filter(is_old).map(|(path, _)| path).collect()
    };
    assert_eq!(old(&site), std::slice::from_ref(&path));
    let message = |recorded: &Value| recorded["message"].as_str().unwrap().to_owned();
    let recorded = site.condition("FailedUpdate").unwrap();
    assert!(message(&recorded).contains("refused"), "{recorded}");
    let name = path.rsplit('/').next().unwrap();
    let failures = site.recorded().into_iter().filter(|event| event.reason == "FailedUpdatePodInPlace");
    let failures: Vec<String> = failures.map(|event| event.message).collect();
    let begin = format!("failed to update pod {name} in-place(revision web-");
    assert!(
        !failures.is_empty()
            && failures.iter().all(|recorded| recorded.starts_with(&begin) && recorded.contains("refused")),
        "{failures:?}"
    );
    assert_eq!(site.condition("kutter.io/Blocked"), None, "it has not stood still for long");
    site.age();
    // A reconcile that tries the refused update again does not count it as held up.
    for _ in 0..20 {
        if site.condition("kutter.io/Blocked").is_none() {
            site.pass(1).await;
        }
    }
    let blocked = site.condition("kutter.io/Blocked").unwrap();
    assert_eq!((&blocked["status"], &blocked["reason"]), (&json!("True"), &json!("Refused")));
    assert!(message(&blocked).contains(name) && message(&blocked).contains("refused"), "{blocked}");
    kept.lock().unwrap().clear();
    site.pass(900).await;
    assert_eq!(old(&site), [""; 0]);
    for kind in ["FailedUpdate", "kutter.io/Blocked"] {
        assert_eq!(site.condition(kind), None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_behind_a_budget_asks_nothing_until_that_has_something_to_give() {
    let mut site = Site::running(json!({}), fine).await;
    site.budget(0);
    site.edit(json!({"template": template("nginx:2")}));
    for _ in 0..30 {
        site.reconcile().await.unwrap();
        site.kubelet();
        advance(Duration::from_secs(1)).await;
    }
    let asked = |site: &Site| (site.count(&format!("PATCH {PODS}")), site.count(&format!("PATCH {BUDGET}")));
    assert_eq!((asked(&site), site.count(&format!("GET {BUDGET}"))), ((0, 0), 0));
    assert!(site.condition("FailedUpdate").is_none() && site.recorded().is_empty());
    site.budget(1);
    site.reconcile().await.unwrap();
    let (pods, budgets) = asked(&site);
    assert!(pods > 0 && budgets == 1, "{pods} writes to Pods, {budgets} to the budget");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_behind_a_budget_asks_nothing_until_that_has_something_to_give() {
    let mut site = Site::running(json!({}), fine).await;
    site.budget(0);
    site.edit(json!({"replicas": 2}));
    for _ in 0..30 {
        site.reconcile().await.unwrap();
        advance(Duration::from_secs(1)).await;
    }
    assert_eq!((site.count("DELETE"), site.count(&format!("GET {BUDGET}"))), (0, 0));
    assert!(site.condition("FailedScale").is_none() && site.recorded().is_empty());
    site.budget(1);
    site.reconcile().await.unwrap();
    assert_eq!((site.count("DELETE"), site.pods().len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_hook_takes_a_pod_out_of_service_when_its_budget_bears_that() {
    let hook = json!({"preDelete": {"labelsHandler": {"hold": "yes"}, "markPodNotReady": true}});
    let mut held = template("nginx:1");
    held["metadata"]["labels"]["hold"] = json!("yes");
    held["spec"]["readinessGates"] = json!([{"conditionType": "KruisePodReady"}]);
    let site = Site::running(json!({"lifecycle": hook, "template": held}), fine).await;
    site.budget(0);
    site.edit(json!({"replicas": 2}));
    let prepared = |site: &Site| {
        let state = |pod: &Value| pod["metadata"]["labels"]["lifecycle.apps.kruise.io/state"].clone();
        site.pods().iter().filter(|(_, pod)| state(pod) == "PreparingDelete").count()
    };
    for _ in 0..5 {
        site.reconcile().await.unwrap();
        advance(Duration::from_secs(1)).await;
    }
    assert_eq!((prepared(&site), site.count(&format!("GET {BUDGET}"))), (0, 0));
    site.budget(1);
    site.reconcile().await.unwrap();
    assert_eq!((prepared(&site), site.count(&format!("PATCH {BUDGET}"))), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn pods_of_subsets_beyond_their_maximum_go_before_their_costs_are_written() {
    let mut site = Site::running(json!({}), fine).await;
    site.spread(&["0%", "50%", "50%"], &json!([]));
    let pods = site.pods();
    site.edit(json!({"replicas": 2}));
    site.reconcile().await.unwrap();
    assert_eq!(site.pods().iter().map(|(path, _)| path).collect::<Vec<_>>(), [&pods[1].0, &pods[2].0]);
    assert!(site.recorded().iter().all(|event| event.reason != "FailedDelete"));
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_after_admission_has_noted_it_is_noted_no_more() {
    for (answer, noted) in [
        ((403, fake::status(403)), Some(2)),
        (fake::conflict("Conflict"), None),
        ((404, fake::status(404)), None),
    ] {
        let code = answer.0;
        let refusing = move |request: &Request<'_>| {
            let is_delete = request.method == "DELETE" && request.path.starts_with(PODS);
            is_delete.then(|| answer.clone())
        };
        let site = Site::running(json!({}), refusing).await;
        let name = |path: &str| path.rsplit('/').next().unwrap().to_owned();
        let leaving: Value =
            site.pods().iter().map(|(path, _)| (name(path), json!("2026-05-01T08:00:00Z"))).collect();
        let item = json!({"name": "s0", "replicas": 3, "missingReplicas": 3, "deletingPods": leaving});
        site.spread(&["100%"], &json!([item]));
        site.edit(json!({"replicas": 2}));
        drop(site.reconcile().await);
        assert!(site.count(&format!("DELETE {PODS}")) > 0);
        // The patch itself: the double would merge its list into the old one, and the API server replaces that.
        let requests = site.requests.lock().unwrap();
        let about_spread: Vec<_> = requests.iter().filter(|request| request.contains(SPREAD)).collect();
        let patches = about_spread
            .iter()
            .filter_map(|request| request.strip_prefix(&format!("PATCH {SPREAD}/status ")));
        let written = patches.map(|patch| {
            let patch: Value = serde_json::from_str(patch).unwrap();
            let item = &patch["status"]["versionedSubsetStatuses"]["versionIgnored"][0];
            (item["missingReplicas"].clone(), item["deletingPods"].as_object().unwrap().len())
        });
        let expected: Vec<_> = noted.map(|pods| (json!(pods), pods)).into_iter().collect();
        assert_eq!(written.collect::<Vec<_>>(), expected, "{code}: of three Pods one stays after all");
        assert_eq!(about_spread.is_empty(), noted.is_none(), "{code}: somebody else may have deleted it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_creation_asks_for_its_slot_to_be_given_back() {
    let refusing = |request: &Request<'_>| {
        let is_creation = request.method == "POST" && request.path.starts_with(PODS);
        is_creation.then(|| (403, fake::status(403)))
    };
    let site = Site::open(json!({}), refusing);
    site.spread(&["100%"], &json!([]));
    drop(site.reconcile().await);
    assert_eq!((site.count(&format!("POST {PODS}")), site.count(&format!("GET {SPREAD}"))), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_refused_delete_stops_no_creation() {
    let on = Arc::new(AtomicBool::new(true));
    let refuses = on.clone();
    let refusing = move |request: &Request<'_>| {
        let delete = request.method == "DELETE" && request.path.starts_with(PODS);
        (delete && refuses.load(Ordering::SeqCst)).then(|| (403, fake::status(403)))
    };
    let mut site = Site::running(json!({}), refusing).await;
    let pods = site.pods();
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    site.touch(&pods[0].0, not_ready);
    site.touch(&pods[0].0, json!({"metadata": {"labels": {"apps.kruise.io/specified-delete": "true"}}}));
    drop(site.reconcile().await);
    assert_eq!(site.count("DELETE /api/v1/namespaces/shop/pods"), 1);
    let failures = site.recorded().into_iter().filter(|event| event.reason == "FailedDelete");
    let failures: Vec<String> = failures.map(|event| event.message).collect();
    let begin = format!("failed to delete pod {}: ", pods[0].0.rsplit('/').next().unwrap());
    assert!(failures.len() == 1 && failures[0].starts_with(&begin), "{failures:?}");
    site.lose(&pods[1].0);
    drop(site.reconcile().await);
    assert_eq!(site.count("POST /api/v1/namespaces/shop/pods"), 1);
    assert_eq!(site.pods().len(), 3);
    site.run(Duration::from_secs(60)).await;
    let deletes = site.count("DELETE /api/v1/namespaces/shop/pods");
    assert!((6..=11).contains(&deletes), "{deletes} tries");
    assert_eq!(site.pods().len(), 3, "nothing is created twice");
    on.store(false, Ordering::SeqCst);
    site.run(memory::PAUSE.1).await;
    assert_eq!(site.server.get(&pods[0].0), None, "it goes when it may");
}

#[tokio::test(start_paused = true)]
async fn a_creation_whose_answer_did_not_come_is_looked_for_by_name() {
    let (lost, held) = (Arc::new(AtomicBool::new(true)), Objects::default());
    let (losing, holding) = (lost.clone(), held.clone());
    let site = Site::open(json!({"replicas": 1}), move |request| {
        if request.method == "GET" && request.path.starts_with(PODS) {
            return Some(holding.answer(request));
        }
        let creation = request.method == "POST" && request.path == PODS;
        (creation && losing.swap(false, Ordering::SeqCst)).then(|| {
            holding.answer(request);
            (504, fake::status(504))
        })
    });
    assert!(site.reconcile().await.is_err());
    site.reconcile().await.unwrap();
    let name = held.under(PODS)[0].0.clone();
    assert_eq!(site.count("POST /api/v1/namespaces/shop/pods"), 1, "there is one already");
    assert_eq!(site.count(&format!("GET {name} ")), 1);
    assert_eq!(site.count("GET "), 1, "nothing else is read: {:?}", site.requests.lock().unwrap());
    assert!(!lost.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn claims_wait_for_a_pod_that_could_not_be_created() {
    for code in [403, 500, 504] {
        let on = Arc::new(AtomicBool::new(true));
        let site = Site::open(json!({"replicas": 1, "volumeClaimTemplates": claim()}), no_pods(code, &on));
        site.run(Duration::from_secs(10)).await;
        assert!(site.count("POST /api/v1/namespaces/shop/pods") > 4, "{code}");
        assert_eq!((site.count(&format!("POST {CLAIMS}")), site.count("DELETE")), (1, 0), "{code}");
        on.store(false, Ordering::SeqCst);
        site.run(memory::PAUSE.1).await;
        assert_eq!((site.pods().len(), site.server.under(CLAIMS).len()), (1, 1), "{code}");
        let set: CloneSet = serde_json::from_value(site.server.get(SET).unwrap()).unwrap();
        assert!(site.controller.memory(&set, |memory| memory.refused.is_empty()), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_another_pod_has_is_reported_and_a_conflict_of_quotas_too() {
    let own = json!({"metadata": {"ownerReferences": [{"uid": "set-uid"}]}});
    for (reason, holder, recorded) in [
        ("Conflict", None, true),
        ("AlreadyExists", None, false),
        ("AlreadyExists", Some(json!({"metadata": {}})), true),
        ("AlreadyExists", Some(own), false),
    ] {
        let held = holder.clone();
        let mut site = Site::open(json!({"replicas": 1}), move |request| match request.method {
            "POST" if request.path == PODS => Some(fake::conflict(reason)),
            "GET" if request.path.starts_with(PODS) => held.clone().map(|pod| (200, pod.to_string())),
            _ => None,
        });
        drop(site.reconcile().await);
        let events = site.recorded();
        assert_eq!(events.len(), usize::from(recorded), "{reason} {holder:?}: {events:?}");
        assert!(events.iter().all(|event| event.reason == "FailedCreate"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_there_is_used_if_it_is_ours() {
    let own = json!({"metadata": {"ownerReferences": [{"uid": "set-uid"}]}});
    for (holder, pods) in [(own, 1), (json!({"metadata": {}}), 0)] {
        let mut site =
            Site::open(json!({"replicas": 1, "volumeClaimTemplates": claim()}), move |request| match request
                .method
            {
                "POST" if request.path == CLAIMS => Some(fake::conflict("AlreadyExists")),
                "GET" if request.path.starts_with(CLAIMS) => Some((200, holder.to_string())),
                _ => None,
            });
        drop(site.reconcile().await);
        assert_eq!(site.pods().len(), pods);
        let failures = site.recorded().into_iter().filter(|event| event.reason == "FailedCreate");
        let recorded: Vec<_> = failures.map(|event| event.message).collect();
        assert_eq!(recorded.len(), 1 - pods, "{recorded:?}");
        assert!(recorded.iter().all(|message| message.starts_with("failed to create pvc: ")), "{recorded:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_pod_lives_unseen_stays() {
    let site = Site::running(json!({"replicas": 1, "volumeClaimTemplates": claim()}), fine).await;
    let (path, pod) = site.pods().remove(0);
    site.controller.stores.pods.gone(&serde_json::from_value(pod).unwrap());
    drop(site.reconcile().await);
    assert_eq!(site.count(&format!("GET {path} ")), 1);
    assert_eq!(site.count("DELETE"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_ends_is_left_alone() {
    for refused in [PODS, CLAIMS, REVISIONS] {
        let spec = json!({"volumeClaimTemplates": claim()});
        let mut site = Site::open(spec, move |request| {
            (request.method == "POST" && request.path == refused).then(fake::namespace_ends)
        });
        let reconciles = site.run(Duration::from_secs(3600)).await;
        assert_eq!(site.count(&format!("POST {refused} ")), 1, "{refused}");
        assert!(reconciles <= 2, "{refused}: {reconciles}");
        assert_eq!(site.recorded().iter().filter(|event| event.warning).count(), 0, "{refused}");
        let requests = site.requests.lock().unwrap().len();
        site.edit(json!({"replicas": 5}));
        site.run(Duration::from_secs(3600)).await;
        assert_eq!(site.requests.lock().unwrap().len(), requests, "{refused}");
    }
}
