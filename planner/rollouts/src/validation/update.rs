//! What a running release doesn't let change.

use api::kinds::rollout::{Phase, Rollout, Strategy};
use values::field::{FieldError, FieldPath};

use crate::reference::is_same;

/// Checks an update of a Rollout whose release may be running.
pub(super) fn validate(new: &Rollout, old: &Rollout, errors: &mut Vec<FieldError>) {
    if !matches!(old.status.phase, Phase::Progressing | Phase::Terminating) {
        return;
    }
    let mut refuse = |path: &str, message: String| {
        errors.push(FieldError::forbidden(FieldPath::new(path), message));
    };
    let (new, old) = (&new.spec, &old.spec);
    if !is_same(&new.workload_ref, &old.workload_ref) {
        refuse("Spec.ObjectRef", "Rollout 'ObjectRef' field is immutable".to_owned());
    }
    let (new, old) = (&new.strategy, &old.strategy);
    if style(new) != style(old) {
        let message = "Rollout style and enableExtraWorkloadForCanary are immutable";
        refuse("Spec.Strategy", message.to_owned());
        return;
    }
    let block = if old.blue_green.is_some() { "BlueGreen" } else { "Canary" };
    if new.traffic_routings() != old.traffic_routings() {
        let message = format!("Rollout 'Strategy.{block}.TrafficRoutings' field is immutable");
        refuse(&format!("Spec.Strategy.{block}.TrafficRoutings"), message);
    }
    if new.steps().len() != old.steps().len() {
        let message = "Amount of Rollout steps are immutable";
        refuse(&format!("Spec.Strategy.{block}.Steps"), message.to_owned());
    }
}

fn style(strategy: &Strategy) -> (bool, bool, bool) {
    let extra = strategy.canary.as_ref().is_some_and(|canary| canary.enable_extra_workload_for_canary);
    (strategy.canary.is_some(), strategy.blue_green.is_some(), extra)
}
