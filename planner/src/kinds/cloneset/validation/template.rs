//! The Pod template of a CloneSet (docs/behaviour/cloneset.md#validation), and what of it may change where
//! Pods are only ever updated in place.

use api::features::{Feature, FeatureGates};
use serde_json::Value;

use super::{Context, Submitted};
use crate::pod::inplace::{Options, Reason, decide};
use crate::pod::template::complete::{with_claims, with_defaults};
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
