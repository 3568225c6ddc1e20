//! A small cluster for tests of plans: carries them out at once, and has a kubelet that makes Pods run when asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::features::FeatureGates;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::action::{Action, DeleteReason, Part};
use super::children::{Child, Claim};
use super::failures::Failures;
use super::kind::{Workload, WorkloadStatus};
use super::plan::{Outcome, Plan};
use super::revision::{RevisionStep, StoredRevision};
use super::snapshot::{Costs, Environment, Refusal, Snapshot};
use super::storage_class::StorageClasses;
use pod::node_fit::Nodes;
use pod::observed::{Container, ContainerReport, ContainerStatus, ObservedPod, PodCondition};
use pod::write::{ContainerWrite, Target, condition};
use values::event::Event;
use values::json_patch::{self, Patch};
use values::moment::Moment;

pub(crate) const NOW: &str = "2026-05-01T08:00:00Z";

/// A kind whose plans are tested.
pub(crate) trait Planned: Workload {
    /// The JSON patch of what the webhook fills in.
    fn defaults(object: &str, before: Option<&str>, gates: &FeatureGates) -> Patch;
}

/// One workload and what belongs to it.
pub(crate) struct Fleet<W> {
    pub(crate) object: Value,
    pub(crate) pods: Vec<Arc<ObservedPod>>,
    pub(crate) claims: Vec<Arc<Claim>>,
    pub(crate) storage_classes: StorageClasses,
    pub(crate) revisions: Vec<Arc<StoredRevision>>,
    pub(crate) nodes: Nodes,
    pub(crate) refused: BTreeSet<String>,
    pub(crate) held: BTreeMap<Box<str>, Refusal>,
    pub(crate) costs: Costs,
    pub(crate) failures: Failures,
    pub(crate) gates: FeatureGates,
    pub(crate) children: Vec<Arc<Child>>,
    pub(crate) environment: Environment,
    pub(crate) now: Timestamp,
    pub(crate) events: Vec<Event>,
    /// Pods that the API server only marks as being deleted.
    pub(crate) lingering: bool,
    counter: u64,
    kind: std::marker::PhantomData<W>,
}

/// As unlike the simplest template as may be: the container `main` is neither alone nor the first by name, another image
/// changes with its own, init containers run before it and beside it, and there are fields that no rule knows.
pub(crate) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {
        "futureField": {"list": [2, 1]},
        "initContainers": [
            {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"},
            {"name": "load", "image": "load:1"},
        ],
        "containers": [
            {"name": "main", "image": image, "futureField": {"b": 1, "a": [2, 1]}},
            {"name": "aa", "image": format!("aa/{image}")},
        ],
    }})
}

/// The same, where each container has this limit of CPU and requests less.
pub(crate) fn sized(limit: &str) -> Value {
    let mut template = template("nginx:1");
    for container in template["spec"]["containers"].as_array_mut().unwrap() {
        container["resources"] = json!({"limits": {"cpu": limit}, "requests": {"cpu": "100m"}});
    }
    template
}

/// The image that the container `main` is to have.
pub(crate) fn image(pod: &ObservedPod) -> &str {
    pod.container("main").map_or("", |container| &container.image)
}

pub(crate) fn merge(target: &mut Value, patch: impl Into<Value>) {
    ::json_patch::merge(target, &patch.into());
}

impl<W: Planned> Fleet<W> {
    /// A workload `web` of this [`template`]; `spec` is merged over it.
    pub(crate) fn new(spec: Value) -> Self {
        Self::with_gates(spec, FeatureGates::default())
    }

    /// The same under these feature gates.
    pub(crate) fn with_gates(spec: Value, gates: FeatureGates) -> Self {
        let object = json!({
            "apiVersion": W::API_VERSION, "kind": W::KIND,
            "metadata": {"name": "web", "namespace": "shop", "uid": "set-uid", "generation": 0, "resourceVersion": "1"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template("nginx:1")},
        });
        let mut fleet = Self {
            object,
            pods: Vec::new(),
            claims: Vec::new(),
            storage_classes: StorageClasses::default(),
            revisions: Vec::new(),
            nodes: Nodes::new(),
            refused: BTreeSet::new(),
            held: BTreeMap::new(),
            costs: Costs::new(),
            failures: Failures::default(),
            gates,
            children: Vec::new(),
            environment: Environment::default(),
            now: NOW.parse().unwrap(),
            events: Vec::new(),
            lingering: false,
            counter: 1,
            kind: std::marker::PhantomData,
        };
        merge(&mut fleet.object["spec"], spec);
        fleet.complete(None);
        fleet
    }

    /// What the webhook fills in.
    fn complete(&mut self, before: Option<&str>) {
        let text = self.object.to_string();
        let defaults = W::defaults(&text, before, &self.gates);
        self.object = serde_json::from_str(&json_patch::apply(&text, &defaults).unwrap()).unwrap();
    }

    /// With so many Pods at one revision, all available.
    pub(crate) fn running(replicas: i32, spec: Value) -> Self {
        let mut fleet = Self::new(spec);
        fleet.edit(json!({"spec": {"replicas": replicas}}));
        fleet.settle();
        assert_eq!(fleet.pods.len(), usize::try_from(replicas).unwrap());
        fleet.events.clear();
        fleet
    }

    /// Rolling update settings as `spec`.
    pub(crate) fn rolling(policy: &str, more: Value) -> Value {
        let mut rolling = json!({"podUpdatePolicy": policy});
        merge(&mut rolling, more);
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}})
    }

    pub(crate) fn edit(&mut self, patch: Value) {
        let before = self.object.clone();
        merge(&mut self.object, patch);
        self.complete(Some(&before.to_string()));
        if before != self.object {
            self.object["metadata"]["generation"] =
                (self.object["metadata"]["generation"].as_i64().unwrap() + 1).into();
        }
    }

    pub(crate) fn image(&mut self, image: &str) {
        self.edit(json!({"spec": {"template": template(image)}}));
    }

    /// All containers get another limit of CPU: each Pod has it after one edit, and stays.
    pub(crate) fn resize_all(&mut self) {
        let uids = |fleet: &Self| -> Vec<Box<str>> {
            fleet.pods.iter().map(|pod| pod.metadata.uid.clone()).collect()
        };
        let before = uids(self);
        let mut template = self.object["spec"]["template"].clone();
        let containers = template["spec"]["containers"].as_array_mut().unwrap();
        for container in containers.iter_mut() {
            container["resources"]["limits"]["cpu"] = "300m".into();
        }
        let mut names: Vec<Value> = containers.iter().map(|container| container["name"].clone()).collect();
        names.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
        self.edit(json!({"spec": {"template": template}}));
        let mut resized = Vec::new();
        for _ in 0..10 * before.len() {
            for action in self.step().update {
                let Action::WritePod { writes, .. } = action else { continue };
                resized.extend(writes.into_iter().filter(|write| write.target == Target::Resize));
            }
            self.kubelet();
        }
        assert_eq!(resized.len(), before.len());
        for write in resized {
            let changes = write.containers.iter();
            let limit = |change: &ContainerWrite| change.resources.limits.get("cpu") == Some("300m");
            assert!(changes.clone().all(limit), "{changes:?}");
            assert_eq!(changes.map(|change| json!(change.name)).collect::<Vec<_>>(), names);
        }
        assert_eq!(uids(self), before);
    }

    /// The Node of this Pod does not do its resize.
    pub(crate) fn pend(&mut self, name: &str, reason: &str) {
        let now = self.now;
        set_condition(self.pod_mut(name), condition("PodResizePending", "True", reason, "no room", now));
    }

    pub(crate) fn set(&self) -> W {
        serde_json::from_value(self.object.clone()).unwrap()
    }

    pub(crate) fn plan(&self) -> Plan<W::Status> {
        let set = self.set();
        let (owned, orphans): (Vec<_>, Vec<_>) =
            self.pods.iter().cloned().partition(|pod| !W::could_adopt(pod));
        let snapshot = Snapshot {
            workload: &set,
            children: &self.children,
            pods: &owned,
            orphans: &orphans,
            claims: &self.claims,
            storage_classes: &self.storage_classes,
            revisions: &self.revisions,
            nodes: &self.nodes,
            refused: &self.refused,
            held: &self.held,
            costs: &self.costs,
            failures: &self.failures,
            collision_count: None,
            gates: &self.gates,
            environment: self.environment,
        };
        let seed = self.counter;
        W::plan(&snapshot, Moment { now: self.now, seed })
    }

    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Plans until no revision is to be written.
    pub(crate) fn settled_plan(&mut self) -> Plan<W::Status> {
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
                    let StoredRevision { metadata, revision, .. } = Arc::make_mut(stored);
                    *revision = patch["revision"].as_i64().unwrap_or(*revision);
                    for (key, value) in patch["metadata"]["annotations"].as_object().into_iter().flatten() {
                        metadata.annotations.insert(key.clone(), value.as_str().unwrap().to_owned());
                    }
                }
            }
        }
        panic!("revisions are written for ever");
    }

    /// Plans once and carries the plan out.
    pub(crate) fn step(&mut self) -> Plan<W::Status> {
        let plan = self.settled_plan();
        for action in &plan.release {
            self.carry_out(action);
        }
        let beside = if plan.scale.is_empty() || plan.counts_scale { &*plan.update } else { &[] };
        for action in plan.scale.iter().chain(beside) {
            self.carry_out(action);
        }
        self.events.extend(plan.events.iter().cloned());
        let update = if plan.scale.is_empty() || plan.counts_scale {
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
            plan.obsolete_revisions.iter().any(|observed| observed.name == revision.name())
        };
        self.revisions.retain(|revision| !obsolete(revision));
        plan
    }

    fn carry_out(&mut self, action: &Action) {
        self.events.extend(self.set().success(action, Part::Itself));
        match action {
            Action::CreatePod { json, claims, .. } => {
                for claim in claims {
                    self.create_claim(&claim.json);
                }
                let mut pod = ObservedPod::read(json).unwrap();
                inject(&mut pod);
                assert!(
                    !self.pods.iter().any(|known| known.metadata.name == pod.metadata.name),
                    "created twice"
                );
                pod.metadata.uid = format!("pod-{}", self.next()).into();
                pod.metadata.creation_timestamp = Some(self.now.into());
                pod.status.phase = "Pending".into();
                self.pods.push(Arc::new(pod));
            }
            Action::DeletePod { pod, claims, reason } => {
                if W::HAS_POD_PER_NODE && *reason == DeleteReason::Ended {
                    let node = self.pod_mut(&pod.name).spec.node().map(str::to_owned).unwrap();
                    self.failures.record(&node, self.status().observed_generation(), self.now);
                }
                self.remove(&pod.name.clone());
                self.claims.retain(|claim| !claims.iter().any(|gone| *gone.name == *claim.metadata.name));
            }
            Action::WritePod { pod, writes, .. } => {
                let version = self.next().to_string();
                let target = self.pod_mut(&pod.name);
                for write in writes {
                    assert!(write.keeps_places(target), "the API server refuses {}", write.to_json(target));
                    write.apply(target);
                }
                target.metadata.resource_version = version.into();
            }
            Action::CreateClaim { claim, .. } => self.create_claim(&claim.json),
            Action::DeleteClaim(claim) => {
                self.claims.retain(|known| *known.metadata.name != *claim.name);
            }
            Action::HandOverClaim { claim, patch, .. } | Action::WriteClaim { claim, patch, .. } => {
                let version = self.next().to_string();
                let known = self.claims.iter_mut().find(|known| *known.metadata.name == *claim.name).unwrap();
                let Claim { metadata, spec, .. } = Arc::make_mut(known);
                let patch: Value = serde_json::from_str(patch).unwrap();
                for change in patch["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
                    let mut owners = metadata.owner_references.to_vec();
                    owners.retain(|owner| change["uid"] != owner.uid.as_str());
                    if change["$patch"].is_null() {
                        owners.push(serde_json::from_value(change.clone()).unwrap());
                    }
                    metadata.owner_references = owners.into();
                }
                if !patch["spec"]["resources"].is_null() {
                    spec.resources = serde_json::from_value(patch["spec"]["resources"].clone()).unwrap();
                }
                for (key, value) in patch["metadata"]["annotations"].as_object().into_iter().flatten() {
                    let others = metadata.annotations.iter().filter(|(known, _)| known != key);
                    metadata.annotations =
                        others.chain(value.as_str().map(|value| (key.as_str(), value))).collect();
                }
                metadata.resource_version = version.into();
            }
            Action::AdoptChild { child, patch, .. } => {
                let patch: Value = serde_json::from_str(patch).unwrap();
                let revision = self.revisions.iter_mut().find(|known| known.name() == child.name).unwrap();
                Arc::make_mut(revision).metadata.owner_references =
                    serde_json::from_value(patch["metadata"]["ownerReferences"].clone()).unwrap();
            }
            Action::CreateChild { .. } | Action::PatchChild { .. } | Action::DeleteChild { .. } => {
                panic!("no step of a plan changes other children: {action}")
            }
        }
    }

    fn create_claim(&mut self, json: &str) {
        let mut stored = Claim::read(json).unwrap();
        let is_known = |known: &Arc<Claim>| known.metadata.name == stored.metadata.name;
        assert!(!self.claims.iter().any(is_known), "created twice");
        stored.metadata.uid = format!("claim-{}", self.next()).into();
        stored.status.capacity = stored.spec.resources.requests.clone();
        self.claims.push(Arc::new(stored));
    }

    pub(crate) fn claim_mut(&mut self, name: &str) -> &mut Claim {
        Arc::make_mut(self.claims.iter_mut().find(|claim| *claim.metadata.name == *name).unwrap())
    }

    /// Somebody deletes the Pod.
    pub(crate) fn remove(&mut self, name: &str) {
        if self.lingering {
            let now = self.now;
            self.pod_mut(name).metadata.deletion_timestamp = Some(now.into());
        } else {
            let before = self.pods.len();
            self.pods.retain(|pod| *pod.metadata.name != *name);
            assert_eq!(self.pods.len() + 1, before, "{name} was deleted before");
        }
    }

    pub(crate) fn pod_mut(&mut self, name: &str) -> &mut ObservedPod {
        Arc::make_mut(self.pods.iter_mut().find(|pod| *pod.metadata.name == *name).unwrap())
    }

    pub(crate) fn name(&self, index: usize) -> String {
        self.pods[index].metadata.name.to_string()
    }

    /// Every Pod runs what it should, and is ready as far as its gates are.
    pub(crate) fn kubelet(&mut self) {
        for index in 0..self.pods.len() {
            self.kubelet_of(index);
        }
    }

    pub(crate) fn kubelet_of(&mut self, index: usize) {
        let now = self.now;
        let pod = Arc::make_mut(&mut self.pods[index]);
        if !pod.is_active() {
            return;
        }
        if pod.spec.node_name.is_empty() {
            pod.spec.node_name = pod.spec.node().unwrap_or("node").into();
        }
        pod.status.phase = "Running".into();
        pod.status.container_statuses = statuses(&pod.spec.containers);
        pod.status.init_container_statuses = statuses(&pod.spec.init_containers);
        set_condition(pod, condition("ContainersReady", "True", "", "", now));
        let gates = pod.spec.readiness_gates.iter();
        let open = gates.map(|gate| &*gate.condition_type).all(|gate| pod.condition_is_true(gate));
        set_condition(pod, condition("Ready", if open { "True" } else { "False" }, "", "", now));
    }

    /// The Pod stops being ready.
    pub(crate) fn break_pod(&mut self, index: usize) {
        let now = self.now;
        let pod = Arc::make_mut(&mut self.pods[index]);
        set_condition(pod, condition("ContainersReady", "False", "", "", now));
        set_condition(pod, condition("Ready", "False", "", "", now));
    }

    /// Steps and kubelet until nothing changes.
    pub(crate) fn settle(&mut self) {
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

    pub(crate) fn later(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    pub(crate) fn status(&self) -> W::Status {
        self.set().status().clone()
    }

    /// How many Pods run this image.
    pub(crate) fn with_image(&self, image: &str) -> usize {
        self.pods.iter().filter(|pod| self::image(pod) == image).count()
    }

    pub(crate) fn reasons(&self) -> Vec<&'static str> {
        self.events.iter().map(|event| event.reason).collect()
    }
}

/// Admission puts a sidecar in front.
fn inject(pod: &mut ObservedPod) {
    let sidecar = Container { name: "sidecar".into(), image: "sidecar:1".into(), ..Container::default() };
    pod.spec.containers = [sidecar].into_iter().chain(pod.spec.containers.iter().cloned()).collect();
}

/// All run. They are sorted by name, as the kubelet does.
fn statuses(containers: &[Container]) -> Box<[ContainerStatus]> {
    let status = |container: &Container| {
        let report = ContainerReport {
            name: container.name.clone(),
            image: container.image.clone(),
            image_id: format!("id:{}", container.image).into(),
            resources: Some(container.resources.clone()),
            ready: true,
            ..ContainerReport::default()
        };
        let container_id = format!("container:{}", container.image).into();
        ContainerStatus { container_id, ..report.into() }
    };
    let mut statuses: Vec<ContainerStatus> = containers.iter().map(status).collect();
    statuses.sort_by(|left, right| left.name.cmp(&right.name));
    statuses.into()
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
