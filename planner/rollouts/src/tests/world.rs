//! The API server of a test: objects as JSON, which plans change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::features::FeatureGates;
use api::kinds::batchrelease::{self, BatchRelease};
use api::kinds::rollout::{self, Rollout};
use api::kinds::trafficrouting::{self, TrafficRouting};
use jiff::{SignedDuration, Timestamp};
use kinds::workload::status::merge_patch;
use pod::observed::ObservedPod;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use values::json_patch;
use values::moment::{Moment, rfc3339};

use crate::object::{Object as _, ObjectName};
use crate::plan::Plan;
use crate::view::{ListName, Unread, View};
use crate::write::Write;
use crate::{batch_release, deployment, freeze};

pub(super) const NAMESPACE: &str = "shop";
const WEBHOOKS: &str = "webhooks";

/// A cluster.
#[derive(Clone)]
pub(super) struct World {
    pub(super) objects: BTreeMap<ObjectName, Value>,
    pub(super) now: Timestamp,
    /// Versions of Pods that never become ready.
    pub(super) broken: Vec<String>,
    /// How many writes our controllers have made.
    pub(super) calls: usize,
    /// What they wrote.
    pub(super) log: Vec<String>,
    /// Our controllers are killed before the write of this number, and start again.
    pub(super) killed_at: Option<usize>,
    pub(super) events: Vec<String>,
    pub(super) gates: FeatureGates,
    versions: u64,
    /// When the status of the Rollout was last written.
    written: Timestamp,
}

/// The name of an object of a kind.
pub(super) fn named(api_version: &str, kind: &str, name: &str) -> ObjectName {
    ObjectName::new(api_version, kind, NAMESPACE, name)
}

/// The name of an object, as it says itself.
pub(super) fn name_of(object: &Value) -> ObjectName {
    let text = |pointer| object.text(pointer);
    ObjectName::new(text("/apiVersion"), text("/kind"), text("/metadata/namespace"), object.name())
}

/// An object after a merge patch.
fn merged(object: &Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else { return patch.clone() };
    let mut members = object.as_object().cloned().unwrap_or_default();
    for (name, change) in changes {
        match change {
            Value::Null => drop(members.shift_remove(name)),
            change => {
                let before = members.get(name).cloned().unwrap_or_default();
                members.insert(name.clone(), merged(&before, change));
            }
        }
    }
    members.into()
}

impl World {
    pub(super) fn new() -> Self {
        let mut world = Self {
            objects: BTreeMap::new(),
            now: "2026-03-01T10:00:00Z".parse().unwrap(),
            broken: Vec::new(),
            calls: 0,
            log: Vec::new(),
            killed_at: None,
            events: Vec::new(),
            gates: FeatureGates::parse("Rollouts=true", "").unwrap(),
            versions: 0,
            written: Timestamp::UNIX_EPOCH,
        };
        world.create(json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": WEBHOOKS, "namespace": ""},
        }));
        world
    }

    /// A number that was not given before.
    pub(super) fn version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    /// Takes in an object that somebody creates.
    pub(super) fn create(&mut self, mut object: Value) {
        if object["kind"] != "MutatingWebhookConfiguration" {
            object["metadata"]["namespace"] = NAMESPACE.into();
        }
        let name = name_of(&object);
        if self.objects.contains_key(&name) {
            return;
        }
        let version = self.version();
        object["metadata"]["uid"] = format!("uid-{version}").into();
        object["metadata"]["resourceVersion"] = version.to_string().into();
        object["metadata"]["generation"] = 1.into();
        object["metadata"]["creationTimestamp"] = rfc3339(self.now).into();
        self.objects.insert(name, object);
    }

    pub(super) fn get(&self, name: &ObjectName) -> &Value {
        self.objects.get(name).unwrap_or_else(|| panic!("there is no {name:?}"))
    }

    pub(super) fn of_kind(&self, kind: &str) -> Vec<Value> {
        self.all(kind).cloned().collect()
    }

    /// The objects of a kind.
    pub(super) fn all<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |(name, _)| name.kind == kind).map(|(_, object)| object)
    }

    /// Somebody updates an object by a merge patch, and webhooks see it.
    pub(super) fn update(&mut self, name: &ObjectName, patch: &Value) {
        let old = self.get(name).clone();
        let mut new = merged(&old, patch);
        new["status"] = old["status"].clone();
        let asks = self.all("MutatingWebhookConfiguration").next().is_some();
        if asks && matches!(name.kind.as_str(), "CloneSet" | "Deployment" | "StatefulSet" | "DaemonSet") {
            new = self.admitted(&old, &new);
        }
        if new["spec"] != old["spec"] {
            new["metadata"]["generation"] = (old["metadata"]["generation"].as_i64().unwrap() + 1).into();
        }
        self.store(name, &old, new);
    }

    /// Somebody writes the status of an object.
    pub(super) fn update_status(&mut self, name: &ObjectName, patch: &Value) {
        let old = self.get(name).clone();
        let new = merged(&old, &json!({"status": patch}));
        self.store(name, &old, new);
    }

    fn store(&mut self, name: &ObjectName, old: &Value, mut new: Value) {
        if new.is_deleting() && new.items("/metadata/finalizers").is_empty() {
            self.objects.remove(name);
            self.collect_garbage();
        } else if new != *old {
            new["metadata"]["resourceVersion"] = self.version().to_string().into();
            self.objects.insert(name.clone(), new);
        }
    }

    pub(super) fn delete(&mut self, name: &ObjectName) {
        let version = self.version().to_string();
        let Some(object) = self.objects.get_mut(name) else { return };
        if object.items("/metadata/finalizers").is_empty() {
            self.objects.remove(name);
            self.collect_garbage();
        } else if !object.is_deleting() {
            object["metadata"]["deletionTimestamp"] = rfc3339(self.now).into();
            object["metadata"]["resourceVersion"] = version.into();
        }
    }

    /// What belongs to objects that are gone goes too.
    fn collect_garbage(&mut self) {
        let known: Vec<String> = self.objects.values().map(|object| object.uid().to_owned()).collect();
        let orphaned = self.objects.iter().find(|(_, object)| {
            let owners = object.items("/metadata/ownerReferences");
            let is_gone = |owner: &Value| !known.iter().any(|uid| uid == owner.text("/uid"));
            !owners.is_empty() && owners.iter().all(is_gone) && !object.is_deleting()
        });
        if let Some(name) = orphaned.map(|(name, _)| name.clone()) {
            self.delete(&name);
            self.collect_garbage();
        }
    }

    fn admitted(&self, old: &Value, new: &Value) -> Value {
        let rollouts: Vec<Arc<Rollout>> = self.typed_all(rollout::KIND).into_iter().map(Arc::new).collect();
        let patch = self.planned(|view| {
            let context = freeze::Context { rollouts: &rollouts, gates: &self.gates, view };
            freeze::review(old, new, &context)
        });
        serde_json::from_str(&json_patch::apply(&new.to_string(), &patch).unwrap()).unwrap()
    }

    fn typed_all<T: DeserializeOwned>(&self, kind: &str) -> Vec<T> {
        self.of_kind(kind).into_iter().map(|object| serde_json::from_value(object).unwrap()).collect()
    }

    /// Makes a plan, and reads what it asks for.
    pub(super) fn planned<T>(&self, plan: impl Fn(&View) -> Result<T, Unread>) -> T {
        let mut view = View::default();
        for _ in 0..50 {
            match plan(&view) {
                Ok(plan) => return plan,
                Err(Unread::Object(name)) => {
                    let found = self.objects.get(&name).cloned();
                    view.has_object(name, found);
                }
                Err(Unread::List(list)) => {
                    let found = self.listed(&list);
                    view.has_list(list, found);
                }
                Err(Unread::PodsOf { owner }) => {
                    let pods = self.all("Pod").filter(|pod| pod.controller() == Some(&owner));
                    let pods = pods.map(|pod| Arc::new(ObservedPod::read(&pod.to_string()).unwrap()));
                    let pods = pods.collect();
                    view.has_pods(owner, pods);
                }
            }
        }
        panic!("a plan asks without end");
    }

    fn listed(&self, list: &ListName) -> Vec<Value> {
        let matches = |object: &&Value| {
            object.text("/apiVersion") == list.api_version
                && list.selector.split(',').filter(|term| !term.is_empty()).all(|term| {
                    let (key, value) = term.split_once('=').expect("a term such as app=web");
                    object.label(key) == Some(value)
                })
        };
        self.all(&list.kind).filter(matches).cloned().collect()
    }

    fn moment(&self) -> Moment {
        Moment { now: self.now, seed: self.versions }
    }

    /// A write of ours. `false` where the API server refuses it, or where we are killed.
    fn carry_out(&mut self, write: &Write) -> bool {
        let what = match write {
            Write::Create { name, .. } => format!("create {} {}", name.kind, name.name),
            Write::Delete { name, .. } => format!("delete {} {}", name.kind, name.name),
            Write::Patch { name, patch, .. } => format!("patch {} {}: {patch}", name.kind, name.name),
        };
        if !self.is_alive(what) {
            return false;
        }
        match write {
            Write::Create { object, .. } => self.create(object.clone()),
            Write::Delete { name, uid } => {
                if self.objects.get(name).is_some_and(|object| object.uid() == uid) {
                    self.delete(name);
                }
            }
            Write::Patch { name, subresource, patch } => {
                let Some(object) = self.objects.get(name) else { return false };
                let expects = |pointer: &str| {
                    patch.pointer(pointer).is_none_or(|wanted| Some(wanted) == object.pointer(pointer))
                };
                if !expects("/metadata/uid") || !expects("/metadata/resourceVersion") {
                    return false;
                }
                match *subresource {
                    "status" => self.update_status(name, &patch["status"]),
                    _ => self.update(name, patch),
                }
            }
        }
        true
    }

    fn is_alive(&mut self, call: String) -> bool {
        if self.killed_at == Some(self.calls) {
            self.killed_at = None;
            return false;
        }
        self.calls += 1;
        self.log.push(call);
        true
    }

    /// Carries out the plan for an object.
    fn execute<S: Serialize + PartialEq>(&mut self, name: &ObjectName, plan: Plan<S>, before: &S) {
        for write in &plan.writes {
            if !self.carry_out(write) {
                return;
            }
        }
        if plan.status == *before || !self.objects.contains_key(name) {
            self.events.extend(plan.events.into_iter().map(|event| event.message));
            return;
        }
        let patch: Value = serde_json::from_str(&merge_patch(("", ""), before, &plan.status, &[])).unwrap();
        if self.is_alive(format!("status of {} {}: {}", name.kind, name.name, patch["status"])) {
            self.update_status(name, &patch["status"]);
            self.events.extend(plan.events.into_iter().map(|event| event.message));
        }
    }

    /// Every controller of ours looks at its objects once. Returns how many writes that made.
    pub(super) fn reconcile(&mut self) -> usize {
        let calls = self.calls;
        let settings = self.settings();
        for rollout in self.typed_all::<Rollout>(rollout::KIND) {
            let name = named(rollout::API_VERSION, rollout::KIND, &rollout.metadata.name);
            let mut plan =
                self.planned(|view| crate::rollout::plan(&rollout, view, &settings, &self.moment()));
            // What only counts may wait.
            let is_urgent = crate::rollout::is_urgent(&rollout.status, &plan.status);
            if !is_urgent && self.now.duration_since(self.written).as_secs() < 5 {
                plan.status = rollout.status.clone();
            }
            if plan.status != rollout.status {
                self.written = self.now;
            }
            self.execute(&name, plan, &rollout.status);
        }
        for release in self.typed_all::<BatchRelease>(batchrelease::KIND) {
            let name = named(batchrelease::API_VERSION, batchrelease::KIND, &release.metadata.name);
            let plan = self.planned(|view| batch_release::plan(&release, view, &settings, &self.moment()));
            self.execute(&name, plan, &release.status);
        }
        for routing in self.typed_all::<TrafficRouting>(trafficrouting::KIND) {
            let name = named(trafficrouting::API_VERSION, trafficrouting::KIND, &routing.metadata.name);
            let plan =
                self.planned(|view| crate::traffic_routing::plan(&routing, view, "kutter", &self.moment()));
            self.execute(&name, plan, &routing.status);
        }
        for object in self.of_kind("Deployment") {
            let settings = deployment::Settings { webhook_configuration: WEBHOOKS.to_owned() };
            let plan = self.planned(|view| deployment::plan(&object, view, &settings));
            if let Some(plan) = plan {
                self.execute(&name_of(&object), plan, &());
            }
        }
        self.calls - calls
    }

    pub(super) fn settings(&self) -> crate::settings::Settings {
        crate::settings::Settings { gates: self.gates.clone(), namespace: "kutter".to_owned() }
    }

    /// All controllers work for a while: a second each time.
    pub(super) fn run(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.reconcile();
            self.work();
            self.pass(1);
        }
    }

    /// All controllers work until something holds.
    #[track_caller]
    pub(super) fn run_until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..200 {
            if holds(self) {
                return;
            }
            self.run(1);
        }
        let last = self.log.len().saturating_sub(12);
        panic!("{what} does not come: {:#}\n{:#?}", self.rollout()["status"], &self.log[last..]);
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    /// How long the plan for the Rollout sleeps.
    pub(super) fn sleeps(&self) -> Option<Duration> {
        let rollout: Rollout = serde_json::from_value(self.rollout().clone()).unwrap();
        self.planned(|view| crate::rollout::plan(&rollout, view, &self.settings(), &self.moment())).again
    }
}
