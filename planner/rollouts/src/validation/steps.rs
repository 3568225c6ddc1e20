//! The steps of a release.

use api::kinds::rollout::{Step, Strategy, StrategyKind};
use api::kinds::shared::IntOrString;
use values::field::{FieldError, FieldPath};
use values::percent::{Rounding, scaled};

use super::{Context, invalid};
use crate::traffic;
use crate::workload::Style;

/// Checks the steps of a strategy that has one style.
pub(super) fn validate(
    strategy: &Strategy,
    style: Style,
    context: &Context<'_>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let (steps, path) = (strategy.steps(), path.child("Steps"));
    if steps.is_empty() {
        errors.push(invalid(path, &steps, "The number of Canary.Steps cannot be empty"));
        return;
    }
    for (index, step) in steps.iter().enumerate() {
        let path = path.index(index);
        validate_replicas(step, &path, errors);
        validate_traffic(step, strategy.kind(), &path, errors);
        let is_routed = step.traffic.is_some() || !step.matches.is_empty();
        let share = percent(step.replicas.as_ref());
        if style == Style::Partition
            && is_routed
            && share.is_some_and(|share| share > context.partition_percent_limit)
        {
            let message =
                "step[x].replicas must not greater than partition-percent-limit if traffic specified";
            errors.push(invalid(path.child("Replicas"), &step.replicas, message));
        }
        let mut routings = strategy.traffic_routings().iter();
        if let Some(problem) =
            routings.find_map(|routing| traffic::unsupported(routing, step, context.scripts))
        {
            errors.push(invalid(path.child("Matches"), &step.matches, problem));
        }
    }
    validate_order(steps, &path, errors);
}

/// A share of 100 in percent, rounded up; `None` for a plain number, and for what is no share.
fn percent(value: Option<&IntOrString>) -> Option<i32> {
    match value? {
        share @ IntOrString::String(text) if text.ends_with('%') => scaled(share, 100, Rounding::Up),
        _ => None,
    }
}

fn validate_replicas(step: &Step, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(replicas) = &step.replicas else {
        errors.push(invalid(path.child("Replicas"), &step.replicas, "replicas cannot be empty"));
        return;
    };
    let is_sound = match replicas {
        IntOrString::Int(number) => *number > 0,
        share @ IntOrString::String(_) => {
            percent(Some(share)).is_some_and(|share| (1..=100).contains(&share))
        }
    };
    if !is_sound {
        let message =
            r#"replicas must be positive number, or a percentage with "0%" < canaryReplicas <= "100%""#;
        errors.push(invalid(path.child("Replicas"), replicas, message));
    }
}

fn validate_traffic(
    step: &Step,
    strategy: Option<StrategyKind>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let Some(traffic) = &step.traffic else { return };
    let (least, range) = match strategy {
        Some(StrategyKind::BlueGreen) => (0, r#""0%" <= traffic <= "100%" in blueGreen strategy"#),
        _ => (1, r#""0%" < traffic <= "100%" in canary strategy"#),
    };
    let share = percent(Some(&IntOrString::String(traffic.clone())));
    if share.is_none_or(|share| !(least..=100).contains(&share)) {
        let message = format!("traffic must be percentage with {range}");
        errors.push(FieldError::invalid(path.child("Traffic"), traffic, message));
    }
}

/// Neighbours are compared where both are numbers, or both shares: else the workload's size decides.
fn validate_order(steps: &[Step], path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, pair) in steps.windows(2).enumerate() {
        let [before, after] = pair else { continue };
        let falls = match (&before.replicas, &after.replicas) {
            (Some(IntOrString::Int(before)), Some(IntOrString::Int(after))) => after < before,
            (before, after) => match (percent(before.as_ref()), percent(after.as_ref())) {
                (Some(before), Some(after)) => after < before,
                _ => false,
            },
        };
        if falls {
            let message = "Steps.CanaryReplicas must be a non decreasing sequence";
            errors.push(invalid(path.index(index + 1).child("Replicas"), &after.replicas, message));
        }
    }
}
