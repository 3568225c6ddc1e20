//! What is written to the NodeImage of one node (docs/behaviour/images.md#handing-out).

use std::collections::BTreeMap;

use api::kinds::imagepulljob::{API_VERSION, KIND};
use api::kinds::nodeimage::{NodeImage, PullSecret, Tag, TagPullPolicy};
use api::kinds::shared::ObjectReference;
use jiff::{SignedDuration, Timestamp};

use super::Job;
use crate::workload::image_pull::{BACKOFF_LIMIT, IMAGE_PULL_POLICY, TIMEOUT_SECONDS, is_endless};
use crate::workload::image_task::{self, SUCCEEDED, is_owned_by, is_private, last_status, round, status};
use values::moment::Moment;

/// Seconds that a task of a job without end stays, and how long it may take at least.
const DAY: i32 = 86_400;
const ENDLESS_DEADLINE: i64 = 1800;

/// The node has as many images as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyImages;

/// The patch that gives a node the task of a job, with these Secrets; `None` where it has all that. `ttl` are seconds
/// that tasks stay beyond the job's own time; `is_over` says whether an owner has ended.
///
/// # Errors
/// The node has too many images.
pub fn hand_out(
    job: &Job,
    node: &NodeImage,
    secrets: &[PullSecret],
    ttl: i32,
    is_over: impl Fn(&ObjectReference) -> bool,
    moment: Moment,
) -> Result<Option<String>, TooManyImages> {
    let known = node.spec.images.get(&job.image.name);
    if !image_task::has_room(node, &job.image.name) {
        return Err(TooManyImages);
    }
    let mut image = known.cloned().unwrap_or_default();
    for secret in
        secrets.iter().filter(|secret| !known.is_some_and(|known| known.pull_secrets.contains(secret)))
    {
        image.pull_secrets.push((*secret).clone());
    }
    match image.tags.iter_mut().find(|tag| tag.tag == job.image.tag) {
        Some(tag) if is_owned_by(tag, &job.object.metadata.uid) => {}
        Some(tag) => {
            image.sandbox_config = job.object.spec.sandbox_config.clone();
            join(job, node, tag, is_over, moment.now);
        }
        None => {
            image.sandbox_config = job.object.spec.sandbox_config.clone();
            image.tags.push(new_task(job, node, ttl, moment));
            image.tags.sort_by(|one, other| one.tag.cmp(&other.tag));
        }
    }
    let name = job.image.name.as_str();
    Ok((known != Some(&image)).then(|| image_task::patch(node, &BTreeMap::from([(name, Some(image))]), None)))
}

/// Adds a job to the owners of a task. That is a new round, unless the image has just been pulled without credentials
/// and neither job wants the registry to be asked.
fn join(
    job: &Job,
    node: &NodeImage,
    task: &mut Tag,
    is_over: impl Fn(&ObjectReference) -> bool,
    now: Timestamp,
) {
    let wanted = policy_of(job);
    let is_fresh = || {
        let pulled = status(node, &job.image.name, task);
        let pulled = pulled.filter(|status| status.phase == SUCCEEDED && !is_private(status));
        let completed = pulled.and_then(|status| status.completion_time.as_ref()?.timestamp());
        let ttl = task.pull_policy.ttl_seconds_after_finished.unwrap_or(0);
        let until =
            completed.and_then(|time| time.saturating_add(SignedDuration::from_secs(ttl.into())).ok());
        until.is_some_and(|until| now < until)
    };
    let asks_nobody = |policy: &str| policy == IMAGE_PULL_POLICY;
    if !(asks_nobody(&task.image_pull_policy) && asks_nobody(wanted) && is_fresh()) {
        task.version = Some(round(task.version).saturating_add(1));
        task.created_at = Some(now.into());
        wanted.clone_into(&mut task.image_pull_policy);
        // Nobody pulls for those that have ended and released their Secrets.
        task.owner_references.retain(|owner| !is_over(owner));
    }
    task.owner_references.push(owner(job));
}

fn new_task(job: &Job, node: &NodeImage, ttl: i32, moment: Moment) -> Tag {
    let last = last_status(node, &job.image.name, &job.image.tag);
    let version = last.map_or(0, |status| round(status.version).saturating_add(1));
    Tag {
        created_at: Some(moment.now.into()),
        image_pull_policy: policy_of(job).to_owned(),
        owner_references: vec![owner(job)],
        pull_policy: pull_policy(job, ttl, moment),
        tag: job.image.tag.clone(),
        version: Some(version),
    }
}

/// How often and how long the pull is tried, and how long the task stays after it. Chance spreads what leaves.
fn pull_policy(job: &Job, beyond: i32, moment: Moment) -> TagPullPolicy {
    let spec = &job.object.spec;
    let timeout = spec.pull_policy.timeout_seconds.unwrap_or(TIMEOUT_SECONDS);
    let backoff = spec.pull_policy.backoff_limit.unwrap_or(BACKOFF_LIMIT);
    let completion = &spec.completion_policy;
    let chance = |most: u64| i32::try_from(moment.random().next_u64() % most).unwrap_or(0);
    let (ttl, deadline) = if is_endless(spec) {
        (DAY - 600 + chance(1200), Some(ENDLESS_DEADLINE.max(timeout.into())))
    } else {
        let deadline = completion.active_deadline_seconds;
        let own = completion.ttl_seconds_after_finished.map(i64::from).or(deadline);
        let own = own.unwrap_or_else(|| i64::from(timeout).saturating_mul(backoff.into()));
        let own = i32::try_from(own).unwrap_or(i32::MAX);
        (own.saturating_add(beyond).saturating_add(chance(300)), deadline)
    };
    TagPullPolicy {
        active_deadline_seconds: deadline,
        backoff_limit: Some(backoff),
        timeout_seconds: Some(timeout),
        ttl_seconds_after_finished: Some(ttl),
    }
}

fn policy_of(job: &Job) -> &str {
    let policy = job.object.spec.image_pull_policy.as_str();
    if policy.is_empty() { IMAGE_PULL_POLICY } else { policy }
}

fn owner(job: &Job) -> ObjectReference {
    let metadata = &job.object.metadata;
    ObjectReference {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        ..ObjectReference::default()
    }
}
