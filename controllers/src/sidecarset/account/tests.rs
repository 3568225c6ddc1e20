use super::*;
use crate::fake;
use crate::sidecarset::tests::{Site, pod, set};
use crate::workload::store::follow::Sink;
use cluster::queue;
use cluster::triggers::forward;
use serde_json::{Value, json};
use std::future::ready;
use std::sync::atomic::{AtomicU16, Ordering};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::sleep;

/// A ready Pod without sidecars, owned by a workload.
fn missed_pod(name: &str) -> Value {
    let mut pod = pod(name, 10, 1);
    let metadata = &mut pod["metadata"];
    metadata["annotations"] = json!({});
    metadata["uid"] = json!(Uid::of(name).to_string());
    metadata["creationTimestamp"] = json!("2020-05-01T08:00:00Z");
    metadata["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
        "uid": "rs", "controller": true}]);
    pod
}

/// A SidecarSet from before those Pods, and whether it evicts them.
fn watched(evict: Option<&str>) -> Value {
    let mut set = set(&json!({}));
    set["metadata"]["creationTimestamp"] = json!("2020-05-01T07:00:00Z");
    if let Some(limit) = evict {
        set["metadata"]["annotations"]["kutter.io/evict-missed-pods"] = json!(limit);
    }
    set
}

/// The accounts of a site, as they are kept.
struct Desk {
    accounts: Arc<Accounts>,
    queue: JoinHandle<()>,
}

impl Desk {
    fn open(site: &Site) -> Self {
        Self::counting(site, site.context.metrics.clone())
    }

    fn counting(site: &Site, metrics: Arc<Metrics>) -> Self {
        let (sender, keys) = site.accounts.lock().unwrap().take().unwrap();
        let context = Context { metrics: metrics.clone(), ..site.context.clone() };
        let accounts = Arc::new(Accounts::new(&context, site.controller.clone()));
        accounts.memory.try_lock().unwrap().evictions = begun();
        sender.send(Key::Records).unwrap();
        let changes = forward(site.controller.sets.subscribe(), sender, of_set);
        let (event_sender, _events) = cluster::event_sender::event_sender("Reconcile");
        let kept = accounts.clone();
        let queue = tokio::spawn(async move {
            let work = queue::run(SETTINGS, &metrics.queues, &event_sender, ready(()), keys, kept);
            tokio::join!(work, changes);
        });
        Self { accounts, queue }
    }

    /// Admission is registered for all Pods.
    fn register(&self) {
        self.register_for("1", &json!({}));
    }

    fn register_for(&self, version: &str, namespaces: &Value) {
        let webhooks = json!([{"name": "mpod.kb.io", "namespaceSelector": namespaces}]);
        let metadata = json!({"name": reviewed::key().1, "uid": "u", "resourceVersion": version});
        let object = json!({"metadata": metadata, "webhooks": webhooks});
        Sink::see(&self.accounts.reviewed, serde_json::from_value(object).unwrap());
    }
}

/// Evictions that have waited for what an earlier leader evicted.
fn begun() -> Evictions {
    Evictions::new(now().now - jiff::SignedDuration::from_secs(20))
}

/// Answers with Pods that are as they were.
fn unchanged(request: &fake::Request<'_>) -> Option<(u16, String)> {
    let of_pod = request.method == "GET" && request.path.starts_with("/api/v1/namespaces/shop/pods/");
    of_pod.then(|| (200, missed_pod(request.path.rsplit('/').next().unwrap()).to_string()))
}

async fn seconds(number: u64) {
    sleep(Duration::from_secs(number)).await;
}

/// What the annotation said each time it was written.
fn published(site: &Site) -> Vec<Value> {
    published_of(site, "log", "set")
}

/// The same of the SidecarSet with this name and UID.
fn published_of(site: &Site, name: &str, uid: &str) -> Vec<Value> {
    let writes = site.with(&format!("PATCH /apis/apps.kruise.io/v1beta1/sidecarsets/{name} "));
    let writes = writes.iter().map(|write| {
        let body: Value = serde_json::from_str(write.splitn(3, ' ').nth(2).unwrap()).unwrap();
        assert_eq!(body["metadata"]["uid"], uid, "no other one of this name");
        serde_json::from_str(body["metadata"]["annotations"][SIDECARSET_PODS].as_str().unwrap()).unwrap()
    });
    writes.collect()
}

#[tokio::test(start_paused = true)]
async fn an_account_is_written_once_and_again_only_when_it_changes() {
    let pods = [pod("fine", 10, 2), missed_pod("a"), missed_pod("b")];
    let site = Site::open(&watched(None), pods, |_| None);
    site.reconcile().await.unwrap();
    Desk::open(&site);
    seconds(60).await;
    let written = published(&site);
    assert_eq!(written.len(), 1, "{written:#?}");
    let counts =
        |written: &Value| [&written["matched"], &written["injected"], &written["missed"]].map(Value::as_u64);
    assert_eq!(counts(&written[0]), [Some(3), Some(1), Some(2)]);
    assert_eq!(written[0]["reasons"][0]["pods"], json!(["shop/a", "shop/b"]));
    // Two changes in a short time are one write.
    for name in ["b", "c"] {
        site.controller.pods.see(serde_json::from_value(missed_pod(name)).unwrap());
        let mut gone = missed_pod("a");
        gone["metadata"]["resourceVersion"] = json!("90");
        site.controller.pods.gone(&serde_json::from_value(gone).unwrap());
        seconds(1).await;
    }
    seconds(60).await;
    let written = published(&site);
    assert!((2..4).contains(&written.len()), "{written:#?}");
    assert_eq!(written.last().unwrap()["reasons"][0]["pods"], json!(["shop/b", "shop/c"]));
}

#[tokio::test(start_paused = true)]
async fn every_missed_pod_is_reported_once_naming_both() {
    let site = Site::open(&watched(None), [missed_pod("a"), missed_pod("b")], |_| None);
    site.reconcile().await.unwrap();
    Desk::open(&site);
    seconds(30).await;
    let reported = site.with("SidecarMissed");
    assert_eq!(reported.len(), 2, "{reported:#?}");
    let event: Value = serde_json::from_str(reported[0].splitn(3, ' ').nth(2).unwrap()).unwrap();
    let names = [&event["regarding"]["name"], &event["related"]["name"], &event["type"]];
    assert_eq!(names, [&json!("a"), &json!("log"), &json!("Warning")]);
    assert_eq!(event["note"], format!("SidecarSet log: {}", Reason::Missed));
    assert_eq!(event["regarding"]["uid"], Uid::of("a").to_string());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_another_leader_wrote_is_not_written_again() {
    let site = Site::open(&watched(None), [missed_pod("a")], |request| {
        request.body.contains("SidecarMissed").then(|| fake::conflict("AlreadyExists"))
    });
    site.reconcile().await.unwrap();
    Desk::open(&site);
    seconds(60).await;
    assert_eq!((site.with("SidecarMissed").len(), published(&site).len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn events_are_bounded_in_number_and_rate() {
    let pods = (0..200).map(|number| missed_pod(&format!("p{number}")));
    let site = Site::open(&watched(None), pods, |_| None);
    site.reconcile().await.unwrap();
    Desk::open(&site);
    seconds(2).await;
    assert_eq!(site.with("SidecarMissed").len(), EVENTS.0 as usize);
    seconds(60).await;
    let reported = site.with("SidecarMissed").len();
    assert!((100..130).contains(&reported), "{reported}: one more in each second");
    seconds(200).await;
    assert_eq!(site.with("SidecarMissed").len(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_refused_is_tried_again_after_a_while() {
    let site = Site::open(&watched(None), [missed_pod("a")], |request| {
        let patched = request.method == "PATCH" && request.path.ends_with("sidecarsets/log");
        patched.then(|| (500, fake::status(500)))
    });
    site.reconcile().await.unwrap();
    Desk::open(&site);
    seconds(100).await;
    let tries = published(&site).len();
    assert!((5..12).contains(&tries), "{tries}, with growing pauses");
    assert_eq!(site.with("SidecarMissed").len(), 1, "Events do not wait for it");
}

#[tokio::test(start_paused = true)]
async fn missed_pods_are_evicted_only_where_that_is_wanted() {
    for (evict, expected) in [(None, 0), (Some("1"), 1), (Some("0"), 0)] {
        let site = Site::open(&watched(evict), [missed_pod("a"), missed_pod("b")], unchanged);
        site.reconcile().await.unwrap();
        let desk = Desk::open(&site);
        desk.register();
        seconds(3).await;
        seconds(3).await;
        let evicted = site.with("/eviction ");
        assert_eq!(evicted.len(), expected, "{evict:?}: {evicted:#?}");
        if let Some(eviction) = evicted.first() {
            assert!(eviction.starts_with("POST /api/v1/namespaces/shop/pods/a/eviction "), "{eviction}");
            assert!(
                eviction.contains(&format!(r#""preconditions":{{"uid":"{}"}}"#, Uid::of("a"))),
                "{eviction}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_a_budget_refuses_is_reported_and_others_are_tried() {
    let budget = "Cannot evict pod as it would violate the pod's disruption budget.";
    let code = Arc::new(AtomicU16::new(429));
    let refuse = code.clone();
    let site = Site::open(&watched(Some("1")), [missed_pod("a"), missed_pod("b")], move |request| {
        if request.path.ends_with("/pods/a/eviction") && refuse.load(Ordering::SeqCst) == 429 {
            return Some((429, fake::status(429).replace("refused", budget)));
        }
        unchanged(request)
    });
    site.reconcile().await.unwrap();
    let desk = Desk::open(&site);
    desk.register();
    seconds(3).await;
    seconds(20).await;
    let evicted = site.with("/eviction ");
    let named =
        |name: &str| evicted.iter().filter(|request| request.contains(&format!("pods/{name}/evi"))).count();
    assert_eq!((named("a"), named("b")), (1, 1), "{evicted:#?}");
    let said = published(&site).last().unwrap().to_string();
    assert!(said.contains(budget), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_budget_has_nothing_left_is_evicted_when_it_has() {
    let site = Site::open(&watched(Some("1")), [missed_pod("a")], unchanged);
    site.budget("web", 0);
    site.reconcile().await.unwrap();
    let desk = Desk::open(&site);
    desk.register();
    seconds(3).await;
    seconds(20).await;
    assert_eq!(
        (site.with("/eviction ").len(), site.with("GET /api/v1/namespaces/shop/pods/a").len()),
        (0, 1)
    );
    let said = published(&site).last().unwrap().to_string();
    assert!(said.contains("PodUnavailableBudget web has nothing left"), "{said}");
    site.budget("web", 1);
    // As after its pause: the clock of evictions is that of the world, of which this test sees only the first moment.
    desk.accounts.memory.lock().await.evictions = begun();
    seconds(2).await;
    assert_eq!(site.with("/eviction ").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_not_written_is_reported_again() {
    let code = Arc::new(AtomicU16::new(500));
    let answered = code.clone();
    let site = Site::open(&watched(None), [missed_pod("a"), missed_pod("b")], move |request| {
        let code = answered.load(Ordering::SeqCst);
        let is_event = request.method == "POST" && request.body.contains("SidecarMissed");
        (is_event && code != 0).then(|| (code, fake::status(code)))
    });
    site.reconcile().await.unwrap();
    Desk::open(&site);
    seconds(30).await;
    let tried = site.with("SidecarMissed").len();
    assert!(tried > 0);
    code.store(0, Ordering::SeqCst);
    seconds(200).await;
    assert_eq!(site.with("SidecarMissed").len(), tried + 2);
}

#[tokio::test(start_paused = true)]
async fn the_metrics_go_with_the_sidecar_set_and_with_the_leader() {
    let registry = prometheus::Registry::new();
    let metrics = Arc::new(Metrics::register(&registry, "test").unwrap());
    let series = || {
        let families = registry.gather();
        let family = families.iter().find(|family| family.name() == "kutter_sidecarset_pods");
        family.map_or(0, |family| family.get_metric().len())
    };
    let site = Site::open(&watched(None), [missed_pod("a")], |_| None);
    site.reconcile().await.unwrap();
    let Desk { accounts, queue } = Desk::counting(&site, metrics);
    seconds(2).await;
    assert_eq!(series(), 3);
    queue.abort();
    drop((queue.await, accounts));
    yield_now().await;
    assert_eq!(series(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_changes_counts_at_once_and_is_never_asked_for() {
    let site = Site::open(&watched(None), [missed_pod("a")], |_| None);
    site.reconcile().await.unwrap();
    let desk = Desk::open(&site);
    let mut missed = Vec::new();
    for (version, selector) in [("1", json!({"matchLabels": {"tier": "web"}})), ("2", json!({}))] {
        desk.register_for(version, &selector);
        seconds(120).await;
        missed.push(published(&site).last().unwrap()["missed"].clone());
    }
    assert_eq!(missed, [json!(0), json!(1)]);
    assert!(site.with("GET ").is_empty(), "{:#?}", site.with("GET "));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_evicted_while_admission_is_not_registered() {
    let site = Site::open(&watched(Some("1")), [missed_pod("a")], unchanged);
    site.reconcile().await.unwrap();
    let desk = Desk::open(&site);
    seconds(3).await;
    seconds(20).await;
    assert!(site.with("/eviction ").is_empty());
    assert_eq!(published(&site).last().unwrap()["reasons"][1]["reason"], "NotRegistered");
    desk.register();
    seconds(2).await;
    assert_eq!(site.with("/eviction ").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_evicted_for_one_sidecarset_is_away_for_the_other() {
    let site = Site::open(&watched(Some("1")), [missed_pod("a"), missed_pod("b")], unchanged);
    let mut other = watched(Some("1"));
    other["metadata"]["name"] = json!("mesh");
    other["metadata"]["uid"] = json!("mesh");
    let mut world = site.controller.index.world().as_ref().clone();
    world.apply(Watched::SidecarSet, &other.to_string()).unwrap();
    site.controller.index.publish(world);
    site.controller.sets.apply(RolloutSet::read(&other.to_string()).unwrap());
    for name in ["log", "mesh"] {
        site.controller.reconcile(&name.into()).await.unwrap();
    }
    let desk = Desk::open(&site);
    desk.register();
    seconds(3).await;
    seconds(20).await;
    // Another one comes with the sidecars of both; then the next one is evicted.
    for (evicted, come) in [("a", "c"), ("b", "d")] {
        let evictions = site.with("/eviction ");
        let last = evictions.last().unwrap();
        assert!(last.starts_with(&format!("POST /api/v1/namespaces/shop/pods/{evicted}/")), "{evictions:#?}");
        let mut gone = missed_pod(evicted);
        gone["metadata"]["resourceVersion"] = json!("90");
        site.controller.pods.gone(&serde_json::from_value(gone).unwrap());
        let mut come = missed_pod(come);
        come["metadata"]["annotations"] = json!({"kruise.io/sidecarset-injected-list": "log,mesh"});
        site.controller.pods.see(serde_json::from_value(come).unwrap());
        seconds(20).await;
    }
    assert_eq!(site.with("/eviction ").len(), 2);
    for (name, uid) in [("log", "set"), ("mesh", "mesh")] {
        let said = published_of(&site, name, uid).pop().unwrap();
        assert_eq!((&said["injected"], &said["missed"]), (&json!(2), &json!(0)), "{name}: {said:#}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_selected_before_is_remembered_where_the_annotation_is_lost() {
    let mut set = watched(None);
    set["spec"]["selector"]["matchLabels"]["app"] = json!("db");
    let site = Site::open(&set, [missed_pod("a")], |_| None);
    site.reconcile().await.unwrap();
    Desk::open(&site);
    seconds(3).await;
    let (mut set, mut world) = (watched(None), (*site.controller.index.world()).clone());
    set["metadata"]["resourceVersion"] = json!("900");
    world.apply(Watched::SidecarSet, &set.to_string()).unwrap();
    site.controller.sets.apply(RolloutSet::read(&set.to_string()).unwrap());
    site.controller.index.publish(world);
    seconds(10).await;
    let said = published(&site).last().unwrap().clone();
    assert_eq!((&said["missed"], &said["reasons"][0]["reason"]), (&json!(0), &json!("CreatedBefore")));
}

#[tokio::test(start_paused = true)]
async fn why_a_pod_is_not_evicted_goes_with_the_pod_and_with_the_wish() {
    for wish_ends in [false, true] {
        let site = Site::open(&watched(Some("1")), [missed_pod("a")], |_| None);
        site.reconcile().await.unwrap();
        Desk::open(&site);
        seconds(3).await;
        seconds(20).await;
        let reported = || published(&site).last().unwrap().to_string().contains("NotRegistered");
        assert!(reported());
        if wish_ends {
            let mut set = watched(None);
            set["metadata"]["resourceVersion"] = json!("900");
            site.controller.sets.apply(RolloutSet::read(&set.to_string()).unwrap());
        } else {
            let mut gone = missed_pod("a");
            gone["metadata"]["resourceVersion"] = json!("90");
            site.controller.pods.gone(&serde_json::from_value(gone).unwrap());
        }
        seconds(20).await;
        assert!(!reported(), "{wish_ends}");
    }
}
