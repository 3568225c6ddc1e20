//! A small cluster for tests: carries plans out at once, and has a kubelet that makes Pods run when asked.

use std::sync::Arc;

use serde_json::{Value, json};

use api::features::FeatureGates;

use super::*;
use crate::pod::observed::{ContainerStatus, Pairs, PodCondition};
use crate::pod::write::condition;
use crate::text::json_patch;
use crate::workload::children::Child;
use crate::workload::event::Event;
use crate::workload::plan::Outcome;
use crate::workload::revision::RevisionStep;
use crate::workload::snapshot::{Environment, Refusal};
use crate::workload::told::plan_as_told;

pub(super) const NOW: &str = "2026-05-01T08:00:00Z";

pub(super) struct Fleet {
    pub(super) object: Value,
    pub(super) pods: Vec<Arc<ObservedPod>>,
    pub(super) claims: Vec<Arc<Claim>>,
    pub(super) revisions: Vec<Arc<StoredRevision>>,
    pub(super) nodes: BTreeMap<Box<str>, Pairs>,
    pub(super) refused: BTreeSet<String>,
    pub(super) held: BTreeMap<Box<str>, Refusal>,
    pub(super) gates: FeatureGates,
    pub(super) children: Vec<Arc<Child>>,
    pub(super) environment: Environment,
    pub(super) now: Timestamp,
    pub(super) events: Vec<Event>,
    /// Pods that the API server only marks as being deleted.
    pub(super) lingering: bool,
    counter: u64,
}

pub(super) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

pub(super) fn merge(target: &mut Value, patch: impl Into<Value>) {
    ::json_patch::merge(target, &patch.into());
}

impl Fleet {
    /// A CloneSet `web` of one container; `spec` is merged over it.
    pub(super) fn new(spec: Value) -> Self {
        let object = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
            "metadata": {"name": "web", "namespace": "shop", "uid": "set-uid", "generation": 0, "resourceVersion": "1"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template("nginx:1")},
        });
        let mut fleet = Self {
            object,
            pods: Vec::new(),
            claims: Vec::new(),
            revisions: Vec::new(),
            nodes: BTreeMap::new(),
            refused: BTreeSet::new(),
            held: BTreeMap::new(),
            gates: FeatureGates::default(),
            children: Vec::new(),
            environment: Environment::default(),
            now: NOW.parse().unwrap(),
            events: Vec::new(),
            lingering: false,
            counter: 1,
        };
        merge(&mut fleet.object["spec"], spec);
        fleet.complete(None);
        fleet
    }

    /// What the webhook fills in.
    fn complete(&mut self, before: Option<&str>) {
        let text = self.object.to_string();
        let defaults = defaulting::default(&text, before, "v1beta1", &self.gates).unwrap();
        self.object = serde_json::from_str(&json_patch::apply(&text, &defaults).unwrap()).unwrap();
    }

    /// With so many Pods at one revision, all available.
    pub(super) fn running(replicas: i32, spec: Value) -> Self {
        let mut fleet = Self::new(spec);
        fleet.edit(json!({"spec": {"replicas": replicas}}));
        fleet.settle();
        assert_eq!(fleet.pods.len(), usize::try_from(replicas).unwrap());
        fleet.events.clear();
        fleet
    }

    /// Rolling update settings as `spec`.
    pub(super) fn rolling(policy: &str, more: Value) -> Value {
        let mut rolling = json!({"podUpdatePolicy": policy});
        merge(&mut rolling, more);
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}})
    }

    pub(super) fn edit(&mut self, patch: Value) {
        let before = self.object.clone();
        merge(&mut self.object, patch);
        self.complete(Some(&before.to_string()));
        if before != self.object {
            self.object["metadata"]["generation"] =
                (self.object["metadata"]["generation"].as_i64().unwrap() + 1).into();
        }
    }

    pub(super) fn image(&mut self, image: &str) {
        self.edit(json!({"spec": {"template": template(image)}}));
    }

    pub(super) fn set(&self) -> CloneSet {
        serde_json::from_value(self.object.clone()).unwrap()
    }

    pub(super) fn plan(&self) -> Plan<Status> {
        self.planned(plan)
    }

    /// The plan of one who knows of refusals what the status tells.
    pub(super) fn plan_as_told(&self) -> Plan<Status> {
        self.planned(plan_as_told)
    }

    fn planned(&self, plan: impl Fn(&Snapshot<'_, CloneSet>, Moment) -> Plan<Status>) -> Plan<Status> {
        let set = self.set();
        let snapshot = Snapshot {
            workload: &set,
            children: &self.children,
            pods: &self.pods,
            claims: &self.claims,
            revisions: &self.revisions,
            nodes: &self.nodes,
            refused: &self.refused,
            held: &self.held,
            collision_count: None,
            gates: &self.gates,
            environment: self.environment,
        };
        let seed = self.counter;
        plan(&snapshot, Moment { now: self.now, seed })
    }

    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Plans until no revision is to be written.
    pub(super) fn settled_plan(&mut self) -> Plan<Status> {
        for _ in 0..3 {
            let plan = self.plan();
            match &plan.revision {
                None => return plan,
                Some(RevisionStep::Create(revision)) => {
                    let mut stored = StoredRevision::read(&revision.to_json()).unwrap();
                    stored.metadata.uid = format!("revision-{}", self.next());
                    self.revisions.push(Arc::new(stored));
                }
                Some(RevisionStep::Patch { revision, patch }) => {
                    let patch: Value = serde_json::from_str(patch).unwrap();
                    let stored =
                        self.revisions.iter_mut().find(|known| known.name() == revision.name).unwrap();
                    Arc::make_mut(stored).revision = patch["revision"].as_i64().unwrap();
                }
            }
        }
        panic!("revisions are written for ever");
    }

    /// Plans once and carries the plan out.
    pub(super) fn step(&mut self) -> Plan<Status> {
        let plan = self.settled_plan();
        for action in &plan.release {
            self.carry_out(action);
        }
        let steps = if plan.scale.is_empty() { &plan.update } else { &plan.scale };
        for action in steps {
            self.carry_out(action);
        }
        self.events.extend(plan.events.iter().cloned());
        let update = if plan.scale.is_empty() {
            plan.problems.update.clone().map_or(Outcome::Succeeded, Outcome::Failed)
        } else {
            Outcome::Skipped
        };
        let scale = plan.problems.scale.clone().map_or(Outcome::Succeeded, Outcome::Failed);
        if let Some(patch) = plan.status.as_ref().and_then(|status| status.patch(&scale, &update)) {
            let patch: Value = serde_json::from_str(&patch).unwrap();
            assert_eq!(patch["metadata"]["uid"], "set-uid");
            merge(&mut self.object["status"], patch["status"].clone());
        }
        if let Some(patch) = &plan.owner_patch {
            let patch: ::json_patch::Patch = serde_json::from_str(patch).unwrap();
            ::json_patch::patch(&mut self.object, &patch).unwrap();
        }
        let obsolete = |revision: &Arc<StoredRevision>| {
            plan.obsolete_revisions.iter().any(|seen| seen.name == revision.name())
        };
        self.revisions.retain(|revision| !obsolete(revision));
        plan
    }

    fn carry_out(&mut self, action: &Action) {
        self.events.extend(action.success());
        match action {
            Action::CreatePod { json, claims, .. } => {
                for claim in claims {
                    let mut stored = Claim::read(&claim.json).unwrap();
                    stored.metadata.uid = format!("claim-{}", self.next()).into();
                    self.claims.push(Arc::new(stored));
                }
                let mut pod = ObservedPod::read(json).unwrap();
                assert!(
                    !self.pods.iter().any(|known| known.metadata.name == pod.metadata.name),
                    "created twice"
                );
                pod.metadata.uid = format!("pod-{}", self.next()).into();
                pod.metadata.creation_timestamp = Some(self.now);
                pod.status.phase = "Pending".into();
                self.pods.push(Arc::new(pod));
            }
            Action::DeletePod { pod, claims, .. } => {
                self.remove(&pod.name.clone());
                self.claims.retain(|claim| !claims.iter().any(|gone| *gone.name == *claim.metadata.name));
            }
            Action::WritePod { pod, writes, .. } => {
                let version = self.next().to_string();
                let target = self.pod_mut(&pod.name);
                for write in writes {
                    write.apply(target);
                }
                target.metadata.resource_version = version.into();
            }
            Action::DeleteClaim(claim) => {
                self.claims.retain(|known| *known.metadata.name != *claim.name);
            }
            Action::HandOverClaim { claim, patch, .. } => {
                let version = self.next().to_string();
                let known = self.claims.iter_mut().find(|known| *known.metadata.name == *claim.name).unwrap();
                let metadata = &mut Arc::make_mut(known).metadata;
                let patch: Value = serde_json::from_str(patch).unwrap();
                if !patch["metadata"]["ownerReferences"].is_null() {
                    metadata.owner_references = Arc::default();
                }
                for (key, value) in patch["metadata"]["annotations"].as_object().into_iter().flatten() {
                    let others = metadata.annotations.iter().filter(|(known, _)| known != key);
                    metadata.annotations =
                        others.chain(value.as_str().map(|value| (key.as_str(), value))).collect();
                }
                metadata.resource_version = version.into();
            }
            Action::CreateChild { .. } | Action::PatchChild { .. } | Action::DeleteChild { .. } => {
                panic!("no step of a CloneSet changes other children: {action}")
            }
        }
    }

    /// Somebody deletes the Pod.
    pub(super) fn remove(&mut self, name: &str) {
        if self.lingering {
            let now = self.now;
            self.pod_mut(name).metadata.deletion_timestamp = Some(now);
        } else {
            let before = self.pods.len();
            self.pods.retain(|pod| *pod.metadata.name != *name);
            assert_eq!(self.pods.len() + 1, before, "{name} was deleted before");
        }
    }

    pub(super) fn pod_mut(&mut self, name: &str) -> &mut ObservedPod {
        Arc::make_mut(self.pods.iter_mut().find(|pod| *pod.metadata.name == *name).unwrap())
    }

    pub(super) fn name(&self, index: usize) -> String {
        self.pods[index].metadata.name.to_string()
    }

    /// Every Pod runs what it should, and is ready as far as its gates are.
    pub(super) fn kubelet(&mut self) {
        for index in 0..self.pods.len() {
            self.kubelet_of(index);
        }
    }

    pub(super) fn kubelet_of(&mut self, index: usize) {
        let now = self.now;
        let pod = Arc::make_mut(&mut self.pods[index]);
        if pod.metadata.deletion_timestamp.is_some() {
            return;
        }
        if pod.spec.node_name.is_empty() {
            pod.spec.node_name = "node".into();
        }
        pod.status.phase = "Running".into();
        let statuses = pod.spec.containers.iter().map(|container| ContainerStatus {
            name: container.name.clone().into(),
            image: container.image.clone(),
            image_id: format!("id:{}", container.image).into(),
            container_id: format!("container:{}", container.image).into(),
            ready: true,
            ..ContainerStatus::default()
        });
        pod.status.container_statuses = statuses.collect();
        set_condition(pod, condition("ContainersReady", "True", "", "", now));
        let gates = pod.spec.readiness_gates.iter();
        let open = gates.map(|gate| &*gate.condition_type).all(|gate| pod.condition_is_true(gate));
        set_condition(pod, condition("Ready", if open { "True" } else { "False" }, "", "", now));
    }

    /// The Pod stops being ready.
    pub(super) fn break_pod(&mut self, index: usize) {
        let now = self.now;
        let pod = Arc::make_mut(&mut self.pods[index]);
        set_condition(pod, condition("ContainersReady", "False", "", "", now));
        set_condition(pod, condition("Ready", "False", "", "", now));
    }

    /// Steps and kubelet until nothing changes.
    pub(super) fn settle(&mut self) {
        for _ in 0..200 {
            let before = (self.pods.clone(), self.object.clone());
            self.step();
            self.kubelet();
            if (&self.pods, &self.object) == (&before.0, &before.1) {
                return;
            }
        }
        panic!("it never settles: {}", self.plan());
    }

    pub(super) fn later(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    pub(super) fn status(&self) -> api::kinds::cloneset::Status {
        self.set().status
    }

    pub(super) fn available(&self) -> usize {
        let pods: Vec<&Arc<ObservedPod>> = self.pods.iter().filter(|pod| pod.is_active()).collect();
        let members = members::members(&pods, &self.set(), "", self.now).into_iter();
        members.filter(|member| member.is_available).count()
    }

    /// How many Pods run this image.
    pub(super) fn with_image(&self, image: &str) -> usize {
        self.pods.iter().filter(|pod| &*pod.spec.containers[0].image == image).count()
    }

    pub(super) fn reasons(&self) -> Vec<&'static str> {
        self.events.iter().map(|event| event.reason).collect()
    }
}

fn set_condition(pod: &mut ObservedPod, condition: PodCondition) {
    let mut conditions = std::mem::take(&mut pod.status.conditions).into_vec();
    match conditions.iter_mut().find(|known| known.kind == condition.kind) {
        Some(known) if known.status == condition.status => {}
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
    pod.status.conditions = conditions.into();
}
