use admission::world::{Watched, World};
use kit::double::Objects;
use serde_json::{Value, json};

use tokio::sync::mpsc;

use super::*;
use crate::fake;
use crate::workload::pods::Pods;
use crate::workload::store::follow::Sink;
use cluster::event_sender::PendingEvent;

const SPREAD: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/workloadspreads/ws";
const SET: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/clonesets/web";
const JOB: &str = "/apis/kubeflow.org/v1/namespaces/shop/tfjobs/web";
const PODS_OF_SHOP: &str = "/api/v1/namespaces/shop/pods";
const WHITE_LIST: &str = r#"{"workloads":[{"Group":"kubeflow.org","Kind":"TFJob",
    "subResources":[{"Group":"kubeflow.org","Kind":"TFGroup"}]}]}"#;

struct Site {
    controller: Controller,
    server: Objects,
    requests: fake::Requests,
    reported: mpsc::Receiver<PendingEvent>,
}

impl Site {
    /// A WorkloadSpread of this workload over `a`, for one Pod, and `b`, and a node. TFJobs are served, and Secrets may
    /// not be read.
    fn open(api_version: &str, kind: &str) -> Self {
        let server = Objects::default();
        let answering = server.clone();
        let served = json!({"resources": [{"name": "tfjobs", "kind": "TFJob", "namespaced": true},
            {"name": "secrets", "kind": "Secret", "namespaced": true}]});
        let (client, requests) = fake::api_server(move |request| match request.path {
            "/apis/kubeflow.org/v1" => (200, served.to_string()),
            path if path.contains("/secrets/") => (403, fake::status(403)),
            _ => answering.answer(&request),
        });
        let mut world = World::new("kruise-system");
        let map = json!({"metadata": {"name": "kruise-configuration", "namespace": "kruise-system"},
            "data": {"WorkloadSpread_Watch_Custom_Workload_WhiteList": WHITE_LIST}});
        world.apply(Watched::ConfigMap, &map.to_string()).unwrap();
        let context = Context::fixed(client.clone(), world);
        let stores =
            Arc::new(Stores::new(Arc::new(Pods::new(false)), context.index.clone(), "kruise-system"));
        stores.nodes.list_ends();
        stores.pods.want(KIND, &key());
        stores.pods.list_begins();
        let spreads: Store<Spread> = Store::default();
        spreads.list_begins();
        let (event_sender, reported) = cluster::event_sender::event_sender("Spread");
        let (discovery, unsuited) = (Discovery::default(), Mutex::default());
        let controller = Controller { client, spreads, stores, event_sender, context, discovery, unsuited };
        let site = Self { controller, server, requests, reported };
        site.node("n");
        site.spread(json!({
            "metadata": {"namespace": "shop", "name": "ws", "uid": "ws", "generation": 1},
            "spec": {"targetRef": {"apiVersion": api_version, "kind": kind, "name": "web"},
                "subsets": [{"name": "a", "maxReplicas": 1}, {"name": "b"}]},
        }));
        site
    }

    /// The lists of the watches are over.
    fn listed(self) -> Self {
        self.controller.stores.pods.list_ends();
        Sink::list_ends(&self.controller.spreads);
        self
    }

    fn spread(&self, spread: Value) {
        let spread = self.server.put(SPREAD, spread);
        self.controller.spreads.apply(Spread::read(&spread.to_string()).unwrap());
    }

    fn node(&self, name: &str) {
        let node = json!({"metadata": {"name": name, "resourceVersion": "1"}});
        self.controller.stores.nodes.see(serde_json::from_value(node).unwrap());
    }

    /// A running Pod, of a subset unless that is empty.
    fn pod(&self, name: &str, owner: (&str, &str, &str), subset: &str) {
        self.pod_on("n", name, owner, subset);
    }

    fn pod_on(&self, node: &str, name: &str, owner: (&str, &str, &str), subset: &str) {
        let (api_version, kind, uid) = owner;
        let owner =
            json!({"apiVersion": api_version, "kind": kind, "name": "x", "uid": uid, "controller": true});
        let mut pod = json!({
            "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "ownerReferences": [owner]},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "nginx:1"}]},
            "status": {"phase": "Running"},
        });
        if !subset.is_empty() {
            let mark = json!({"name": "ws", "subset": subset}).to_string();
            pod["metadata"]["annotations"] = json!({"apps.kruise.io/matched-workloadspread": mark});
        }
        let pod = self.server.put(&format!("{PODS_OF_SHOP}/{name}"), pod);
        self.controller.stores.pods.see(serde_json::from_value(pod).unwrap());
    }

    async fn reconcile(&self) -> Result<Next, ReconcileError> {
        self.controller.reconcile(&key()).await
    }

    /// How many requests of this method were about Pods since the last call.
    fn about_pods(&self, method: &str) -> usize {
        let requests = self.requests.lock().unwrap();
        let prefix = format!("{method} {PODS_OF_SHOP}/");
        requests.iter().filter(|request| request.starts_with(&prefix)).count()
    }

    /// Name, Pods and free slots of each subset.
    fn totals(&self) -> Vec<(String, i64, i64)> {
        let status = self.server.get(SPREAD).unwrap()["status"].clone();
        let items = status["subsetStatuses"].as_array().unwrap().iter();
        let number = |item: &Value, key: &str| item[key].as_i64().unwrap();
        let total = |item: &Value| {
            (
                item["name"].as_str().unwrap().to_owned(),
                number(item, "replicas"),
                number(item, "missingReplicas"),
            )
        };
        items.map(total).collect()
    }
}

fn key() -> Key {
    ("shop".to_owned(), "ws".to_owned())
}

fn totals(expected: &[(&str, i64, i64)]) -> Vec<(String, i64, i64)> {
    expected.iter().map(|(name, pods, free)| ((*name).to_owned(), *pods, *free)).collect()
}

#[tokio::test]
async fn a_target_that_cant_be_read_leaves_the_status_as_it_is() {
    for (api_version, kind) in
        [("kubeflow.org/v1", "Secret"), ("kubeflow.org/v1", "Gone"), ("gone.io/v1", "TFJob")]
    {
        let mut site = Site::open(api_version, kind);
        let mut spread = site.server.get(SPREAD).unwrap();
        spread["status"] = json!({"subsetStatuses": [{"name": "a", "replicas": 1, "missingReplicas": 0}]});
        site.spread(spread);
        site = site.listed();
        let outcome = site.reconcile().await;
        assert!(matches!(outcome, Err(ReconcileError::Unreadable(_))), "{kind}: {outcome:?}");
        assert_eq!(site.totals(), totals(&[("a", 1, 0)]));
        let event = site.reported.try_recv().unwrap().event;
        assert_eq!((event.reason, event.warning), ("ReadTargetFailed", true));
        assert!(event.message.starts_with("a workload can't be read: "), "{}", event.message);
    }
    let site = Site::open("kubeflow.org/v1", "TFJob").listed();
    assert_eq!(site.reconcile().await.unwrap(), Next::After(UNWATCHED));
    assert_eq!(
        site.totals(),
        totals(&[("a", 0, 1), ("b", 0, -1)]),
        "one that does not exist is another matter"
    );
}

#[tokio::test]
async fn scenario_35_pods_behind_what_lies_between_are_counted() {
    let site = Site::open("kubeflow.org/v1", "TFJob");
    site.server.put(JOB, json!({"metadata": {"namespace": "shop", "name": "web", "uid": "j"}, "spec": {}}));
    let group = ("kubeflow.org/v1", "TFGroup", "g");
    site.pod("p1", group, "a");
    site.pod("p2", group, "b");
    site.pod("unmarked", group, "");
    site.pod("direct", ("kubeflow.org/v1", "TFJob", "j"), "b");
    site.pod("other", ("apps/v1", "ReplicaSet", "r"), "b");
    let site = site.listed();
    site.reconcile().await.unwrap();
    assert_eq!(site.totals(), totals(&[("a", 1, 0), ("b", 2, -1)]));
}

#[tokio::test]
async fn a_look_reads_a_limited_number_of_pods_and_leaves_the_others_alone() {
    let site = Site::open("apps.kruise.io/v1beta1", "CloneSet");
    site.server.put(
        SET,
        json!({"metadata": {"namespace": "shop", "name": "web", "uid": "set"}, "spec": {"replicas": 450}}),
    );
    let pods = 2 * CANDIDATES + 50;
    for number in 0..pods {
        site.pod(&format!("web-{number}"), ("apps.kruise.io/v1beta1", "CloneSet", "set"), "");
    }
    let site = site.listed();
    for (read, next) in
        [(CANDIDATES, Next::After(RETRY_DELAY)), (CANDIDATES, Next::After(RETRY_DELAY)), (50, Next::Done)]
    {
        site.requests.lock().unwrap().clear();
        assert_eq!(site.reconcile().await.unwrap(), next);
        assert_eq!((site.about_pods("GET"), site.about_pods("PATCH")), (read, read));
    }
    assert_eq!(site.totals(), totals(&[("a", 1, 0), ("b", pods as i64 - 1, -1)]));
}

#[tokio::test]
async fn a_pod_is_left_alone_until_its_node_is_known() {
    let site = Site::open("apps.kruise.io/v1beta1", "CloneSet");
    site.server.put(
        SET,
        json!({"metadata": {"namespace": "shop", "name": "web", "uid": "set"}, "spec": {"replicas": 1}}),
    );
    let owner = ("apps.kruise.io/v1beta1", "CloneSet", "set");
    site.pod_on("late", "web-0", owner, "");
    site.pod("web-1", owner, "");
    let site = site.listed();
    let annotations = |name: &str| {
        site.server.get(&format!("{PODS_OF_SHOP}/{name}")).unwrap()["metadata"]["annotations"].clone()
    };
    let mark = "apps.kruise.io/matched-workloadspread";
    assert_eq!(site.reconcile().await.unwrap(), Next::After(UNWATCHED));
    assert_eq!((annotations("web-0"), site.about_pods("GET")), (Value::Null, 1));
    assert!(annotations("web-1")[mark].is_string());
    site.node("late");
    assert_eq!(site.reconcile().await.unwrap(), Next::Done);
    assert!(annotations("web-0")[mark].is_string());
    assert_eq!(site.totals(), totals(&[("a", 1, 0), ("b", 1, -1)]));
}
