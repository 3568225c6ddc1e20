//! Conditions of a workload's status, in the shape of all kinds: those without a time of the last update leave
//! that out.

use api::kinds::Time;
use api::kinds::cloneset::CloneSetCondition;
use api::kinds::shared::{self, ConditionStatus};
use jiff::Timestamp;

/// A condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, in a word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
    /// When it was last written.
    pub last_update_time: Option<Time>,
    /// When its status last changed.
    pub last_transition_time: Option<Time>,
}

impl Condition {
    /// When its status last changed.
    pub fn since(&self) -> Option<Timestamp> {
        self.last_transition_time.as_ref().and_then(Time::timestamp)
    }
}

/// The condition of this type.
pub fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Replaces the condition of its type, or appends it.
pub(crate) fn set(conditions: &mut Vec<Condition>, condition: Condition) {
    match conditions.iter_mut().find(|known| known.kind == condition.kind) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

impl From<&CloneSetCondition> for Condition {
    fn from(condition: &CloneSetCondition) -> Self {
        let CloneSetCondition { kind, status, reason, message, last_update_time, last_transition_time } =
            condition.clone();
        Self { kind, status, reason, message, last_update_time, last_transition_time }
    }
}

impl From<Condition> for CloneSetCondition {
    fn from(condition: Condition) -> Self {
        let Condition { kind, status, reason, message, last_update_time, last_transition_time } = condition;
        Self { kind, status, reason, message, last_update_time, last_transition_time }
    }
}

impl From<&shared::Condition> for Condition {
    fn from(condition: &shared::Condition) -> Self {
        let shared::Condition { last_transition_time, message, reason, status, kind } = condition.clone();
        Self { kind, status, reason, message, last_update_time: None, last_transition_time }
    }
}

impl From<Condition> for shared::Condition {
    fn from(condition: Condition) -> Self {
        let Condition { kind, status, reason, message, last_transition_time, .. } = condition;
        Self { last_transition_time, message, reason, status, kind }
    }
}
