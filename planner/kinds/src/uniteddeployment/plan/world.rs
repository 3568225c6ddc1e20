//! A cluster for tests of plans: workloads that run Pods as their kind does, in subsets with so much capacity.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    missing_docs,
    clippy::missing_panics_doc,
    reason = "it serves tests alone"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::uniteddeployment::Failure;
use crate::uniteddeployment::template::changed_child;
use pod::observed::ObservedPod;

use super::*;

/// What decides.
pub type Planner = fn(&Snapshot<'_>) -> Plan;

#[derive(Clone)]
pub struct World {
    pub planner: Planner,
    pub now: Timestamp,
    pub united: UnitedDeployment,
    pub children: Vec<(ChildKind, Value)>,
    pub pods: Vec<Value>,
    /// Pods of workloads that something else than this world runs.
    pub observed: Vec<Arc<ObservedPod>>,
    pub revisions: Vec<Arc<StoredRevision>>,
    /// Pods for which subsets have capacity; any number where nothing is said.
    pub capacity: BTreeMap<String, usize>,
    /// The API server refuses creations.
    pub refuses: bool,
    number: usize,
}

pub fn template(kind: ChildKind, image: &str) -> Value {
    let pods = json!({"metadata": {"labels": {"app": "web"}}, "spec": {
        "futureField": {"list": [2, 1]},
        "initContainers": [{"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}],
        "containers": [{"name": "main", "image": image}, {"name": "aa", "image": format!("aa/{image}")}],
    }});
    let mut template = json!({});
    template[kind.member()] = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"template": pods}});
    template
}

impl World {
    pub fn new(kind: ChildKind, spec: &Value) -> Self {
        let mut whole = json!({"replicas": 6, "selector": {"matchLabels": {"app": "web"}},
            "template": template(kind, "nginx:1"), "topology": {"subsets": [{"name": "a"}, {"name": "b"}]}});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let metadata = json!({"name": "web", "namespace": "shop", "uid": "u", "generation": 1});
        Self {
            planner: plan,
            now: "2026-03-02T10:00:00Z".parse().unwrap(),
            united: serde_json::from_value(json!({"metadata": metadata, "spec": whole})).unwrap(),
            children: Vec::new(),
            pods: Vec::new(),
            observed: Vec::new(),
            revisions: Vec::new(),
            capacity: BTreeMap::new(),
            refuses: false,
            number: 0,
        }
    }

    pub fn edit(&mut self, spec: &Value) {
        let mut whole = serde_json::to_value(&self.united.spec).unwrap();
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        self.united.spec = serde_json::from_value(whole).unwrap();
        self.united.metadata.generation = self.united.metadata.generation.map(|generation| generation + 1);
    }

    pub fn pass(&mut self, seconds: i64) {
        self.now += jiff::SignedDuration::from_secs(seconds);
    }

    pub fn plan(&self) -> Plan {
        let children =
            self.children.iter().filter_map(|(kind, child)| Child::read(*kind, &child.to_string()).unwrap());
        let pods = self.pods.iter().map(|pod| Arc::new(ObservedPod::read(&pod.to_string()).unwrap()));
        (self.planner)(&Snapshot {
            united: &self.united,
            children: &children.map(Arc::new).collect::<Vec<_>>(),
            pods: &pods.chain(self.observed.iter().cloned()).collect::<Vec<_>>(),
            revisions: &self.revisions,
            now: self.now,
        })
    }

    fn next(&mut self) -> usize {
        self.number += 1;
        self.number
    }

    /// The controller reconciles, and carries out what it plans.
    pub fn look(&mut self) -> Plan {
        let mut planned = self.plan();
        while let Some(step) = planned.revision.take() {
            self.write_revision(step);
            planned = self.plan();
        }
        let done = planned.clone();
        let failure = planned.problem.clone().map(Failure::Provision);
        let mut failure = failure.or_else(|| self.provision(&planned));
        if failure.is_none() {
            failure = self.update(&planned);
        }
        let patch = planned.status.and_then(|draft| draft.patch(&self.united, failure.as_ref()));
        if let Some(write) = patch {
            let patch: Value = serde_json::from_str(&write.patch).unwrap();
            let mut status = serde_json::to_value(&self.united.status).unwrap();
            for (name, value) in patch["status"].as_object().unwrap() {
                status.as_object_mut().unwrap().insert(name.clone(), value.clone());
            }
            status.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            self.united.status = serde_json::from_value(status).unwrap();
        }
        done
    }

    fn write_revision(&mut self, step: RevisionStep) {
        match step {
            RevisionStep::Create(revision) => {
                let mut revision: Value = serde_json::from_str(&revision.to_json()).unwrap();
                revision["metadata"]["creationTimestamp"] = self.now.to_string().into();
                self.revisions.push(Arc::new(StoredRevision::read(&revision.to_string()).unwrap()));
            }
            RevisionStep::Patch { revision, patch } => {
                let mut patch: Value = serde_json::from_str(&patch).unwrap();
                let known = self.revisions.iter_mut().find(|known| known.name() == revision.name).unwrap();
                let known = Arc::make_mut(known);
                known.revision = patch["revision"].as_i64().unwrap_or(known.revision);
                let owners = patch["metadata"]["ownerReferences"].take();
                if !owners.is_null() {
                    known.metadata.owner_references = serde_json::from_value(owners).unwrap();
                }
            }
        }
    }

    fn provision(&mut self, plan: &Plan) -> Option<Failure> {
        for patch in plan.adoptions.iter().map(|(_, patch)| patch) {
            let owners =
                serde_json::from_str::<Value>(&patch.patch).unwrap()["metadata"]["ownerReferences"].take();
            self.child_mut(&patch.observed.uid)["metadata"]["ownerReferences"] = owners;
        }
        for label in &plan.labels {
            let labels = serde_json::from_str::<Value>(&label.patch).unwrap()["metadata"]["labels"].take();
            let pod = self.pods.iter_mut().find(|pod| pod["metadata"]["uid"] == label.observed.uid).unwrap();
            pod["metadata"]["labels"].as_object_mut().unwrap().extend(labels.as_object().unwrap().clone());
        }
        if self.refuses && !plan.creations.is_empty() {
            return Some(Failure::Provision("refused".to_owned()));
        }
        for creation in &plan.creations {
            let mut child: Value = serde_json::from_str(creation.json.as_ref().unwrap()).unwrap();
            let number = self.next();
            let metadata = &mut child["metadata"];
            metadata["name"] = format!("{}{number}", metadata["generateName"].as_str().unwrap()).into();
            metadata["uid"] = format!("child-{number}").into();
            metadata["creationTimestamp"] = self.now.to_string().into();
            let kind = ChildKind::of(&self.united.spec.template).unwrap();
            self.children.push((kind, child));
        }
        for (_, observed) in &plan.deletions {
            self.children.retain(|(_, child)| child["metadata"]["uid"] != observed.uid);
            self.pods.retain(|pod| pod["child"] != observed.uid);
        }
        None
    }

    fn update(&mut self, plan: &Plan) -> Option<Failure> {
        let mut problems = Vec::new();
        for (observed, target) in &plan.updates {
            let live = self.child_mut(&observed.uid).to_string();
            match changed_child(&live, &self.united, target) {
                Ok(changed) => *self.child_mut(&observed.uid) = serde_json::from_str(&changed).unwrap(),
                Err(problem) => problems.push(problem),
            }
        }
        for stuck in &plan.stuck {
            self.pods.retain(|pod| pod["metadata"]["uid"] != stuck.uid);
        }
        for gone in &plan.obsolete {
            self.revisions.retain(|revision| revision.name() != gone.name);
        }
        (!problems.is_empty()).then(|| Failure::Update(problems.join("; ")))
    }

    fn child_mut(&mut self, uid: &str) -> &mut Value {
        let known = self.children.iter_mut().find(|(_, child)| child["metadata"]["uid"] == uid);
        &mut known.unwrap().1
    }

    /// Workloads bring their Pods a step further: one that is too many is deleted, all that lack are created, one old
    /// one is replaced, as far as its workload may have Pods unavailable.
    pub fn run(&mut self) {
        for at in 0..self.children.len() {
            let (kind, child) = self.children[at].clone();
            self.run_child(kind, &child);
            let uid = &child["metadata"]["uid"];
            let own: Vec<&Value> = self.pods.iter().filter(|pod| pod["child"] == *uid).collect();
            let ready = own.iter().filter(|pod| pod["status"]["phase"] == "Running").count();
            let status = json!({"replicas": own.len(), "readyReplicas": ready});
            self.children[at].1["status"] = status;
        }
    }

    fn run_child(&mut self, kind: ChildKind, child: &Value) {
        let uid = child["metadata"]["uid"].clone();
        let labels = child["spec"]["template"]["metadata"]["labels"].clone();
        let revision = labels["apps.kruise.io/controller-revision-hash"].clone();
        let count = |value: &Value| usize::try_from(value.as_i64().unwrap_or(0)).unwrap();
        let (wanted, kept) = (
            count(&child["spec"]["replicas"]),
            count(&child["spec"]["updateStrategy"]["rollingUpdate"]["partition"]),
        );
        let is_old =
            |pod: &Value| pod["metadata"]["labels"]["apps.kruise.io/controller-revision-hash"] != revision;
        let of_child = |pod: &&Value| pod["child"] == uid;
        let old = self.pods.iter().filter(of_child).filter(|pod| is_old(pod)).count();
        let own = self.pods.iter().filter(of_child).count();
        let rollout = Rollout::read(&child["spec"].to_string()).unwrap();
        let limit = rollout.max_unavailable(kind, i32::try_from(wanted).unwrap());
        // Pods that come beside the old ones first make way for as many.
        let surge = if kind == ChildKind::Deployment { wanted.div_ceil(4) } else { 0 };
        let ready =
            self.pods.iter().filter(of_child).filter(|pod| pod["status"]["phase"] == "Running").count();
        let is_allowed = limit.is_none_or(|limit| wanted < ready + surge + usize::try_from(limit).unwrap());
        let waits = |pod: &Value| pod["status"]["phase"] == "Pending";
        let pick = |pods: &[Value], test: &dyn Fn(&Value) -> bool| {
            pods.iter().position(|pod| pod["child"] == uid && test(pod))
        };
        if own > wanted {
            let at = pick(&self.pods, &waits).or_else(|| pick(&self.pods, &|_| true)).unwrap();
            self.pods.remove(at);
        } else if old > kept {
            let at = pick(&self.pods, &|pod| is_old(pod) && waits(pod))
                .or_else(|| pick(&self.pods, &is_old).filter(|_| is_allowed));
            at.map(|at| self.pods.remove(at));
        }
        let own = self.pods.iter().filter(of_child).count();
        for _ in own..wanted {
            let number = self.next();
            let owner = match kind {
                ChildKind::Deployment => {
                    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "uid": "r", "controller": true,
                    "name": format!("{}-abc", child["metadata"]["name"].as_str().unwrap())})
                }
                _ => {
                    json!({"kind": child["kind"], "name": child["metadata"]["name"], "uid": uid, "controller": true})
                }
            };
            let name = format!("{}-{number}", child["metadata"]["name"].as_str().unwrap());
            self.pods.push(json!({"child": uid, "metadata": {"name": name, "namespace": "shop", "uid": format!("pod-{number}"),
                "creationTimestamp": self.now.to_string(), "labels": labels, "ownerReferences": [owner]},
                "spec": child["spec"]["template"]["spec"], "status": {"phase": "Pending"}}));
        }
        self.schedule(labels["apps.kruise.io/subset-name"].as_str().unwrap());
    }

    /// Pods of a subset find capacity, or not.
    fn schedule(&mut self, subset: &str) {
        let now = self.now.to_string();
        let mut free = self.capacity.get(subset).copied().unwrap_or(usize::MAX);
        let mut own: Vec<&mut Value> = self
            .pods
            .iter_mut()
            .filter(|pod| pod["metadata"]["labels"]["apps.kruise.io/subset-name"] == subset)
            .collect();
        free = free.saturating_sub(own.iter().filter(|pod| pod["status"]["phase"] == "Running").count());
        for pod in own.iter_mut().filter(|pod| pod["status"]["phase"] == "Pending") {
            let condition = if free > 0 {
                free -= 1;
                pod["spec"]["nodeName"] = "n1".into();
                pod["status"]["phase"] = "Running".into();
                pod["status"]["containerStatuses"] = pod["spec"]["containers"].clone();
                json!({"type": "Ready", "status": "True", "lastTransitionTime": now})
            } else {
                json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"})
            };
            pod["status"]["conditions"] = json!([condition]);
        }
    }

    /// Everybody does what is to be done, for so many seconds.
    pub fn settle(&mut self, seconds: i64) {
        for _ in 0..seconds / 10 {
            self.look();
            self.run();
            self.pass(10);
        }
        self.look();
    }

    /// Pods that run, by subset.
    pub fn running(&self) -> BTreeMap<String, usize> {
        let mut running = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| pod["status"]["phase"] == "Running") {
            let subset = pod["metadata"]["labels"]["apps.kruise.io/subset-name"].as_str().unwrap();
            *running.entry(subset.to_owned()).or_insert(0) += 1;
        }
        running
    }

    /// The workload of a subset.
    pub fn child(&self, subset: &str) -> &Value {
        let mut own = self.children.iter().map(|(_, child)| child);
        own.find(|child| child["metadata"]["labels"]["apps.kruise.io/subset-name"] == subset).unwrap()
    }

    pub fn shares(&self) -> Vec<i64> {
        let subsets = self.united.spec.topology.subsets.iter();
        subsets.map(|subset| self.child(&subset.name)["spec"]["replicas"].as_i64().unwrap()).collect()
    }
}
