//! Rollouts of Kruise Rollouts, which take a workload through steps (docs/behaviour/kubectl-kruise.md#rollouts).

use serde_json::Value;

use super::edit::bound;
use super::pods::{number, text};
use values::json_patch::{Patch, Pointer, string};

/// The state of a step that waits for its time or for an approval.
pub(super) const STEP_PAUSED: &str = "StepPaused";

/// The member of the status in which a Rollout keeps its steps.
pub(super) fn steps_of(object: &Value) -> Option<&'static str> {
    ["canaryStatus", "blueGreenStatus"]
        .into_iter()
        .find(|member| object.pointer(&format!("/status/{member}")).is_some_and(Value::is_object))
}

/// The change of the status by which a paused step continues.
///
/// # Errors
/// What to say to the user.
pub fn approve(object: &Value) -> Result<Patch, String> {
    let Some(member) = steps_of(object) else {
        return Err("no need to approve: not in canary or blue-green progress".to_owned());
    };
    if text(object, &format!("/status/{member}/currentStepState")) != STEP_PAUSED {
        let style = if member == "canaryStatus" { "canary" } else { "blue-green" };
        return Err(format!("does not allow to approve, because current {style} state is not 'StepPaused'"));
    }
    Ok(status_patch(object, member, "currentStepState", string("StepReady")))
}

fn status_patch(object: &Value, member: &str, field: &str, value: String) -> Patch {
    let mut edits = Patch::default();
    edits.add(Pointer::root().key("status").key(member).key(field), value);
    bound(object, edits)
}

/// The change of the status by which a Rollout returns to an earlier step without traffic.
///
/// # Errors
/// What to say to the user.
pub fn undo_fast(object: &Value) -> Result<Patch, String> {
    let steps = ["blueGreen", "canary"]
        .into_iter()
        .find_map(|style| object.pointer(&format!("/spec/strategy/{style}/steps")).and_then(Value::as_array));
    let steps = steps.map(Vec::as_slice).unwrap_or_default();
    let member = steps_of(object).ok_or("the rollout is not in canary or blue-green progress")?;
    let nested = number(object, &format!("/status/{member}/currentStepIndex"));
    let current = object.pointer("/status/currentStepIndex").and_then(Value::as_i64).unwrap_or(nested);
    let current = usize::try_from(current).unwrap_or(0);
    if current > steps.len() {
        return Err(format!("the current step {current} is beyond the {} steps", steps.len()));
    }
    if current <= 1 {
        return Err("already at the first step".to_owned());
    }
    let before = steps.iter().take(current - 1).zip(1_u64..);
    let quiet = before.filter(|(step, _)| {
        let traffic = step.get("traffic").and_then(Value::as_str);
        traffic.is_none_or(|traffic| traffic.trim_end_matches('%').parse() == Ok(0))
    });
    let largest = quiet.max_by_key(|(step, index)| (size(step.get("replicas")), *index));
    let (_, index) = largest.ok_or("no previous step with no traffic found")?;
    Ok(status_patch(object, member, "nextStepIndex", index.to_string()))
}

/// A number of replicas or a percentage.
fn size(replicas: Option<&Value>) -> i64 {
    let percent = |text: &str| text.trim_end_matches('%').parse().ok();
    replicas.and_then(|value| value.as_i64().or_else(|| percent(value.as_str()?))).unwrap_or(0)
}

/// The workload that a Rollout drives: kind with its API version, and name.
pub fn workload(object: &Value) -> Option<(String, &str, &str)> {
    let reference = ["/spec/workloadRef", "/spec/objectRef/workloadRef"]
        .into_iter()
        .find_map(|pointer| object.pointer(pointer).filter(|value| value.is_object()))?;
    let (group, _) = api::group_and_version(text(reference, "/apiVersion"));
    Some((group.to_owned(), text(reference, "/kind"), text(reference, "/name")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use values::json_patch::apply;

    fn after(object: &Value, patch: Result<Patch, String>) -> Value {
        serde_json::from_str(&apply(&object.to_string(), &patch.unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn a_paused_step_is_approved_and_no_other() {
        let object = |member: &str, state: &str| json!({"metadata": {"resourceVersion": "7"}, "status": {member: {"currentStepState": state}}});
        let paused = object("blueGreenStatus", "StepPaused");
        let patch = approve(&paused);
        assert!(patch.as_ref().unwrap().to_json().contains("resourceVersion"));
        assert_eq!(after(&paused, patch), object("blueGreenStatus", "StepReady"));
        let error = approve(&object("canaryStatus", "StepUpgrade")).unwrap_err();
        assert_eq!(error, "does not allow to approve, because current canary state is not 'StepPaused'");
        assert_eq!(
            approve(&json!({})).unwrap_err(),
            "no need to approve: not in canary or blue-green progress"
        );
    }

    #[test]
    fn the_way_back_is_the_largest_step_without_traffic() {
        let object = |current: i64| {
            json!({"spec": {"strategy": {"blueGreen": {"steps": [
                    {"replicas": "100%", "traffic": "0%"}, {"replicas": "100%", "traffic": "50%"}, {"replicas": "100%", "traffic": "100%"}]}}},
                "status": {"currentStepIndex": current, "blueGreenStatus": {}}})
        };
        let next = |object: &Value, member: &str| {
            after(object, undo_fast(object))["status"][member]["nextStepIndex"].clone()
        };
        assert_eq!(next(&object(3), "blueGreenStatus"), 1);
        assert_eq!(undo_fast(&object(1)).unwrap_err(), "already at the first step");
        assert!(undo_fast(&object(4)).unwrap_err().contains("beyond"));
        assert!(undo_fast(&json!({})).is_err());
        let sized = json!({"spec": {"strategy": {"canary": {"steps": [{"replicas": "50%"}, {"replicas": 20}, {"traffic": "5%"}, {}]}}},
            "status": {"currentStepIndex": 4, "canaryStatus": {}}});
        assert_eq!(next(&sized, "canaryStatus"), 1);
    }

    #[test]
    fn a_rollout_names_its_workload() {
        let reference = json!({"spec": {"workloadRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"}}});
        assert_eq!(workload(&reference), Some(("apps.kruise.io".to_owned(), "CloneSet", "web")));
        assert_eq!(workload(&json!({})), None);
    }
}
