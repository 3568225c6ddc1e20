use std::collections::BTreeMap;

use api::kinds::rollout::Step;
use proptest::prelude::*;
use serde_json::{Value, json};
use values::merge_patch::merge_patch;

use super::*;

mod custom;
mod gateway;
mod ingress;
mod properties;
mod service;

/// Objects, and the release that routes them.
#[derive(Clone, Debug)]
struct World {
    objects: BTreeMap<ObjectName, Value>,
    routing: TrafficRoutingRef,
    scripts: Scripts,
    owner: Value,
    disable_canary_service: bool,
    append_pod_selector: bool,
    patch_labels: BTreeMap<String, String>,
    last_change: Option<Timestamp>,
    now: Timestamp,
    /// All writes so far.
    writes: Vec<Write>,
}

type Function<'f> = &'f dyn Fn(&Context<'_>, &View) -> Result<Progress, Error>;

impl World {
    fn new(routing: Value, objects: impl IntoIterator<Item = Value>) -> Self {
        let mut world = Self {
            objects: BTreeMap::new(),
            routing: serde_json::from_value(routing).unwrap(),
            scripts: Scripts::default(),
            owner: json!({"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "name": "release", "uid": "1", "controller": true}),
            disable_canary_service: false,
            append_pod_selector: false,
            patch_labels: BTreeMap::new(),
            last_change: None,
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            writes: Vec::new(),
        };
        objects.into_iter().for_each(|object| world.put(object));
        world
    }

    fn put(&mut self, mut object: Value) {
        object["metadata"]["namespace"] = "shop".into();
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = object["metadata"]["name"].clone();
        }
        let name = ObjectName::new(object.text("/apiVersion"), object.text("/kind"), "shop", object.name());
        self.objects.insert(name, object);
    }

    fn get(&self, kind: &str, name: &str) -> Option<&Value> {
        self.objects.values().find(|object| object.text("/kind") == kind && object.name() == name)
    }

    fn object(&self, kind: &str, name: &str) -> &Value {
        self.get(kind, name).unwrap_or_else(|| panic!("no {kind} {name}"))
    }

    fn edit(&mut self, kind: &str, name: &str, patch: &Value) {
        let found = self.objects.iter().find(|(known, _)| known.kind == kind && known.name == name);
        let name = found.unwrap().0.clone();
        self.patch(&name, patch);
    }

    fn patch(&mut self, name: &ObjectName, patch: &Value) {
        let object = self.objects.get_mut(name).unwrap_or_else(|| panic!("no {name:?}"));
        *object =
            serde_json::from_str(&merge_patch(&object.to_string(), &patch.to_string()).unwrap()).unwrap();
        for map in ["labels", "annotations"] {
            if object["metadata"][map].as_object().is_some_and(serde_json::Map::is_empty) {
                object["metadata"].as_object_mut().unwrap().remove(map);
            }
        }
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    }

    /// Calls a function, reading what it asks for.
    fn call(&self, function: Function<'_>) -> Result<Progress, String> {
        let context = Context {
            owner: &self.owner,
            namespace: "shop",
            routing: &self.routing,
            stable_revision: "old",
            canary_revision: "new",
            revision_label: "pod-template-hash",
            patch_labels: &self.patch_labels,
            append_pod_selector: self.append_pod_selector,
            disable_canary_service: self.disable_canary_service,
            last_change: self.last_change,
            now: self.now,
            scripts: &self.scripts,
        };
        let mut view = View::default();
        loop {
            match function(&context, &view) {
                Err(Error::Unread(Unread::Object(name))) => {
                    let object = self.objects.get(&name).cloned();
                    view.has_object(name, object);
                }
                Err(Error::Unread(other)) => panic!("{other:?}"),
                Err(Error::Problem(problem)) => return Err(problem),
                Ok(progress) => return Ok(progress),
            }
        }
    }

    /// Carries out what a function wants to write.
    fn act(&mut self, function: Function<'_>) -> Result<Progress, String> {
        let progress = self.call(function)?;
        assert_eq!(progress.changed, !progress.writes.is_empty());
        assert!(!(progress.changed && progress.done), "a change is followed by a wait");
        for write in &progress.writes {
            match write {
                Write::Create { object, .. } => self.put(object.clone()),
                Write::Patch { name, subresource, patch } => {
                    assert_eq!(*subresource, "");
                    assert_eq!(patch.uid(), self.objects[name].uid());
                    self.patch(name, patch);
                }
                Write::Delete { name, uid } => {
                    let deleted = self.objects.remove(name).unwrap();
                    assert_eq!(deleted.uid(), uid);
                }
            }
        }
        if progress.changed {
            self.last_change = Some(self.now);
        }
        self.writes.extend(progress.writes.iter().cloned());
        Ok(progress)
    }

    /// Calls a function until it is done; returns how often something was changed.
    fn finish(&mut self, function: Function<'_>) -> usize {
        for changes in 0..10 {
            let progress = self.act(function).unwrap();
            if progress.done {
                return changes;
            }
            self.now += progress.again.unwrap();
        }
        panic!("it changes something again and again: {:#?}", self.writes);
    }

    fn route(&mut self, step: Value) -> usize {
        let step: Step = serde_json::from_value(step).unwrap();
        self.finish(&|context, view| route_step(context, &step, view))
    }

    fn route_problem(&self, step: Value) -> String {
        let step: Step = serde_json::from_value(step).unwrap();
        self.call(&|context, view| route_step(context, &step, view)).unwrap_err()
    }

    /// Ends the release.
    fn restore(&mut self) {
        self.finish(&restore_stable_service);
        self.finish(&route_to_stable);
        self.finish(&remove_canary_service);
    }

    /// What a release must leave as it was.
    fn settled(&self) -> BTreeMap<ObjectName, Value> {
        self.objects.clone()
    }
}

fn web_service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"team": "a"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "nodePort": 30000}], "clusterIP": "10.0.0.1"}})
}

/// Service `web` alone.
fn plain() -> World {
    World::new(json!({"service": "web"}), [web_service()])
}

#[test]
fn a_step_that_says_nothing_of_traffic_changes_none() {
    let mut world = plain();
    assert_eq!(world.route(json!({"replicas": 1})), 0);
    assert_eq!(world.route(json!({"requestHeaderModifier": {"set": [{"name": "a", "value": "b"}]}})), 0);
    assert_eq!(world.get("Service", "web-canary"), None);
}

#[test]
fn a_share_that_is_no_percentage_is_a_problem() {
    for traffic in ["20", "x%", "101%", "-1%", "1.5%", ""] {
        assert!(plain().route_problem(json!({"traffic": traffic})).contains("no percentage"), "{traffic}");
    }
    for traffic in ["0%", "100%"] {
        assert_eq!(plain().route(json!({"traffic": traffic})), 1, "{traffic}");
    }
}

#[test]
fn every_change_is_followed_by_the_grace_period() {
    let mut world = plain();
    let narrow: Function<'_> = &patch_stable_service;
    let progress = world.act(narrow).unwrap();
    assert!(progress.changed && progress.again == Some(Duration::from_secs(3)), "{progress:?}");
    assert!(progress.message.is_some_and(|message| message.contains("3s")));

    world.now += Duration::from_secs(1);
    let progress = world.call(narrow).unwrap();
    assert!(!progress.done && progress.writes.is_empty() && progress.again == Some(Duration::from_secs(2)));
    let progress = world.call(&restore_stable_service).unwrap();
    assert!(progress.writes.is_empty() && !progress.done, "not even another change comes sooner");

    world.now += Duration::from_secs(2);
    assert_eq!(world.call(narrow).unwrap(), Progress::done());
}

#[test]
fn the_grace_period_is_the_users_and_may_be_nothing() {
    let mut world = plain();
    world.routing.grace_period_seconds = Some(60);
    assert_eq!(world.act(&patch_stable_service).unwrap().again, Some(Duration::from_secs(60)));
    world.routing.grace_period_seconds = Some(0);
    assert!(world.act(&patch_stable_service).unwrap().done);
    world.routing.grace_period_seconds = Some(-5);
    assert!(world.act(&patch_stable_service).unwrap().done);
}

#[test]
fn a_clock_that_was_put_back_makes_nobody_wait_longer() {
    let mut world = plain();
    world.last_change = Some(world.now + Duration::from_secs(1000));
    assert_eq!(world.call(&patch_stable_service).unwrap().again, Some(Duration::from_secs(3)));
}

#[test]
fn what_is_missing_is_named_before_the_release() {
    let routing = json!({"service": "web", "ingress": {"name": "in"}, "gateway": {"httpRouteName": "route"},
        "customNetworkRefs": [{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "name": "vs"}]});
    let mut world = World::new(routing, []);
    let object = |api_version: &str, kind: &str, name: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    for (missing, object) in [
        ("Service web does not exist", web_service()),
        ("Ingress in does not exist", object("networking.k8s.io/v1", "Ingress", "in")),
        ("HTTPRoute route does not exist", object("gateway.networking.k8s.io/v1", "HTTPRoute", "route")),
        ("VirtualService vs does not exist", object("networking.istio.io/v1", "VirtualService", "vs")),
    ] {
        assert_eq!(world.call(&check).unwrap_err(), missing);
        world.put(object);
    }
    assert!(world.call(&check).unwrap().done);
    world.routing.ingress.as_mut().unwrap().class_type = "traefik".to_owned();
    assert!(world.call(&check).unwrap_err().contains("lua.traffic.routing.ingress.traefik"));
}

#[test]
fn what_is_gone_needs_not_be_put_back() {
    let routing = json!({"service": "web", "ingress": {"name": "in"}, "gateway": {"httpRouteName": "route"},
        "customNetworkRefs": [{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "name": "vs"}]});
    let mut world = World::new(routing, []);
    world.restore();
    assert_eq!(world.writes, []);
}
