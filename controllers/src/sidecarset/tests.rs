use tokio::sync::mpsc;

use super::*;
use crate::Settings;
use crate::fake::{self, Request, Requests};
use crate::workload::builder::Keys;
use crate::workload::store::follow::Sink;
use admission::world::World;
use api::features::FeatureGates;
use cluster::event_sender::PendingEvent;
use cluster::events::Recorder;
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::time::{Instant, advance};

/// A SidecarSet that has come from image 1 to image 2.
pub(super) fn set(spec: &Value) -> Value {
    let mut whole = json!({
        "selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "log", "image": "log:2"}],
    });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({
        "metadata": {
            "name": "log", "uid": "set", "resourceVersion": "100", "generation": 2,
            "annotations": {"kruise.io/sidecarset-hash": "h2", "kruise.io/sidecarset-hash-without-image": "w"},
        },
        "spec": whole,
    })
}

/// A ready Pod with the sidecar at this image.
pub(super) fn pod(name: &str, version: u32, image: u32) -> Value {
    let sidecar = format!("log:{image}");
    json!({
        "metadata": {
            "namespace": "shop", "name": name, "uid": format!("uid-{name}"), "labels": {"app": "web"},
            "resourceVersion": version.to_string(),
            "annotations": {
                "kruise.io/sidecarset-injected-list": "log",
                "kruise.io/sidecarset-hash": format!(r#"{{"log":"h{image}"}}"#),
                "kruise.io/sidecarset-hash-without-image": r#"{"log":"w"}"#,
            },
        },
        "spec": {"nodeName": "n", "containers": [{"name": "log", "image": sidecar}]},
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "SidecarSetUpgradable", "status": "True", "message": r#"{"log":true}"#},
            ],
            "containerStatuses": [
                {"name": "log", "ready": true, "image": sidecar, "imageID": sidecar, "containerID": sidecar},
            ],
        },
    })
}

/// What an API server answers that has nothing against a request. Kubelets follow at once.
fn agree(request: &Request<'_>, set: &Value) -> (u16, String) {
    let body = serde_json::from_str::<Value>(request.body).unwrap_or_default();
    let answer = match (request.method, request.path.split('/').collect::<Vec<_>>().as_slice()) {
        ("GET", [.., "sidecarsets", "log"]) => set.clone(),
        ("PATCH", [.., "sidecarsets", "log", "status"]) => {
            let mut set = set.clone();
            set["metadata"]["resourceVersion"] = json!("150");
            set["status"] = body["status"].clone();
            set
        }
        ("PATCH", [.., "sidecarsets", "log"]) => {
            let mut set = set.clone();
            static NEXT: AtomicU32 = AtomicU32::new(160);
            set["metadata"]["resourceVersion"] = json!(NEXT.fetch_add(1, Ordering::SeqCst).to_string());
            let annotations = body["metadata"]["annotations"].as_object().unwrap().clone();
            set["metadata"]["annotations"].as_object_mut().unwrap().extend(annotations);
            set
        }
        ("PATCH", [.., "pods", name] | [.., "pods", name, "status"]) => pod(name, 200, 2),
        _ => body,
    };
    (if request.method == "POST" { 201 } else { 200 }, answer.to_string())
}

pub(super) struct Site {
    pub(super) context: Context,
    pub(super) controller: Arc<Controller>,
    /// Where the accounts are woken.
    pub(super) accounts: Mutex<Option<Keys<account::Key>>>,
    requests: Requests,
    recorder: Recorder,
    reported: tokio::sync::Mutex<mpsc::Receiver<PendingEvent>>,
}

impl Site {
    /// A controller of this SidecarSet and these Pods. `answer` decides over the requests that it wants to;
    /// the API server agrees with all others.
    pub(super) fn open(
        set: &Value,
        pods: impl IntoIterator<Item = Value>,
        answer: impl Fn(&Request<'_>) -> Option<(u16, String)> + Clone + Send + 'static,
    ) -> Self {
        let stored = set.clone();
        let (client, requests) =
            fake::api_server(move |request| answer(&request).unwrap_or_else(|| agree(&request, &stored)));
        let mut world = World::new("kruise-system");
        world.apply(Watched::Namespace, r#"{"metadata":{"name":"shop","resourceVersion":"1"}}"#).unwrap();
        world.apply(Watched::SidecarSet, &set.to_string()).unwrap();
        let known = Pods::new(false);
        known.list_begins();
        for pod in pods {
            known.see(serde_json::from_value(pod).unwrap());
        }
        known.list_ends();
        let gates = FeatureGates::parse("PodUnavailableBudgetUpdateGate=true", "").unwrap();
        let settings = Arc::new(Settings { gates, ..Settings::of_one_worker() });
        let context = Context { settings, ..Context::fixed(client.clone(), world) };
        let index = context.index.clone();
        let (event_sender, reported) = cluster::event_sender::event_sender("Update");
        let recorder = Recorder::new(client, NAME, None);
        let stores = Arc::new(Stores::new(Arc::new(known), index, "kruise-system"));
        let accounts = unbounded_channel();
        let rollouts = Rollouts::new(accounts.0.clone());
        let controller = Arc::new(Controller::new(&context, stores, event_sender, rollouts));
        controller.sets.list_begins();
        controller.sets.apply(RolloutSet::read(&set.to_string()).unwrap());
        controller.sets.list_ends();
        let (accounts, reported) = (Mutex::new(Some(accounts)), tokio::sync::Mutex::new(reported));
        Self { context, controller, accounts, requests, recorder, reported }
    }

    fn fleet(
        spec: &Value,
        answer: impl Fn(&Request<'_>) -> Option<(u16, String)> + Clone + Send + 'static,
    ) -> Self {
        Self::open(&set(spec), (0..3).map(|index| pod(&format!("p{index}"), 10 + index, 1)), answer)
    }

    /// One reconcile, after the rest from the one before.
    pub(super) async fn reconcile(&self) -> Result<Next, ReconcileError> {
        if let Some(rest) = self.controller.limiter.rest(&"log".into()) {
            advance(rest).await;
        }
        let next = self.controller.reconcile(&"log".into()).await;
        self.write_events().await;
        next
    }

    /// Writes what there is to report.
    async fn write_events(&self) {
        let mut reported = self.reported.lock().await;
        while let Ok(reported) = reported.try_recv() {
            reported.write(&self.recorder).await;
        }
    }

    /// A budget of Pods `app=<app>` has so many units left.
    pub(super) fn budget(&self, app: &str, left: i32) {
        let budget = json!({
            "metadata": {"namespace": "shop", "name": app, "uid": "budget", "generation": 1,
                "resourceVersion": (300 + left).to_string()},
            "spec": {"selector": {"matchLabels": {"app": app}}, "maxUnavailable": 1},
            "status": {"observedGeneration": 1, "unavailableAllowed": left, "currentAvailable": 2 + left,
                "desiredAvailable": 2, "totalReplicas": 3},
        });
        let mut world = (*self.controller.index.world()).clone();
        world.apply(Watched::PodUnavailableBudget, &budget.to_string()).unwrap();
        self.controller.index.publish(world);
    }

    /// Reconciles for this time, each time when it is due.
    async fn run(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            match self.reconcile().await.unwrap() {
                Next::After(pause) => advance(pause).await,
                Next::Done => panic!("the SidecarSet is there"),
            }
        }
    }

    pub(super) fn set(&self) -> Arc<RolloutSet> {
        self.controller.sets.get(&key("log")).unwrap()
    }

    /// Requests that contain this text.
    pub(super) fn with(&self, text: &str) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|request| request.contains(text)).cloned().collect()
    }

    /// The Pods that were written to, in their order.
    fn written(&self) -> Vec<String> {
        let name = |request: &String| request.split(['/', ' ']).nth(7).map(str::to_owned);
        self.with("PATCH /api/v1/namespaces/shop/pods/").iter().filter_map(name).collect()
    }
}

fn refusing(name: &'static str, code: u16) -> impl Fn(&Request<'_>) -> Option<(u16, String)> + Clone {
    move |request| {
        (request.path.contains(name) && request.method != "GET").then(|| (code, fake::status(code)))
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_refused_holds_nobody_and_is_reported() {
    for code in [403, 422, 500] {
        let site = Site::fleet(&json!({}), refusing("pods/p0", code));
        assert_eq!(site.reconcile().await.unwrap(), Next::After(OTHERS));
        for _ in 0..2 {
            site.reconcile().await.unwrap();
        }
        assert_eq!(site.written(), ["p0", "p1", "p2"], "{code}: maxUnavailable is 1");
        site.run(Duration::from_secs(100)).await;
        let tries = site.written().iter().filter(|name| *name == "p0").count();
        assert!((4..7).contains(&tries), "{tries} tries, with growing pauses");
        let reported = site.with("UpdateWaits");
        assert!(
            reported.len() == 1 && reported[0].contains("1 wait (shop/p0): the update was refused (refused)"),
            "{reported:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_budget_has_nothing_left_is_not_tried_until_it_has_and_others_go_before_it() {
    let names = ["p0", "p1", "p2"];
    let mut pods = names.map(|name| pod(name, 10, 1));
    let spec = json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}});
    pods[0]["metadata"]["labels"]["app"] = json!("held");
    let site = Site::open(&set(&spec), pods, |_| None);
    site.budget("held", 0);
    assert_eq!(site.reconcile().await.unwrap(), Next::After(OTHERS));
    for _ in 0..2 {
        site.reconcile().await.unwrap();
    }
    site.run(Duration::from_secs(100)).await;
    assert_eq!(site.written(), ["p1", "p2"]);
    assert_eq!(site.with("podunavailablebudgets").len(), 0);
    let reported = site.with("UpdateWaits");
    let expected = "1 wait (shop/p0): the update was refused (PodUnavailableBudget held has nothing left)";
    assert!(reported.len() == 1 && reported[0].contains(expected), "{reported:?}");
    site.budget("held", 1);
    site.reconcile().await.unwrap();
    assert_eq!(
        (site.written(), site.with("podunavailablebudgets").len()),
        (vec!["p1".into(), "p2".into(), "p0".into()], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_budget_is_refused_on_a_newer_state_waits_for_the_watch() {
    let site = Site::open(&set(&json!({})), [pod("p0", 10, 1)], |request| {
        let budget = json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "budget", "generation": 1,
                "resourceVersion": "400"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1},
            "status": {"observedGeneration": 1, "unavailableAllowed": 0, "currentAvailable": 2,
                "desiredAvailable": 2, "totalReplicas": 3},
        });
        let code = if request.method == "GET" { 200 } else { 409 };
        let answer = || if code == 200 { budget.to_string() } else { fake::status(code) };
        request.path.contains("podunavailablebudgets").then(|| (code, answer()))
    });
    site.budget("web", 1);
    assert_eq!(site.reconcile().await.unwrap(), Next::After(OTHERS));
    let asked = site.with("podunavailablebudgets").len();
    assert!(asked > 0);
    site.run(Duration::from_secs(60)).await;
    assert_eq!((site.with("podunavailablebudgets").len(), site.written()), (asked, vec![]));
    site.budget("web", 2);
    site.reconcile().await.unwrap();
    assert!(site.with("podunavailablebudgets").len() > asked);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_its_budget_protects_no_more_is_tried_at_once() {
    let site = Site::fleet(&json!({}), |_| None);
    let state = |annotations: &Value| {
        let mut state = pod("p0", 20, 1);
        state["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .extend(annotations.as_object().unwrap().clone());
        Arc::new(ObservedPod::read(&state.to_string()).unwrap())
    };
    let change = |annotations| {
        site.controller.of_pod(&Change { old: Some(state(&json!({}))), new: Some(state(&annotations)) }).pop()
    };
    let freed = json!({"pub.kruise.io/no-protect": "true"});
    site.budget("web", 0);
    assert_eq!(change(freed.clone()), None, "it is not withheld");
    assert_eq!(site.reconcile().await.unwrap(), Next::After(OTHERS));
    assert_eq!(change(json!({"other": "x"})), None);
    assert_eq!(change(freed), Some(("log".into(), Duration::ZERO)));
}

#[tokio::test(start_paused = true)]
async fn pods_with_sidecars_of_a_newer_state_are_left_alone_until_that_is_known() {
    let mut newer = set(&json!({"containers": [{"name": "log", "image": "log:3"}]}));
    (newer["metadata"]["generation"], newer["metadata"]["resourceVersion"]) = (json!(3), json!("101"));
    newer["metadata"]["annotations"]["kruise.io/sidecarset-hash"] = json!("h3");
    let site = Site::open(&set(&json!({})), [pod("p0", 110, 3)], move |request| {
        request.path.contains("/sidecarsets/log").then(|| agree(request, &newer))
    });
    assert_eq!(site.reconcile().await.unwrap(), Next::After(OUTDATED_RETRY));
    assert_eq!((site.set().generation, site.written()), (3, vec![]));
    site.run(Duration::from_secs(60)).await;
    assert_eq!(site.written(), [""; 0]);
    assert_eq!(site.with("GET /apis/apps.kruise.io/v1beta1/sidecarsets/log").len(), 1, "it is read once");
}

#[tokio::test(start_paused = true)]
async fn trouble_with_the_api_server_makes_the_set_rest_until_it_is_known_what_was_written() {
    let healthy = Arc::new(AtomicU32::new(0));
    let health = healthy.clone();
    let site = Site::fleet(&json!({}), move |request| {
        let of_pod = request.path.starts_with("/api/v1/namespaces/shop/pods/p0");
        match (request.method, health.load(Ordering::SeqCst)) {
            _ if !of_pod => None,
            ("GET", 1) => Some((200, pod("p0", 50, 2).to_string())),
            _ => Some((503, fake::status(503))),
        }
    });
    for tries in 1..4 {
        let error = site.reconcile().await.unwrap_err();
        assert_eq!(site.written(), ["p0"], "nothing more is planned after {error}");
        assert!(site.controller.limiter.rest(&"log".into()).is_some());
        assert_eq!(site.with("GET /api/v1/namespaces/shop/pods/p0").len(), tries);
    }
    healthy.store(1, Ordering::SeqCst);
    site.reconcile().await.unwrap();
    assert_eq!(site.written(), ["p0", "p1"], "the write had been carried out");
}

#[tokio::test(start_paused = true)]
async fn a_status_of_another_state_stops_the_plan() {
    for code in [404, 409] {
        let site = Site::fleet(&json!({}), refusing("/status", code));
        assert_eq!(site.reconcile().await.unwrap(), Next::After(OUTDATED_RETRY));
        assert_eq!(site.written(), [""; 0]);
        let patches = site.with("PATCH /apis/apps.kruise.io/v1beta1/sidecarsets/log/status");
        assert!(
            patches.len() == 1 && patches[0].contains(r#"{"metadata":{"resourceVersion":"100"},"status":"#)
        );
    }
}

/// No trigger reports a change of annotations, which would leave the rollout to the next reconcile.
#[tokio::test(start_paused = true)]
async fn a_status_that_meets_other_annotations_is_planned_anew_at_once() {
    let mut newer = set(&json!({}));
    newer["metadata"]["resourceVersion"] = json!("101");
    let site = Site::fleet(&json!({}), move |request| match request.method {
        "PATCH" if request.path.ends_with("/status") && request.body.contains(r#""100""#) => {
            Some((409, fake::status(409)))
        }
        "GET" if request.path.ends_with("/sidecarsets/log") => Some((200, newer.to_string())),
        _ => None,
    });
    assert_eq!(site.reconcile().await.unwrap(), Next::After(OTHERS));
    assert_eq!((&*site.set().resource_version, site.written()), ("101", vec![]));
    site.run(Duration::from_millis(100)).await;
    assert!(!site.written().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_changed_is_planned_anew_as_soon_as_that_is_known() {
    let site = Site::fleet(&json!({}), refusing("pods/p0", 409));
    assert_eq!(site.reconcile().await.unwrap(), Next::After(OUTDATED_RETRY));
    assert_eq!(site.written(), ["p0"]);
    let asks = |name: &str| {
        let state = |version| Some(Arc::new(ObservedPod::read(&pod(name, version, 1).to_string()).unwrap()));
        site.controller.of_pod(&Change { old: state(10), new: state(11) })
    };
    let at_once = vec![("log".into(), Duration::ZERO)];
    assert_eq!((asks("p0"), asks("p1")), (at_once, vec![]), "the watch tells of p0");
    let (planned, pods) = (site.set(), site.controller.pods.injected_by("log"));
    let snapshot =
        Snapshot { set: &planned, pods: &pods, revisions: &[], latest_revision: "", collision_count: 0 };
    let plan = rollout::plan(&snapshot, now().now);
    site.controller.pods.written(&pod("p0", 11, 1).to_string()).unwrap();
    let written = site.controller.write_pods(&planned, &plan).await;
    assert!(written.known && !written.outdated, "the store knows of p0");
}

#[tokio::test(start_paused = true)]
async fn a_reset_that_fails_is_reported() {
    let hot = json!({"containers": [{
        "name": "mesh", "image": "mesh:2",
        "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"},
    }]});
    let mut twins = pod("p0", 10, 2);
    twins["metadata"]["annotations"]["kruise.io/sidecarset-working-hotupgrade-container"] =
        json!(r#"{"mesh":"mesh-2"}"#);
    twins["spec"]["containers"] =
        json!([{"name": "mesh-1", "image": "mesh:1"}, {"name": "mesh-2", "image": "mesh:2"}]);
    let status =
        |name: &str, image: &str| json!({"name": name, "image": image, "imageID": image, "ready": true});
    twins["status"]["containerStatuses"] = json!([status("mesh-1", "mesh:1"), status("mesh-2", "mesh:2")]);
    let site = Site::open(&set(&hot), [twins], refusing("pods/p0", 403));
    assert_eq!(site.reconcile().await.unwrap(), Next::After(OTHERS));
    let reported = site.with("ResetContainerFailed");
    assert!(
        reported.len() == 1 && reported[0].contains("reset sidecar container image empty failed: refused"),
        "{reported:?}"
    );
    assert!(!reported[0].contains("resourceVersion"), "Events of all states are one: {reported:?}");
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_is_refused_is_reported_once_and_holds_up_nothing() {
    let site = Site::fleet(&json!({"customVersion": "v1 beta"}), refusing("controllerrevisions", 422));
    for _ in 0..3 {
        site.reconcile().await.unwrap();
    }
    assert_eq!(site.written(), ["p0", "p1", "p2"]);
    assert!(site.set().status.observed_generation == Some(2));
    assert!(site.with("controllerrevisions").len() > 1, "it is tried again");
    assert_eq!(site.with("RevisionRefused").len(), 1);
    let trouble = Site::fleet(&json!({}), refusing("controllerrevisions", 503));
    assert!(trouble.reconcile().await.is_err());
    assert_eq!(trouble.written(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_gone_or_leaves_is_left_alone() {
    let mut leaving = set(&json!({}));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let site = Site::open(&leaving, [pod("p0", 10, 1)], |_| None);
    assert_eq!(site.reconcile().await.unwrap(), Next::Done);
    assert_eq!(site.controller.reconcile(&"other".into()).await.unwrap(), Next::Done);
    assert!(site.requests.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pause_reaches_the_writes_of_a_plan_under_way() {
    let site = Site::fleet(&json!({"updateStrategy": {"maxUnavailable": "100%"}}), |_| None);
    let planned = site.set();
    let pods = site.controller.pods.injected_by("log");
    let snapshot =
        Snapshot { set: &planned, pods: &pods, revisions: &[], latest_revision: "", collision_count: 0 };
    let plan = rollout::plan(&snapshot, now().now);
    assert_eq!(plan.pods.len(), 3);
    let mut paused = set(&json!({"updateStrategy": {"paused": true}}));
    (paused["metadata"]["generation"], paused["metadata"]["resourceVersion"]) = (json!(3), json!("101"));
    site.controller.sets.apply(RolloutSet::read(&paused.to_string()).unwrap());
    assert!(site.controller.write_pods(&planned, &plan).await.outdated);
    assert_eq!(site.written(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_somebody_else_wrote_asks_for_a_plan() {
    let site = Site::fleet(&json!({}), |_| None);
    site.run(Duration::from_secs(10)).await;
    let ours = site.set();
    let seen =
        |set: Arc<RolloutSet>| site.controller.of_set(&Change { old: Some(ours.clone()), new: Some(set) });
    assert_eq!(seen(ours.clone()), None);
    let mut foreign = set(&json!({}));
    (foreign["metadata"]["resourceVersion"], foreign["status"]) = (json!("300"), json!({"matchedPods": 9}));
    site.controller.sets.apply(RolloutSet::read(&foreign.to_string()).unwrap());
    assert_eq!(seen(site.set()), Some(("log".into(), Duration::ZERO)));
    site.reconcile().await.unwrap();
    let written = site.with("sidecarsets/log/status");
    assert!(written.last().is_some_and(|patch| patch.contains(r#""matchedPods":3"#)), "{written:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_event_is_counted_up_and_another_note_makes_another_one() {
    let site = Site::fleet(&json!({}), |_| None);
    for (message, posts, patches) in [("a", 1, 0), ("a", 1, 1), ("b", 2, 1), ("b", 2, 2)] {
        let event = Event { warning: false, reason: "UpdateWaits", message: message.to_owned() };
        site.controller.event_sender.record(site.set().reference(&SIDECAR_SETS), event);
        site.write_events().await;
        assert_eq!(
            (site.with("POST /apis/events").len(), site.with("PATCH /apis/events").len()),
            (posts, patches)
        );
        // An Event is counted up at most once in ten seconds.
        advance(Duration::from_secs(10)).await;
    }
}
