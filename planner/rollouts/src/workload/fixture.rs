//! A small cluster for tests: gives plans what they ask for, and carries out what they write.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::features::FeatureGates;
use api::kinds::batchrelease::{API_VERSION, BatchRelease, KIND, Status};
use api::kinds::rollout::WorkloadRef;
use api::meta::LabelSelector;
use jiff::Timestamp;
use pod::observed::ObservedPod;
use serde_json::{Value, json};
use values::moment::Moment;
use values::selector::Selector;

use crate::batch_release;
use crate::object::{Object as _, ObjectName, group};
use crate::plan::Plan;
use crate::settings::Settings;
use crate::view::{ListName, Unread, View};
use crate::write::Write;

pub(crate) const CLONE_SETS: &str = "apps.kruise.io/v1alpha1";
pub(crate) const APPS: &str = "apps/v1";

/// Group, kind and name: all is in namespace `shop`.
type Key = (String, String, String);

/// Objects, by what they are called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster {
    objects: BTreeMap<Key, Value>,
    version: u64,
}

pub(crate) fn moment() -> Moment {
    Moment { now: "2026-05-01T08:00:00Z".parse::<Timestamp>().unwrap(), seed: 1 }
}

pub(crate) fn settings() -> Settings {
    Settings { gates: FeatureGates::parse("Rollouts=true", "").unwrap(), namespace: "kutter".to_owned() }
}

pub(crate) fn reference(api_version: &str, kind: &str) -> WorkloadRef {
    WorkloadRef { api_version: api_version.to_owned(), kind: kind.to_owned(), name: "web".to_owned() }
}

/// An object with metadata, over which `more` is merged.
pub(crate) fn object(api_version: &str, kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {
        "name": name, "namespace": "shop", "uid": format!("{name}-uid"), "generation": 1,
        "creationTimestamp": "2026-05-01T07:00:00Z",
    }});
    merge(&mut object, more);
    object
}

/// A template whose version is its image.
pub(crate) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

/// The owner reference of what an object manages.
pub(crate) fn managed_by(uid: &str) -> Value {
    json!([{"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid, "controller": true}])
}

/// A ReplicaSet of the Deployment `web`.
pub(crate) fn replica_set(hash: &str, image: &str, replicas: i32, ready: i32, created: &str) -> Value {
    let mut template = template(image);
    merge(&mut template, json!({"metadata": {"labels": {"pod-template-hash": hash}}}));
    object(
        APPS,
        "ReplicaSet",
        &format!("web-{hash}"),
        json!({
            "metadata": {
                "labels": {"app": "web", "pod-template-hash": hash},
                "ownerReferences": managed_by("web-uid"),
                "creationTimestamp": created,
            },
            "spec": {"replicas": replicas, "template": template},
            "status": {"replicas": replicas, "readyReplicas": ready},
        }),
    )
}

/// A Pod of the object with this UID.
pub(crate) fn pod(name: &str, owner: &str, labels: &Value, is_ready: bool) -> Value {
    let status = if is_ready { "True" } else { "False" };
    object(
        "v1",
        "Pod",
        name,
        json!({
            "metadata": {"labels": labels, "ownerReferences": managed_by(owner)},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
        }),
    )
}

/// A BatchRelease of `web` with these batches, held by its finalizer.
pub(crate) fn release(workload: &WorkloadRef, batches: &[Value], more: Value) -> Value {
    let batches: Vec<Value> = batches.iter().map(|size| json!({"canaryReplicas": size})).collect();
    let mut release = object(
        API_VERSION,
        KIND,
        "rel",
        json!({
            "metadata": {"finalizers": ["rollouts.kruise.io/batch-release-finalizer"]},
            "spec": {"workloadRef": workload, "releasePlan": {"batches": batches, "batchPartition": 0}},
        }),
    );
    merge(&mut release, more);
    release
}

/// As a JSON merge patch does.
pub(crate) fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let members = target.as_object_mut().unwrap();
    for (name, value) in patch {
        if value.is_null() {
            members.remove(&name);
        } else {
            merge(members.entry(name).or_insert(Value::Null), value);
        }
    }
}

fn key(api_version: &str, kind: &str, name: &str) -> Key {
    (group(api_version).to_owned(), kind.to_owned(), name.to_owned())
}

impl Cluster {
    pub(crate) fn of(objects: impl IntoIterator<Item = Value>) -> Self {
        let mut cluster = Self::default();
        objects.into_iter().for_each(|object| cluster.put(object));
        cluster
    }

    /// Puts an object in.
    pub(crate) fn put(&mut self, mut object: Value) {
        self.version += 1;
        merge(&mut object, json!({"metadata": {"resourceVersion": self.version.to_string()}}));
        self.objects.insert(key(object.text("/apiVersion"), object.text("/kind"), object.name()), object);
    }

    pub(crate) fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        self.objects.values().find(|object| object.text("/kind") == kind && object.name() == name)
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> &Value {
        self.find(kind, name).unwrap_or_else(|| panic!("no {kind} {name}"))
    }

    pub(crate) fn all(&self, kind: &str) -> Vec<&Value> {
        self.objects.values().filter(|object| object.text("/kind") == kind).collect()
    }

    /// Changes an object as its user or its controller does.
    pub(crate) fn change(&mut self, kind: &str, name: &str, patch: Value) {
        let mut object = self.get(kind, name).clone();
        let before = object.get("spec").cloned();
        merge(&mut object, patch);
        if object.get("spec") != before.as_ref() {
            let generation = object.number("/metadata/generation").unwrap_or(0) + 1;
            merge(&mut object, json!({"metadata": {"generation": generation}}));
        }
        self.put(object);
    }

    /// The controller of an object has seen it, and reports this.
    pub(crate) fn report(&mut self, kind: &str, name: &str, status: Value) {
        let mut patch =
            json!({"status": {"observedGeneration": self.get(kind, name).number("/metadata/generation")}});
        merge(&mut patch["status"], status);
        self.change(kind, name, patch);
    }

    /// Makes a plan, of what it asks for.
    pub(crate) fn read<T>(&self, plan: impl Fn(&View) -> Result<T, Unread>) -> T {
        let mut view = View::default();
        loop {
            match plan(&view) {
                Ok(plan) => return plan,
                Err(Unread::Object(name)) => {
                    let found = self.objects.get(&key(&name.api_version, &name.kind, &name.name)).cloned();
                    view.has_object(name, found);
                }
                Err(Unread::List(name)) => {
                    let listed = self.list(&name);
                    view.has_list(name, listed);
                }
                Err(Unread::PodsOf { owner }) => {
                    let pods = self.all("Pod").into_iter().filter(|pod| pod.controller() == Some(&*owner));
                    let pods = pods.map(|pod| Arc::new(ObservedPod::read(&pod.to_string()).unwrap()));
                    let pods = pods.collect();
                    view.has_pods(owner, pods);
                }
            }
        }
    }

    fn list(&self, name: &ListName) -> Vec<Value> {
        let selector = Selector::parse(&name.selector).unwrap();
        let objects = self.objects.iter().filter(|((group_name, kind, _), object)| {
            *group_name == group(&name.api_version) && *kind == name.kind && selector.matches(*object)
        });
        objects.map(|(_, object)| object.clone()).collect()
    }

    /// Carries out a write as the API server does.
    pub(crate) fn carry_out(&mut self, write: &Write) {
        match write {
            Write::Create { name, object } => {
                if self.objects.contains_key(&key(&name.api_version, &name.kind, &name.name)) {
                    return;
                }
                let mut object = object.clone();
                let metadata = json!({"uid": format!("{}-uid", name.name), "generation": 1,
                    "creationTimestamp": "2026-05-01T08:00:00Z"});
                merge(&mut object, json!({"metadata": metadata}));
                self.put(object);
            }
            Write::Patch { name, subresource, patch } => {
                let present = self.stored(name).clone();
                assert_eq!(*subresource, "");
                assert_eq!(patch.text("/metadata/uid"), present.uid(), "another {name:?}");
                let planned_on = patch.text("/metadata/resourceVersion");
                assert!(
                    planned_on.is_empty() || planned_on == present.resource_version(),
                    "conflict: {name:?}"
                );
                self.change(&name.kind, &name.name, patch.clone());
                self.collect(name);
            }
            Write::Delete { name, uid } => {
                assert_eq!(self.stored(name).uid(), uid);
                self.change(
                    &name.kind,
                    &name.name,
                    json!({"metadata": {"deletionTimestamp": "2026-05-01T08:00:00Z"}}),
                );
                self.collect(name);
            }
        }
    }

    fn stored(&self, name: &ObjectName) -> &Value {
        let stored = self.objects.get(&key(&name.api_version, &name.kind, &name.name));
        stored.unwrap_or_else(|| panic!("no {name:?}"))
    }

    /// A deleted object goes once nothing keeps it.
    fn collect(&mut self, name: &ObjectName) {
        let object = self.stored(name);
        if object.is_deleting() && object.items("/metadata/finalizers").is_empty() {
            self.objects.remove(&key(&name.api_version, &name.kind, &name.name));
        }
    }

    /// The BatchRelease `rel`.
    pub(crate) fn release(&self) -> BatchRelease {
        serde_json::from_value(self.get(KIND, "rel").clone()).unwrap()
    }

    /// The plan of the BatchRelease `rel`.
    pub(crate) fn plan(&self) -> Plan<Status> {
        let release = self.release();
        self.read(|view| batch_release::plan(&release, view, &settings(), &moment()))
    }

    /// Makes the plan of the BatchRelease `rel`, and carries it out.
    pub(crate) fn step(&mut self) -> Plan<Status> {
        let plan = self.plan();
        plan.writes.iter().for_each(|write| self.carry_out(write));
        if self.find(KIND, "rel").is_some() {
            self.change(KIND, "rel", json!({"status": null}));
            self.change(KIND, "rel", json!({"status": plan.status}));
        }
        plan
    }
}

/// What selects the Pods of `web`.
pub(crate) fn selector() -> LabelSelector {
    LabelSelector {
        match_labels: Some(BTreeMap::from([("app".to_owned(), "web".to_owned())])),
        ..Default::default()
    }
}
