//! Whether a Pod may run on a Node: node selector terms and tolerations, as Kubernetes reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kinds::Time;
use api::labels::{NODE_TYPE, VIRTUAL_KUBELET};
use jiff::Timestamp;
use serde::Deserialize;

use super::observed::{Pairs, PodMetadata};
use values::selector::Labels;

/// A Node as far as Pods choose among Nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node<'a> {
    /// The Node's name.
    pub name: &'a str,
    /// The Node's labels.
    pub labels: Pairs,
    /// The Node's taints.
    pub taints: &'a [Taint],
}

/// The Nodes by name, as rules read them.
pub type Nodes = BTreeMap<Box<str>, Arc<NodeFacts>>;

/// What rules read of a Node. It stays the same while a kubelet only reports that it is alive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The Node's labels.
    pub labels: Pairs,
    /// The Node's taints.
    pub taints: Arc<[Taint]>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `status.allocatable`: quantities by resource.
    pub allocatable: Pairs,
    /// `status.conditions`: statuses by type.
    pub conditions: Pairs,
}

impl NodeFacts {
    /// The Node of this name, as Pods choose it.
    pub fn named<'a>(&'a self, name: &'a str) -> Node<'a> {
        Node { name, labels: self.labels.clone(), taints: &self.taints }
    }
}

/// A Node as the API server reports it, as far as rules read it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ObservedNode {
    /// Name, labels, whether it is being deleted.
    pub metadata: PodMetadata,
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    taints: Option<Arc<[Taint]>>,
    unschedulable: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    allocatable: Option<Pairs>,
    conditions: Option<Vec<NodeCondition>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeCondition {
    #[serde(rename = "type")]
    kind: Box<str>,
    status: Box<str>,
    last_transition_time: Option<Time>,
}

impl ObservedNode {
    /// Since when the Node is ready, forever where it does not say; `None` where it is not.
    pub fn ready_since(&self) -> Option<Timestamp> {
        let mut conditions = self.status.conditions.iter().flatten();
        let ready =
            conditions.find(|condition| &*condition.kind == "Ready" && &*condition.status == "True")?;
        Some(ready.last_transition_time.as_ref().and_then(Time::timestamp).unwrap_or(Timestamp::MIN))
    }

    /// Name and facts.
    pub fn into_facts(self) -> (Box<str>, NodeFacts) {
        let Self { metadata, spec, status } = self;
        let conditions = status.conditions.into_iter().flatten();
        let facts = NodeFacts {
            labels: metadata.labels,
            taints: spec.taints.unwrap_or_default(),
            unschedulable: spec.unschedulable.unwrap_or_default(),
            allocatable: status.allocatable.unwrap_or_default(),
            conditions: conditions.map(|condition| (condition.kind, condition.status)).collect(),
        };
        (metadata.name, facts)
    }
}

/// Whether a Node with these labels represents something else than a machine: neither kubelet nor agent runs there.
pub fn is_virtual(labels: &(impl Labels + ?Sized)) -> bool {
    labels.label(NODE_TYPE) == Some(VIRTUAL_KUBELET)
}

/// A taint of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// The taint's key.
    pub key: Box<str>,
    /// The taint's value.
    pub value: Box<str>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: Box<str>,
}

/// A toleration of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Toleration {
    key: Option<Box<str>>,
    operator: Option<Box<str>>,
    value: Option<Box<str>>,
    effect: Option<Box<str>>,
}

/// A node selector term; one without requirements matches no Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Term {
    match_expressions: Option<Vec<Requirement>>,
    match_fields: Option<Vec<Requirement>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Requirement {
    key: Box<str>,
    operator: Box<str>,
    values: Option<Vec<Box<str>>>,
}

/// `preferredDuringSchedulingIgnoredDuringExecution`, one element.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PreferredTerm {
    /// Weight of the term; a Node that matches it is preferred by so much.
    pub weight: i32,
    /// The Nodes that are preferred.
    pub preference: Term,
}

/// `spec` of a Pod, what it says about Nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Placement {
    node_name: Option<Box<str>>,
    node_selector: Option<Pairs>,
    affinity: Option<Affinity>,
    /// The taints that the Pod tolerates.
    pub tolerations: Option<Vec<Toleration>>,
    host_network: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector {
    node_selector_terms: Option<Vec<Term>>,
}

impl Placement {
    /// The terms of which a Node must match one; empty where it may be any Node.
    pub fn required(&self) -> &[Term] {
        let affinity = self.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let terms = affinity.and_then(|affinity| affinity.required.as_ref()?.node_selector_terms.as_deref());
        terms.unwrap_or_default()
    }

    /// The Pod is in the network of its Node.
    pub fn is_on_host_network(&self) -> bool {
        self.host_network.unwrap_or_default()
    }

    /// Whether name, selector and required affinity admit the Node, as the scheduler reads them.
    pub fn admits(&self, node: &Node<'_>) -> bool {
        let named = self.node_name.as_deref().unwrap_or_default();
        let mut selected = self.node_selector.iter().flat_map(Pairs::iter);
        let is_required = self.affinity.as_ref().is_some_and(|affinity| {
            affinity.node_affinity.as_ref().is_some_and(|affinity| affinity.required.is_some())
        });
        (named.is_empty() || named == node.name)
            && selected.all(|(key, value)| node.labels.get(key) == Some(value))
            && (!is_required || self.required().iter().any(|term| term.matches(node)))
    }

    /// The taints with one of these effects that are not tolerated.
    pub fn untolerated<'t>(
        &'t self,
        taints: &'t [Taint],
        effects: &'t [&str],
    ) -> impl Iterator<Item = &'t Taint> {
        let tolerations = self.tolerations.as_deref().unwrap_or_default();
        taints.iter().filter(move |taint| {
            effects.contains(&&*taint.effect)
                && !tolerations.iter().any(|toleration| toleration.tolerates(taint))
        })
    }
}

impl Term {
    /// Whether nothing is required, which no Node meets.
    pub fn is_empty(&self) -> bool {
        self.requirements().next().is_none() && self.fields().next().is_none()
    }

    /// Whether a Node meets all requirements.
    pub fn matches(&self, node: &Node<'_>) -> bool {
        !self.is_empty() && self.holds(node)
    }

    /// Whether no requirement is broken.
    pub fn holds(&self, node: &Node<'_>) -> bool {
        self.requirements().all(|requirement| requirement.holds(node.labels.get(&requirement.key)))
            && self.fields().all(|field| field.holds((&*field.key == "metadata.name").then_some(node.name)))
    }

    fn requirements(&self) -> impl Iterator<Item = &Requirement> {
        self.match_expressions.iter().flatten()
    }

    fn fields(&self) -> impl Iterator<Item = &Requirement> {
        self.match_fields.iter().flatten()
    }
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let mut values = self.values.iter().flatten();
        match (&*self.operator, value) {
            ("In", Some(value)) => values.any(|known| **known == *value),
            ("NotIn", Some(value)) => values.all(|known| **known != *value),
            ("Exists", value) => value.is_some(),
            ("DoesNotExist", value) => value.is_none(),
            ("NotIn", None) => true,
            ("Gt" | "Lt", Some(value)) => {
                let bound = values.next().and_then(|bound| bound.parse::<i64>().ok());
                match (value.parse::<i64>(), bound) {
                    (Ok(value), Some(bound)) if &*self.operator == "Gt" => value > bound,
                    (Ok(value), Some(bound)) => value < bound,
                    _ => false,
                }
            }
            _ => false,
        }
    }
}

impl Toleration {
    /// Tolerates every taint of this key and effect.
    pub fn of(key: &str, effect: &str) -> Self {
        Self {
            key: Some(key.into()),
            operator: Some("Exists".into()),
            value: None,
            effect: Some(effect.into()),
        }
    }

    /// Whether it tolerates a taint; without a key or an effect it is for every key or effect.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let key = self.key.as_deref().unwrap_or_default();
        let effect = self.effect.as_deref().unwrap_or_default();
        let value = self.value.as_deref().unwrap_or_default();
        // Kubernetes compares numbers that are written as it writes them alone.
        let number = |text: &str| text.parse::<i64>().ok().filter(|number| number.to_string() == text);
        (effect.is_empty() || *effect == *taint.effect)
            && (key.is_empty() || *key == *taint.key)
            && match self.operator.as_deref().unwrap_or_default() {
                "" | "Equal" => !key.is_empty() && value == &*taint.value,
                "Exists" => true,
                "Lt" => number(&taint.value).zip(number(value)).is_some_and(|(taint, bound)| taint < bound),
                "Gt" => number(&taint.value).zip(number(value)).is_some_and(|(taint, bound)| taint > bound),
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node() -> Node<'static> {
        Node { name: "n1", labels: [("zone", "a"), ("cores", "8")].into_iter().collect(), taints: &[] }
    }

    fn matches(term: serde_json::Value) -> bool {
        serde_json::from_value::<Term>(term).unwrap().matches(&node())
    }

    #[test]
    fn terms_match_as_in_kubernetes() {
        for (operator, key, values, expected) in [
            ("In", "zone", json!(["a", "b"]), true),
            ("In", "zone", json!(["b"]), false),
            ("In", "gpu", json!(["b"]), false),
            ("NotIn", "zone", json!(["a"]), false),
            ("NotIn", "gpu", json!(["a"]), true),
            ("Exists", "zone", json!(null), true),
            ("DoesNotExist", "zone", json!([]), false),
            ("DoesNotExist", "gpu", json!([]), true),
            ("Gt", "cores", json!(["7"]), true),
            ("Gt", "cores", json!(["8"]), false),
            ("Lt", "cores", json!(["9"]), true),
            ("Lt", "zone", json!(["9"]), false),
            ("Near", "zone", json!(["a"]), false),
        ] {
            let term = json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
            assert_eq!(matches(term.clone()), expected, "{term}");
        }
        assert!(!matches(json!({})));
        let named = |name: &str| {
            matches(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}))
        };
        assert!(named("n1") && !named("n2"));
    }

    #[test]
    fn tolerations_are_read_as_in_kubernetes() {
        let taint = Taint { key: "gpu".into(), value: "yes".into(), effect: "NoSchedule".into() };
        for (toleration, expected) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "gpu", "value": "yes"}), true),
            (json!({"key": "gpu", "value": "no"}), false),
            (json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}), true),
            (json!({"value": "yes"}), false),
            (json!({"key": "gpu", "operator": "Lt", "value": "9"}), false),
            (json!({"key": "gpu", "operator": "Near", "value": "yes"}), false),
        ] {
            let read: Toleration = serde_json::from_value(toleration.clone()).unwrap();
            assert_eq!(read.tolerates(&taint), expected, "{toleration}");
        }
        let taint = Taint { value: "8".into(), ..taint };
        for (operator, value, expected) in [
            ("Lt", "9", true),
            ("Lt", "8", false),
            ("Gt", "7", true),
            ("Gt", "8", false),
            ("Lt", "09", false),
        ] {
            let toleration = json!({"key": "gpu", "operator": operator, "value": value});
            let read: Toleration = serde_json::from_value(toleration.clone()).unwrap();
            assert_eq!(read.tolerates(&taint), expected, "{toleration}");
        }
    }
}
