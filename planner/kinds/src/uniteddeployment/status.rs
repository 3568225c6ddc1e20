//! What is reported about a UnitedDeployment (docs/behaviour/uniteddeployment.md#status).

use std::sync::Arc;

use api::kinds::Time;
use api::kinds::shared::ConditionStatus;
use api::kinds::uniteddeployment::{Status, SubsetStatus, UnitedDeployment, UnitedDeploymentCondition};
use api::labels::{RESERVED_POD, UNITED_REVISION};
use jiff::Timestamp;

use super::allocation::Shares;
use super::scene::{Conditions, Judgements, Scene};
use super::subset_workloads::SubsetWorkload;
use super::{REPLICAS, Strategy};
use crate::workload::status::{merge_patch, selector_text};
use pod::observed::ObservedPod;

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

/// When the rollout of the newest revision began, or ended, as the status says.
pub(super) fn updated_since(status: &Status) -> Option<Timestamp> {
    let known = status.conditions.iter().find(|condition| condition.kind == ROLLED_OUT);
    known.and_then(|known| known.last_transition_time.as_ref()).and_then(Time::timestamp)
}

/// Sets a condition as part of the status: one whose status or reason changes is moved to the end.
fn set(status: &mut Status, (kind, holds): (&str, bool), (reason, message): (&str, String), now: Timestamp) {
    let value = if holds { ConditionStatus::True } else { ConditionStatus::False };
    let known = status.conditions.iter_mut().find(|condition| condition.kind == kind);
    let same = known.filter(|known| known.status.as_ref() == Some(&value));
    let since = match same {
        Some(known) if known.reason == reason => {
            known.message = message;
            return;
        }
        Some(known) => known.last_transition_time.clone(),
        None => None,
    };
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

/// Says whether the newest revision is the current one, and of which the rollout is. That it is over is reported once.
pub(super) fn record_revision(status: &mut Status, current: &str, updated: &str, now: Timestamp) {
    let holds = current == updated;
    let known = status.conditions.iter().find(|condition| condition.kind == ROLLED_OUT);
    if holds && known.is_some_and(|known| known.status == Some(ConditionStatus::True)) {
        return;
    }
    let (reason, doing) = match holds {
        true => ("UnitedDeploymentRevisionUpdated", "updated"),
        false => ("UnitedDeploymentRevisionUpdating", "updating"),
    };
    set(status, (ROLLED_OUT, holds), (reason, format!("{doing} to revision {updated}")), now);
}

/// Fills in what is counted, and what each subset is to have.
pub(super) fn sum_up(
    status: &mut Status,
    scene: &Scene<'_>,
    shares: &Shares,
    judgements: &Judgements,
    conditions: &Conditions,
) {
    let Scene { united, current, updated, .. } = *scene;
    let reserves = scene.strategy == Strategy::Reserving;
    let places = || scene.found.places.iter();
    let sum = |number: &dyn Fn(&str, &SubsetWorkload<'_>) -> i32| {
        places().map(|(name, place)| number(name, place)).fold(0, i32::saturating_add)
    };
    let waiting = sum(&|name, _| judgements.get(name).map_or(0, |judgement| judgement.reserved));
    let pods = || places().flat_map(|(_, place)| place.active());
    let is_updated = |pod: &&Arc<ObservedPod>| pod.label(UNITED_REVISION) == Some(updated);
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let updated_ready = count(pods().filter(is_updated).filter(|pod| pod.is_ready()).count());
    status.replicas = sum(&|_, place| place.child.status_replicas).saturating_sub(waiting).max(0);
    status.reserved_pods = reserves.then_some(waiting);
    status.ready_replicas = Some(sum(&|_, place| place.child.ready_replicas));
    status.updated_replicas = count(pods().filter(is_updated).count());
    status.updated_ready_replicas = Some(updated_ready);
    // Workloads may lack Pods that they are about to create.
    let shared = shares.values().fold(0_i32, |sum, share| sum.saturating_add(*share));
    let wanted = united.spec.replicas.unwrap_or(REPLICAS).min(shared);
    let is_reached = current != updated && updated_ready >= status.replicas.max(wanted);
    status.current_revision = if is_reached { updated } else { current }.to_owned();
    updated.clone_into(&mut status.updated_revision);
    if status.current_revision != current {
        record_revision(status, updated, updated, scene.now);
    }
    status.label_selector = selector_text(&united.spec.selector);
    if reserves {
        status.label_selector.push_str(&format!(",{RESERVED_POD}=false"));
    }
    status.observed_generation = united.metadata.generation;
    status.subset_statuses = subset_statuses(scene, shares, judgements, conditions);
}

/// Those of the topology in the order in which they came, and those that are gone while their workload is there.
fn subset_statuses(
    scene: &Scene<'_>,
    shares: &Shares,
    judgements: &Judgements,
    conditions: &Conditions,
) -> Vec<SubsetStatus> {
    let reserves = scene.strategy == Strategy::Reserving;
    let known = scene.united.status.subset_statuses.iter();
    let mut names: Vec<&str> = known.map(|subset| subset.name.as_str()).collect();
    for subset in &scene.united.spec.topology.subsets {
        if !names.contains(&subset.name.as_str()) {
            names.push(&subset.name);
        }
    }
    names.retain(|name| shares.contains_key(*name) || scene.found.places.contains_key(name));
    let reported = names.into_iter().map(|name| {
        let share = shares.get(name).copied().unwrap_or(0);
        let place = scene.found.places.get(name);
        let reserved = judgements.get(name).map_or(0, |judgement| judgement.reserved);
        SubsetStatus {
            name: name.to_owned(),
            replicas: Some(share),
            partition: Some(scene.partition_of(name).min(share)),
            ready_replicas: Some(place.map_or(0, |place| place.child.ready_replicas)),
            reserved_pods: reserves.then_some(reserved),
            conditions: conditions.get(name).cloned().into_iter().collect(),
        }
    });
    reported.collect()
}

/// The status as it is to be, but for what comes of the writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    pub(super) status: Status,
    /// Something is created or deleted.
    pub(super) provisions: bool,
    /// What is wrong with workloads that are left alone.
    pub(super) complaint: Option<String>,
    pub(super) now: Timestamp,
}

/// A status that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusWrite {
    /// The merge patch that writes it.
    pub patch: String,
    /// It says more than how many Pods there are, and how failures are put: that may wait a moment.
    pub is_urgent: bool,
}

/// A status without what only counts Pods on their way, and without what is said about failures.
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
    for condition in &mut status.conditions {
        condition.message.clear();
    }
    status
}

/// All Pods are there, updated and ready.
fn is_whole(status: &Status, united: &UnitedDeployment) -> bool {
    let wanted = united.spec.replicas.unwrap_or(REPLICAS);
    let ready = [status.ready_replicas, status.updated_ready_replicas];
    status.replicas == wanted && ready == [Some(wanted); 2]
}

impl Draft {
    /// The status of a UnitedDeployment whose workloads are not known.
    pub fn unknown(united: &UnitedDeployment, now: Timestamp) -> Self {
        let observed_generation = united.metadata.generation;
        let status = Status { observed_generation, ..united.status.clone() };
        Self { status, provisions: false, complaint: None, now }
    }

    /// The status as it is written, with what failed; `None` where nothing is to be written. `united` may be a later state
    /// than the one that was planned from, but what reports a later spec stays.
    pub fn patch(mut self, united: &UnitedDeployment, failure: Option<&Failure>) -> Option<StatusWrite> {
        if united.status.observed_generation > self.status.observed_generation {
            return None;
        }
        let (status, now) = (&mut self.status, self.now);
        status.conditions.retain(|condition| condition.kind != OBSOLETE);
        let was_reported = status.conditions.iter().any(|condition| condition.kind == PROVISIONED);
        let unprovisioned = match failure {
            Some(Failure::Provision(message)) => Some(message),
            _ => self.complaint.as_ref(),
        };
        match unprovisioned {
            Some(message) => set(status, (PROVISIONED, false), ("Error", message.clone()), now),
            None if self.provisions || was_reported => {
                set(status, (PROVISIONED, true), ("", String::new()), now);
            }
            None => {}
        }
        match failure {
            Some(Failure::Update(message)) => set(status, (UPDATED, false), ("Error", message.clone()), now),
            Some(Failure::Provision(_)) => {}
            None => set(status, (UPDATED, true), ("", String::new()), now),
        }
        let metadata = &united.metadata;
        let observed = (metadata.uid.as_str(), metadata.resource_version.as_str());
        (self.status != united.status).then(|| StatusWrite {
            patch: merge_patch(observed, &united.status, &self.status, &REQUIRED),
            is_urgent: (is_whole(&self.status, united) && !is_whole(&united.status, united))
                || without_counts(&self.status) != without_counts(&united.status),
        })
    }
}
