//! The Pod template of a CloneSet (docs/behaviour/cloneset.md#validation), and what of it may change where
//! Pods are only ever updated in place.

use api::features::FeatureGates;

use super::{Context, Submitted};
use crate::workload::validation::unchangeable;
use pod::inplace::Reason;
use pod::template::complete::{with_claims, with_defaults};
use pod::template::{Depth, RestartPolicy, TemplateRules, validate_template};
use values::field::{FieldError, FieldPath};
use values::selector::Selector;

const PATH: &str = "spec.template";

pub(super) fn validate(new: &Submitted, context: &Context<'_>, errors: &mut Vec<FieldError>) {
    let Some(template) = new.given("/spec/template") else {
        errors.push(FieldError::required(FieldPath::new(PATH), ""));
        return;
    };
    // One that is not sound is reported as a selector.
    let selector = Selector::compile(&new.stored.spec.selector).ok();
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
    let (before, after) = (&old.stored.spec.template, &new.stored.spec.template);
    let reason = unchangeable(before.as_ref(), after.as_ref(), gates)?;
    let message = match reason {
        Reason::Unchangeable { operation, path } | Reason::GateOff { operation, path } => {
            let path = path.strip_prefix("/spec").unwrap_or(&path);
            format!("only allowed to update images in spec for InPlaceOnly, but found {operation} {path}")
        }
        other => format!("only allowed to update images in spec for InPlaceOnly, but {other}"),
    };
    Some(FieldError::forbidden(FieldPath::new("spec"), message))
}
