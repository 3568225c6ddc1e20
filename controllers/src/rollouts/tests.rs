//! The mechanism by which Rollouts are reconciled, with a kind whose plans are simple.

use std::sync::atomic::{AtomicU16, Ordering};

use admission::world::World;
use cluster::event_sender::{PendingEvent, event_sender};
use cluster::resource::Resource;
use cluster::watched::{Key, WatchedObject};
use kit::double::{Objects, Request, Requests};
use pod::observed::ObservedPod;
use rollouts::object::{Object as _, ObjectName};
use rollouts::plan::Plan;
use rollouts::view::{ListName, Unread, View};
use rollouts::write::Write;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver};
use values::event::{Event, normal, warning};
use values::moment::Moment;

use super::controller::Controller;
use super::kinds::OWN_KINDS;
use super::known::{Known, Settings};
use super::lists::News;
use super::subject::Subject;
use super::*;
use crate::fake;
use crate::metrics::releases::Releases;
use crate::workload::builder::{Next, Reconciler};
use crate::workload::pods::Pods;
use crate::workload::store::follow::Sink;

const TASK: &str = "/apis/rollouts.kruise.io/v1alpha1/namespaces/shop/trafficroutings/web";
const MAPS: &str = "/apis/example.com/v1/namespaces/shop/maps";
const SETS: &str = "/apis/apps/v1/namespaces/shop/replicasets";

/// Copies `spec.wanted` to the object `spec.map`, and counts the ReplicaSets that `spec.list` selects and the Pods of the
/// object that `spec.pods` names.
struct Task;

impl Subject for Task {
    type Object = Value;
    type Status = Value;
    const CONTROLLER: &'static str = "task-controller";
    const KIND: Resource<'static> = OWN_KINDS[2];

    fn workers(_settings: &crate::Settings) -> usize {
        1
    }

    fn plan(
        task: &Value,
        view: &View,
        _settings: &Settings,
        _moment: &Moment,
    ) -> Result<Option<Plan<Value>>, Unread> {
        let mut plan = Plan::only(task["status"].clone());
        let text = |member: &str| task["spec"][member].as_str();
        if let Some(name) = text("map") {
            let (name, wanted) = (map(name), &task["spec"]["wanted"]);
            match view.object(&name)? {
                Some(found) if found["data"] == *wanted => plan.status["message"] = json!("copied"),
                Some(found) => {
                    for (member, value) in wanted.as_object().unwrap() {
                        plan.writes.push(Write::patch(&name, found, json!({"data": {member: value}})));
                    }
                    plan.events.push(normal("Copied", String::new()));
                }
                None => {
                    let object = json!({"metadata": {"name": name.name}, "data": wanted});
                    plan.writes.push(Write::Create { name, object });
                }
            }
        }
        if let Some(selector) = text("list") {
            plan.status["count"] = json!(view.list(&sets(selector))?.len());
        }
        if let Some(name) = text("pods") {
            let name = ObjectName::new(text("version").unwrap(), "CloneSet", "shop", name);
            let owner = view.object(&name)?.map(|owner| owner.uid().to_owned()).unwrap_or_default();
            plan.status["count"] = json!(view.pods_of(&owner)?.len());
        }
        for number in 0.. {
            if task["spec"]["endless"] != true {
                break;
            }
            view.object(&map(&number.to_string()))?;
        }
        Ok(Some(plan))
    }

    fn status(task: &Value) -> &Value {
        &task["status"]
    }

    fn is_running(task: &Value) -> bool {
        task["spec"]["running"] == true
    }

    fn is_urgent(before: &Value, after: &Value) -> bool {
        before["message"] != after["message"]
    }

    fn explain(status: &mut Value, problem: String) {
        status["message"] = problem.into();
    }

    fn not_created(name: &ObjectName, _problem: &str) -> Option<Event> {
        Some(warning("NotCreated", name.name.clone()))
    }

    fn concerned(_known: &Known, news: &News) -> Vec<Key> {
        news.key().into_iter().filter(|_| news.is_of(Self::KIND.api_version, Self::KIND.kind)).collect()
    }
}

fn map(name: &str) -> ObjectName {
    ObjectName::new("example.com/v1", "Map", "shop", name)
}

fn sets(selector: &str) -> ListName {
    let [api_version, kind, namespace, selector] =
        ["apps/v1", "ReplicaSet", "shop", selector].map(str::to_owned);
    ListName { api_version, kind, namespace, selector }
}

fn key() -> Key {
    ("shop".to_owned(), "web".to_owned())
}

/// Answers as an API server does: lists as well, and watches that end at once.
fn answer(server: &Objects, request: &Request<'_>) -> (u16, String) {
    let (path, query) = request.path.split_once('?').unwrap_or((request.path, ""));
    if query.contains("watch=true") {
        return (200, String::new());
    }
    if path == "/apis/example.com/v1" {
        let served = [("maps", "Map"), ("clonesets", "CloneSet")]
            .map(|(name, kind)| json!({"name": name, "kind": kind, "namespaced": true}));
        return (200, json!({"resources": served}).to_string());
    }
    match (request.method, query.contains("limit=")) {
        ("PATCH" | "DELETE", _) => return changed(server, request),
        (_, false) => return server.answer(request),
        _ => {}
    }
    let is_selected =
        |object: &Value| !query.contains("app%3Dweb") || object["metadata"]["labels"]["app"] == "web";
    let cluster_wide = path.rsplit('/').next().unwrap();
    let items: Vec<Value> = server
        .under("/")
        .into_iter()
        .filter(|(known, _)| known.contains(&format!("/{cluster_wide}/")))
        .map(|(_, object)| object)
        .filter(is_selected)
        .collect();
    (200, json!({"metadata": {"resourceVersion": "100"}, "items": items}).to_string())
}

/// Merges a patch, or deletes: an object goes when it has no finalizer, and a changed spec is a further generation.
fn changed(server: &Objects, request: &Request<'_>) -> (u16, String) {
    let path = request.path.trim_end_matches("/status");
    let Some(before) = server.get(path) else { return (404, fake::status(404)) };
    let body: Value = serde_json::from_str(request.body).unwrap();
    let mut after = before.clone();
    if request.method == "DELETE" {
        after["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    } else {
        let version = &body["metadata"]["resourceVersion"];
        if !version.is_null() && *version != before["metadata"]["resourceVersion"] {
            return fake::conflict("Conflict");
        }
        let merged = values::merge_patch::merge_patch(&before.to_string(), request.body).unwrap();
        after = serde_json::from_str(&merged).unwrap();
    }
    if after["spec"] != before["spec"] {
        after["metadata"]["generation"] = json!(before["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
    }
    let is_held = after["metadata"]["finalizers"].as_array().is_some_and(|held| !held.is_empty());
    if after.is_deleting() && !is_held {
        server.remove(path);
        return (200, after.to_string());
    }
    (200, server.put(path, after).to_string())
}

struct Bench<S: Subject> {
    controller: Controller<S>,
    known: Arc<Known>,
    server: Objects,
    requests: Requests,
    events: Receiver<PendingEvent>,
    news: UnboundedReceiver<News>,
    /// What the API server answers to the next write instead.
    refusal: Arc<AtomicU16>,
}

impl<S: Subject> Bench<S> {
    async fn open(objects: &[(&str, Value)]) -> Self {
        let (server, refusal) = (Objects::default(), Arc::new(AtomicU16::new(0)));
        for (path, object) in objects {
            server.put(path, object.clone());
        }
        let (answering, refusing) = (server.clone(), refusal.clone());
        let (client, requests) = fake::api_server(move |request| match refusing.load(Ordering::SeqCst) {
            0 => answer(&answering, &request),
            _ if request.method == "GET" => answer(&answering, &request),
            // Done all the same, but nobody hears of it.
            504 => {
                answer(&answering, &request);
                (refusing.swap(0, Ordering::SeqCst), fake::status(504))
            }
            _ if request.path.ends_with("/status") => answer(&answering, &request),
            code => (code, fake::status(code)),
        });
        let context = Context::fixed(client, World::new("kruise-system"));
        let pods = Arc::new(Pods::new(false));
        pods.list_begins();
        let stores = Arc::new(Stores::new(pods, context.index.clone(), "kruise-system"));
        let known = Arc::new(Known::new(&context, stores));
        let news = known.lists.subscribe();
        known.follow_own_kinds();
        for kind in OWN_KINDS {
            known.own(&kind).unwrap().synced().await;
        }
        let (sender, events) = event_sender("Release");
        let controller = Controller::new(known.clone(), sender);
        let bench = Self { controller, known, server, requests, events, news, refusal };
        bench.requests();
        bench
    }

    /// All that was asked of the API server since the last call, but for watches.
    fn requests(&self) -> Vec<String> {
        let all = std::mem::take(&mut *self.requests.lock().unwrap());
        let is_watch = |line: &String| {
            ["watch=true", "allowWatchBookmarks", "/apis/example.com/v1 "]
                .iter()
                .any(|part| line.contains(part))
        };
        let words = |line: String| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        all.into_iter().filter(|line| !is_watch(line)).map(words).collect()
    }

    async fn reconcile(&self) -> Next {
        self.controller.reconcile(&key()).await.unwrap()
    }

    fn status(&self, path: &str) -> Value {
        self.server.get(path).unwrap()["status"].clone()
    }

    /// The changes of our own kinds that concern somebody.
    async fn concerned(&mut self) -> usize {
        // What tells of them gets the time for it.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let mut count = 0;
        while let Ok(news) = self.news.try_recv() {
            count += self.controller.of_news(&news).len();
        }
        count
    }

    /// Somebody else changes an object, of which the watch of its list tells.
    fn changed(&self, name: &ObjectName, path: &str, object: Value) {
        self.known.take_in(name, &self.server.put(path, object).to_string()).unwrap();
    }
}

fn task(spec: &Value) -> Value {
    json!({"metadata": {"namespace": "shop", "name": "web", "uid": "task"}, "spec": spec})
}

fn named(path: &str) -> ObjectName {
    let kind = OWN_KINDS.iter().find(|kind| path.contains(&format!("/{}/", kind.plural))).unwrap();
    ObjectName::new(kind.api_version, kind.kind, "shop", "web")
}

fn object_of_map(data: &Value) -> Value {
    json!({"metadata": {"namespace": "shop", "name": "a", "uid": "a"}, "data": data})
}

#[tokio::test]
async fn plans_follow_each_other_until_one_has_nothing_to_do() {
    let wanted = json!({"x": "1", "y": "2"});
    let map = (&*format!("{MAPS}/a"), object_of_map(&json!({"x": "0"})));
    let mut bench = Bench::<Task>::open(&[(TASK, task(&json!({"map": "a", "wanted": wanted}))), map]).await;
    assert_eq!(bench.reconcile().await, Next::Done);
    // The second write names what the first has left, and the plans after them read nothing anew.
    let status = format!("PATCH {TASK}/status");
    let get_and_writes =
        [format!("GET {MAPS}/a"), format!("PATCH {MAPS}/a"), format!("PATCH {MAPS}/a"), status];
    assert_eq!(bench.requests(), get_and_writes);
    assert_eq!(bench.server.get(&format!("{MAPS}/a")).unwrap()["data"], wanted);
    assert_eq!(bench.status(TASK), json!({"message": "copied"}));
    assert_eq!(bench.events.try_recv().unwrap().event.reason, "Copied");
    assert!(bench.events.try_recv().is_err());
    bench.reconcile().await;
    assert_eq!(bench.requests(), [format!("GET {MAPS}/a")]);
}

#[tokio::test]
async fn an_object_that_was_changed_meanwhile_is_read_and_planned_on_at_once() {
    let wanted = json!({"x": "1"});
    let (a, b) = (format!("{MAPS}/a"), format!("{MAPS}/b"));
    let bench = Bench::<Task>::open(&[
        (TASK, task(&json!({"map": "a", "wanted": wanted}))),
        (&a, object_of_map(&json!({"x": "0"}))),
        (&b, object_of_map(&json!({}))),
    ])
    .await;
    // The list shows an older task than there is.
    bench.server.put(TASK, task(&json!({"map": "b", "wanted": wanted})));
    bench.reconcile().await;
    let status = format!("PATCH {TASK}/status");
    let (get, patch) = (|path: &str| format!("GET {path}"), |path: &str| format!("PATCH {path}"));
    let expected = [get(&a), patch(&a), status.clone(), get(TASK), get(&b), patch(&b), status];
    assert_eq!(bench.requests(), expected);
    assert_eq!(bench.status(TASK)["message"], "copied");
}

#[tokio::test]
async fn what_exists_already_is_read_and_not_created() {
    let wanted = json!({"x": "1"});
    let bench = Bench::<Task>::open(&[(TASK, task(&json!({"map": "a", "wanted": wanted})))]).await;
    bench.reconcile().await;
    let status = format!("PATCH {TASK}/status");
    assert_eq!(bench.requests(), [format!("GET {MAPS}/a"), format!("POST {MAPS}"), status]);
    let other = Bench::<Task>::open(&[(TASK, task(&json!({"map": "a", "wanted": wanted})))]).await;
    let mut reading = reading::Reading::new(&other.known, ("task-controller", key()), false);
    let create = [Write::Create { name: map("a"), object: object_of_map(&wanted) }];
    for _ in 0..2 {
        let carried = reading.carry_out(&create).await.unwrap();
        assert_eq!(carried, carry_out::Carried::All);
    }
    assert_eq!(other.requests(), [format!("POST {MAPS}"), format!("POST {MAPS}"), format!("GET {MAPS}/a")]);
}

#[tokio::test]
async fn the_status_loses_what_goes_and_is_whole_at_first() {
    let mut with_status = task(&json!({"map": "a", "wanted": {}}));
    let map = (&*format!("{MAPS}/a"), object_of_map(&json!({})));
    let bench = Bench::<Task>::open(&[(TASK, with_status.clone()), map.clone()]).await;
    bench.reconcile().await;
    assert_eq!(bench.status(TASK), json!({"message": "copied"}));
    with_status["status"] = json!({"message": "old", "unknown": {"a": 1}});
    let bench = Bench::<Task>::open(&[(TASK, with_status), map]).await;
    bench.reconcile().await;
    assert_eq!(bench.status(TASK), json!({"message": "copied", "unknown": {"a": 1}}));
}

#[tokio::test]
async fn our_own_status_wakes_nobody_and_that_of_others_does() {
    let map = (&*format!("{MAPS}/a"), object_of_map(&json!({})));
    let mut bench = Bench::<Task>::open(&[(TASK, task(&json!({"map": "a", "wanted": {}}))), map]).await;
    assert_eq!(bench.concerned().await, 1, "it is there");
    bench.reconcile().await;
    assert_eq!(bench.concerned().await, 0);
    let mut approved = bench.server.get(TASK).unwrap();
    approved["status"]["state"] = json!("approved");
    bench.changed(&named(TASK), TASK, approved);
    assert_eq!(bench.concerned().await, 1);
    bench.server.remove(TASK);
    bench.known.lists.gone(&named(TASK));
    assert_eq!(bench.concerned().await, 1, "it is gone");
}

#[tokio::test]
async fn a_write_that_is_refused_is_explained_in_the_status_and_reported() {
    let spec = json!({"map": "a", "wanted": {"x": "1"}});
    let mut bench = Bench::<Task>::open(&[(TASK, task(&spec))]).await;
    bench.refusal.store(403, Ordering::SeqCst);
    assert!(bench.controller.reconcile(&key()).await.is_err());
    assert_eq!(bench.status(TASK)["message"], "refused");
    assert_eq!(bench.events.try_recv().unwrap().event.reason, "NotCreated");
    bench.refusal.store(0, Ordering::SeqCst);
    bench.reconcile().await;
    assert_eq!(bench.status(TASK)["message"], "copied");
}

#[tokio::test]
async fn after_a_write_without_an_answer_nothing_is_believed_that_a_watch_has_shown() {
    let spec = json!({"running": true, "list": "app=web", "map": "a", "wanted": {"x": "1"}});
    let bench = Bench::<Task>::open(&[(TASK, task(&spec))]).await;
    bench.refusal.store(504, Ordering::SeqCst);
    assert!(bench.controller.reconcile(&key()).await.is_err());
    bench.requests();
    bench.reconcile().await;
    let requests = bench.requests();
    assert_eq!(requests[0], format!("GET {TASK}"));
    assert!(requests.iter().any(|line| line.starts_with(&format!("GET {SETS}"))), "{requests:?}");
    assert_eq!(bench.status(TASK), json!({"message": "copied", "count": 0}));
    bench.reconcile().await;
    assert!(!bench.requests().contains(&format!("GET {TASK}")));
}

fn set(name: &str, app: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name, "uid": name, "labels": {"app": app}}})
}

#[tokio::test]
async fn a_list_is_kept_current_while_a_release_runs_that_reads_it() {
    let path = |name: &str| format!("{SETS}/{name}");
    let (a, b) = (path("a"), path("b"));
    let at_rest = task(&json!({"list": "app=web"}));
    let objects = [(TASK, at_rest.clone()), (&*a, set("a", "web")), (&*b, set("b", "db"))];
    let bench = Bench::<Task>::open(&objects).await;
    bench.reconcile().await;
    assert_eq!(bench.status(TASK)["count"], 1);
    assert!(bench.known.lists.stored(&sets("app=web")).is_none(), "it is read, and nothing more");

    bench.changed(&named(TASK), TASK, task(&json!({"list": "app=web", "running": true})));
    bench.reconcile().await;
    let readers = || bench.known.lists.readers("task-controller", &sets("app=web"));
    assert_eq!(readers(), [key()]);
    bench.requests();
    // What our own writes return is in the list before a watch reports it.
    let replica_set = |name: &str| ObjectName::new("apps/v1", "ReplicaSet", "shop", name);
    for (name, app) in [("c", "web"), ("d", "db"), ("a", "db")] {
        bench.changed(&replica_set(name), &path(name), set(name, app));
    }
    let stored = bench.known.lists.stored(&sets("app=web")).unwrap();
    let names: Vec<Value> =
        stored.all().iter().map(|held| held.value()["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["c"]);
    assert_eq!(stored.all()[0].value()["kind"], "ReplicaSet");

    bench.changed(&named(TASK), TASK, at_rest);
    bench.reconcile().await;
    assert!(readers().is_empty() && bench.known.lists.stored(&sets("app=web")).is_none());
}

#[tokio::test]
async fn counts_are_written_a_moment_later() {
    let path = format!("{SETS}/a");
    let bench = Bench::<Task>::open(&[(TASK, task(&json!({"list": "app=web"})))]).await;
    bench.reconcile().await;
    bench.server.put(&path, set("a", "web"));
    assert!(matches!(bench.reconcile().await, Next::After(_)));
    assert_eq!(bench.status(TASK)["count"], 0);
}

#[tokio::test]
async fn a_plan_that_asks_for_more_and_more_is_given_up() {
    let bench = Bench::<Task>::open(&[(TASK, task(&json!({"endless": true})))]).await;
    assert!(bench.controller.reconcile(&key()).await.is_err());
    assert_eq!(bench.requests().len(), 41, "40 reads, and the status");
    assert!(bench.status(TASK)["message"].as_str().unwrap().contains("more than 40"));
}

#[tokio::test]
async fn pods_wake_the_objects_that_have_read_them() {
    let pod = |owner: &str| {
        json!({"metadata": {"namespace": "shop", "name": format!("{owner}-0"), "uid": owner, "resourceVersion": "500",
            "ownerReferences": [{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": owner, "controller": true}]}})
    };
    for (version, of_ours) in [("apps.kruise.io/v1alpha1", true), ("example.com/v1", false)] {
        let path = format!("/apis/{version}/namespaces/shop/clonesets/web");
        let owner = json!({"metadata": {"namespace": "shop", "name": "web", "uid": "owner"}});
        let spec = json!({"pods": "web", "version": version, "running": true});
        let bench = Bench::<Task>::open(&[(TASK, task(&spec)), (&path, owner)]).await;
        let pods = &bench.known.stores.pods;
        pods.list_ends();
        bench.reconcile().await;
        let see = |owner: &str| pods.see(serde_json::from_value::<WatchedObject>(pod(owner)).unwrap());
        let mut changes = pods.subscribe();
        see("owner");
        see("other");
        // Of our own group all Pods are kept anyway, and of others those of the namespace.
        assert_eq!(changes.try_recv().is_ok(), !of_ours, "{version}");
        let of = |uid: &str| {
            let pod: ObservedPod = ObservedPod::read(&pod(uid).to_string()).unwrap();
            bench
                .controller
                .of_pod(&crate::workload::store::Change { old: None, new: Some(Arc::new(pod)) })
                .len()
        };
        assert_eq!((of("owner"), of("other")), (1, 0), "{version}");
    }
}

mod release;
