//! The status of a workload and the patch that writes it, only where something differs.

use api::kinds::shared::ConditionStatus;
use api::meta::LabelSelector;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::conditions::{self, Condition};
use super::kind::{Workload, WorkloadStatus};
use super::outcome::Outcome;

#[cfg(test)]
mod tests;

/// The type of the condition that reports the last failure of the scale step, where the kind has none of its own.
pub const FAILED_SCALE: &str = "FailedScale";
/// The type of the condition that reports the last failure of the update step, where the kind has none of its own.
pub const FAILED_UPDATE: &str = "FailedUpdate";

/// The status to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusPlan<S> {
    uid: String,
    resource_version: String,
    old: S,
    new: S,
    now: Timestamp,
    /// The condition that reports a standstill where all that is planned is refused, and for how long it must be.
    blocked: Option<(&'static str, SignedDuration)>,
    nothing_was_done: bool,
}

impl<S: WorkloadStatus> StatusPlan<S> {
    /// The status as it is stored.
    pub(crate) fn unchanged<W: Workload<Status = S>>(workload: &W, now: Timestamp) -> Self {
        Self::new(workload, workload.status().clone(), now)
    }

    /// The status as it is from now on, but for the conditions that are added.
    pub(crate) fn new<W: Workload<Status = S>>(workload: &W, new: S, now: Timestamp) -> Self {
        let metadata = workload.metadata();
        Self {
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            old: workload.status().clone(),
            new,
            now,
            blocked: None,
            nothing_was_done: false,
        }
    }

    /// Something is to be done: should it be refused, this condition stays, or comes after this time.
    pub(crate) fn if_refused(&mut self, condition: &'static str, delay: SignedDuration) {
        self.blocked = Some((condition, delay));
    }

    /// Not one action of the plan succeeded.
    pub fn nothing_was_done(&mut self) {
        self.nothing_was_done = true;
    }

    /// Changes the conditions.
    pub(crate) fn change_conditions(&mut self, change: impl FnOnce(&mut Vec<Condition>)) {
        let mut conditions = self.new.conditions();
        change(&mut conditions);
        self.new.set_conditions(conditions);
    }

    /// The status, but for errors while carrying out the plan.
    pub fn status(&self) -> &S {
        &self.new
    }

    /// The merge patch of `/status`; `None` where nothing differs. It holds for the state that was observed:
    /// of a custom resource's status the API server checks the version, not the UID.
    pub fn patch(&self, scale: &Outcome, update: &Outcome) -> Option<String> {
        let mut new = self.new.clone();
        let mut conditions = new.conditions();
        record(&mut conditions, S::FAILED_SCALE, scale, self.now);
        record(&mut conditions, S::FAILED_UPDATE, update, self.now);
        let failed = [(scale, S::FAILED_SCALE.0), (update, S::FAILED_UPDATE.0)];
        let failed = failed.into_iter().find(|(outcome, _)| matches!(outcome, Outcome::Failed(_)));
        if let Some((_, failed)) = failed.filter(|_| self.nothing_was_done) {
            conditions.extend(self.standstill(&conditions, failed));
        }
        new.set_conditions(conditions);
        if self.old.is_written() && new == self.old {
            return None;
        }
        Some(merge_patch((&self.uid, &self.resource_version), &self.old, &new, S::REQUIRED))
    }
}

impl<S: WorkloadStatus> StatusPlan<S> {
    /// The condition that says that the only thing to do was refused, as condition `failed` says.
    fn standstill(&self, conditions: &[Condition], failed: &str) -> Option<Condition> {
        let (kind, delay) = self.blocked?;
        let stored = self.old.conditions();
        if let Some(known) = conditions::condition(&stored, kind) {
            return Some(known.clone());
        }
        let failed = conditions::condition(conditions, failed)?;
        let due = failed.since()?.saturating_add(delay).ok()?;
        (due <= self.now).then(|| Condition {
            kind: kind.to_owned(),
            status: ConditionStatus::True,
            reason: failed.kind.clone(),
            message: format!("{}; it is tried again every few minutes", failed.message),
            last_update_time: Some(self.now.into()),
            last_transition_time: Some(self.now.into()),
        })
    }
}

/// The merge patch that brings a status from `old` to `new`, for the object of this UID in this version. `required`
/// members are in it whether they differ or not.
pub fn merge_patch<S: Serialize>(
    (uid, resource_version): (&str, &str),
    old: &S,
    new: &S,
    required: &[&str],
) -> String {
    let (old, new) = (members(old), members(new));
    let mut patch = Map::new();
    for (name, value) in &new {
        if old.get(name) != Some(value) || required.contains(&name.as_str()) {
            patch.insert(name.clone(), value.clone());
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    json!({"metadata": {"uid": uid, "resourceVersion": resource_version}, "status": patch}).to_string()
}

/// Numbers and texts of ours only: nothing is lost on the way through a value.
fn members(status: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

/// Sets or clears the condition of a step.
fn record(conditions: &mut Vec<Condition>, (kind, prefix): (&str, &str), outcome: &Outcome, now: Timestamp) {
    match outcome {
        Outcome::Skipped => {}
        Outcome::Succeeded => conditions.retain(|condition| condition.kind != kind),
        Outcome::Failed(message) => {
            let since = conditions::condition(conditions, kind)
                .filter(|known| known.status == ConditionStatus::True)
                .and_then(|known| known.last_transition_time.clone());
            conditions::set(
                conditions,
                Condition {
                    kind: kind.to_owned(),
                    status: ConditionStatus::True,
                    message: format!("{prefix}{message}"),
                    last_transition_time: Some(since.unwrap_or_else(|| now.into())),
                    ..Condition::default()
                },
            );
        }
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
