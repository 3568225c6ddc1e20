use std::sync::Mutex;

use kit::double::{self, Objects, Request, Requests};
use kit::merge::strategic_merge;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::advance;

use tokio::sync::mpsc;

use super::*;
use crate::workload::store::follow::Sink;

const PATH: &str = "/apis/apps.kruise.io/v1beta1/resourcedistributions/rd";

/// A controller, and the API server that it writes to. Nothing is watched: tests show what watches would.
struct Site {
    controller: Controller,
    server: Objects,
    requests: Requests,
    names: UnboundedReceiver<Box<str>>,
    sender: mpsc::UnboundedSender<Box<str>>,
}

impl Site {
    /// A ResourceDistribution of ConfigMap `cm` to these targets, and namespaces `ns-1` to `ns-4`.
    fn open(
        targets: Value,
        trouble: impl Fn(&Request<'_>) -> Option<(u16, String)> + Clone + Send + 'static,
    ) -> Self {
        let server = Objects::default();
        let answering = server.clone();
        let (client, requests) = double::api_server(move |request| {
            trouble(&request).unwrap_or_else(|| answering.answer(&request))
        });
        let (sender, names) = mpsc::unbounded_channel();
        let site = Self { controller: Controller::new(client), server, requests, names, sender };
        for namespace in 1..=4 {
            site.namespace(&format!("ns-{namespace}"), json!({}));
        }
        let resource =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"a": "1"}});
        let mut distribution = json!({
            "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "rd", "uid": "rd-1", "generation": 1},
            "spec": {"resource": resource},
        });
        distribution["spec"]["targets"] = targets;
        site.server.put(PATH, distribution);
        site.watch();
        site
    }

    fn namespace(&self, name: &str, metadata: Value) {
        static VERSION: Mutex<u64> = Mutex::new(1_000);
        let mut version = VERSION.lock().unwrap();
        *version += 1;
        let mut object =
            json!({"metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()}});
        strategic_merge(&mut object["metadata"], metadata);
        self.controller.namespaces.apply(TargetNamespace::read(&object.to_string()).unwrap());
    }

    /// The watch shows the ResourceDistribution.
    fn watch(&self) {
        let stored = self.server.get(PATH).unwrap().to_string();
        self.controller.distributions.apply(Distribution::read(&stored).unwrap());
    }

    /// The author of the ResourceDistribution changes it.
    fn edit(&self, pointer: &str, value: Value) {
        let mut object = self.server.get(PATH).unwrap();
        *object.pointer_mut(pointer).unwrap() = value;
        object["metadata"]["generation"] = json!(object["metadata"]["generation"].as_i64().unwrap() + 1);
        self.server.put(PATH, object);
        self.watch();
    }

    fn copies(&self) -> Copies<'_> {
        Copies { kind: ResourceKind::ConfigMap, controller: &self.controller, names: self.sender.clone() }
    }

    /// Somebody writes a ConfigMap, which the watch shows.
    fn write(&self, namespace: &str, change: Value) {
        let path = config_map(namespace);
        let new = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": namespace, "uid": "u"}});
        let mut object = self.server.get(&path).unwrap_or(new);
        strategic_merge(&mut object, change);
        let object = self.server.put(&path, object);
        self.copies().see(serde_json::from_value(object).unwrap());
    }

    /// Somebody deletes a ConfigMap, which the watch shows.
    fn delete(&self, namespace: &str) {
        self.gone(self.server.remove(&config_map(namespace)).unwrap());
    }

    /// The watch shows that a ConfigMap is gone.
    fn gone(&self, mut object: Value) {
        object["metadata"]["resourceVersion"] = json!("999");
        self.copies().gone(&serde_json::from_value(object).unwrap());
    }

    /// The changes of copies that concern ResourceDistributions, and what is queued for them.
    fn queued(&self, copies: &mut UnboundedReceiver<Change<Copy>>) -> usize {
        let mut queued = 0;
        while let Ok(change) = copies.try_recv() {
            queued += self.copies().of_copy(&change).len();
        }
        queued
    }

    async fn reconcile(&self) -> Result<Next, ReconcileError> {
        self.controller.reconcile(&"rd".into()).await
    }

    /// Method and namespace of each request for a ConfigMap since the last call.
    fn requested(&self) -> Vec<String> {
        let requests = std::mem::take(&mut *self.requests.lock().unwrap());
        let of_copies = requests.iter().filter_map(|request| {
            let (method, rest) = request.split_once(" /api/v1/namespaces/")?;
            Some(format!("{method} {}", rest.split('/').next()?))
        });
        of_copies.collect()
    }

    fn status(&self) -> Value {
        self.server.get(PATH).unwrap()["status"].clone()
    }
}

fn config_map(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/cm")
}

fn listed(names: &[&str]) -> Value {
    let names: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
    json!({"includedNamespaces": {"list": names}})
}

fn all() -> Value {
    json!({"allNamespaces": true})
}

#[tokio::test]
async fn copies_are_made_once_and_equal_ones_are_not_read_again() {
    let site = Site::open(all(), |_| None);
    let mut changes = site.controller.config_maps.subscribe();
    assert_eq!(site.reconcile().await.unwrap(), Next::Done);
    assert_eq!(site.requested(), ["POST ns-1", "POST ns-2", "POST ns-3", "POST ns-4"]);
    assert_eq!((&site.status()["succeeded"], &site.status()["desired"]), (&json!(4), &json!(4)));
    assert_eq!(site.queued(&mut changes), 0, "our own writes queue nothing");
    site.watch();
    site.reconcile().await.unwrap();
    assert!(site.requests.lock().unwrap().is_empty(), "nothing is read and nothing written");
}

#[tokio::test]
async fn an_edit_and_a_deletion_are_put_right_by_requests_for_that_copy_alone() {
    let site = Site::open(all(), |_| None);
    site.reconcile().await.unwrap();
    site.requested();
    let mut changes = site.controller.config_maps.subscribe();
    assert_eq!(site.queued(&mut changes), 0);
    site.write("ns-2", json!({"data": {"a": "2", "b": "3"}}));
    assert_eq!(site.queued(&mut changes), 1);
    site.reconcile().await.unwrap();
    assert_eq!(site.requested(), ["GET ns-2", "PATCH ns-2"]);
    assert_eq!(site.server.get(&config_map("ns-2")).unwrap()["data"], json!({"a": "1"}));
    site.write("ns-3", json!({"metadata": {"labels": {"x": "y"}}}));
    site.reconcile().await.unwrap();
    assert_eq!(site.requested(), ["GET ns-3"], "what others add stays");
    site.delete("ns-4");
    assert_eq!(site.queued(&mut changes), 1);
    site.reconcile().await.unwrap();
    assert_eq!(site.requested(), ["POST ns-4"]);
}

#[tokio::test]
async fn a_change_of_the_resource_reaches_every_copy() {
    let site = Site::open(all(), |_| None);
    site.reconcile().await.unwrap();
    site.requested();
    site.edit("/spec/resource/data", json!({"a": "2"}));
    site.reconcile().await.unwrap();
    let requested = site.requested();
    assert_eq!(requested.iter().filter(|request| request.starts_with("PATCH")).count(), 4, "{requested:?}");
    assert_eq!(site.server.get(&config_map("ns-1")).unwrap()["data"], json!({"a": "2"}));
}

#[tokio::test(start_paused = true)]
async fn a_foreign_object_is_left_alone_until_it_goes() {
    let mut site = Site::open(listed(&["ns-1", "ns-2"]), |_| None);
    site.write("ns-1", json!({"data": {"mine": "1"}}));
    assert_eq!(site.reconcile().await.unwrap(), Next::After(Duration::from_secs(300)));
    assert_eq!(site.requested(), ["POST ns-1", "GET ns-1", "POST ns-2"]);
    let conflict = site.status()["conditions"][4].clone();
    assert_eq!((&conflict["status"], &conflict["failedNamespaces"]), (&json!("True"), &json!(["ns-1"])));
    assert_eq!(site.server.get(&config_map("ns-1")).unwrap()["data"], json!({"mine": "1"}));
    site.watch();
    site.reconcile().await.unwrap();
    assert!(site.requested().is_empty(), "it is known to be there");
    advance(Duration::from_secs(300)).await;
    site.reconcile().await.unwrap();
    assert_eq!(site.requested(), ["POST ns-1", "GET ns-1"], "but not believed for ever");
    site.delete("ns-1");
    assert_eq!(site.names.try_recv().as_deref(), Ok("rd"));
    site.reconcile().await.unwrap();
    assert_eq!(site.requested(), ["POST ns-1"]);
    assert_eq!(site.status()["conditions"][4]["status"], "False");
}

#[tokio::test]
async fn the_copy_of_another_one_is_a_conflict_without_a_request() {
    let site = Site::open(listed(&["ns-1"]), |_| None);
    let other = json!([{"apiVersion": API_VERSION, "kind": KIND, "name": "other", "uid": "rd-2", "controller": true}]);
    site.write("ns-1", json!({"metadata": {"ownerReferences": other}}));
    site.reconcile().await.unwrap();
    assert!(site.requested().is_empty());
    assert_eq!(site.status()["conditions"][4]["failedNamespaces"], json!(["ns-1"]));
}

#[tokio::test]
async fn a_copy_goes_from_a_namespace_that_is_no_target_in_the_state_that_is_known() {
    let site = Site::open(listed(&["ns-1", "ns-2"]), |_| None);
    site.reconcile().await.unwrap();
    let copy = site.server.get(&config_map("ns-2")).unwrap();
    site.requested();
    site.edit("/spec/targets", listed(&["ns-1"]));
    site.reconcile().await.unwrap();
    let version = copy["metadata"]["resourceVersion"].as_str().unwrap();
    let options = write::deletion("uid-cm", Some(version));
    assert_eq!(site.requests.lock().unwrap()[0], format!("DELETE {} {options}", config_map("ns-2")));
    assert_eq!(site.status()["desired"], 1);
    site.gone(copy);
    site.delete("ns-1");
    site.requests.lock().unwrap().clear();
    site.namespace("ns-1", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
    site.reconcile().await.unwrap();
    assert!(site.requested().is_empty(), "a namespace that goes is left alone");
    assert_eq!(site.status()["conditions"][5]["failedNamespaces"], json!(["ns-1"]));
}

#[tokio::test]
async fn one_namespace_that_fails_stops_no_other_and_is_tried_again() {
    let site = Site::open(all(), |request| {
        let refused = request.method == "POST" && request.path.contains("/ns-1/");
        refused.then(|| (422, double::status(422)))
    });
    let error = site.reconcile().await.unwrap_err();
    assert_eq!(error.to_string(), "1 namespaces failed, the first: ns-1: CreateResourceFailed: refused");
    assert_eq!((&site.status()["succeeded"], &site.status()["failed"]), (&json!(3), &json!(1)));
    assert_eq!(site.status()["conditions"][1]["failedNamespaces"], json!(["ns-1"]));
    site.requested();
    site.reconcile().await.unwrap_err();
    assert_eq!(site.requested(), ["POST ns-1"]);
}

#[tokio::test]
async fn a_namespace_that_ends_meanwhile_is_no_reason_to_try_again() {
    let site =
        Site::open(listed(&["ns-1"]), |request| (request.method == "POST").then(double::namespace_ends));
    assert_eq!(site.reconcile().await.unwrap(), Next::Done);
    assert_eq!(site.status()["conditions"][5]["failedNamespaces"], json!(["ns-1"]));
}

#[tokio::test]
async fn a_copy_that_changes_while_it_is_written_to_is_reconciled_again() {
    static CONFLICTS: Mutex<u32> = Mutex::new(0);
    let site = Site::open(listed(&["ns-1"]), |request| {
        let conflicts = &mut *CONFLICTS.lock().unwrap();
        let meets = request.method == "PATCH" && request.path.contains("configmaps") && *conflicts > 0;
        meets.then(|| {
            *conflicts -= 1;
            double::conflict("Conflict")
        })
    });
    site.reconcile().await.unwrap();
    for (conflicts, succeeds) in [(2, true), (3, false)] {
        *CONFLICTS.lock().unwrap() = conflicts;
        site.write("ns-1", json!({"data": {"a": "9"}}));
        site.watch();
        assert_eq!(site.reconcile().await.is_ok(), succeeds, "{conflicts}");
    }
    site.watch();
    assert_eq!(site.status()["conditions"][2]["failedNamespaces"], json!(["ns-1"]));
}

#[tokio::test]
async fn a_change_of_the_spec_ends_the_pass_and_a_deletion_ends_all_work() {
    let site = Site::open(all(), |_| None);
    let stale = site.controller.distributions.get(&key("rd")).unwrap();
    site.edit("/spec/targets", json!({}));
    let (resource, targets) = (stale.resource.as_ref().unwrap(), stale.targets.as_ref().unwrap());
    assert_eq!(site.controller.advance(&stale, resource, targets).await.unwrap(), Next::Done);
    assert!(site.requests.lock().unwrap().is_empty());
    site.edit(
        "/metadata",
        json!({
            "name": "rd", "uid": "rd-1", "generation": 3, "deletionTimestamp": "2026-01-01T00:00:00Z",
        }),
    );
    assert_eq!(site.reconcile().await.unwrap(), Next::Done);
    assert!(site.requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_namespace_queues_those_for_which_it_becomes_a_target_or_stops_to_be_one() {
    let site = Site::open(json!({"namespaceSelector": {"matchLabels": {"group": "one"}}}), |_| None);
    let broken = json!({"metadata": {"name": "broken", "uid": "b", "resourceVersion": "1"}, "spec": {
        "resource": {}, "targets": {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}}});
    site.controller.distributions.apply(Distribution::read(&broken.to_string()).unwrap());
    assert_eq!(site.controller.reconcile(&"broken".into()).await.unwrap(), Next::Done);
    let mut changes = site.controller.namespaces.subscribe();
    while changes.try_recv().is_ok() {}
    let labels = |value: &str| json!({"labels": {"group": value}});
    for (metadata, queued) in [
        (labels("two"), 0),
        (labels("one"), 1),
        (json!({"annotations": {"a": "b"}, "labels": {"group": "one"}}), 0),
        (labels("two"), 1),
    ] {
        site.namespace("ns-1", metadata.clone());
        let change = changes.try_recv().unwrap();
        assert_eq!(site.controller.of_namespace(&change).len(), queued, "{metadata}");
    }
}
