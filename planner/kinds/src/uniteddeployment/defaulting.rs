//! What the API server stores for a UnitedDeployment where its author said nothing
//! (docs/behaviour/uniteddeployment.md#defaulting), as a patch of the object that was sent, in its version.

use api::features::FeatureGates;

use super::validation::United;
use crate::workload::submitted::completed_spec;
use pod::template::defaulting::default_templates;
use pod::template::place::Place;
use values::json_patch::Patch;
use values::verdict::Denial;

/// The operations that complete `object`, a UnitedDeployment in v1alpha1 or v1beta1. `old` is the stored object of an
/// update: a template that does not differ from its template stays as it is.
///
/// # Errors
/// Code 400 for an object that is not a UnitedDeployment of a known version.
pub fn default(
    object: &str,
    old: Option<&str>,
    version: &str,
    gates: &FeatureGates,
) -> Result<Patch, Denial> {
    completed_spec::<United>(object, old, version, |spec, patch| {
        spec.default_json("replicas", "1", patch);
        spec.default_json("revisionHistoryLimit", "10", patch);
        if let Some(strategy) = spec.child_or_new("updateStrategy", patch) {
            strategy.default_text("type", "Manual", patch);
            if matches!(strategy.text("type"), "" | "Manual") {
                strategy.default_json("manualUpdate", "{}", patch);
            }
        }
        // Only StatefulSets of Kubernetes: all others complete their templates themselves.
        const TEMPLATE: &str = "/spec/template/statefulSetTemplate/spec/template";
        let stateful = spec.child("template").and_then(|template| template.child("statefulSetTemplate"));
        if let Some(stateful) = stateful.and_then(|template| template.child("spec")) {
            default_templates(&stateful, (old, TEMPLATE), gates, patch);
        }
        if let Some(topology) = spec.child("topology") {
            default_bounds(&topology, patch);
        }
    })
}

/// Where some subset has a least or a most number of Pods and none a share, each has a least number.
fn default_bounds(topology: &Place<'_>, patch: &mut Patch) {
    let any = |name: &str| topology.list("subsets").any(|subset| subset.get(name).is_some());
    if any("replicas") || !(any("minReplicas") || any("maxReplicas")) {
        return;
    }
    for subset in topology.list("subsets") {
        subset.default_json("minReplicas", "0", patch);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use values::json_patch::apply;

    fn defaulted(object: &Value, old: Option<&Value>, gates: &str) -> Value {
        let gates = FeatureGates::parse(gates, "").unwrap();
        let old = old.map(Value::to_string);
        let patch = default(&object.to_string(), old.as_deref(), "v1beta1", &gates).unwrap();
        serde_json::from_str(&apply(&object.to_string(), &patch).unwrap()).unwrap()
    }

    fn stateful() -> Value {
        let pods = json!({"spec": {"containers": [{"name": "main", "image": "a"}]}});
        json!({"apiVersion": "apps.kruise.io/v1beta1", "spec": {"template": {"statefulSetTemplate": {"spec": {"template": pods}}}}})
    }

    #[test]
    fn what_is_not_said_gets_its_default() {
        let stored = defaulted(&json!({"apiVersion": "apps.kruise.io/v1beta1", "spec": {}}), None, "");
        let strategy = json!({"type": "Manual", "manualUpdate": {}});
        assert_eq!(
            stored["spec"],
            json!({"replicas": 1, "revisionHistoryLimit": 10, "updateStrategy": strategy})
        );
        assert_eq!(defaulted(&stored, None, ""), stored);
    }

    #[test]
    fn bounds_are_completed_unless_there_are_shares() {
        let subsets = |subsets: Value| json!({"apiVersion": "apps.kruise.io/v1beta1", "spec": {"topology": {"subsets": subsets}}});
        let stored = defaulted(&subsets(json!([{"name": "a", "maxReplicas": 3}, {"name": "b"}])), None, "");
        let least = |index: usize| stored["spec"]["topology"]["subsets"][index]["minReplicas"].clone();
        assert_eq!([least(0), least(1)], [0, 0]);
        let shares = json!([{"name": "a", "replicas": 3}, {"name": "b", "maxReplicas": 1}]);
        let stored = defaulted(&subsets(shares.clone()), None, "");
        assert_eq!(stored["spec"]["topology"]["subsets"], shares);
    }

    #[test]
    fn templates_of_stateful_sets_are_completed_when_they_change() {
        let pointer = "/spec/template/statefulSetTemplate/spec/template/spec/dnsPolicy";
        let plain = stateful();
        assert_eq!(defaulted(&plain, None, "").pointer(pointer), Some(&json!("ClusterFirst")));
        assert_eq!(defaulted(&plain, Some(&plain), "").pointer(pointer), None);
        assert_eq!(defaulted(&plain, None, "TemplateNoDefaults=true").pointer(pointer), None);
    }
}
