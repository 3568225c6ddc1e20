//! What a Rollout may say (docs/behaviour/rollouts.md#validation). Both versions obey the same rules under the same paths.
//!
//! ```text
//!   steps         the steps of a release
//!   annotations   values of annotations that do nothing
//!   update        what a running release doesn't let change
//! ```

use std::sync::Arc;

use api::kinds::rollout::{API_VERSION, Rollout, StrategyKind, TrafficRoutingRef, WorkloadRef};
use kinds::workload::submitted::{in_hub_version, leaves_spec};
use serde::Serialize;
use serde_json::json;
use values::field::{FieldError, FieldPath};
use values::read::from_str;
use values::verdict::{Denial, Verdict, refused};

use crate::object::group;
use crate::reference::is_same;
use crate::script::Scripts;
use crate::workload::{Style, WorkloadKind};

mod annotations;
mod steps;
#[cfg(test)]
mod tests;
mod update;

/// The code of every refusal.
const CODE: u16 = 422;
/// What steps with traffic may replace of a workload's own Pods, in percent, where the flag says nothing.
pub const PARTITION_PERCENT_LIMIT: i32 = 50;

/// What validation reads beside the object.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The Rollouts of the namespace.
    pub others: &'a [Arc<Rollout>],
    /// The most that a step with traffic may replace of a workload's own Pods, in percent.
    pub partition_percent_limit: i32,
    /// Whether only the kinds that are known may be released.
    pub filter_workload_type: bool,
    /// The scripts of users.
    pub scripts: &'a Scripts,
}

/// Answers a CREATE or, with `old`, an UPDATE request. An update is refused for what it makes wrong.
pub fn review(new: &str, old: Option<&str>, context: &Context<'_>) -> Verdict {
    let mut warnings = annotations::warnings(new, old);
    if leaves_spec(new, old) {
        return Verdict::of(&[], CODE, warnings);
    }
    let new = match read(new) {
        Ok(new) => new,
        Err(denial) => return denial.into(),
    };
    let mut errors = validate(&new, context);
    match old.map(read).transpose() {
        Ok(None) => {}
        Ok(Some(old)) => {
            if !errors.is_empty() {
                let known = validate(&old, context);
                errors.retain(|error| !known.contains(error));
            }
            update::validate(&new, &old, &mut errors);
        }
        Err(Denial { message, .. }) => {
            warnings.push(format!("the stored Rollout can't be read, so changes are not checked: {message}"));
        }
    }
    Verdict::of(&errors, CODE, warnings)
}

fn read(object: &str) -> Result<Rollout, Denial> {
    from_str(&in_hub_version(object, API_VERSION)?).map_err(refused)
}

fn validate(rollout: &Rollout, context: &Context<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let strategy = &rollout.spec.strategy;
    let reference = &rollout.spec.workload_ref;
    validate_workload(reference, strategy.kind(), context, &mut errors);
    let path = FieldPath::new("Spec.Strategy");
    match (&strategy.canary, &strategy.blue_green) {
        (None, None) => {
            errors.push(invalid(path, strategy, "Canary and BlueGreen cannot both be empty"));
        }
        (Some(_), Some(_)) => {
            errors.push(invalid(path, strategy, "Canary and BlueGreen cannot both be set"));
        }
        (canary, _) => {
            let path = path.child(if canary.is_some() { "Canary" } else { "BlueGreen" });
            let style = Style::of(strategy, reference);
            steps::validate(strategy, style, context, &path, &mut errors);
            validate_routings(strategy.traffic_routings(), &path, &mut errors);
        }
    }
    validate_alone(rollout, context.others, &mut errors);
    errors
}

/// An error about a value that is printed as JSON.
fn invalid(path: FieldPath, value: &impl Serialize, detail: impl Into<String>) -> FieldError {
    FieldError::invalid_value(path, json!(value), detail)
}

fn validate_workload(
    reference: &WorkloadRef,
    strategy: Option<StrategyKind>,
    context: &Context<'_>,
    errors: &mut Vec<FieldError>,
) {
    let path = FieldPath::new("Spec.ObjectRef.WorkloadRef");
    if [&reference.api_version, &reference.kind, &reference.name].iter().any(|text| text.is_empty()) {
        errors.push(FieldError::required(path, "apiVersion, kind and name of the workload must be set"));
        return;
    }
    let kind = WorkloadKind::of(reference);
    // OpenKruise lets ReplicaSets in too, which are never released.
    let is_replica_set = group(&reference.api_version) == "apps" && reference.kind == "ReplicaSet";
    let is_known = is_replica_set || !matches!(kind, None | Some(WorkloadKind::StatefulSetLike));
    if context.filter_workload_type && !is_known {
        errors.push(invalid(path, reference, "WorkloadRef kind is not supported"));
    } else if strategy == Some(StrategyKind::BlueGreen)
        && !kind.is_some_and(|kind| kind.supports(Style::BlueGreen))
    {
        errors.push(invalid(path, reference, "WorkloadRef kind is not supported for bluegreen style"));
    }
}

fn validate_routings(routings: &[TrafficRoutingRef], path: &FieldPath, errors: &mut Vec<FieldError>) {
    let path = path.child("TrafficRoutings");
    if routings.len() > 1 {
        let message = "Rollout currently only support single TrafficRouting.";
        errors.push(invalid(path.clone(), &routings, message));
    }
    for (index, routing) in routings.iter().enumerate() {
        validate_routing(routing, &path.index(index), errors);
    }
}

fn validate_routing(routing: &TrafficRoutingRef, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if routing.service.is_empty() {
        let message = "TrafficRouting.Service cannot be empty";
        errors.push(FieldError::required(path.child("Service"), message));
    }
    let TrafficRoutingRef { ingress, gateway, custom_network_refs, .. } = routing;
    if ingress.is_none() && gateway.is_none() && custom_network_refs.is_empty() {
        errors.push(invalid(path.clone(), routing, "TrafficRoutings are not set"));
    }
    if ingress.as_ref().is_some_and(|ingress| ingress.name.is_empty()) {
        let message = "TrafficRouting.Ingress.Name cannot be empty";
        errors.push(FieldError::required(path.child("Ingress").child("Name"), message));
    }
    if gateway.as_ref().is_some_and(|gateway| gateway.http_route_name.is_empty()) {
        let message = "TrafficRouting.Gateway.HTTPRouteName must be set";
        errors.push(FieldError::required(path.child("Gateway").child("HTTPRouteName"), message));
    }
    if routing.grace_period_seconds.is_some_and(|seconds| seconds < 0) {
        let message = "GracePeriodSeconds must not be negative";
        errors.push(invalid(path.child("GracePeriodSeconds"), &routing.grace_period_seconds, message));
    }
}

/// A workload has one Rollout, whatever version of its kind they name.
fn validate_alone(rollout: &Rollout, others: &[Arc<Rollout>], errors: &mut Vec<FieldError>) {
    let is_another = |other: &&Arc<Rollout>| {
        other.metadata.name != rollout.metadata.name
            && is_same(&other.spec.workload_ref, &rollout.spec.workload_ref)
    };
    for other in others.iter().filter(is_another) {
        let (namespace, name) = (&other.metadata.namespace, &other.metadata.name);
        let message = format!(
            "This rollout conflict with Rollout({namespace}/{name}), one workload only have less than one Rollout"
        );
        errors.push(FieldError::invalid(FieldPath::new("Conflict Checker"), &rollout.metadata.name, message));
    }
}
