//! What metrics say of releases (docs/metrics.md).

use api::kinds::rollout::{ConditionType, Phase, Reason, Status, StepState};
use api::kinds::shared::ConditionStatus;

/// Why a release is where it is; `None` where none is running.
fn reason(status: &Status) -> Option<&Reason> {
    let condition = status.condition(&ConditionType::Progressing);
    condition.map(|condition| &condition.reason).filter(|_| status.phase == Phase::Progressing)
}

/// The step at which a release is, and what it does there, where that takes time.
pub fn step_state(status: &Status) -> Option<(i32, &'static str)> {
    if !matches!(reason(status)?, Reason::InRolling | Reason::Paused) {
        return None;
    }
    let state = match status.current_step_state {
        StepState::BeforeStepUpgrade => "BeforeStepUpgrade",
        StepState::StepUpgrade => "StepUpgrade",
        StepState::StepTrafficRouting => "StepTrafficRouting",
        StepState::StepPaused => "StepPaused",
        _ => return None,
    };
    Some((status.current_step_index, state))
}

/// How the release has ended that was running before; `None` where none has.
pub fn result(before: &Status, after: &Status) -> Option<&'static str> {
    match (reason(before)?, reason(after)) {
        (Reason::Finalising, Some(Reason::Initializing)) => Some("succeeded"),
        (Reason::Cancelling, Some(Reason::Initializing)) => Some("rolled_back"),
        (Reason::InRolling | Reason::Paused, Some(Reason::Initializing)) => Some("replaced"),
        (_, Some(_)) => None,
        (_, None) => {
            let succeeded = after.condition(&ConditionType::Succeeded).map(|condition| &condition.status);
            Some(match (&after.phase, succeeded) {
                (Phase::Healthy, Some(ConditionStatus::True)) => "succeeded",
                (Phase::Healthy, _) => "rolled_back",
                _ => "removed",
            })
        }
    }
}
