use admission::world::World;
use jiff::Timestamp;
use kit::double::Objects;
use serde_json::{Value, json};

use tokio::sync::mpsc;

use super::*;
use crate::fake;
use crate::workload::pods::Pods;
use crate::workload::store::follow::Sink;
use cluster::event_sender::PendingEvent;

const BUDGET: &str = "/apis/policy.kruise.io/v1beta1/namespaces/shop/podunavailablebudgets/web";
const SET: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/clonesets/web";
const PODS: &str = "/api/v1/namespaces/shop/pods";

struct Site {
    controller: Controller,
    server: Objects,
    requests: fake::Requests,
    reported: mpsc::Receiver<PendingEvent>,
}

impl Site {
    /// A budget that lets one Pod of the CloneSet be away, which has so many.
    fn open(pods: usize) -> Self {
        let server = Objects::default();
        let answering = server.clone();
        let (client, requests) = fake::api_server(move |request| answering.answer(&request));
        let context = Context::fixed(client.clone(), World::new("kruise-system"));
        let stores =
            Arc::new(Stores::new(Arc::new(Pods::new(false)), context.index.clone(), "kruise-system"));
        stores.pods.want(KIND, &key());
        stores.pods.list_begins();
        let budgets: Store<PodUnavailableBudget> = Store::default();
        budgets.list_begins();
        let (event_sender, reported) = cluster::event_sender::event_sender("Protect");
        let controller = Controller { client, budgets, stores, event_sender, context };
        let site = Self { controller, server, requests, reported };
        site.server.put(SET, json!({"metadata": {"namespace": "shop", "name": "web", "uid": "set"}, "spec": {"replicas": pods}}));
        site.budget(json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "pub", "generation": 1},
            "spec": {"maxUnavailable": 1, "targetRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"}},
        }));
        for number in 0..pods {
            site.pod(number, true);
        }
        Sink::list_ends(&site.controller.budgets);
        site.controller.stores.pods.list_ends();
        site
    }

    /// The API server and the watch have this budget.
    fn budget(&self, budget: Value) {
        let budget = self.server.put(BUDGET, budget);
        self.controller.budgets.apply(serde_json::from_value(budget).unwrap());
    }

    fn pod(&self, number: usize, is_ready: bool) {
        let owner = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": "set", "controller": true});
        let ready = json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }});
        let pod = json!({
            "metadata": {"namespace": "shop", "name": format!("web-{number}"), "ownerReferences": [owner],
                "uid": format!("00000000-0000-0000-0000-00000000000{number}")},
            "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
            "status": {"phase": "Running", "conditions": [ready]},
        });
        let pod = self.server.put(&format!("{PODS}/web-{number}"), pod);
        self.controller.stores.pods.see(serde_json::from_value(pod).unwrap());
    }

    async fn reconcile(&self) -> Next {
        self.controller.reconcile(&key()).await.unwrap()
    }

    /// The writes since the last call.
    fn writes(&self) -> Vec<String> {
        let requests = std::mem::take(&mut *self.requests.lock().unwrap());
        let writes = requests.iter().filter(|request| !request.starts_with("GET"));
        writes.map(|request| request.split(' ').nth(1).unwrap().to_owned()).collect()
    }

    fn status(&self) -> Value {
        self.server.get(BUDGET).unwrap()["status"].clone()
    }

    fn numbers(&self) -> [i64; 4] {
        let status = self.status();
        ["unavailableAllowed", "currentAvailable", "desiredAvailable", "totalReplicas"]
            .map(|name| status[name].as_i64().unwrap())
    }
}

fn key() -> Key {
    ("shop".to_owned(), "web".to_owned())
}

#[tokio::test]
async fn a_budget_is_counted_with_one_write_and_its_pods_are_marked() {
    let site = Site::open(3);
    assert_eq!(site.reconcile().await, Next::After(SAFETY_NET));
    assert_eq!(site.numbers(), [1, 3, 2, 3]);
    let writes = site.writes();
    assert_eq!((writes.len(), &*writes[0]), (4, &*format!("{BUDGET}/status")));
    assert!(writes[1..].iter().all(|path| path.starts_with(PODS)));
    for (_, pod) in site.server.under(PODS) {
        assert_eq!(pod["metadata"]["annotations"]["pub.kruise.io/related-pub"], "web");
    }
    site.reconcile().await;
    assert!(site.writes().is_empty());
}

#[tokio::test]
async fn a_burst_of_changes_costs_one_write() {
    let site = Site::open(5);
    site.reconcile().await;
    site.writes();
    let mut changes = site.controller.stores.pods.subscribe();
    while changes.try_recv().is_ok() {}
    let mut due = HashSet::new();
    for number in 0..4 {
        site.pod(number, false);
        due.extend(site.controller.of_pod(&changes.try_recv().unwrap()));
    }
    assert_eq!(due.len(), 1);
    assert!(due.iter().all(|(due, pause)| *due == key() && !pause.is_zero()));
    site.reconcile().await;
    assert_eq!(site.numbers(), [0, 1, 4, 5]);
    assert_eq!(site.writes().first().unwrap(), &format!("{BUDGET}/status"));
}

#[tokio::test]
async fn a_status_that_somebody_else_wrote_is_reconciled_again() {
    let site = Site::open(2);
    let mut budget = site.server.get(BUDGET).unwrap();
    budget["status"] = json!({"unavailableAllowed": 7});
    site.server.put(BUDGET, budget.clone());
    assert_eq!(site.reconcile().await, Next::After(OUTDATED_RETRY));
    assert_eq!(site.status()["unavailableAllowed"], 7);
    site.budget(budget);
    assert_eq!(site.reconcile().await, Next::After(SAFETY_NET));
    assert_eq!(site.numbers(), [1, 2, 1, 2]);
}

#[tokio::test]
async fn a_recorded_pod_is_forgotten_when_its_time_ends() {
    let mut site = Site::open(2);
    let mut budget = site.server.get(BUDGET).unwrap();
    let since = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    budget["status"] = json!({"disruptedPods": {"web-0": since.to_string()}});
    site.budget(budget.clone());
    let Next::After(pause) = site.reconcile().await else { panic!("not looked at again") };
    let lasts = Duration::from_secs(20);
    assert!(pause <= lasts && Timestamp::now() + pause >= since + lasts, "{pause:?}");
    assert_eq!(site.numbers(), [0, 1, 1, 2]);
    budget["status"]["disruptedPods"]["web-0"] = json!("2026-01-01T00:00:00Z");
    site.budget(budget);
    for number in 0..2 {
        site.pod(number, true);
    }
    while site.reported.try_recv().is_ok() {}
    site.reconcile().await;
    assert_eq!(site.numbers(), [1, 2, 1, 2]);
    assert_eq!(site.reported.try_recv().unwrap().event.reason, "NotDeleted");
    assert_eq!(site.status()["disruptedPods"], json!({}));
}

#[tokio::test]
async fn a_pod_whose_time_ends_is_read_before_it_counts_again() {
    let site = Site::open(2);
    let mut budget = site.server.get(BUDGET).unwrap();
    budget["status"] = json!({"disruptedPods": {"web-0": "2026-01-01T00:00:00Z"}});
    site.budget(budget);
    // The watch does not show yet that it is gone.
    site.server.remove(&format!("{PODS}/web-0"));
    assert_eq!(site.reconcile().await, Next::After(OUTDATED_RETRY));
    assert!(site.writes().is_empty());
    site.controller.stores.pods.deleted(&("shop".to_owned(), "web-0".to_owned()), "1000");
    site.reconcile().await;
    assert_eq!(site.numbers(), [0, 1, 1, 2]);
    assert_eq!(site.status()["disruptedPods"], json!({}));
}

#[tokio::test]
async fn a_budget_that_is_gone_asks_for_no_pods() {
    let site = Site::open(2);
    site.controller.budgets.delete(&key(), "1000");
    site.controller.reconcile(&key()).await.unwrap();
    assert!(site.writes().is_empty());
    site.pod(7, true);
    assert!(site.controller.stores.pods.of_namespace("shop").iter().all(|pod| pod.controller().is_some()));
}

/// The kind is not served, may not be read, or hides how many Pods there are to be.
#[tokio::test]
async fn a_target_that_cant_be_read_leaves_the_budget_as_it_is() {
    let list = |resource: &str| {
        json!({"resources": [{"name": resource, "kind": "Fleet", "namespaced": true},
        {"name": format!("{resource}/scale"), "kind": "Scale", "namespaced": true}]})
    };
    let fleet = json!({"metadata": {"namespace": "shop", "name": "web", "uid": "f"}, "spec": {"size": 3}});
    for (version, answers) in
        [("v1", None), ("v2", Some((403, fake::status(403)))), ("v3", Some((200, fleet.to_string())))]
    {
        let mut site = Site::open(0);
        let api_version = format!("example.com/{version}");
        let (served, list) = (format!("/apis/{api_version}"), list("fleets").to_string());
        let server = site.server.clone();
        let (client, requests) = fake::api_server(move |request| match request.path {
            path if path == served && answers.is_some() => (200, list.clone()),
            path if path.ends_with("/fleets/web/scale") => (403, fake::status(403)),
            path if path.ends_with("/fleets/web") => answers.clone().unwrap(),
            _ => server.answer(&request),
        });
        (site.controller.client, site.requests) = (client, requests);
        let mut budget = site.server.get(BUDGET).unwrap();
        budget["spec"]["targetRef"] = json!({"apiVersion": api_version, "kind": "Fleet", "name": "web"});
        budget["status"] = json!({"unavailableAllowed": 0, "desiredAvailable": 2, "currentAvailable": 2, "totalReplicas": 3});
        site.budget(budget.clone());
        let outcome = site.controller.reconcile(&key()).await;
        assert!(matches!(outcome, Err(ReconcileError::Unreadable(_))), "{version}: {outcome:?}");
        assert_eq!((site.status(), site.writes()), (budget["status"].clone(), Vec::new()), "{version}");
        assert_eq!(site.reported.try_recv().unwrap().event.reason, "CalculateExpectedPodCountFailed");
    }
}
