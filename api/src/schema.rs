//! What the schemas of the kinds require of a `spec`, and the empty values of what they require.
//!
//! The definitions are parsed where they are asked for first, one kind at a time, and no more is kept than is asked.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;

use crate::crds;

/// What a schema requires of a value and of what lies below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// It must be there.
    pub is_required: bool,
    /// What OpenKruise writes where it is not there, as JSON: the empty value of its Go type. `None` where that is `null`,
    /// or not what the schema takes.
    pub empty: Option<&'static str>,
    /// What is required below its members.
    pub members: BTreeMap<Box<str>, Demand>,
    /// What is required of each element of a list, or of each value of a map.
    pub each: Option<Box<Demand>>,
}

impl Demand {
    fn is_nothing(&self) -> bool {
        !self.is_required && self.members.is_empty() && self.each.is_none()
    }

    fn merge(&mut self, other: &Self) {
        for (name, theirs) in &other.members {
            self.members.entry(name.clone()).or_default().merge(theirs);
        }
        if let Some(theirs) = &other.each {
            self.each.get_or_insert_default().merge(theirs);
        }
        self.is_required |= other.is_required;
        self.empty = self.empty.or(other.empty);
    }
}

/// What is required of the `spec` of a kind in a version, such as `apps.kruise.io/v1beta1`.
pub fn demand_of_spec(kind: &str, api_version: &str) -> Option<&'static Demand> {
    static PARSED: OnceLock<Box<[OnceLock<Versions>]>> = OnceLock::new();
    let (group, version) = api_version.split_once('/')?;
    let parsed = PARSED.get_or_init(|| crds::ALL.iter().map(|_| OnceLock::new()).collect());
    let is_meant =
        |definition: &&crds::CustomResourceDefinition| definition.group == group && definition.kind == kind;
    let (definition, versions) = crds::ALL.iter().zip(parsed).find(|(definition, _)| is_meant(definition))?;
    versions.get_or_init(|| demands(definition)).get(version)
}

/// The demands of a kind by version.
type Versions = BTreeMap<String, Demand>;

/// A test shows that every definition can be read.
fn demands(definition: &crds::CustomResourceDefinition) -> Versions {
    let crd: Crd = serde_saphyr::from_str(definition.yaml).unwrap_or_default();
    let spec = |mut schema: Schema| {
        schema.properties.remove("spec").as_ref().map(Schema::demand).unwrap_or_default()
    };
    let versions = crd.spec.versions.into_iter();
    let mut demands: Versions =
        versions.map(|version| (version.name, spec(version.schema.open_api_v3_schema))).collect();
    if definition.kind == "UnitedDeployment"
        && let Some(united) = demands.get_mut("v1alpha1")
        && let Some(flat) = demand_of_spec("CloneSet", &format!("{}/v1alpha1", definition.group))
    {
        // There the template of CloneSets may have their older shape, which the schema leaves open.
        let path = ["template", "cloneSetTemplate", "spec"];
        let spec = path.iter().try_fold(united, |demand, name| demand.members.get_mut(*name));
        if let (Some(spec), Some(strategy)) = (spec, flat.members.get("updateStrategy")) {
            spec.members.entry("updateStrategy".into()).or_default().merge(strategy);
        }
    }
    demands
}

#[derive(Default, Deserialize)]
struct Crd {
    spec: CrdSpec,
}

#[derive(Default, Deserialize)]
struct CrdSpec {
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    name: String,
    schema: Validation,
}

#[derive(Deserialize)]
struct Validation {
    #[serde(rename = "openAPIV3Schema")]
    open_api_v3_schema: Schema,
}

/// The part of a schema that says what is required.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Schema {
    #[serde(rename = "type")]
    kind: String,
    format: String,
    pattern: String,
    #[serde(rename = "enum")]
    words: Vec<Value>,
    min_length: u64,
    minimum: f64,
    required: Vec<String>,
    properties: BTreeMap<String, Schema>,
    items: Option<Box<Schema>>,
    additional_properties: Option<Box<Schema>>,
    #[serde(rename = "x-kubernetes-int-or-string")]
    is_int_or_string: bool,
}

impl Schema {
    fn demand(&self) -> Demand {
        let mut members = BTreeMap::new();
        for (name, schema) in &self.properties {
            let mut demand = schema.demand();
            demand.is_required = self.required.contains(name);
            // A pointer in Go, unlike the selectors of terms: one that is not there is `null`.
            demand.empty = demand.empty.filter(|_| name != "selector");
            if !demand.is_nothing() {
                members.insert(name.as_str().into(), demand);
            }
        }
        // A list of what has an empty value may hold `null`.
        let each =
            self.items.as_deref().map(Self::demand).filter(|each| each.empty.is_some() || !each.is_nothing());
        let each = each.or_else(|| {
            self.additional_properties.as_deref().map(Self::demand).filter(|each| !each.is_nothing())
        });
        Demand { is_required: false, empty: self.empty(), members, each: each.map(Box::new) }
    }

    fn empty(&self) -> Option<&'static str> {
        let is_free = self.words.is_empty() || self.words.iter().any(|word| word == "");
        match self.kind.as_str() {
            "string"
                if is_free && self.min_length == 0 && self.pattern.is_empty() && self.format.is_empty() =>
            {
                Some("\"\"")
            }
            "integer" if self.minimum <= 0.0 => Some("0"),
            "boolean" => Some("false"),
            "object" if !self.properties.is_empty() => Some("{}"),
            "" if self.is_int_or_string => Some("0"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below<'d>(demand: &'d Demand, path: &str) -> &'d Demand {
        let step = |demand: &'d Demand, name: &str| match name {
            "[]" => demand.each.as_deref(),
            name => demand.members.get(name),
        };
        path.split('.')
            .fold(demand, |demand, name| step(demand, name).unwrap_or_else(|| panic!("{path}: {name}")))
    }

    #[test]
    fn every_definition_has_its_demands() {
        for definition in crds::ALL {
            for version in definition.versions {
                let api_version = format!("{}/{version}", definition.group);
                assert!(demand_of_spec(definition.kind, &api_version).is_some(), "{}", definition.kind);
            }
            assert_eq!(demand_of_spec(definition.kind, &format!("{}/v2", definition.group)), None);
        }
        assert_eq!(demand_of_spec("StatefulSet", "apps/v1"), None);
    }

    #[test]
    fn what_is_required_has_the_empty_value_of_its_type() {
        let clone_set = demand_of_spec("CloneSet", "apps.kruise.io/v1beta1").unwrap();
        for (path, is_required, empty) in [
            ("updateStrategy.rollingUpdate.scatterStrategy.[].value", true, Some("\"\"")),
            ("updateStrategy.rollingUpdate.priorityStrategy.weightPriority.[].weight", true, Some("0")),
            (
                "updateStrategy.rollingUpdate.priorityStrategy.weightPriority.[].matchSelector",
                true,
                Some("{}"),
            ),
            ("lifecycle.preDelete.finalizersHandler.[]", false, Some("\"\"")),
            ("selector", true, None),
            ("template", true, None),
        ] {
            let demand = below(clone_set, path);
            assert_eq!((demand.is_required, demand.empty), (is_required, empty), "{path}");
        }
        assert_eq!(clone_set.members.get("replicas"), None);
        let set = demand_of_spec("SidecarSet", "apps.kruise.io/v1beta1").unwrap();
        let policy = below(set, "containers.[].resourcesPolicy");
        assert_eq!(below(policy, "targetContainersMode").empty, None, "an enum");
        assert_eq!(below(policy, "resourcesExpr").empty, Some("{}"));
        let request = demand_of_spec("ContainerRecreateRequest", "apps.kruise.io/v1beta1").unwrap();
        assert_eq!(below(request, "containers.[].preStop.httpGet.port").empty, Some("0"));
        assert_eq!(below(request, "containers").empty, None, "a list");
    }

    #[test]
    fn united_deployments_of_v1alpha1_have_clone_sets_of_both_shapes() {
        let united = demand_of_spec("UnitedDeployment", "apps.kruise.io/v1alpha1").unwrap();
        let strategy = below(united, "template.cloneSetTemplate.spec.updateStrategy");
        assert!(below(strategy, "scatterStrategy.[].value").is_required);
        assert!(below(strategy, "rollingUpdate.scatterStrategy.[].value").is_required);
    }
}
