//! Reads from a Pod's affinity which node it is made for, as Pods of kinds that have one on each node are.

use serde::Deserialize;
use serde::de::Deserializer;

use super::Part;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<Selector>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Selector {
    node_selector_terms: Option<Vec<Term>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Term {
    match_fields: Option<Vec<Field>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Field {
    key: Box<str>,
    operator: Box<str>,
    values: Option<Vec<Box<str>>>,
}

/// The name in the first `metadata.name In [name]`, as the built-in controller of DaemonSets looks for it: webhooks may
/// have added terms.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Part<str>>, D::Error> {
    let affinity: Option<Affinity> = Option::deserialize(deserializer)?;
    let required = affinity.and_then(|affinity| affinity.node_affinity?.required);
    let terms = required.and_then(|selector| selector.node_selector_terms).unwrap_or_default();
    let mut fields = terms.into_iter().flat_map(|term| term.match_fields.unwrap_or_default());
    Ok(fields.find_map(|field| {
        let is_meant = &*field.key == "metadata.name" && &*field.operator == "In";
        let values = field.values.filter(|_| is_meant)?;
        <[Box<str>; 1]>::try_from(values).ok().map(|[name]| name.into())
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::observed::ObservedPod;

    fn node(affinity: &Value, bound: Option<&str>) -> Option<String> {
        let pod = json!({"spec": {"affinity": affinity, "nodeName": bound}});
        ObservedPod::read(&pod.to_string()).unwrap().spec.node().map(str::to_owned)
    }

    fn required(terms: &Value) -> Value {
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
    }

    #[test]
    fn the_node_of_a_pod_is_where_it_is_or_the_only_one_for_it() {
        let named = |names: &[&str]| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": names}]});
        assert_eq!(node(&required(&json!([named(&["n1"])])), None).as_deref(), Some("n1"));
        assert_eq!(node(&required(&json!([named(&["n1"])])), Some("n2")).as_deref(), Some("n2"));
        assert_eq!(node(&required(&json!([named(&["n1", "n2"])])), None), None);
        let other = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
        assert_eq!(node(&required(&json!([other, named(&["n2"])])), None).as_deref(), Some("n2"));
        for other in [json!(null), json!({}), json!({"podAffinity": {}}), required(&json!(null))] {
            assert_eq!(node(&other, None), None, "{other}");
        }
    }
}
