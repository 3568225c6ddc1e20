//! The autoscaler of a workload is held while a blue-green release runs, which would count Pods twice. It keeps its target:
//! it is told to change nothing. OpenKruise points it to a name that nothing has.

use api::annotations::BEHAVIOR_BEFORE_RELEASE;
use api::kinds::rollout::WorkloadRef;
use serde_json::{Value, json};

use crate::draft::Draft;
use crate::object::{Object as _, ObjectName, group};
use crate::view::{ListName, Unread, View};
use crate::write::Write;

const API_VERSION: &str = "autoscaling/v2";
const KIND: &str = "HorizontalPodAutoscaler";
/// What OpenKruise adds to the name of the target.
const RENAMED: &str = "-DisableByRollout";

/// Holds the autoscalers of a workload.
pub(super) fn hold(target: &WorkloadRef, namespace: &str, view: &View) -> Result<Vec<Write>, Unread> {
    changed(target, namespace, view, |draft| {
        let is_held = draft.object().annotation(BEHAVIOR_BEFORE_RELEASE).is_some();
        if is_held || draft.object().text("/spec/scaleTargetRef/name") != target.name {
            return;
        }
        let before = draft.object().pointer("/spec/behavior").cloned().unwrap_or_default();
        draft.annotate(BEHAVIOR_BEFORE_RELEASE, before.to_string());
        for direction in ["scaleUp", "scaleDown"] {
            draft.set(&["spec", "behavior", direction, "selectPolicy"], "Disabled");
        }
    })
}

/// Lets the autoscalers of a workload act again, also those that OpenKruise holds.
pub(super) fn release(target: &WorkloadRef, namespace: &str, view: &View) -> Result<Vec<Write>, Unread> {
    changed(target, namespace, view, |draft| {
        let before = draft.object().annotation(BEHAVIOR_BEFORE_RELEASE).map(serde_json::from_str::<Value>);
        if let Some(before) = before {
            draft.set(&["spec", "behavior"], before.unwrap_or_default());
            draft.remove_annotation(BEHAVIOR_BEFORE_RELEASE);
        }
        draft.set(&["spec", "scaleTargetRef", "name"], target.name.as_str());
    })
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
