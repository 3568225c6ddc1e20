//! The status of a CloneSet (spec 31 §10) and the patch that writes it, only where something differs.

use api::kinds::cloneset::{CloneSet, CloneSetCondition, Status};
use api::kinds::shared::ConditionStatus;
use api::meta::LabelSelector;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::members::Member;
use super::progress;

#[cfg(test)]
mod tests;

const FAILED_SCALE: &str = "FailedScale";
const FAILED_UPDATE: &str = "FailedUpdate";

/// Fields that the schema requires: a patch always has them, for the stored status may lack them all.
const REQUIRED: [&str; 5] =
    ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "updatedReadyReplicas"];

/// How carrying out a step of a plan went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It was not tried.
    #[default]
    Skipped,
    /// All of it was done, or there was nothing to do. Conflicts, after which the next plan tries again,
    /// count as success (sharp edge 6).
    Succeeded,
    /// It failed with this message.
    Failed(String),
}

/// The status to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusPlan {
    uid: String,
    resource_version: String,
    old: Status,
    new: Status,
    now: Timestamp,
}

impl StatusPlan {
    /// The status, but for errors while carrying out the plan.
    pub fn status(&self) -> &Status {
        &self.new
    }

    /// The merge patch of `/status`; `None` where nothing differs. It holds for the state that was looked at:
    /// of a custom resource's status the API server checks the version, not the UID.
    pub fn patch(&self, scale: &Outcome, update: &Outcome) -> Option<String> {
        let mut new = self.new.clone();
        record(&mut new.conditions, FAILED_SCALE, scale, self.now);
        record(&mut new.conditions, FAILED_UPDATE, update, self.now);
        let written = self.old.observed_generation.is_some() && !self.old.update_revision.is_empty()
            || !self.old.conditions.is_empty();
        if written && new == self.old {
            return None;
        }
        let (old, new) = (members(&self.old), members(&new));
        let mut patch = Map::new();
        for (name, value) in &new {
            if old.get(name) != Some(value) || REQUIRED.contains(&name.as_str()) {
                patch.insert(name.clone(), value.clone());
            }
        }
        for name in old.keys().filter(|name| !new.contains_key(*name)) {
            patch.insert(name.clone(), Value::Null);
        }
        Some(
            json!({"metadata": {"uid": self.uid, "resourceVersion": self.resource_version}, "status": patch})
                .to_string(),
        )
    }
}

/// Numbers and texts of ours only: nothing is lost on the way through a value.
fn members(status: &Status) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

/// Sets or clears the condition of a step.
fn record(conditions: &mut Vec<CloneSetCondition>, kind: &str, outcome: &Outcome, now: Timestamp) {
    match outcome {
        Outcome::Skipped => {}
        Outcome::Succeeded => conditions.retain(|condition| condition.kind != kind),
        Outcome::Failed(message) => {
            let since = progress::condition(conditions, kind)
                .filter(|known| known.status == ConditionStatus::True)
                .and_then(|known| known.last_transition_time.clone());
            progress::set(
                conditions,
                CloneSetCondition {
                    kind: kind.to_owned(),
                    status: ConditionStatus::True,
                    message: message.clone(),
                    last_transition_time: Some(since.unwrap_or_else(|| now.into())),
                    ..CloneSetCondition::default()
                },
            );
        }
    }
}

/// The names that the status gives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Revisions<'a> {
    pub(super) current: &'a str,
    pub(super) update: &'a str,
    pub(super) collision_count: i32,
}

/// Counts the Pods. Gives the plan for the status, without the conditions that others add, and the time
/// at which the deadline of the rollout passes.
pub(super) fn observe(
    set: &CloneSet,
    members: &[Member<'_>],
    revisions: Revisions<'_>,
    expected_updated: i64,
    now: Timestamp,
) -> (StatusPlan, Option<Timestamp>) {
    let count = |counts: &dyn Fn(&Member<'_>) -> bool| {
        i32::try_from(members.iter().filter(|member| counts(member)).count()).unwrap_or(i32::MAX)
    };
    let positive = |number: i32| Some(number).filter(|number| *number != 0);
    let total = count(&|_| true);
    let updated = count(&|member| member.is_updated);
    let finished = updated == total && total == super::counting::replicas(&set.spec);
    let current = if finished { revisions.update } else { revisions.current };
    let mut new = Status {
        observed_generation: set.metadata.generation,
        replicas: total,
        ready_replicas: count(&|member| member.is_ready),
        available_replicas: count(&|member| member.is_available),
        updated_replicas: updated,
        updated_ready_replicas: count(&|member| member.is_updated && member.is_ready),
        updated_available_replicas: positive(count(&|member| member.is_updated && member.is_available)),
        expected_updated_replicas: positive(i32::try_from(expected_updated).unwrap_or(i32::MAX)),
        update_revision: revisions.update.to_owned(),
        current_revision: current.to_owned(),
        collision_count: Some(revisions.collision_count),
        label_selector: selector_text(&set.spec.selector),
        conditions: set.status.conditions.clone(),
    };
    let deadline = progress::update(set, &set.status, &mut new, now);
    (StatusPlan { new, ..StatusPlan::unchanged(set, now) }, deadline)
}

impl StatusPlan {
    /// The status as it is stored.
    pub(super) fn unchanged(set: &CloneSet, now: Timestamp) -> Self {
        let CloneSet { metadata, status, .. } = set;
        Self {
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            old: status.clone(),
            new: status.clone(),
            now,
        }
    }

    pub(super) fn conditions_mut(&mut self) -> &mut Vec<CloneSetCondition> {
        &mut self.new.conditions
    }
}

/// A selector in text form, as Kubernetes prints it: sorted by key.
pub fn selector_text(selector: &LabelSelector) -> String {
    let mut terms: Vec<(&str, String)> = Vec::new();
    for (key, value) in selector.match_labels.iter().flatten() {
        terms.push((key, format!("{key}={value}")));
    }
    for requirement in selector.match_expressions.iter().flatten() {
        let key = requirement.key.as_str();
        let mut values: Vec<&str> = requirement.values.iter().flatten().map(String::as_str).collect();
        values.sort_unstable();
        terms.push((
            key,
            match requirement.operator.as_str() {
                "In" => format!("{key} in ({})", values.join(",")),
                "NotIn" => format!("{key} notin ({})", values.join(",")),
                "DoesNotExist" => format!("!{key}"),
                _ => key.to_owned(),
            },
        ));
    }
    terms.sort_by_key(|(key, _)| *key);
    terms.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}
