//! A template with everything that its Pods will have, for validation.

use api::features::{Feature, FeatureGates};
use serde_json::{Value, json};

use super::default_template;
use values::json_patch::{self, Pointer};

/// The template with what its Pods will have where it says nothing: also where gate TemplateNoDefaults keeps
/// that from being stored (docs/behaviour/pod-template.md#validation-of-templates).
pub fn with_defaults(template: &Value, gates: &FeatureGates) -> Value {
    let host_ports = gates.enabled(Feature::DefaultHostNetworkHostPortsInPodTemplates);
    let patch = default_template(template, &Pointer::root(), host_ports);
    let complete = json_patch::apply(&template.to_string(), &patch).ok();
    complete.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_else(|| template.clone())
}

/// The template with a volume for each claim template of its workload, as its Pods will have it. Volumes of the template
/// come first, so that errors name their places in it.
pub fn with_claims<'a>(template: &Value, workload: &'a Value) -> Value {
    let claims = workload.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
    let name = |claim: &'a Value| claim.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let names: Vec<&str> = claims.into_iter().flatten().map(name).collect();
    let mut template = template.clone();
    if names.is_empty() {
        return template;
    }
    let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) else { return template };
    let volumes = spec.entry("volumes").or_insert_with(|| json!([]));
    if volumes.is_null() {
        *volumes = json!([]);
    }
    let Some(volumes) = volumes.as_array_mut() else { return template };
    for name in names {
        let claim = json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        let given =
            volumes.iter_mut().find(|volume| volume.get("name").and_then(Value::as_str) == Some(name));
        match given {
            Some(given) => *given = claim,
            None => volumes.push(claim),
        }
    }
    template
}
