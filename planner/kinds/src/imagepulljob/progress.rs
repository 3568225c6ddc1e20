//! How far a job is (docs/behaviour/images.md#status-of-imagepulljobs), and what is to be done next.

use std::sync::Arc;
use std::time::Duration;

use api::annotations::PULL_WHEN;
use api::kinds::imagepulljob::Status;
use api::kinds::nodeimage::{NodeImage, PullSecret};
use api::kinds::shared::IntOrString;
use jiff::{SignedDuration, Timestamp};

use super::{Job, Nodes};
use crate::workload::image_pull::is_endless;
use crate::workload::image_task::{TaskOutcome, fate, has_room, is_owned_by, status, task};
use crate::workload::status::merge_patch;
use pod::node_fit;

/// Shortest wait for a deadline.
const SHORTEST: Duration = Duration::from_secs(1);
/// How long a job that has begun waits for what it names and nobody knows, in seconds.
const TIMEOUT: i64 = 10;
/// Pause before it is looked again for nodes without a NodeImage.
const AGAIN: Duration = Duration::from_secs(10);

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It pulls.
    Running,
    /// Its spec can't be used: it waits for its deletion.
    Unusable,
    /// It is being deleted: its Secrets are released.
    Ending,
    /// It has completed: its Secrets are released. To be deleted after this time, if ever.
    Completed(Option<Duration>),
}

/// Where a job is in its life.
pub fn stage(job: &Job, now: Timestamp) -> Stage {
    if job.object.metadata.deletion_timestamp.is_some() {
        return Stage::Ending;
    }
    let Some(completed) = &job.object.status.completion_time else {
        return if job.fault.is_none() { Stage::Running } else { Stage::Unusable };
    };
    let ttl = job.object.spec.completion_policy.ttl_seconds_after_finished;
    let left = ttl.zip(completed.timestamp()).map(|(ttl, completed)| remaining(completed, ttl.into(), now));
    Stage::Completed(left)
}

/// What is left of so many seconds after `since`.
fn remaining(since: Timestamp, seconds: i64, now: Timestamp) -> Duration {
    let due = since.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    due.duration_since(now).try_into().unwrap_or_default()
}

/// A job's nodes, each in one list.
#[derive(Clone, Debug, Default)]
pub struct Look<'n> {
    /// Those that have no task of the job yet, in the order in which they are served.
    pub waiting: Vec<&'n NodeImage>,
    /// Those that have none, and don't show yet what the job asks of a node.
    pub held: Vec<&'n NodeImage>,
    /// Those that have a task which has not ended.
    pub active: Vec<&'n NodeImage>,
    /// Those that have the image.
    pub succeeded: Vec<&'n NodeImage>,
    /// Those that failed for good.
    pub failed: Vec<&'n NodeImage>,
    /// What is not known yet and waited for.
    pub awaited: Vec<String>,
    /// A Secret is among it: nothing is handed out before.
    pub lacks_secret: bool,
}

impl<'n> Look<'n> {
    /// Looks at the nodes of a job.
    pub fn at(job: &Job, nodes: &'n [Arc<NodeImage>]) -> Self {
        let (mut look, word) = (Self::default(), job.word());
        for node in nodes {
            let task = task(node, &job.image).filter(|task| is_owned_by(task, &job.object.metadata.uid));
            let list = match task.map(|task| fate(status(node, &job.image.name, task), &word)) {
                None => &mut look.waiting,
                Some(TaskOutcome::Succeeded) => &mut look.succeeded,
                Some(TaskOutcome::Failed) => &mut look.failed,
                Some(TaskOutcome::Open) => &mut look.active,
            };
            list.push(node);
        }
        look
    }

    /// Takes in what the Nodes show: those that wait and don't show what the job asks for are held.
    pub fn hold(&mut self, job: &Job, facts: &node_fit::Nodes) {
        if job.when.is_empty() {
            return;
        }
        let shows = |node: &&NodeImage| job.when.holds(facts.get(&*node.metadata.name).map(|facts| &**facts));
        (self.waiting, self.held) = std::mem::take(&mut self.waiting).into_iter().partition(shows);
    }

    /// Takes in that so many nodes are ready and have no NodeImage yet, and that these Secrets are not there. A job that has
    /// just begun may know less than its creator.
    pub fn wait_for(&mut self, job: &Job, unknown: usize, missing: &[String], now: Timestamp) {
        let is_new = !remaining_wait(job, now).is_zero();
        let names = if let Nodes::Named(names) = &job.nodes { names.len() } else { 1 };
        if unknown > 0 {
            self.awaited.push(format!("the NodeImages of {unknown} nodes"));
        } else if is_new && self.desired() < names {
            self.awaited.push("NodeImages".to_owned());
        }
        self.lacks_secret = is_new && !missing.is_empty();
        if self.lacks_secret {
            self.awaited.extend(missing.iter().map(|name| format!("Secret {name}")));
        }
    }

    /// How many nodes there are.
    pub fn desired(&self) -> usize {
        self.waiting.len() + self.held.len() + self.active.len() + self.finished()
    }

    fn finished(&self) -> usize {
        self.succeeded.len() + self.failed.len()
    }

    fn is_done(&self) -> bool {
        self.finished() == self.desired() && self.awaited.is_empty()
    }
}

/// The end of the job's time; `None` where it has no limit.
fn deadline(job: &Job, now: Timestamp) -> Option<Duration> {
    let seconds = job
        .object
        .spec
        .completion_policy
        .active_deadline_seconds
        .filter(|_| !is_endless(&job.object.spec))?;
    let start = job.object.status.start_time.as_ref().and_then(|start| start.timestamp()).unwrap_or(now);
    Some(remaining(start, seconds, now))
}

/// Whether the job's time is over although it has not finished.
pub fn is_overdue(job: &Job, look: &Look<'_>, now: Timestamp) -> bool {
    !look.is_done() && deadline(job, now).is_some_and(|left| left.is_zero())
}

/// For how long a job still waits for what it names and nobody knows.
pub fn remaining_wait(job: &Job, now: Timestamp) -> Duration {
    let start = job.object.status.start_time.as_ref().and_then(|start| start.timestamp()).unwrap_or(now);
    remaining(start, TIMEOUT, now)
}

/// When a running job is to be reconciled again even if nothing changes.
pub fn next_reconcile(job: &Job, look: &Look<'_>, now: Timestamp) -> Option<Duration> {
    let remaining_wait = Some(remaining_wait(job, now)).filter(|left| !left.is_zero());
    let awaited = (!look.awaited.is_empty()).then(|| remaining_wait.unwrap_or(AGAIN));
    deadline(job, now).into_iter().chain(awaited).min().map(|left| left.max(SHORTEST))
}

/// The nodes to write to.
#[derive(Clone, Debug, Default)]
pub struct Due<'n> {
    /// Those that pull and lack one of the Secrets.
    pub lacking: Vec<&'n NodeImage>,
    /// Those that get their task, in this order,
    pub waiting: Vec<&'n NodeImage>,
    /// but only so many of them now.
    pub free: usize,
    /// How many can't get it, since they have too many images.
    pub full: usize,
}

/// The nodes to write to, where the job uses these Secrets.
pub fn due<'n>(job: &Job, look: &Look<'n>, secrets: &[PullSecret]) -> Due<'n> {
    let parallelism: i64 = match &job.object.spec.parallelism {
        None => 1,
        Some(IntOrString::Int(number)) => (*number).into(),
        Some(IntOrString::String(text)) => text.parse().unwrap_or(1),
    };
    let lacks = |node: &&NodeImage| {
        let known = node.spec.images.get(&job.image.name);
        known.is_some_and(|known| secrets.iter().any(|secret| !known.pull_secrets.contains(secret)))
    };
    let waiting: Vec<&NodeImage> =
        look.waiting.iter().copied().filter(|node| has_room(node, &job.image.name)).collect();
    Due {
        lacking: look.active.iter().copied().filter(lacks).collect(),
        full: look.waiting.len() - waiting.len(),
        waiting,
        free: usize::try_from(parallelism).unwrap_or(0).saturating_sub(look.active.len()),
    }
}

/// The status of a running job.
pub fn status_of(job: &Job, look: &Look<'_>, now: Timestamp) -> Status {
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let some = |number: usize| Some(count(number)).filter(|count| *count > 0);
    let names = |lists: &[&[&NodeImage]]| {
        let nodes = lists.iter().flat_map(|list| list.iter());
        let mut names: Vec<String> = nodes.map(|node| node.metadata.name.clone()).collect();
        names.sort_unstable();
        names
    };
    let old = &job.object.status;
    let mut status = Status {
        start_time: old.start_time.clone().or_else(|| Some(now.into())),
        desired: count(look.desired()),
        succeeded: some(look.succeeded.len()),
        ..Status::default()
    };
    if is_overdue(job, look, now) {
        status.failed_nodes = names(&[&look.failed, &look.active, &look.waiting, &look.held]);
        status.failed = some(status.failed_nodes.len());
        status.completion_time = Some(now.into());
        "job exceeds activeDeadlineSeconds".clone_into(&mut status.message);
        return status;
    }
    status.active = some(look.active.len());
    status.failed = some(look.failed.len());
    status.failed_nodes = names(&[&look.failed]);
    if look.is_done() && !is_endless(&job.object.spec) {
        status.completion_time = Some(now.into());
        "job has completed".clone_into(&mut status.message);
        return status;
    }
    status.message = if look.desired() == 0 {
        "job is running, no progress".to_owned()
    } else {
        let share = 100.0 * look.finished() as f64 / look.desired() as f64;
        format!("job is running, progress {share:.1}%")
    };
    let held = (!look.held.is_empty()).then(|| format!("{PULL_WHEN} on {} nodes", look.held.len()));
    let awaited: Vec<String> = look.awaited.iter().cloned().chain(held).collect();
    if !awaited.is_empty() {
        status.message.push_str(&format!(", waits for {}", awaited.join(", ")));
    }
    status
}

/// The merge patch of the status; `None` where nothing differs.
pub fn patch(job: &Job, status: &Status) -> Option<String> {
    let (metadata, old) = (&job.object.metadata, &job.object.status);
    let observed = (metadata.uid.as_str(), metadata.resource_version.as_str());
    (old != status).then(|| merge_patch(observed, old, status, &["desired"]))
}
