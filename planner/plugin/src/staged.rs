//! Rollouts of Kruise Rollouts, which take a workload through steps (docs/behaviour/kubectl-kruise.md#rollouts).

use serde_json::Value;

use super::edit::bound;
use super::pods::{list, number, plain, text};
use values::json_patch::{Patch, Pointer, string};

/// The state of a step that waits for its time or for an approval.
const STEP_PAUSED: &str = "StepPaused";
/// What is said of a Rollout that releases nothing.
const NOTHING_RUNS: &str = "no need to approve: not in canary or blue-green progress";

/// The member of the status in which a Rollout keeps its steps.
pub(super) fn steps_of(object: &Value) -> Option<&'static str> {
    ["canaryStatus", "blueGreenStatus"]
        .into_iter()
        .find(|member| object.pointer(&format!("/status/{member}")).is_some_and(Value::is_object))
}

/// The steps of a Rollout.
fn steps(object: &Value) -> &[Value] {
    let mut styles = ["blueGreen", "canary"].into_iter();
    let steps = styles
        .find_map(|style| object.pointer(&format!("/spec/strategy/{style}/steps")).and_then(Value::as_array));
    steps.map(Vec::as_slice).unwrap_or_default()
}

/// The number of the step at which a Rollout is, from 1.
fn current(object: &Value, member: &str) -> usize {
    let nested = number(object, &format!("/status/{member}/currentStepIndex"));
    let current = object.pointer("/status/currentStepIndex").and_then(Value::as_i64).unwrap_or(nested);
    usize::try_from(current).unwrap_or(0)
}

/// The step of this number, from 1.
fn step(object: &Value, number: usize) -> Option<&Value> {
    steps(object).get(number.checked_sub(1)?)
}

/// A step waits for a person, and not for its time.
pub(super) fn awaits_approval(object: &Value) -> bool {
    let Some(member) = steps_of(object) else { return false };
    let is_paused = text(object, &format!("/status/{member}/currentStepState")) == STEP_PAUSED;
    let step = step(object, current(object, member));
    let duration = step.and_then(|step| step.pointer("/pause/duration"));
    is_paused && duration.is_none_or(Value::is_null)
}

/// A line for each step, with a sign before the one at which the Rollout is.
pub fn step_lines(object: &Value) -> Vec<String> {
    let member = steps_of(object).unwrap_or_default();
    let (current, state) =
        (current(object, member), text(object, &format!("/status/{member}/currentStepState")));
    let line = |(step, number): (&Value, usize)| {
        let of = |name: &str| step.get(name).filter(|value| !value.is_null());
        let replicas = of("replicas").map(|replicas| format!("{} new", plain(replicas)));
        let traffic = match (of("traffic"), of("weight")) {
            _ if has_matches(step) => Some("requests that match".to_owned()),
            (Some(traffic), _) => Some(format!("traffic {}", plain(traffic))),
            (None, Some(weight)) => Some(format!("traffic {}%", plain(weight))),
            (None, None) => None,
        };
        let state = (number == current && !state.is_empty()).then(|| state.to_owned());
        let words: Vec<String> = [replicas, traffic, state].into_iter().flatten().collect();
        let sign = if number == current { '>' } else { ' ' };
        format!("{sign} step {number}: {}", words.join(", "))
    };
    steps(object).iter().zip(1_usize..).map(line).collect()
}

/// The member of the status with the steps of a release that is running. That of one which was taken back stays.
fn running(object: &Value) -> Result<&'static str, &'static str> {
    let may_run = matches!(text(object, "/status/phase"), "" | "Progressing");
    steps_of(object).filter(|_| may_run).ok_or(NOTHING_RUNS)
}

fn has_matches(step: &Value) -> bool {
    list(step, "/matches").next().is_some()
}

/// The change of the status by which a paused step continues.
///
/// # Errors
/// What to say to the user.
pub fn approve(object: &Value) -> Result<Patch, String> {
    let member = running(object)?;
    if text(object, &format!("/status/{member}/currentStepState")) != STEP_PAUSED {
        let style = if member == "canaryStatus" { "canary" } else { "blue-green" };
        return Err(format!("does not allow to approve, because current {style} state is not 'StepPaused'"));
    }
    Ok(status_patch(object, member, "currentStepState", string("StepReady")))
}

/// The change of the status by which a release continues at the step of this number, from 1. The next one is approved.
///
/// # Errors
/// What to say to the user.
pub fn jump(object: &Value, number: usize) -> Result<Patch, String> {
    let member = running(object)?;
    if step(object, number).is_none() {
        return Err(format!("has {} steps, and no step {number}", steps(object).len()));
    }
    if current(object, member).checked_add(1) == Some(number) {
        return approve(object);
    }
    Ok(status_patch(object, member, "nextStepIndex", number.to_string()))
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
    let steps = steps(object);
    let member = steps_of(object).ok_or("the rollout is not in canary or blue-green progress")?;
    let current = current(object, member);
    if current > steps.len() {
        return Err(format!("the current step {current} is beyond the {} steps", steps.len()));
    }
    if current <= 1 {
        return Err("already at the first step".to_owned());
    }
    let before = steps.iter().take(current - 1).zip(1_u64..);
    let quiet = before.filter(|(step, _)| is_quiet(step));
    let largest = quiet.max_by_key(|(step, index)| (size(step.get("replicas")), *index));
    let (_, index) = largest.ok_or("no previous step with no traffic found")?;
    Ok(status_patch(object, member, "nextStepIndex", index.to_string()))
}

/// No request is led to new Pods.
fn is_quiet(step: &Value) -> bool {
    let share = step.get("traffic").or_else(|| step.get("weight")).filter(|share| !share.is_null());
    let is_zero = |share: &Value| plain(share).trim_end_matches('%').parse() == Ok(0);
    share.is_none_or(is_zero) && !has_matches(step)
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
        let mut taken_back = object("canaryStatus", "StepPaused");
        taken_back["status"]["phase"] = "Healthy".into();
        for idle in [json!({}), taken_back] {
            assert_eq!(
                approve(&idle).unwrap_err(),
                "no need to approve: not in canary or blue-green progress"
            );
        }
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
        let steps = json!([{"replicas": 1, "weight": 0}, {"replicas": 2, "weight": 20},
            {"replicas": 3, "matches": [{"headers": [{"name": "user", "value": "a"}]}]}, {}]);
        let led = json!({"spec": {"strategy": {"canary": {"steps": steps}}}, "status": {"canaryStatus": {"currentStepIndex": 4}}});
        assert_eq!(next(&led, "canaryStatus"), 1);
    }

    fn running(current: i64, state: &str) -> Value {
        let steps = json!([{"replicas": "20%", "traffic": "5%", "pause": {"duration": 9}}, {"replicas": 3, "pause": {}},
            {"replicas": 4, "weight": 40}, {"replicas": "100%", "matches": [{}]}]);
        json!({"spec": {"strategy": {"canary": {"steps": steps}}},
            "status": {"phase": "Progressing", "canaryStatus": {"currentStepIndex": current, "currentStepState": state}}})
    }

    #[test]
    fn a_release_jumps_to_any_step_and_approves_the_next_one() {
        let at = |current, state, number| {
            let object = running(current, state);
            let release = after(&object, jump(&object, number))["status"]["canaryStatus"].clone();
            (release["nextStepIndex"].clone(), release["currentStepState"].clone())
        };
        assert_eq!(at(1, "StepUpgrade", 4), (json!(4), json!("StepUpgrade")));
        assert_eq!(at(3, "StepPaused", 1), (json!(1), json!("StepPaused")));
        assert_eq!(at(2, "StepPaused", 2), (json!(2), json!("StepPaused")));
        assert_eq!(at(2, "StepPaused", 3), (json!(null), json!("StepReady")));
        let refused = |object: &Value, number| jump(object, number).unwrap_err();
        assert!(refused(&running(1, "StepUpgrade"), 2).contains("is not 'StepPaused'"));
        for number in [0, 5] {
            let expected = format!("has 4 steps, and no step {number}");
            assert_eq!(refused(&running(1, "StepPaused"), number), expected);
        }
        let mut over = running(4, "Completed");
        over["status"]["phase"] = "Healthy".into();
        assert_eq!(refused(&over, 1), NOTHING_RUNS);
    }

    #[test]
    fn only_a_step_without_a_time_waits_for_a_person() {
        assert!(awaits_approval(&running(2, "StepPaused")));
        assert!(!awaits_approval(&running(1, "StepPaused")));
        assert!(!awaits_approval(&running(2, "StepUpgrade")));
        assert!(!awaits_approval(&json!({"status": {"phase": "Healthy"}})));
    }

    #[test]
    fn steps_have_a_line_each() {
        let expected = [
            "  step 1: 20% new, traffic 5%",
            "> step 2: 3 new, StepPaused",
            "  step 3: 4 new, traffic 40%",
            "  step 4: 100% new, requests that match",
        ];
        assert_eq!(step_lines(&running(2, "StepPaused")), expected);
        assert!(step_lines(&json!({})).is_empty());
    }

    #[test]
    fn a_rollout_names_its_workload() {
        let reference = json!({"spec": {"workloadRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"}}});
        assert_eq!(workload(&reference), Some(("apps.kruise.io".to_owned(), "CloneSet", "web")));
        assert_eq!(workload(&json!({})), None);
    }
}
