//! What is told about a UnitedDeployment (docs/behaviour/uniteddeployment.md#status).

use api::kinds::Time;
use api::kinds::shared::{Condition, ConditionStatus};
use api::kinds::uniteddeployment::{Status, UnitedDeployment, UnitedDeploymentCondition};
use jiff::Timestamp;

use crate::workload::status::merge_patch;

/// What must be written, whether it differs or not: the schema requires it.
const REQUIRED: [&str; 3] = ["replicas", "updatedReplicas", "currentRevision"];
const PROVISIONED: &str = "SubsetProvisioned";
const UPDATED: &str = "SubsetUpdated";
const ROLLED_OUT: &str = "UnitedDeploymentUpdated";
const OBSOLETE: &str = "SubsetFailure";

/// What could not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Workloads could not be found, created or deleted.
    Provision(String),
    /// Workloads could not be brought up to date.
    Update(String),
}

/// The condition with this status and this reason. One that has them already stays as it is.
pub(super) fn changed(
    known: Option<&Condition>,
    (kind, status): (&str, ConditionStatus),
    (reason, message): (&str, &str),
    now: Timestamp,
) -> Condition {
    if let Some(known) = known.filter(|known| known.status == status && known.reason == reason) {
        return known.clone();
    }
    Condition {
        kind: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Some(now.into()),
    }
}

/// When the newest revision came, or was reached.
pub(super) fn updated_since(status: &Status) -> Option<Timestamp> {
    let known = status.conditions.iter().find(|condition| condition.kind == ROLLED_OUT);
    known.and_then(|known| known.last_transition_time.as_ref()).and_then(Time::timestamp)
}

/// Sets a condition as part of the status: one whose status or reason changes goes to the end.
fn set(status: &mut Status, (kind, holds): (&str, bool), (reason, message): (&str, String), now: Timestamp) {
    let value = if holds { ConditionStatus::True } else { ConditionStatus::False };
    let known = status.conditions.iter().find(|condition| condition.kind == kind);
    if known.is_some_and(|known| known.status.as_ref() == Some(&value) && known.reason == reason) {
        return;
    }
    let same = known.filter(|known| known.status.as_ref() == Some(&value));
    let since = same.and_then(|known| known.last_transition_time.clone());
    let condition = UnitedDeploymentCondition {
        kind: kind.to_owned(),
        status: Some(value),
        reason: reason.to_owned(),
        message,
        last_transition_time: Some(since.unwrap_or_else(|| now.into())),
    };
    status.conditions.retain(|condition| condition.kind != kind);
    status.conditions.push(condition);
}

/// Tells whether the newest revision is the current one. It is told anew only when that changes.
pub(super) fn tell_revision(status: &mut Status, current: &str, updated: &str, now: Timestamp) {
    let holds = current == updated;
    let known = status.conditions.iter().find(|condition| condition.kind == ROLLED_OUT);
    let value = if holds { ConditionStatus::True } else { ConditionStatus::False };
    if known.is_some_and(|known| known.status.as_ref() == Some(&value)) {
        return;
    }
    let (reason, doing) = match holds {
        true => ("UnitedDeploymentRevisionUpdated", "updated"),
        false => ("UnitedDeploymentRevisionUpdating", "updating"),
    };
    set(status, (ROLLED_OUT, holds), (reason, format!("{doing} to revision {updated}")), now);
}

/// The status as it is to be, but for what comes of the writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    pub(super) status: Status,
    /// Something is created or deleted.
    pub(super) provisions: bool,
    pub(super) now: Timestamp,
}

/// A status that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusWrite {
    /// The merge patch that writes it.
    pub patch: String,
    /// It says more than that Pods come up or go, which may wait a moment.
    pub is_urgent: bool,
}

/// A status without what only counts Pods on their way.
fn without_counts(status: &Status) -> Status {
    let mut status = Status {
        ready_replicas: None,
        replicas: 0,
        updated_ready_replicas: None,
        updated_replicas: 0,
        ..status.clone()
    };
    for subset in &mut status.subset_statuses {
        subset.ready_replicas = None;
    }
    status
}

/// All Pods are there, updated and ready.
fn is_whole(status: &Status, united: &UnitedDeployment) -> bool {
    let wanted = united.spec.replicas.unwrap_or(1);
    let ready = [status.ready_replicas, status.updated_ready_replicas];
    status.replicas == wanted && ready == [Some(wanted); 2]
}

impl Draft {
    /// The status as it is written, with what failed; `None` where nothing is to be written.
    pub fn patch(mut self, united: &UnitedDeployment, failure: Option<&Failure>) -> Option<StatusWrite> {
        let (status, now) = (&mut self.status, self.now);
        status.conditions.retain(|condition| condition.kind != OBSOLETE);
        match failure {
            None => {
                let was_told = status.conditions.iter().any(|condition| condition.kind == PROVISIONED);
                if self.provisions || was_told {
                    set(status, (PROVISIONED, true), ("", String::new()), now);
                }
                set(status, (UPDATED, true), ("", String::new()), now);
            }
            Some(Failure::Provision(message)) => {
                set(status, (PROVISIONED, false), ("Error", message.clone()), now);
            }
            Some(Failure::Update(message)) => set(status, (UPDATED, false), ("Error", message.clone()), now),
        }
        let metadata = &united.metadata;
        let seen = (metadata.uid.as_str(), metadata.resource_version.as_str());
        (self.status != united.status).then(|| StatusWrite {
            patch: merge_patch(seen, &united.status, &self.status, &REQUIRED),
            is_urgent: is_whole(&self.status, united)
                || without_counts(&self.status) != without_counts(&united.status),
        })
    }
}
