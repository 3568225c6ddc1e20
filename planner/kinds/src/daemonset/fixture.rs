//! The small cluster for tests of plans, with Nodes and a DaemonSet in it.

use std::sync::Arc;

use api::features::FeatureGates;
use serde_json::{Value, json};

use super::*;
use crate::workload::fleet::Planned;
use ::pod::node_fit::ObservedNode;
use values::json_patch::Patch;

pub(super) use crate::workload::fleet::{image, merge, sized, template};

pub(super) type Fleet = crate::workload::fleet::Fleet<DaemonSet>;

impl Planned for DaemonSet {
    fn defaults(object: &str, before: Option<&str>, _gates: &FeatureGates) -> Patch {
        defaulting::default(object, before, "v1beta1").unwrap()
    }
}

/// Settings of the rolling update.
pub(super) fn rolling(settings: Value) -> Value {
    let mut strategy = json!({"type": "RollingUpdate"});
    strategy["rollingUpdate"] = settings;
    json!({"updateStrategy": strategy})
}

impl Fleet {
    /// A DaemonSet `web` in a cluster with the Nodes `n1` to `n<count>`, on each of which its Pod is available.
    pub(super) fn on_nodes(count: usize, spec: Value) -> Self {
        let mut fleet = Self::unsettled(count, spec);
        fleet.settle();
        fleet.events.clear();
        fleet
    }

    /// The same before there is any Pod.
    pub(super) fn unsettled(count: usize, spec: Value) -> Self {
        let mut fleet = Self::new(spec);
        for number in 1..=count {
            fleet.node(&format!("n{number}"), json!({}));
        }
        fleet
    }

    /// A Node of this name joins, or changes.
    pub(super) fn node(&mut self, name: &str, more: Value) {
        let mut node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}});
        merge(&mut node, more);
        let observed: ObservedNode = serde_json::from_value(node).unwrap();
        let (name, facts) = observed.into_facts();
        self.nodes.insert(name, Arc::new(facts));
    }

    /// The Node gets this taint.
    pub(super) fn taint(&mut self, name: &str, key: &str, effect: &str) {
        self.node(name, json!({"spec": {"taints": [{"key": key, "effect": effect}]}}));
    }

    /// The Nodes with a Pod that runs this image, by name; a Node with two is named twice.
    pub(super) fn nodes_with(&self, image: &str) -> Vec<String> {
        let running = self.pods.iter().filter(|pod| self::image(pod) == image);
        let mut nodes: Vec<String> = running.filter_map(|pod| pod.spec.node().map(str::to_owned)).collect();
        nodes.sort();
        nodes
    }

    /// The position of the Pod on this Node.
    pub(super) fn on(&self, node: &str) -> usize {
        self.pods.iter().position(|pod| pod.spec.node() == Some(node)).unwrap()
    }

    pub(super) fn name_on(&self, node: &str) -> String {
        self.name(self.on(node))
    }

    /// How many Nodes have no available Pod.
    pub(super) fn without_available(&self) -> usize {
        let has = |node: &str| self.pods.iter().any(|pod| pod.spec.node() == Some(node) && pod.is_ready());
        self.nodes.keys().filter(|node| !has(node)).count()
    }
}

/// Gates beside the default ones.
pub(super) fn gates(list: &str) -> FeatureGates {
    FeatureGates::parse(list, "").unwrap()
}
