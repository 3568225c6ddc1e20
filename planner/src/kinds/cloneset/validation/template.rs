//! The Pod template of a CloneSet (docs/behaviour/cloneset.md#validation), and what of it may change where
//! Pods are only ever updated in place.

use api::features::{Feature, FeatureGates};
use serde_json::{Value, json};

use super::{Context, Submitted};
use crate::pod::inplace::{Options, Reason, decide};
use crate::pod::template::{Depth, RestartPolicy, TemplateRules, default_template, validate_template};
use crate::text::field::{FieldError, FieldPath};
use crate::text::json_patch::{self, Pointer};
use crate::text::selector::Selector;
use crate::workload::compared_template;

const PATH: &str = "spec.template";

pub(super) fn validate(new: &Submitted, context: &Context<'_>, errors: &mut Vec<FieldError>) {
    let Some(template) = new.sent.pointer("/spec/template").filter(|template| !template.is_null()) else {
        errors.push(FieldError::required(FieldPath::new(PATH), ""));
        return;
    };
    // One that is not sound is reported as a selector.
    let selector = Selector::compile(&new.set.spec.selector).ok();
    let rules = TemplateRules {
        path: FieldPath::new(PATH),
        depth: Depth::Full,
        restart_policy: RestartPolicy::Always { kind: "cloneset" },
        selector: selector.as_ref(),
        allow_privileged: context.allow_privileged,
    };
    let template = with_defaults(template, context.gates);
    errors.extend(validate_template(&with_claims(&template, &new.sent), &rules));
}

/// The template with what its Pods will have where it says nothing: also where gate TemplateNoDefaults keeps
/// that from being stored (docs/behaviour/pod-template.md#validation-of-templates).
fn with_defaults(template: &Value, gates: &FeatureGates) -> Value {
    let host_ports = gates.enabled(Feature::DefaultHostNetworkHostPortsInPodTemplates);
    let patch = default_template(template, &Pointer::root(), host_ports);
    let complete = json_patch::apply(&template.to_string(), &patch).ok();
    complete.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_else(|| template.clone())
}

/// The template with a volume for each claim template, as its Pods will have it. Volumes of the template
/// come first, so that errors name their places in it.
fn with_claims<'a>(template: &Value, sent: &'a Value) -> Value {
    let claims = sent.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
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

/// Under InPlaceOnly a change that needs a new Pod is refused, with the place of the change.
pub(super) fn validate_in_place(
    new: &Submitted,
    old: &Submitted,
    gates: &FeatureGates,
) -> Option<FieldError> {
    let template = |submitted: &Submitted| {
        let raw = submitted.set.spec.template.as_ref()?;
        // What was stored without defaults does not differ by them.
        let value: Value = serde_json::from_str(raw.get()).ok()?;
        let host_ports = gates.enabled(Feature::DefaultHostNetworkHostPortsInPodTemplates);
        let patch = default_template(&value, &Pointer::root(), host_ports);
        compared_template::of_workload(&json_patch::apply(raw.get(), &patch).ok()?).ok()
    };
    let options = Options {
        vertical_scaling: gates.enabled(Feature::InPlaceWorkloadVerticalScaling),
        ..Options::default()
    };
    let reason = decide(&template(old)?, &template(new)?, &options).err()?;
    let message = match reason {
        Reason::Unchangeable { operation, path } | Reason::GateOff { operation, path } => {
            let path = path.strip_prefix("/spec").unwrap_or(&path);
            format!("only allowed to update images in spec for InPlaceOnly, but found {operation} {path}")
        }
        other => format!("only allowed to update images in spec for InPlaceOnly, but {other}"),
    };
    Some(FieldError::forbidden(FieldPath::new("spec"), message))
}
