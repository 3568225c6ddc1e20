//! A two-hundredth of the cluster: 25 nodes with 750 Pods of 15 CloneSets, 3 StatefulSets, a DaemonSet and a ReplicaSet,
//! with 5 SidecarSets, 5 budgets and 2 WorkloadSpreads, in 10 namespaces.
//!
//! Everything in it is named by the token of the unit, eight hexadecimal digits with which UIDs begin too, so that the text
//! of one unit becomes that of another.

use benches::review;
use kit::builders::{Object, object, pod, sidecar_set, workload};
use serde_json::{Value, json};

pub(crate) const NODES: usize = 25;
pub(crate) const PODS: usize =
    (CLONE_SETS * CLONE_SET_PODS + STATEFUL_SETS * STATEFUL_SET_PODS) as usize + NODES + FOREIGN;
/// The label of the nodes of a unit.
pub(crate) const POOL: &str = "example.com/pool";
/// The token of the first unit; the others count on from it.
const FIRST: u32 = 0xc0de_0000;

const KRUISE: &str = "apps.kruise.io/v1beta1";
const POLICY: &str = "policy.kruise.io/v1beta1";
const NAMESPACES: u32 = 10;
const CLONE_SETS: u32 = 15;
const CLONE_SET_PODS: u32 = 45;
const STATEFUL_SETS: u32 = 3;
const STATEFUL_SET_PODS: u32 = 10;
const SIDECAR_SETS: u32 = 5;
const BUDGETS: u32 = 5;
const SPREADS: u32 = 2;
/// Pods of the ReplicaSet, which are no concern of ours.
const FOREIGN: usize = 20;

/// A unit.
#[derive(Clone, Copy)]
pub(crate) struct Unit(u32);

/// The path of an object, and by which of its status one sees that all is done for it.
pub(crate) type Goal = (String, fn(&Value) -> bool);

impl Unit {
    /// The unit of this number.
    pub(crate) fn new(number: u32) -> Self {
        Self(FIRST + number)
    }

    /// The digits with which its UIDs begin.
    pub(crate) fn prefix(self) -> u32 {
        self.0
    }

    pub(crate) fn token(self) -> String {
        format!("{:08x}", self.0)
    }

    /// Its namespaces, and what is to be there before Pods.
    pub(crate) fn foundations(self) -> Vec<Object> {
        let labels = |object: Object| object.label("team", &self.token()).label("stage", "production");
        let namespaces =
            (0..NAMESPACES).map(|number| labels(object("v1", "Namespace", &self.namespace(number))));
        let sets = (0..SIDECAR_SETS).map(|number| {
            let name = self.named("log", number);
            sidecar_set(&name)
                .matching("app", &self.named("web", number))
                .with("/spec/updateStrategy", json!({"type": "RollingUpdate", "maxUnavailable": "10%"}))
                .container("log-shipper", &format!("registry.example.com/platform/{name}:3.1.7"))
                .env("OUTPUT", "https://logs.example.com:8088")
                .having("resources", json!({"limits": {"memory": "256Mi"}, "requests": {"cpu": "50m"}}))
        });
        let spreads = (0..SPREADS).map(|number| self.spread(SIDECAR_SETS + BUDGETS + number));
        namespaces.chain(sets).chain(spreads).collect()
    }

    /// Its workloads and budgets.
    pub(crate) fn workloads(self) -> Vec<Object> {
        let clone_sets = (0..CLONE_SETS).map(|number| {
            clone_set(&self.namespace(number), &self.named("web", number)).replicas(CLONE_SET_PODS)
        });
        let stateful_sets = (0..STATEFUL_SETS).map(|number| {
            let rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "10%"});
            self.workload("StatefulSet", "db", number)
                .replicas(STATEFUL_SET_PODS)
                .readiness_gate("InPlaceUpdateReady")
                .with("/spec/podManagementPolicy", "Parallel")
                .with("/spec/updateStrategy", json!({"rollingUpdate": rolling}))
        });
        let rolling = json!({"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": "10%"});
        let daemon_set = self
            .workload("DaemonSet", "agent", 0)
            .with("/spec/template/spec/nodeSelector", json!({POOL: self.token()}))
            .with("/spec/updateStrategy", json!({"rollingUpdate": rolling}));
        let budgets = (0..BUDGETS).map(|number| self.budget(SIDECAR_SETS + number));
        clone_sets.chain(stateful_sets).chain([daemon_set]).chain(budgets).collect()
    }

    /// A workload of Kubernetes.
    pub(crate) fn replica_set(self) -> Object {
        let name = self.named("front", 0);
        templated(workload("apps/v1", "ReplicaSet", &name).in_namespace(&self.namespace(0)), &name)
            .replicas(FOREIGN as u32)
    }

    /// The Pods of that workload.
    pub(crate) fn foreign_pods(self, owner: &Value) -> impl Iterator<Item = Object> {
        (0..FOREIGN).map(move |number| {
            let name = self.named("front", 0);
            pod(&format!("{name}-{number:02}"))
                .in_namespace(&self.namespace(0))
                .label("app", &name)
                .label("pod-template-hash", "6d4b75cb6d")
                .controlled_by(owner)
                .with("/spec", spec(&name))
        })
    }

    /// What is seen once the unit is settled.
    pub(crate) fn goals(self) -> Vec<Goal> {
        let in_turn = |version, plural, stem: &'static str, numbers: std::ops::Range<u32>, is_done| {
            numbers.map(move |number| -> Goal {
                let (namespace, name) = (self.namespace(number), self.named(stem, number));
                (format!("/apis/{version}/namespaces/{namespace}/{plural}/{name}"), is_done)
            })
        };
        let budgeted = SIDECAR_SETS..SIDECAR_SETS + BUDGETS;
        in_turn(KRUISE, "clonesets", "web", 0..CLONE_SETS, |status| {
            status["updatedAvailableReplicas"] == CLONE_SET_PODS
        })
        .chain(in_turn(KRUISE, "statefulsets", "db", 0..STATEFUL_SETS, |status| {
            status["updatedAvailableReplicas"] == STATEFUL_SET_PODS
        }))
        .chain(in_turn(KRUISE, "daemonsets", "agent", 0..1, |status| status["numberAvailable"] == NODES))
        .chain(in_turn(POLICY, "podunavailablebudgets", "web", budgeted, |status| {
            status["currentAvailable"] == CLONE_SET_PODS
        }))
        .chain((0..SIDECAR_SETS).map(|number| -> Goal {
            let path = format!("/apis/{KRUISE}/sidecarsets/{}", self.named("log", number));
            (path, |status| status["readyPods"] == CLONE_SET_PODS)
        }))
        .collect()
    }

    fn namespace(self, number: u32) -> String {
        self.named("team", number % NAMESPACES)
    }

    fn named(self, stem: &str, number: u32) -> String {
        format!("{}-{stem}-{number:02}", self.token())
    }

    fn workload(self, kind: &str, stem: &str, number: u32) -> Object {
        let name = self.named(stem, number);
        templated(workload(KRUISE, kind, &name).in_namespace(&self.namespace(number)), &name)
    }

    fn budget(self, number: u32) -> Object {
        let name = self.named("web", number);
        let target = json!({"apiVersion": KRUISE, "kind": "CloneSet", "name": name});
        object(POLICY, "PodUnavailableBudget", &name)
            .in_namespace(&self.namespace(number))
            .with("/spec", json!({"targetRef": target, "maxUnavailable": "20%"}))
    }

    fn spread(self, number: u32) -> Object {
        let name = self.named("web", number);
        let target = json!({"apiVersion": KRUISE, "kind": "CloneSet", "name": name});
        let subset =
            |subset: &str| json!({"name": subset, "patch": {"metadata": {"labels": {"subset": subset}}}});
        let mut subsets = ["reserved", "spot"].map(subset);
        subsets[0]["maxReplicas"] = json!(CLONE_SET_PODS / 2);
        object(KRUISE, "WorkloadSpread", &name)
            .in_namespace(&self.namespace(number))
            .with("/spec", json!({"targetRef": target, "subsets": subsets}))
    }
}

/// A CloneSet that is updated in place.
pub(crate) fn clone_set(namespace: &str, name: &str) -> Object {
    let rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "10%"});
    templated(workload(KRUISE, "CloneSet", name).in_namespace(namespace), name)
        .with("/spec/updateStrategy", json!({"rollingUpdate": rolling}))
}

/// With a template of the size of real ones.
fn templated(workload: Object, name: &str) -> Object {
    workload
        .matching("app", name)
        .template_label("tier", "backend")
        .template_annotation("prometheus.io/scrape", "true")
        .with("/spec/template/spec", spec(name))
}

/// What Pods of such a workload consist of.
fn spec(name: &str) -> Value {
    let mut spec = review::pod_object()["spec"].take();
    spec["containers"][0]["image"] = json!(format!("registry.example.com/shop/{name}:2.41.0"));
    spec
}
