//! Which namespaces have the right copy, and what is wrong in the others, as `kutter explain` prints it.

use std::collections::BTreeMap;
use std::fmt;

use super::copy::Copy;
use super::resource::Resource;
use super::status::{CONFLICT, NO_NAMESPACE};
use super::targets::{Place, TargetNamespace, Targets};
use super::{Distribution, ResourceError};

/// What is found in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The right copy.
    Right,
    /// A copy that differs.
    Different,
    /// No copy.
    Absent,
    /// An object of somebody else.
    Foreign,
    /// The namespace is listed and does not exist.
    NoNamespace,
    /// A copy where there should be none.
    Surplus,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Right => "has the copy",
            Self::Different => "its copy differs and is to be updated",
            Self::Absent => "its copy is to be created",
            Self::Foreign => CONFLICT,
            Self::NoNamespace => NO_NAMESPACE,
            Self::Surplus => "is no target: its copy is to be deleted",
        })
    }
}

/// What is found in each namespace that matters, given the objects with kind and name of the resource by
/// their namespaces.
///
/// # Errors
/// Why nothing can be distributed.
pub fn findings(
    distribution: &Distribution,
    namespaces: &[TargetNamespace],
    objects: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Finding>, String> {
    let resource = distribution.resource.as_ref().map_err(ResourceError::to_string)?;
    let targets = distribution.targets.as_ref().map_err(ToString::to_string)?;
    let matched = Distribution::matched(targets, namespaces.iter());
    let mut findings = BTreeMap::new();
    for (namespace, place) in matched {
        let finding = match objects.get(namespace) {
            _ if place == Place::Missing => Finding::NoNamespace,
            None => Finding::Absent,
            Some(object) => compared(distribution, resource, object),
        };
        findings.insert(namespace.to_owned(), finding);
    }
    for namespace in namespaces {
        if is_surplus(distribution, targets, namespace, objects) {
            findings.insert(namespace.name.clone(), Finding::Surplus);
        }
    }
    Ok(findings)
}

fn compared(distribution: &Distribution, resource: &Resource, object: &str) -> Finding {
    match Copy::read(object) {
        Ok(copy) if copy.is_owned_by(distribution) => match resource.patch(distribution, object) {
            Ok(None) => Finding::Right,
            _ => Finding::Different,
        },
        _ => Finding::Foreign,
    }
}

fn is_surplus(
    distribution: &Distribution,
    targets: &Targets,
    namespace: &TargetNamespace,
    objects: &BTreeMap<String, String>,
) -> bool {
    let copy = objects.get(&namespace.name).and_then(|object| Copy::read(object).ok());
    targets.place(&namespace.name, Some(namespace)) == Place::Elsewhere
        && copy.is_some_and(|copy| copy.is_owned_by(distribution))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn each_namespace_is_told_what_is_wrong_there() {
        let listed = ["a", "b", "c", "d", "ghost"].map(|name| json!({"name": name}));
        let json = json!({"metadata": {"name": "rd", "uid": "rd-1"}, "spec": {
            "resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"a": "1"}},
            "targets": {"includedNamespaces": {"list": listed}},
        }});
        let distribution = Distribution::read(&json.to_string()).unwrap();
        let namespaces = ["a", "b", "c", "d", "e"].map(|name| {
            TargetNamespace::read(&json!({"metadata": {"name": name, "uid": name}}).to_string()).unwrap()
        });
        let right = distribution.resource.as_ref().unwrap().copy(&distribution, "a").unwrap();
        let mut different: Value = serde_json::from_str(&right).unwrap();
        different["data"] = json!({});
        let foreign = json!({"metadata": {"name": "cm"}}).to_string();
        let objects = [("a", right.clone()), ("b", different.to_string()), ("c", foreign), ("e", right)];
        let objects = objects.map(|(namespace, object)| (namespace.to_owned(), object)).into();
        let found = findings(&distribution, &namespaces, &objects).unwrap();
        let expected = [
            ("a", Finding::Right),
            ("b", Finding::Different),
            ("c", Finding::Foreign),
            ("d", Finding::Absent),
            ("e", Finding::Surplus),
            ("ghost", Finding::NoNamespace),
        ];
        assert_eq!(found, expected.map(|(name, finding)| (name.to_owned(), finding)).into());
    }

    #[test]
    fn what_cannot_be_distributed_says_why() {
        let distribution = Distribution::read(r#"{"spec":{"targets":{}}}"#).unwrap();
        let reason = findings(&distribution, &[], &BTreeMap::new()).unwrap_err();
        assert_eq!(reason, "empty resource is not allowed");
    }
}
