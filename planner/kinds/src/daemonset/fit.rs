//! Which Nodes suit the template of a DaemonSet (docs/behaviour/daemonset.md#nodes).

use api::Raw;
use serde::Deserialize;

use crate::workload::new_pod::NewToleration;
use pod::node_fit::{NodeFacts, Placement, Toleration};

/// What every Pod of a DaemonSet tolerates: it stays on a Node in trouble, and comes to one that is cordoned.
const TOLERATED: [NewToleration<'static>; 6] = [
    NewToleration { key: "node.kubernetes.io/not-ready", effect: "NoExecute" },
    NewToleration { key: "node.kubernetes.io/unreachable", effect: "NoExecute" },
    NewToleration { key: "node.kubernetes.io/disk-pressure", effect: "NoSchedule" },
    NewToleration { key: "node.kubernetes.io/memory-pressure", effect: "NoSchedule" },
    NewToleration { key: "node.kubernetes.io/pid-pressure", effect: "NoSchedule" },
    NewToleration { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" },
];
/// What Pods in the network of their Node tolerate besides.
const WITHOUT_NETWORK: NewToleration<'static> =
    NewToleration { key: "node.kubernetes.io/network-unavailable", effect: "NoSchedule" };

/// How a Node suits the template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// The Node is to have a Pod.
    pub should_run: bool,
    /// A Pod that is there may stay.
    pub may_stay: bool,
}

/// What the template asks of Nodes.
#[derive(Clone, Debug)]
pub struct Requirements {
    placement: Placement,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Template {
    spec: Placement,
}

impl Requirements {
    /// Reads a template.
    ///
    /// # Errors
    /// Why it can't be read.
    pub fn of(template: Option<&Raw>) -> Result<Self, String> {
        let template = template.ok_or("spec.template is missing")?;
        let Template { spec: placement } = serde_json::from_str(template.get())
            .map_err(|error| format!("spec.template can't be read: {error}"))?;
        let mut requirements = Self { placement };
        let added = requirements.tolerations();
        let added = added.iter().map(|toleration| Toleration::of(toleration.key, toleration.effect));
        requirements.placement.tolerations.get_or_insert_default().extend(added);
        Ok(requirements)
    }

    /// The tolerations that Pods get beside those of the template.
    pub(crate) fn tolerations(&self) -> Vec<NewToleration<'static>> {
        TOLERATED.into_iter().chain(self.placement.is_on_host_network().then_some(WITHOUT_NETWORK)).collect()
    }

    /// How the Node of this name suits. Neither its readiness nor what it can bear counts.
    pub fn fit(&self, name: &str, node: &NodeFacts) -> Fit {
        if !self.placement.admits(&node.named(name)) {
            return Fit::default();
        }
        let mut refused = self.placement.untolerated(&node.taints, &["NoSchedule", "NoExecute"]).peekable();
        let should_run = refused.peek().is_none();
        Fit { should_run, may_stay: refused.all(|taint| &*taint.effect != "NoExecute") }
    }
}
