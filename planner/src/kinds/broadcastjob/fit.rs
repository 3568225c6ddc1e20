//! Which Nodes suit the template of a BroadcastJob (docs/behaviour/broadcastjob.md#nodes): as the scheduler would see a
//! Node on which nothing runs.

use std::collections::BTreeMap;

use api::Raw;
use serde::Deserialize;

use crate::pod::node_fit::{NodeFacts, Placement, Taint};
use crate::pod::observed::Pairs;
use crate::text::quantity::{Format, Quantity};

/// What the template asks of Nodes.
#[derive(Clone, Debug)]
pub(super) struct Requirements {
    placement: Placement,
    requests: BTreeMap<String, Quantity>,
    cordon: Taint,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Placed {
    spec: Placement,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Sized {
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    overhead: Option<Pairs>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    resources: Option<Resources>,
    restart_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: Option<Pairs>,
    limits: Option<Pairs>,
}

impl Container {
    /// What is requested: what is limited and not requested is requested too.
    fn requests(&self) -> BTreeMap<String, Quantity> {
        let given = |pairs: Option<&Pairs>| -> Vec<(String, Quantity)> {
            let pairs = pairs.into_iter().flat_map(Pairs::iter);
            pairs.filter_map(|(name, text)| Some((name.to_owned(), text.parse().ok()?))).collect()
        };
        let Some(resources) = &self.resources else { return BTreeMap::new() };
        let limits = given(resources.limits.as_ref());
        limits.into_iter().chain(given(resources.requests.as_ref())).collect()
    }

    fn is_native_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

fn add(total: &mut BTreeMap<String, Quantity>, more: BTreeMap<String, Quantity>) {
    for (name, quantity) in more {
        let sum = total.get(&name).map_or_else(|| quantity.clone(), |known| known.plus(&quantity));
        total.insert(name, sum);
    }
}

fn raise(total: &mut BTreeMap<String, Quantity>, other: BTreeMap<String, Quantity>) {
    for (name, quantity) in other {
        let is_more = total.get(&name).is_none_or(|known| *known < quantity);
        if is_more {
            total.insert(name, quantity);
        }
    }
}

impl Spec {
    /// What the whole Pod requests at its peak: its containers and native sidecars together, or an init container with
    /// the native sidecars before it; and what the sandbox takes.
    fn requests(&self) -> BTreeMap<String, Quantity> {
        let (mut sidecars, mut peak) = (BTreeMap::new(), BTreeMap::new());
        for container in self.init_containers.iter().flatten() {
            let mut needed = container.requests();
            if container.is_native_sidecar() {
                add(&mut sidecars, needed);
                needed = sidecars.clone();
            } else {
                add(&mut needed, sidecars.clone());
            }
            raise(&mut peak, needed);
        }
        let mut total = sidecars;
        for container in self.containers.iter().flatten() {
            add(&mut total, container.requests());
        }
        raise(&mut total, peak);
        let overhead = self.overhead.iter().flat_map(Pairs::iter);
        let overhead = overhead.filter_map(|(name, text)| Some((name.to_owned(), text.parse().ok()?)));
        add(&mut total, overhead.collect());
        total
    }
}

impl Requirements {
    /// Reads a template.
    ///
    /// # Errors
    /// Why it can't be read.
    pub(super) fn of(template: Option<&Raw>) -> Result<Self, String> {
        let template = template.ok_or("spec.template is missing")?.get();
        let unreadable = |error: serde_json::Error| format!("spec.template can't be read: {error}");
        let placed: Placed = serde_json::from_str(template).map_err(unreadable)?;
        let sized: Sized = serde_json::from_str(template).map_err(unreadable)?;
        let cordon = Taint {
            key: "node.kubernetes.io/unschedulable".into(),
            value: "".into(),
            effect: "NoSchedule".into(),
        };
        Ok(Self { placement: placed.spec, requests: sized.spec.requests(), cordon })
    }

    /// Whether a Pod of the template could run on the Node of this name.
    pub(super) fn fits(&self, name: &str, node: &NodeFacts) -> bool {
        let effects = ["NoSchedule", "NoExecute"];
        let tolerates = |taints: &[Taint]| self.placement.untolerated(taints, &effects).next().is_none();
        self.placement.admits(&node.named(name))
            && tolerates(&node.taints)
            && (!node.unschedulable || tolerates(std::slice::from_ref(&self.cordon)))
            && self.has_room(node)
    }

    fn has_room(&self, node: &NodeFacts) -> bool {
        let allocatable =
            |name: &str| node.allocatable.get(name).and_then(|text| text.parse::<Quantity>().ok());
        let one = Quantity::from_units(1, Format::DecimalSi);
        allocatable("pods").is_some_and(|pods| pods >= one)
            && self.requests.iter().all(|(name, wanted)| {
                wanted.is_zero() || allocatable(name).is_some_and(|there| there >= *wanted)
            })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn requests(spec: &serde_json::Value) -> BTreeMap<String, i64> {
        let spec: Spec = serde_json::from_value(spec.clone()).unwrap();
        spec.requests().into_iter().map(|(name, quantity)| (name, quantity.milli())).collect()
    }

    #[test]
    fn a_pod_requests_its_peak() {
        let cpu = |text: &str| json!({"requests": {"cpu": text}});
        let spec = json!({
            "initContainers": [
                {"resources": cpu("3")},
                {"restartPolicy": "Always", "resources": cpu("500m")},
                {"resources": cpu("1")},
            ],
            "containers": [{"resources": cpu("1")}, {"resources": {"limits": {"cpu": "200m", "memory": "1Ki"}}}],
            "overhead": {"cpu": "10m"},
        });
        assert_eq!(requests(&spec), [("cpu".to_owned(), 3_010), ("memory".to_owned(), 1_024_000)].into());
        let spec = json!({"containers": [{"resources": cpu("1")}], "initContainers": [
            {"restartPolicy": "Always", "resources": cpu("2")}]});
        assert_eq!(requests(&spec), [("cpu".to_owned(), 3_000)].into());
    }
}
