//! BatchRelease (docs/behaviour/rollouts.md#kinds).

use super::metadata;
use super::rollout::replace;
use crate::annotations::ROLLING_STYLE;
use crate::raw_object::{RawNode, RawObject};

const STYLES: [&str; 3] = ["Canary", "Partition", "BlueGreen"];

/// The annotation is above the field, which older releases don't write in v1alpha1.
pub(super) fn to_beta(object: &mut RawObject<'_>) {
    let style = metadata::annotation(object, ROLLING_STYLE);
    let style = style.and_then(|text| STYLES.into_iter().find(|style| style.eq_ignore_ascii_case(&text)));
    let Some(spec) = object.object_mut("spec") else {
        return;
    };
    let target = spec.remove("targetReference").and_then(RawNode::into_object);
    replace(spec, "workloadRef", target.and_then(|mut target| target.remove("workloadRef")));
    if let (Some(style), Some(plan)) = (style, spec.object_mut("releasePlan")) {
        plan.insert("rollingStyle", RawNode::string(style));
    }
}

pub(super) fn to_alpha(object: &mut RawObject<'_>) {
    let Some(spec) = object.object_mut("spec") else {
        return;
    };
    let workload = spec.remove("workloadRef").filter(|workload| !workload.is_literal("null"));
    let target = workload.map(|workload| RawObject::from_entries(vec![("workloadRef".to_owned(), workload)]));
    replace(spec, "targetReference", target.map(RawNode::from));
    let plan = spec.object_mut("releasePlan");
    let style = plan.and_then(|plan| plan.string("rollingStyle"));
    let Some(style) = style.filter(|style| STYLES.contains(&style.as_str())) else {
        return;
    };
    if metadata::annotation(object, ROLLING_STYLE).is_none_or(|text| !text.eq_ignore_ascii_case(&style)) {
        metadata::mirror_annotation(object, ROLLING_STYLE, Some(&style.to_ascii_lowercase()));
    }
}
