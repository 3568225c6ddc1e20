//! The controller's next write about a request (docs/behaviour/restarts.md#the-controller-of-containerrecreaterequests).
//! One write at a time: after each the next step is found from what the write returned, so a crash anywhere leaves a
//! state from which the request continues.

use std::time::Duration;

use api::conditions::KRUISE_POD_READY;
use api::finalizers::CRR_UNREADY_ACQUIRED;
use api::kinds::containerrecreaterequest::{
    ContainerRecreateRequest, ContainerStatusSnapshot, Phase, Status,
};
use api::kinds::shared::{ConditionStatus, MetaCondition};
use api::kinds::{ObjectMeta, Time};
use api::labels::{CRR_ACTIVE, CRR_POD_UID};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, json};

use crate::workload::metadata;
use crate::workload::status::merge_patch;
use pod::kruise_pod_ready::{self, NotReadyKey};
use pod::observed::{ContainerStatus, ObservedPod};
use pod::write::PodWrite;
use values::moment::until;

/// How long the node agent may take to begin.
const TIMEOUT: SignedDuration = SignedDuration::from_secs(60);
/// The type and the reason of the condition that begins the grace period of a Pod that is not ready.
const PRE_RECREATE_GRACE: &str = "PreRecreateGrace";
const GRACE_MESSAGE: &str = "Pod has been forced to not-ready for unreadyGracePeriodSeconds drain";

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Merge-patch the request.
    Request(String),
    /// Merge-patch its status.
    Status(String),
    /// Write to the Pod.
    Pod(PodWrite),
    /// Delete the request.
    Delete,
    /// Nothing, until something changes or, if there is one, this time has passed.
    Wait(Option<Duration>),
}

/// Whether the request is over: it is completed, or being deleted.
pub fn is_over(request: &ContainerRecreateRequest) -> bool {
    request.status.completion_time.is_some() || request.metadata.deletion_timestamp.is_some()
}

/// Whether the Pod has to be known. One that is held not ready has to be let go in the end.
pub fn reads_pod(request: &ContainerRecreateRequest) -> bool {
    !is_over(request) || holds(request)
}

/// Whether the Pod is, or is about to be, held not ready.
fn holds(request: &ContainerRecreateRequest) -> bool {
    request.metadata.finalizers.iter().any(|finalizer| finalizer == CRR_UNREADY_ACQUIRED)
}

/// The next step. `pod` is the Pod of that name, if there is one; it is not read where [`reads_pod`] says so.
pub fn step(request: &ContainerRecreateRequest, pod: Option<&ObservedPod>, now: Timestamp) -> Step {
    let uid = request.metadata.labels.get(CRR_POD_UID).map_or("", String::as_str);
    let pod = pod.filter(|pod| *pod.metadata.uid == *uid && pod.metadata.deletion_timestamp.is_none());
    if is_over(request) { end(request, pod, now) } else { advance(request, pod, now) }
}

/// The key with which a request holds its Pod not ready.
fn key(request: &ContainerRecreateRequest) -> NotReadyKey {
    let metadata = &request.metadata;
    NotReadyKey::new("ContainerRecreateRequest", format!("{}/{}", metadata.namespace, metadata.name))
}

/// Lets the Pod go, then the request.
fn end(request: &ContainerRecreateRequest, pod: Option<&ObservedPod>, now: Timestamp) -> Step {
    let metadata = &request.metadata;
    // One that has ended never gets ready.
    let release = pod
        .filter(|pod| holds(request) && pod.is_active())
        .and_then(|pod| kruise_pod_ready::remove(pod, &key(request), now));
    if let Some(write) = release {
        return Step::Pod(write);
    }
    let mut changes = Map::new();
    if holds(request) {
        changes.append(&mut metadata::finalizers(metadata, CRR_UNREADY_ACQUIRED, false));
    }
    let is_deleted = metadata.deletion_timestamp.is_some();
    if !is_deleted && metadata.labels.contains_key(CRR_ACTIVE) {
        changes.insert("labels".to_owned(), json!({CRR_ACTIVE: null}));
    }
    if !changes.is_empty() {
        return Step::Request(metadata::patch(metadata, changes));
    }
    let lifetime = request.spec.ttl_seconds_after_finished.filter(|_| !is_deleted);
    let completed = request.status.completion_time.as_ref().and_then(Time::timestamp);
    let (Some(lifetime), Some(completed)) = (lifetime, completed) else { return Step::Wait(None) };
    match rest(completed, SignedDuration::from_secs(lifetime.into()), now) {
        None => Step::Delete,
        rest => Step::Wait(rest),
    }
}

/// Follows a request that is not over.
fn advance(request: &ContainerRecreateRequest, pod: Option<&ObservedPod>, now: Timestamp) -> Step {
    let Some(pod) = pod else { return complete(request, "pod has gone", now) };
    let created = request.metadata.creation_timestamp.as_ref().and_then(Time::timestamp).unwrap_or(now);
    let mut waits = Vec::new();
    if request.status.phase == Phase::Unset {
        match rest(created, TIMEOUT, now) {
            None => return complete(request, "daemon has not responded for a long time", now),
            rest => waits.extend(rest),
        }
    }
    if let Some(deadline) = request.spec.active_deadline_seconds {
        match rest(created, SignedDuration::from_secs(deadline), now) {
            None => return complete(request, "recreating has exceeded the activeDeadlineSeconds", now),
            rest => waits.extend(rest),
        }
    }
    let step = (request.status.phase == Phase::Recreating).then(|| accompany(request, pod, created, now));
    step.flatten().unwrap_or_else(|| Step::Wait(waits.into_iter().min()))
}

/// What the node agent needs while it restarts containers: how they are, and a Pod that is not ready.
fn accompany(
    request: &ContainerRecreateRequest,
    pod: &ObservedPod,
    created: Timestamp,
    now: Timestamp,
) -> Option<Step> {
    let mut status = request.status.clone();
    let observed = snapshot(request, pod, created);
    if !observed.is_empty() {
        status.container_status_snapshot = observed;
    }
    if request.spec.strategy.unready_grace_period_seconds.is_some() && !has_grace(&status) {
        let can_wait = pod.has_readiness_gate(KRUISE_POD_READY) && pod.is_active();
        if can_wait && !holds(request) {
            let finalizers = metadata::finalizers(&request.metadata, CRR_UNREADY_ACQUIRED, true);
            return Some(Step::Request(metadata::patch(&request.metadata, finalizers)));
        }
        if let Some(write) = kruise_pod_ready::add(pod, &key(request), now).filter(|_| can_wait) {
            return Some(Step::Pod(write));
        }
        status.conditions.retain(|condition| condition.kind != PRE_RECREATE_GRACE);
        status.conditions.push(grace(now));
    }
    (status != request.status).then(|| status_step(request, &status))
}

/// Whether the grace period has begun.
fn has_grace(status: &Status) -> bool {
    status
        .conditions
        .iter()
        .any(|condition| condition.kind == PRE_RECREATE_GRACE && condition.status == ConditionStatus::True)
}

fn grace(now: Timestamp) -> MetaCondition {
    MetaCondition {
        kind: PRE_RECREATE_GRACE.to_owned(),
        status: ConditionStatus::True,
        reason: PRE_RECREATE_GRACE.to_owned(),
        message: GRACE_MESSAGE.to_owned(),
        last_transition_time: now.into(),
        observed_generation: None,
    }
}

/// The containers of the request that were started since it was made, in its order. Times are compared in whole
/// seconds, as Kubernetes stores them.
fn snapshot(
    request: &ContainerRecreateRequest,
    pod: &ObservedPod,
    created: Timestamp,
) -> Vec<ContainerStatusSnapshot> {
    let is_new = |status: &&ContainerStatus| {
        status.running.is_some_and(|running| running.started_at >= Some(created.into()))
    };
    let containers = request.spec.containers.iter();
    let containers = containers.filter_map(|container| pod.container_status(&container.name));
    let new = containers.filter(is_new).map(|status| ContainerStatusSnapshot {
        container_id: status.container_id.to_string(),
        name: status.name.to_string(),
        ready: status.ready,
        restart_count: status.restart_count,
    });
    new.collect()
}

fn complete(request: &ContainerRecreateRequest, message: &str, now: Timestamp) -> Step {
    let mut status = request.status.clone();
    status.phase = Phase::Completed;
    status.completion_time = Some(now.into());
    message.clone_into(&mut status.message);
    status_step(request, &status)
}

/// The schema requires the phase.
fn status_step(request: &ContainerRecreateRequest, status: &Status) -> Step {
    let ObjectMeta { uid, resource_version, .. } = &request.metadata;
    Step::Status(merge_patch((uid, resource_version), &request.status, status, &["phase"]))
}

/// How long it is until so long after `since`; `None` where that is over.
fn rest(since: Timestamp, lasts: SignedDuration, now: Timestamp) -> Option<Duration> {
    until(since.saturating_add(lasts).unwrap_or(Timestamp::MAX), now)
}
