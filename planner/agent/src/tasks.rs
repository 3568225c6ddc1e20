//! Which pulls to start and to stop, and what the status of the NodeImage says
//! (docs/behaviour/node-agent.md#tasks).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::kinds::nodeimage::{ImageStatus, NodeImage, Status, TagStatus};
use api::kinds::shared::ObjectReference;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::pull::reference;
use kinds::workload::image_task::{FAILED, SUCCEEDED, WITH_SECRETS, is_doubtful, refusal, status, word};
use values::event::{Event, normal, warning};

#[cfg(test)]
mod tests;

/// A task that waits for its turn.
const WAITING: &str = "Waiting";
/// A task whose image is being pulled.
const PULLING: &str = "Pulling";
/// The longest message of a status, in bytes.
const MESSAGE: usize = 1024;

/// One image and one tag.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The name of the image, without tag.
    pub image: String,
    /// The tag, or the digest.
    pub tag: String,
}

/// The number of a worker; no two workers of a process have the same.
pub type Worker = u64;

/// What to do about workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stop this worker. What it still reports does not count.
    Stop(Worker),
    /// Start this worker for this task.
    Start(Worker, Key),
}

/// What a worker reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// It has begun to pull.
    Began,
    /// Owners have not the image: an attempt has failed, or their turn comes; and it continues.
    Stumbled(Refusal),
    /// The image is there for all owners.
    Succeeded {
        /// Its ID, where the runtime reports one.
        id: Option<String>,
        /// It came with credentials that not everybody has.
        is_private: bool,
    },
    /// There will be no more attempts.
    Failed(Refusal),
}

/// Why an image is not there for owners of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// These owners, while others have it; all where none is named.
    pub owners: Vec<String>,
    /// Why.
    pub error: String,
}

impl Refusal {
    /// Whether an owner has not the image.
    pub fn concerns(&self, owner: &ObjectReference) -> bool {
        self.owners.is_empty() || self.owners.contains(&word(owner))
    }

    fn message(&self) -> String {
        refusal(&self.owners, &shortened(&self.error))
    }
}

/// What this process knows of the tasks of its node.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    known: BTreeMap<Key, Known>,
    workers: Worker,
}

/// A task that a worker of this process has served or serves.
#[derive(Clone, Debug)]
struct Known {
    worker: Worker,
    status: TagStatus,
}

impl Known {
    fn is_running(&self) -> bool {
        self.status.completion_time.is_none()
    }
}

/// A write of the status that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The merge patch. It holds for the version that was observed.
    pub patch: String,
    /// How long to wait for other changes, to write them together.
    pub gather: Duration,
}

impl Tasks {
    /// What to start and to stop, for the NodeImage as it is now. A task that has ended stays known until the
    /// status on the API server says so, so that a lost write does not begin a second pull.
    pub fn follow(&mut self, node: Option<&NodeImage>) -> Vec<Step> {
        let mut steps = Vec::new();
        let wanted = wanted(node);
        self.known.retain(|key, known| {
            let keeps = wanted.get(key).is_some_and(|version| *version == known.status.version);
            if !keeps && known.is_running() {
                steps.push(Step::Stop(known.worker));
            }
            keeps
        });
        for (key, version) in wanted {
            if self.known.contains_key(&key) {
                continue;
            }
            self.workers = self.workers.saturating_add(1);
            // An agent that starts anew in this round knows from its status that not everybody has the image.
            let is_doubtful = node.is_some_and(|node| is_doubtful(node, &key.image, &key.tag));
            let status = TagStatus {
                tag: key.tag.clone(),
                phase: WAITING.to_owned(),
                message: if is_doubtful { WITH_SECRETS } else { "" }.to_owned(),
                version,
                ..TagStatus::default()
            };
            self.known.insert(key.clone(), Known { worker: self.workers, status });
            steps.push(Step::Start(self.workers, key));
        }
        steps
    }

    /// Records what a worker reports; false where it has been stopped before.
    pub fn report(&mut self, key: &Key, worker: Worker, report: &Report, now: Timestamp) -> bool {
        let Some(known) =
            self.known.get_mut(key).filter(|known| known.worker == worker && known.is_running())
        else {
            return false;
        };
        let status = &mut known.status;
        match report {
            Report::Began => {
                PULLING.clone_into(&mut status.phase);
                status.start_time = Some(now.into());
            }
            Report::Stumbled(refusal) => status.message = refusal.message(),
            Report::Succeeded { id, is_private } => {
                SUCCEEDED.clone_into(&mut status.phase);
                status.completion_time = Some(now.into());
                status.progress = Some(100);
                status.message = is_private.then_some(WITH_SECRETS).unwrap_or_default().to_owned();
                status.image_id = id.as_ref().map(|id| format!("{}@{id}", key.image)).unwrap_or_default();
            }
            Report::Failed(refusal) => {
                FAILED.clone_into(&mut status.phase);
                status.completion_time = Some(now.into());
                status.message = refusal.message();
            }
        }
        true
    }

    /// The status as this process sees it: tasks whose end the API server knows are as it knows them.
    fn status(&self, node: &NodeImage) -> Status {
        let mut observed = Status::default();
        for (name, image) in &node.spec.images {
            let mut tags: Vec<TagStatus> = Vec::new();
            for tag in &image.tags {
                observed.desired = observed.desired.saturating_add(1);
                let key = Key { image: name.clone(), tag: tag.tag.clone() };
                let known = self.known.get(&key).map(|known| &known.status);
                tags.extend(known.or_else(|| status(node, name, tag)).cloned());
            }
            tags.sort_by(|one, other| one.tag.cmp(&other.tag));
            for tag in &tags {
                let counter = match tag.phase.as_str() {
                    SUCCEEDED => &mut observed.succeeded,
                    FAILED => &mut observed.failed,
                    PULLING => &mut observed.pulling,
                    WAITING => &mut observed.waiting,
                    _ => continue,
                };
                *counter = Some(counter.unwrap_or_default().saturating_add(1));
            }
            if !tags.is_empty() {
                observed.image_statuses.insert(name.clone(), ImageStatus { tags });
            }
        }
        observed
    }

    /// The write of the status that is due; none where the API server knows all.
    pub fn change(&self, node: &NodeImage) -> Option<Change> {
        let (before, after) = (&node.status, self.status(node));
        let mut changed = Map::new();
        let mut images = Map::new();
        let names: BTreeSet<&String> =
            before.image_statuses.keys().chain(after.image_statuses.keys()).collect();
        for name in names {
            let (old, new) = (before.image_statuses.get(name), after.image_statuses.get(name));
            if old != new {
                images.insert(name.clone(), json!(new));
            }
        }
        if before.desired != after.desired {
            changed.insert("desired".to_owned(), json!(after.desired));
        }
        for (name, old, new) in [
            ("succeeded", before.succeeded, after.succeeded),
            ("failed", before.failed, after.failed),
            ("pulling", before.pulling, after.pulling),
            ("waiting", before.waiting, after.waiting),
        ] {
            if old.unwrap_or_default() != new.unwrap_or_default() {
                changed.insert(name.to_owned(), json!(new));
            }
        }
        if !images.is_empty() {
            changed.insert("imageStatuses".to_owned(), Value::Object(images));
        }
        if changed.is_empty() {
            return None;
        }
        let metadata = json!({"resourceVersion": node.metadata.resource_version});
        let patch = json!({"metadata": metadata, "status": changed}).to_string();
        Some(Change { patch, gather: gather(before, &after) })
    }
}

/// The tasks that are to be served, with their rounds: those whose end the API server does not know.
fn wanted(node: Option<&NodeImage>) -> BTreeMap<Key, Option<i64>> {
    let mut wanted = BTreeMap::new();
    let Some(node) = node else { return wanted };
    for (name, image) in &node.spec.images {
        for tag in &image.tags {
            let is_done = status(node, name, tag).is_some_and(|status| status.completion_time.is_some());
            if !is_done {
                wanted.insert(Key { image: name.clone(), tag: tag.tag.clone() }, tag.version);
            }
        }
    }
    wanted
}

/// An end is reported soon, since jobs wait for it; that a pull continues is reported where it takes a while. So an
/// image that is there costs one write.
fn gather(before: &Status, after: &Status) -> Duration {
    let ended = |status: &Status| {
        let ended = |count: Option<i32>| count.unwrap_or_default();
        ended(status.succeeded).saturating_add(ended(status.failed))
    };
    Duration::from_millis(if ended(after) > ended(before) { 100 } else { 1000 })
}

/// What to report to all about a pull that has ended, or stopped being tried.
pub fn event(key: &Key, report: &Report, elapsed: Duration) -> Option<Event> {
    let image = reference(&key.image, &key.tag);
    match report {
        // The misspelt word is what OpenKruise writes, and what people look for.
        Report::Succeeded { .. } => Some(normal(
            "PullImageSucceed",
            format!("Image {image}, ecalpsedTime {:.1}s", elapsed.as_secs_f64()),
        )),
        Report::Failed(refusal) => {
            Some(warning("PullImageFailed", format!("Image {image} {}", refusal.error)))
        }
        Report::Began | Report::Stumbled(_) => None,
    }
}

/// As much of a message as a status shows.
pub(super) fn shortened(message: &str) -> String {
    values::short::shortened(message, MESSAGE).to_owned()
}
