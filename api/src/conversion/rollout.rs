//! Rollout (docs/behaviour/rollouts.md#kinds).

use super::metadata;
use crate::annotations::{ROLLING_STYLE, ROLLOUT_TRAFFIC_ROUTING};
use crate::raw_object::{RawNode, RawObject};

const CANARY: &str = "canary";
const PARTITION: &str = "partition";
/// Fields of the status of v1beta1 that mirror those of the release.
const MIRRORED: [&str; 2] = ["currentStepIndex", "currentStepState"];

/// The annotations stay: controllers of OpenKruise look for them in v1beta1 too.
pub(super) fn to_beta(object: &mut RawObject<'_>) {
    let in_second_deployment = !is_partition(object);
    let routing = metadata::annotation(object, ROLLOUT_TRAFFIC_ROUTING).filter(|name| !name.is_empty());
    if let Some(spec) = object.object_mut("spec") {
        let reference = spec.remove("objectRef").and_then(RawNode::into_object);
        replace(spec, "workloadRef", reference.and_then(|mut reference| reference.remove("workloadRef")));
        spec.remove("rolloutID");
        if let Some(strategy) = spec.object_mut("strategy") {
            strategy.remove("blueGreen");
            if let Some(canary) = strategy.object_mut("canary") {
                let in_second_deployment = in_second_deployment.then(|| RawNode::boolean(true));
                replace(canary, "enableExtraWorkloadForCanary", in_second_deployment);
                replace(canary, "trafficRoutingRef", routing.as_deref().map(RawNode::string));
                each_step(canary, step_to_beta);
            }
        }
    }
    if let Some(status) = object.object_mut("status") {
        status.remove("blueGreenStatus");
        let mut release =
            status.get("canaryStatus").cloned().and_then(RawNode::into_object).unwrap_or_default();
        for (field, absent) in MIRRORED.into_iter().zip([RawNode::integer(0), RawNode::string("")]) {
            let value = release.remove(field).filter(|value| !value.is_literal("null"));
            status.insert(field, value.unwrap_or(absent));
        }
    }
}

pub(super) fn to_alpha(object: &mut RawObject<'_>) {
    let mut style = None;
    let mut routing = None;
    if let Some(spec) = object.object_mut("spec") {
        let workload = spec.remove("workloadRef").filter(|workload| !workload.is_literal("null"));
        let reference =
            workload.map(|workload| RawObject::from_entries(vec![("workloadRef".to_owned(), workload)]));
        replace(spec, "objectRef", reference.map(RawNode::from));
        if let Some(strategy) = spec.object_mut("strategy") {
            // Of two styles none is shown, so that one which a client writes takes the place of blueGreen.
            if strategy.remove("blueGreen").is_some_and(|blue_green| !blue_green.is_literal("null")) {
                strategy.remove("canary");
            }
            if let Some(canary) = strategy.object_mut("canary") {
                let in_second_deployment = canary.remove("enableExtraWorkloadForCanary");
                let in_second_deployment = in_second_deployment.is_some_and(|enabled| enabled.is_true());
                style = Some(if in_second_deployment { CANARY } else { PARTITION });
                routing = canary.remove("trafficRoutingRef").and_then(|name| name.as_string());
                each_step(canary, step_to_alpha);
            }
        }
    }
    if style.is_some_and(|style| (style == PARTITION) != is_partition(object)) {
        metadata::mirror_annotation(object, ROLLING_STYLE, style);
    }
    let routing = routing.filter(|name| !name.is_empty());
    if routing.is_some()
        && metadata::annotation(object, ROLLOUT_TRAFFIC_ROUTING).is_none_or(|name| name.is_empty())
    {
        metadata::mirror_annotation(object, ROLLOUT_TRAFFIC_ROUTING, routing.as_deref());
    }
    if let Some(status) = object.object_mut("status") {
        for field in ["blueGreenStatus"].into_iter().chain(MIRRORED) {
            status.remove(field);
        }
    }
}

/// Whether the annotation asks for the workload's own Pods to be replaced; a second Deployment is the default.
fn is_partition(object: &mut RawObject<'_>) -> bool {
    metadata::annotation(object, ROLLING_STYLE).is_some_and(|style| style.eq_ignore_ascii_case(PARTITION))
}

/// A weight stands for the share of Pods too, where that is not given.
fn step_to_beta(step: &mut RawObject<'_>) {
    let weight = step.remove("weight").and_then(|weight| weight.to_string().parse::<i32>().ok());
    let share = weight.map(|weight| RawNode::string(&format!("{weight}%")));
    if let Some(share) =
        share.clone().filter(|_| step.get("replicas").is_none_or(|given| given.is_literal("null")))
    {
        step.insert("replicas", share);
    }
    replace(step, "traffic", share);
}

/// Matches have headers alone.
fn step_to_alpha(step: &mut RawObject<'_>) {
    let traffic = step.remove("traffic").and_then(|traffic| traffic.as_string());
    let weight = traffic.and_then(|traffic| traffic.strip_suffix('%')?.parse::<i32>().ok());
    replace(step, "weight", weight.map(|weight| RawNode::integer(weight.into())));
    let matches = step.array_mut("matches").into_iter().flatten();
    for condition in matches.filter_map(RawNode::as_object_mut) {
        condition.remove("path");
        condition.remove("queryParams");
    }
}

fn each_step(canary: &mut RawObject<'_>, edit: fn(&mut RawObject<'_>)) {
    let steps = canary.array_mut("steps").into_iter().flatten();
    steps.filter_map(RawNode::as_object_mut).for_each(edit);
}

/// Sets a field, or takes it out where there is no value or it is null.
pub(super) fn replace<'a>(object: &mut RawObject<'a>, field: &str, value: Option<RawNode<'a>>) {
    match value.filter(|value| !value.is_literal("null")) {
        Some(value) => object.insert(field, value),
        None => {
            object.remove(field);
        }
    }
}
