//! References to workloads. Kinds are the same whatever version of their group somebody names.

use api::kinds::rollout::WorkloadRef;
use serde_json::Value;

use crate::object::{Object as _, group};

/// The reference to a workload.
pub fn to(workload: &Value) -> WorkloadRef {
    let text = |pointer| workload.text(pointer).to_owned();
    WorkloadRef { api_version: text("/apiVersion"), kind: text("/kind"), name: text("/metadata/name") }
}

/// Both name the same workload of a namespace.
pub fn is_same(one: &WorkloadRef, other: &WorkloadRef) -> bool {
    let identity = |reference: &WorkloadRef| {
        (group(&reference.api_version).to_owned(), reference.kind.clone(), reference.name.clone())
    };
    identity(one) == identity(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(api_version: &str, kind: &str, name: &str) -> WorkloadRef {
        let [api_version, kind, name] = [api_version, kind, name].map(str::to_owned);
        WorkloadRef { api_version, kind, name }
    }

    #[test]
    fn versions_of_a_group_name_the_same_workload() {
        let cloneset = reference("apps.kruise.io/v1alpha1", "CloneSet", "web");
        assert!(is_same(&cloneset, &reference("apps.kruise.io/v1beta1", "CloneSet", "web")));
        for other in [
            reference("apps/v1", "CloneSet", "web"),
            reference("apps.kruise.io/v1alpha1", "StatefulSet", "web"),
            reference("apps.kruise.io/v1alpha1", "CloneSet", "api"),
        ] {
            assert!(!is_same(&cloneset, &other), "{other:?}");
        }
    }
}
