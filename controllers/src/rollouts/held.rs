//! An object of a list, as it is but for what nobody reads. It is kept as text, which takes a fraction of the memory.

use api::annotations::ROLLOUT_TRAFFIC_ROUTING;
use rollouts::object::{Object as _, group};
use serde_json::Value;

use crate::workload::store::{Identity, Kept};

/// The object.
#[derive(Debug)]
pub(super) struct Held {
    namespace: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    resource_version: Box<str>,
    /// The workload and the TrafficRouting that it refers to.
    groups: Vec<Box<str>>,
    json: Box<str>,
}

impl Kept for Held {
    type Group = Box<str>;

    fn identity(&self) -> Identity<'_> {
        let Self { namespace, name, uid, resource_version, .. } = self;
        Identity { namespace, name, uid, resource_version }
    }

    fn groups(&self) -> Vec<Box<str>> {
        self.groups.clone()
    }
}

impl Held {
    /// Keeps an object that has been read.
    pub(super) fn new(object: &Value) -> Self {
        let text = |pointer: &str| Box::from(object.text(pointer));
        Self {
            namespace: text("/metadata/namespace"),
            name: object.name().into(),
            uid: object.uid().into(),
            resource_version: object.resource_version().into(),
            groups: groups(object),
            json: object.to_string().into(),
        }
    }

    /// The object.
    pub(super) fn value(&self) -> Value {
        // It was written from a value.
        serde_json::from_str(&self.json).unwrap_or_default()
    }

    /// The object's JSON.
    pub(super) fn json(&self) -> &str {
        &self.json
    }
}

/// Reads an object. Those of lists do not say of which kind they are.
///
/// # Errors
/// The text is not JSON.
pub(super) fn read((api_version, kind): (&str, &str), json: &str) -> Result<Value, serde_json::Error> {
    let mut object: Value = serde_json::from_str(json)?;
    if let Some(members) = object.as_object_mut() {
        for (name, value) in [("kind", kind), ("apiVersion", api_version)] {
            members.entry(name).or_insert_with(|| value.into());
        }
        if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
    Ok(object)
}

/// What those are found by that refer to a workload. Its version does not matter.
pub(super) fn of_workload(namespace: &str, (api_version, kind): (&str, &str), name: &str) -> Box<str> {
    format!("{namespace}/{}/{kind}/{name}", group(api_version)).into()
}

/// What those are found by that refer to a TrafficRouting.
pub(super) fn of_routing(namespace: &str, name: &str) -> Box<str> {
    format!("{namespace}/{name}").into()
}

fn groups(object: &Value) -> Vec<Box<str>> {
    let namespace = object.text("/metadata/namespace");
    let [api_version, kind, name] =
        ["apiVersion", "kind", "name"].map(|member| object.text(&format!("/spec/workloadRef/{member}")));
    let workload = (!name.is_empty()).then(|| of_workload(namespace, (api_version, kind), name));
    let in_spec = ["canary", "blueGreen"]
        .map(|style| object.text(&format!("/spec/strategy/{style}/trafficRoutingRef")));
    let routings = object.annotation(ROLLOUT_TRAFFIC_ROUTING).into_iter().chain(in_spec);
    let routings = routings.filter(|name| !name.is_empty()).map(|name| of_routing(namespace, name));
    workload.into_iter().chain(routings).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_says_of_which_kind_it_is_and_keeps_all_but_managed_fields() {
        let text =
            r#"{"metadata":{"name":"web","managedFields":[1],"future":{"a":1.5}},"spec":{"x":[null]}}"#;
        let object = read(("apps/v1", "Deployment"), text).unwrap();
        let expected = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "future": {"a": 1.5}}, "spec": {"x": [null]}});
        assert_eq!(object, expected);
        assert_eq!(Held::new(&object).value(), expected);
        let told = read(("apps/v1", "Deployment"), r#"{"apiVersion":"a/v2","kind":"B"}"#).unwrap();
        assert_eq!((told.text("/apiVersion"), told.text("/kind")), ("a/v2", "B"));
    }

    #[test]
    fn a_rollout_is_found_by_its_workload_in_any_version_and_by_its_traffic_routings() {
        let rollout = json!({"metadata": {"namespace": "shop", "name": "r",
                "annotations": {"rollouts.kruise.io/trafficrouting": "gray"}},
            "spec": {"workloadRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"},
                "strategy": {"canary": {"trafficRoutingRef": "other"}}}});
        let groups = Held::new(&rollout).groups();
        let expected = [
            of_workload("shop", ("apps.kruise.io/v1alpha1", "CloneSet"), "web"),
            of_routing("shop", "gray"),
            of_routing("shop", "other"),
        ];
        assert_eq!(groups, expected);
        assert!(Held::new(&json!({"metadata": {"name": "web"}})).groups().is_empty());
    }
}
