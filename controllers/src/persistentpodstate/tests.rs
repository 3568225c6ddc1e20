use std::collections::{BTreeMap, BTreeSet};

use admission::world::World;
use cluster::event_sender::PendingEvent;
use kit::double::Objects;
use serde_json::{Value, json};

use tokio::sync::mpsc;

use super::*;
use crate::fake;
use crate::workload::pods::Pods;
use crate::workload::store::follow::Sink;

const STATE: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/persistentpodstates/web";
const SET: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/statefulsets/web";

struct Site {
    controller: Controller,
    server: Objects,
    requests: fake::Requests,
    reported: mpsc::Receiver<PendingEvent>,
}

impl Site {
    /// Nodes `n1` and `n2`, each in a zone of its name. Advanced StatefulSets are served or not.
    fn open(is_served: bool) -> Self {
        let server = Objects::default();
        let answering = server.clone();
        let (client, requests) = fake::api_server(move |request| match request.path {
            path if !is_served && path.contains("/statefulsets/") => (403, fake::status(403)),
            _ => answering.answer(&request),
        });
        let context = Context::fixed(client.clone(), World::new("kruise-system"));
        let stores =
            Arc::new(Stores::new(Arc::new(Pods::new(false)), context.index.clone(), "kruise-system"));
        for node in ["n1", "n2"] {
            let node = json!({"metadata": {"name": node, "resourceVersion": "1", "labels": {"zone": node}}});
            stores.nodes.see(serde_json::from_value(node).unwrap());
        }
        stores.nodes.list_ends();
        stores.pods.list_begins();
        stores.pods.list_ends();
        let states: Store<PersistentPodState> = Store::default();
        Sink::list_ends(&states);
        let (event_sender, reported) = cluster::event_sender::event_sender("Remember");
        let listed = ListedKinds::default();
        let controller = Controller { client, states, stores, listed, event_sender, context };
        Self { controller, server, requests, reported }
    }

    /// The Advanced StatefulSet `web`.
    fn set(&self, replicas: i32, annotations: &Value) {
        let metadata = json!({"namespace": "shop", "name": "web", "uid": "u", "annotations": annotations});
        self.server.put(SET, json!({"metadata": metadata, "spec": {"replicas": replicas}}));
    }

    /// Its PersistentPodState.
    fn state(&self, records: &Value) {
        let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"});
        let state = self.server.put(
            STATE,
            json!({
                "metadata": {"namespace": "shop", "name": "web", "uid": "p", "generation": 1},
                "spec": {"targetRef": target, "requiredPersistentTopology": {"keys": ["zone"]}},
                "status": {"observedGeneration": 1, "podStates": records},
            }),
        );
        self.controller.states.apply(serde_json::from_value(state).unwrap());
    }

    /// A ready Pod of it.
    fn pod(&self, name: &str, node: &str) -> Arc<ObservedPod> {
        let owner = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "StatefulSet", "name": "web", "uid": "u", "controller": true});
        let pod = json!({
            "metadata": {"namespace": "shop", "name": name, "uid": name, "resourceVersion": "5", "ownerReferences": [owner]},
            "spec": {"nodeName": node},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        self.controller.stores.pods.see(serde_json::from_value(pod).unwrap());
        self.controller.stores.pods.get(&("shop".to_owned(), name.to_owned())).unwrap()
    }

    /// What is remembered: names and zones.
    fn remembered(&self) -> Vec<(String, String)> {
        let state = self.server.get(STATE).unwrap();
        let records = state["status"]["podStates"].as_object().cloned().unwrap_or_default();
        let zone =
            |record: &Value| record["nodeTopologyLabels"]["zone"].as_str().unwrap_or_default().to_owned();
        let sorted: BTreeMap<String, String> =
            records.iter().map(|(name, record)| (name.clone(), zone(record))).collect();
        sorted.into_iter().collect()
    }

    fn writes(&self) -> usize {
        self.requests.lock().unwrap().iter().filter(|request| !request.starts_with("GET")).count()
    }
}

fn item() -> Item {
    Item::State(("shop".to_owned(), "web".to_owned()))
}

fn asking() -> Item {
    Item::Workload(Asking {
        namespace: "shop".to_owned(),
        api_version: "apps.kruise.io/v1beta1".to_owned(),
        kind: "StatefulSet".to_owned(),
        name: "web".to_owned(),
    })
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, zone)| ((*name).to_owned(), (*zone).to_owned())).collect()
}

#[tokio::test]
async fn what_runs_is_remembered_and_nothing_is_written_twice() {
    let site = Site::open(true);
    site.set(3, &json!({}));
    site.state(&json!({"web-1": {"nodeName": "n9", "nodeTopologyLabels": {"zone": "z"}}, "web-3": {"nodeName": "n1"}}));
    site.pod("web-0", "n1");
    site.pod("web-2", "n2");
    for _ in 0..2 {
        assert_eq!(site.controller.reconcile(&item()).await.unwrap(), Next::Done);
        assert_eq!(site.remembered(), owned(&[("web-0", "n1"), ("web-1", "z"), ("web-2", "n2")]));
        assert_eq!(site.writes(), 1);
    }
    site.server.remove(SET);
    site.controller.reconcile(&item()).await.unwrap();
    assert_eq!(site.remembered(), owned(&[]));
}

#[tokio::test]
async fn a_kind_that_cant_be_read_leaves_everything_as_it_is_and_fails_nothing() {
    let mut site = Site::open(false);
    site.state(&json!({"web-0": {"nodeName": "n1", "nodeTopologyLabels": {"zone": "n1"}}}));
    for item in [item(), asking()] {
        assert_eq!(site.controller.reconcile(&item).await.unwrap(), Next::After(UNWATCHED));
    }
    assert_eq!((site.writes(), site.remembered()), (0, owned(&[("web-0", "n1")])));
    let event = site.reported.try_recv().unwrap().event;
    assert_eq!((event.reason, event.warning), ("ReadTargetFailed", true));
}

#[tokio::test]
async fn a_node_that_is_not_known_fails_the_reconcile_when_the_others_are_remembered() {
    let site = Site::open(true);
    site.set(2, &json!({}));
    site.state(&json!({}));
    site.pod("web-0", "n1");
    site.pod("web-1", "n3");
    let outcome = site.controller.reconcile(&item()).await;
    assert!(matches!(&outcome, Err(ReconcileError::NoNode(node)) if node == "n3"), "{outcome:?}");
    assert_eq!(site.remembered(), owned(&[("web-0", "n1")]));
}

#[tokio::test]
async fn objects_are_generated_changed_and_deleted() {
    let mut site = Site::open(true);
    let reconcile = async |site: &Site| site.controller.reconcile(&asking()).await.unwrap();
    let auto = "kruise.io/auto-generate-persistent-pod-state";
    let (required, preferred) =
        ("kruise.io/required-persistent-topology", "kruise.io/preferred-persistent-topology");
    site.set(1, &json!({auto: "true"}));
    reconcile(&site).await;
    assert_eq!(site.reported.try_recv().unwrap().event.reason, "PersistentPodStateNotGenerated");
    site.set(1, &json!({auto: "true", preferred: "zone"}));
    for _ in 0..2 {
        assert_eq!(reconcile(&site).await, Next::Done);
        assert_eq!(site.writes(), 1);
    }
    let stored = site.server.get(STATE).unwrap();
    assert_eq!(stored["metadata"]["ownerReferences"][0]["uid"], "u");
    site.set(1, &json!({auto: "true", preferred: "zone", required: "zone"}));
    reconcile(&site).await;
    let stored = site.server.get(STATE).unwrap();
    assert_eq!(stored["spec"]["requiredPersistentTopology"], json!({"keys": ["zone"]}));
    site.set(1, &json!({}));
    reconcile(&site).await;
    assert!(site.server.get(STATE).is_none());
}

#[tokio::test]
async fn changes_lead_to_what_they_concern() {
    let site = Site::open(true);
    site.state(&json!({}));
    let controller = &site.controller;
    let pod = site.pod("web-0", "n1");
    let of_pod = |old: Option<&Arc<ObservedPod>>, new: Option<&Arc<ObservedPod>>| {
        controller.of_pod(&Change { old: old.cloned(), new: new.cloned() })
    };
    assert_eq!(of_pod(Some(&pod), None), [(item(), GATHERED)]);
    assert_eq!(of_pod(Some(&pod), Some(&pod)), []);
    let read = |group: &str, annotations: Value| {
        let metadata = json!({"namespace": "shop", "name": "web", "uid": "u", "annotations": annotations});
        Arc::new(
            ResolvedWorkload::read(group, "StatefulSet", &json!({"metadata": metadata}).to_string()).unwrap(),
        )
    };
    let of_workload = |new: &Arc<ResolvedWorkload>| -> BTreeSet<Item> {
        let items = controller.of_workload(&Change { old: None, new: Some(new.clone()) });
        items.into_iter().map(|(item, _)| item).collect()
    };
    assert_eq!(of_workload(&read("apps.kruise.io", json!({}))), BTreeSet::from([item()]));
    let auto = json!({"kruise.io/auto-generate-persistent-pod-state": "true"});
    assert_eq!(of_workload(&read("apps.kruise.io", auto)), BTreeSet::from([item(), asking()]));
    // A native StatefulSet of the name is another workload.
    assert_eq!(of_workload(&read("apps", json!({}))), BTreeSet::new());
    let state = controller.states.get(&("shop".to_owned(), "web".to_owned())).unwrap();
    let gone = controller.of_state(&Change { old: Some(state), new: None });
    assert_eq!(gone, [(item(), Duration::ZERO), (asking(), Duration::ZERO)]);
}
