//! Which Nodes suit the template of a BroadcastJob (docs/behaviour/broadcastjob.md#nodes): as the scheduler would see a
//! Node on which nothing runs.

use std::collections::BTreeMap;
use std::fmt;

use api::Raw;
use serde::Deserialize;

use pod::node_fit::{NodeFacts, Placement, Taint};
use pod::observed::Pairs;
use values::quantity::{Format, Quantity};

/// What the template asks of Nodes.
#[derive(Clone, Debug)]
pub struct Requirements {
    placement: Placement,
    requests: BTreeMap<String, Quantity>,
    cordon: Taint,
}

/// Why a Node does not suit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// `nodeName`, `nodeSelector` or the required node affinity of the template excludes it.
    NotSelected,
    Cordoned,
    /// It has a taint of this key and effect that is not tolerated.
    Tainted(Box<str>, Box<str>),
    /// It has too little of this resource, or none.
    Lacks(String),
}

impl fmt::Display for Misfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSelected => write!(formatter, "is not selected"),
            Self::Cordoned => write!(formatter, "is cordoned"),
            Self::Tainted(key, effect) => write!(formatter, "has taint {key}:{effect}"),
            Self::Lacks(resource) => write!(formatter, "has too little {resource}"),
        }
    }
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
    resources: Option<Resources>,
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

/// Quantities by resource; what can't be read counts as nothing.
fn given(pairs: Option<&Pairs>) -> impl Iterator<Item = (String, Quantity)> {
    let pairs = pairs.into_iter().flat_map(Pairs::iter);
    pairs.filter_map(|(name, text)| Some((name.to_owned(), text.parse().ok()?)))
}

impl Resources {
    /// What is requested: what is limited and not requested is requested too.
    fn requests(&self) -> BTreeMap<String, Quantity> {
        given(self.limits.as_ref()).chain(given(self.requests.as_ref())).collect()
    }
}

impl Container {
    fn requests(&self) -> BTreeMap<String, Quantity> {
        self.resources.as_ref().map(Resources::requests).unwrap_or_default()
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

const HUGE_PAGES: &str = "hugepages-";

/// A Pod as a whole can request this resource.
fn is_of_pods(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with(HUGE_PAGES)
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
        // What the Pod as a whole requests takes the place of what its containers do. What only limits it counts where no
        // container requests any; of huge pages always.
        if let Some(whole) = &self.resources {
            for (name, limit) in given(whole.limits.as_ref()).filter(|(name, _)| is_of_pods(name)) {
                if name.starts_with(HUGE_PAGES) || !total.contains_key(&name) {
                    total.insert(name, limit);
                }
            }
            total.extend(given(whole.requests.as_ref()).filter(|(name, _)| is_of_pods(name)));
        }
        add(&mut total, given(self.overhead.as_ref()).collect());
        total
    }
}

impl Requirements {
    /// Reads a template.
    ///
    /// # Errors
    /// Why it can't be read.
    pub fn of(template: Option<&Raw>) -> Result<Self, String> {
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

    /// Why no Pod of the template could run on the Node of this name; `None` where one could.
    pub(super) fn misfit(&self, name: &str, node: &NodeFacts) -> Option<Misfit> {
        if !self.placement.admits(&node.named(name)) {
            return Some(Misfit::NotSelected);
        }
        if node.unschedulable && self.refused(std::slice::from_ref(&self.cordon)).is_some() {
            return Some(Misfit::Cordoned);
        }
        if let Some(taint) = self.refused(&node.taints) {
            return Some(Misfit::Tainted(taint.key.clone(), taint.effect.clone()));
        }
        self.lacking(node).map(|resource| Misfit::Lacks(resource.to_owned()))
    }

    /// Whether a Pod of the template could run on the Node of this name.
    pub fn fits(&self, name: &str, node: &NodeFacts) -> bool {
        self.misfit(name, node).is_none()
    }

    /// The first of these taints that is not tolerated.
    fn refused<'t>(&'t self, taints: &'t [Taint]) -> Option<&'t Taint> {
        self.placement.untolerated(taints, &["NoSchedule", "NoExecute"]).next()
    }

    /// The first resource of which an empty Node has less than a Pod requests.
    fn lacking(&self, node: &NodeFacts) -> Option<&str> {
        let lacks = |name: &str, wanted: &Quantity| {
            let there = node.allocatable.get(name).and_then(|text| text.parse::<Quantity>().ok());
            !wanted.is_zero() && there.is_none_or(|there| there < *wanted)
        };
        if lacks("pods", &Quantity::from_units(1, Format::DecimalSi)) {
            return Some("pods");
        }
        let mut requests = self.requests.iter();
        requests.find(|(name, wanted)| lacks(name, wanted)).map(|(name, _)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use pod::node_fit::ObservedNode;

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

    #[test]
    fn what_the_pod_requests_as_a_whole_takes_the_place_of_the_sum() {
        let spec = json!({
            "containers": [{"resources": {"requests": {"cpu": "1", "example.com/gpu": 2}}}],
            "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Ki", "cpu": "2"}},
            "overhead": {"cpu": "10m"},
        });
        let expected = [("cpu", 510), ("example.com/gpu", 2_000), ("memory", 1_024_000)];
        assert_eq!(requests(&spec), expected.map(|(name, milli)| (name.to_owned(), milli)).into());
    }

    #[test]
    fn each_misfit_names_what_is_in_the_way() {
        let template = r#"{"spec":{"nodeSelector":{"disk":"ssd"},"tolerations":[{"key":"gpu","operator":"Exists"}],
            "containers":[{"name":"main","resources":{"requests":{"cpu":"2"}}}]}}"#;
        let requirements = Requirements::of(Some(&Raw::parse(template.to_owned()).unwrap())).unwrap();
        let misfit = |node: serde_json::Value| {
            let mut whole = json!({"metadata": {"name": "n1", "labels": {"disk": "ssd"}},
                "status": {"allocatable": {"pods": "10", "cpu": "4"}}});
            json_patch::merge(&mut whole, &node);
            let observed: ObservedNode = serde_json::from_value(whole).unwrap();
            requirements.misfit("n1", &observed.into_facts().1).map(|misfit| misfit.to_string())
        };
        let taint = |key: &str, effect: &str| json!({"spec": {"taints": [{"key": key, "effect": effect}]}});
        assert_eq!(misfit(json!({})), None);
        assert_eq!(misfit(taint("gpu", "NoSchedule")), None);
        assert_eq!(misfit(taint("spot", "PreferNoSchedule")), None);
        for (node, expected) in [
            (json!({"metadata": {"labels": {"disk": "hdd"}}}), "is not selected"),
            (json!({"spec": {"unschedulable": true}}), "is cordoned"),
            (taint("spot", "NoExecute"), "has taint spot:NoExecute"),
            (json!({"status": {"allocatable": {"cpu": "1999m"}}}), "has too little cpu"),
            (json!({"status": {"allocatable": {"pods": null}}}), "has too little pods"),
        ] {
            assert_eq!(misfit(node).as_deref(), Some(expected));
        }
    }
}
