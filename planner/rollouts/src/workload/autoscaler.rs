//! The autoscaler of a workload is held while a blue-green release runs, which would count Pods twice. It keeps its target:
//! it is told to change nothing. OpenKruise points it to a name that nothing has.

use api::annotations::BEHAVIOR_BEFORE_RELEASE;
use api::kinds::rollout::WorkloadRef;
use serde_json::{Value, json};

use crate::draft::{Draft, set, value};
use crate::object::{Object as _, ObjectName, group};
use crate::view::{ListName, Unread, View};
use crate::write::Write;

const API_VERSION: &str = "autoscaling/v2";
const KIND: &str = "HorizontalPodAutoscaler";
/// What OpenKruise adds to the name of the target.
const RENAMED: &str = "-DisableByRollout";

/// The ways that an autoscaler may change a workload.
const DIRECTIONS: [&str; 2] = ["scaleUp", "scaleDown"];
const DISABLED: &str = "Disabled";

/// Holds the autoscalers of a workload, also those that somebody has let go or made since.
pub(super) fn hold(target: &WorkloadRef, namespace: &str, view: &View) -> Result<Vec<Write>, Unread> {
    changed(target, namespace, view, |draft| {
        let autoscaler = draft.object();
        let behavior = value(autoscaler, &["spec", "behavior"]);
        let is_held = saved(autoscaler).is_some()
            && DIRECTIONS.iter().all(|direction| is_disabled(&behavior, direction));
        if is_held || autoscaler.text("/spec/scaleTargetRef/name") != target.name {
            return;
        }
        let wanted = wanted(autoscaler);
        draft.annotate(BEHAVIOR_BEFORE_RELEASE, wanted.to_string());
        for direction in DIRECTIONS {
            draft.set(&["spec", "behavior", direction, "selectPolicy"], DISABLED);
        }
    })
}

/// Lets the autoscalers of a workload act again, also those that OpenKruise holds.
pub(super) fn release(target: &WorkloadRef, namespace: &str, view: &View) -> Result<Vec<Write>, Unread> {
    changed(target, namespace, view, |draft| {
        let wanted = wanted(draft.object());
        draft.set(&["spec", "behavior"], wanted);
        draft.remove_annotation(BEHAVIOR_BEFORE_RELEASE);
        draft.set(&["spec", "scaleTargetRef", "name"], target.name.as_str());
    })
}

/// The behaviour of an autoscaler before the release, if one holds it.
fn saved(autoscaler: &Value) -> Option<Value> {
    let text = autoscaler.annotation(BEHAVIOR_BEFORE_RELEASE)?;
    Some(serde_json::from_str(text).unwrap_or_default())
}

fn is_disabled(behavior: &Value, direction: &str) -> bool {
    value(behavior, &[direction, "selectPolicy"]) == DISABLED
}

/// The behaviour that the user of an autoscaler wants: the present one, in which a release that holds it has only disabled
/// both directions. The API server completes the rules of each.
fn wanted(autoscaler: &Value) -> Value {
    let mut wanted = value(autoscaler, &["spec", "behavior"]);
    let Some(saved) = saved(autoscaler) else { return wanted };
    let mut is_changed = false;
    for direction in DIRECTIONS {
        let before = value(&saved, &[direction]);
        if !is_disabled(&wanted, direction) {
            is_changed = true;
        } else if before.is_null() {
            set(&mut wanted, &[direction], Value::Null);
        } else {
            set(&mut wanted, &[direction, "selectPolicy"], value(&before, &["selectPolicy"]));
        }
    }
    let is_empty = wanted.as_object().is_none_or(|members| members.is_empty());
    if is_empty && !is_changed { saved } else { wanted }
}

/// Changes the autoscalers of a workload.
fn changed(
    target: &WorkloadRef,
    namespace: &str,
    view: &View,
    change: impl Fn(&mut Draft<'_>),
) -> Result<Vec<Write>, Unread> {
    let listed = view.list(&ListName::new(API_VERSION, KIND, namespace, ""))?;
    let writes = listed.iter().filter(|autoscaler| is_for(autoscaler, target)).filter_map(|autoscaler| {
        let name = ObjectName::new(API_VERSION, KIND, namespace, autoscaler.name());
        let mut draft = Draft::of(&name, autoscaler);
        change(&mut draft);
        draft.into_write()
    });
    Ok(writes.collect())
}

fn is_for(autoscaler: &Value, target: &WorkloadRef) -> bool {
    let target_ref = autoscaler.pointer("/spec/scaleTargetRef").cloned().unwrap_or_else(|| json!({}));
    let name = target_ref.text("/name");
    group(target_ref.text("/apiVersion")) == group(&target.api_version)
        && target_ref.text("/kind") == target.kind
        && name.strip_suffix(RENAMED).unwrap_or(name) == target.name
}
