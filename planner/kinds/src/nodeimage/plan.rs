//! Which Nodes have a NodeImage, which tasks leave it, and which are given up
//! (docs/behaviour/images.md#the-controller-of-nodeimages).

use std::collections::BTreeMap;
use std::time::Duration;

use api::kinds::nodeimage::{API_VERSION, Image, KIND, NodeImage, PullSecret, Tag, TagStatus};
use api::kinds::shared::ObjectReference;
use api::kinds::{Time, imagepulljob};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::workload::image_task::{self, FAILED, SUCCEEDED, last_status, round, status};
use crate::workload::object_version::ObjectVersion;
use pod::node_fit::is_virtual;
use values::event::{Event, warning};
use values::moment::Moment;

#[cfg(test)]
mod tests;

/// How long an agent may be silent.
const TIMEOUT: SignedDuration = SignedDuration::from_mins(10);
/// The shortest pause before a NodeImage is reconciled again; chance adds up to two seconds.
const SHORTEST: Duration = Duration::from_secs(3);
/// On NodeImages that live without a Node.
const FAKE: &str = "apps.kruise.io/fake-nodeimage";

/// A Node, as much of it as a NodeImage has to do with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Since when it is ready; `None` where it is not.
    pub ready_since: Option<Timestamp>,
    /// Its deletion was asked for.
    pub deleting: bool,
}

impl Node {
    /// Whether it represents something else than a machine.
    fn is_virtual(&self) -> bool {
        is_virtual(&self.labels)
    }
}

/// An owner of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It exists, or may exist.
    Alive,
    /// It is gone.
    Gone,
    /// It counts its tasks until it ends.
    Holds,
    /// It has ended at this time.
    Ended(Timestamp),
}

/// What a plan reads beside the Node and the NodeImage.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The ImagePullJob behind an owner reference.
    pub owner: &'a dyn Fn(&ObjectReference) -> Owner,
    /// Whether a Secret is known to be gone.
    pub secret_is_gone: &'a dyn Fn(&PullSecret) -> bool,
    /// How long a Node must have been ready before it gets a NodeImage.
    pub creation_delay: Duration,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing now.
    Nothing,
    /// Create the NodeImage.
    Create(String),
    /// Delete it.
    Delete(ObjectVersion),
    /// Change labels and spec by this JSON Patch.
    Change(String),
    /// Change the status by this merge patch, and report what failed.
    Fail(String, Vec<(ObjectReference, Event)>),
}

/// What to do about one Node, and when to reconcile again.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to do now.
    pub step: Step,
    /// When to reconcile again, even if nothing changes.
    pub again: Option<Duration>,
}

impl Plan {
    fn of(step: Step) -> Self {
        Self { step, again: None }
    }
}

/// Plans for the Node `name` and its NodeImage.
pub fn plan(
    name: &str,
    node: Option<&Node>,
    image: Option<&NodeImage>,
    context: Context<'_>,
    moment: Moment,
) -> Plan {
    let node = node.filter(|node| !node.deleting);
    let Some(image) = image else {
        return node
            .filter(|node| !node.is_virtual())
            .map_or(Plan::of(Step::Nothing), |node| create(name, node, context.creation_delay, moment.now));
    };
    if image.metadata.deletion_timestamp.is_some() {
        return Plan::of(Step::Nothing);
    }
    if node.is_none() && !image.metadata.labels.contains_key(FAKE) {
        return Plan::of(Step::Delete(ObjectVersion::object(&image.metadata)));
    }
    let mut waits = Waits { now: moment.now, shortest: None };
    let labels = node.map(|node| &node.labels).filter(|labels| **labels != image.metadata.labels);
    let changed = changed_images(image, context, &mut waits);
    if labels.is_some() || !changed.is_empty() {
        return Plan::of(Step::Change(image_task::patch(image, &changed, labels)));
    }
    let failed = failed(image, &mut waits);
    let step = if failed.is_empty() { Step::Nothing } else { fail(image, &failed, moment.now) };
    let chance = Duration::from_millis(moment.random().next_u64() % 2000);
    let again = waits.shortest.map(|left| if left < SHORTEST { SHORTEST + chance } else { left });
    Plan { step, again }
}

fn create(name: &str, node: &Node, delay: Duration, now: Timestamp) -> Plan {
    let Some(since) = node.ready_since else { return Plan::of(Step::Nothing) };
    let delay = SignedDuration::try_from(delay).unwrap_or_default();
    let mut waits = Waits { now, shortest: None };
    if !waits.is_over(since, delay) {
        return Plan { step: Step::Nothing, again: waits.shortest };
    }
    let metadata = json!({"name": name, "labels": node.labels});
    let object = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {}});
    Plan::of(Step::Create(object.to_string()))
}

/// Times that are waited for.
struct Waits {
    now: Timestamp,
    shortest: Option<Duration>,
}

impl Waits {
    /// Whether so long has passed since; if not, it is waited for.
    fn is_over(&mut self, since: Timestamp, time: SignedDuration) -> bool {
        let due = since.saturating_add(time).unwrap_or(Timestamp::MAX);
        let left = Duration::try_from(due.duration_since(self.now)).unwrap_or_default();
        if left.is_zero() {
            return true;
        }
        self.shortest = Some(self.shortest.map_or(left, |known| known.min(left)));
        false
    }
}

/// The images that change, `None` for those that leave.
fn changed_images<'n>(
    node: &'n NodeImage,
    context: Context<'_>,
    waits: &mut Waits,
) -> BTreeMap<&'n str, Option<Image>> {
    let mut changed = BTreeMap::new();
    for (name, image) in &node.spec.images {
        let mut after = image.clone();
        after.tags = image.tags.iter().filter_map(|tag| kept(node, name, tag, context, waits)).collect();
        after.tags.sort_by(|one, other| one.tag.cmp(&other.tag));
        // References to shared copies go when the image is written anyway: they would cost a write each time.
        let is_settled = || after.tags.iter().all(|tag| completed(node, name, tag).is_some());
        let drop_shared = after.tags != image.tags && is_settled();
        after
            .pull_secrets
            .retain(|secret| secret.mode == "batch" && !drop_shared || !(context.secret_is_gone)(secret));
        if after.tags.is_empty() {
            changed.insert(name.as_str(), None);
        } else if after != *image {
            changed.insert(name.as_str(), Some(after));
        }
    }
    changed
}

/// When the pull of this round of a task ended.
fn completed(node: &NodeImage, image: &str, tag: &Tag) -> Option<Timestamp> {
    status(node, image, tag)?.completion_time.as_ref()?.timestamp()
}

/// A task with the owners that there still are; `None` where it is over.
fn kept(node: &NodeImage, image: &str, tag: &Tag, context: Context<'_>, waits: &mut Waits) -> Option<Tag> {
    tag.created_at.as_ref()?;
    let mut after = tag.clone();
    let (mut holds, mut ended) = (false, Timestamp::MIN);
    after.owner_references.retain(|reference| match state(reference, context) {
        Owner::Gone => false,
        Owner::Alive => true,
        Owner::Holds => {
            holds = true;
            true
        }
        Owner::Ended(time) => {
            ended = ended.max(time);
            true
        }
    });
    if after.owner_references.is_empty() && !tag.owner_references.is_empty() {
        return None;
    }
    if let Some(completed) = completed(node, image, tag)
        && let Some(ttl) = tag.pull_policy.ttl_seconds_after_finished
        && !holds
        && waits.is_over(completed.max(ended), SignedDuration::from_secs(ttl.into()))
    {
        return None;
    }
    Some(after)
}

/// The owner that a reference names; of other kinds nothing is known.
fn state(reference: &ObjectReference, context: Context<'_>) -> Owner {
    let (group, _) = api::group_and_version(&reference.api_version);
    let is_job = reference.kind == imagepulljob::KIND && group == api::APPS_GROUP;
    if is_job { (context.owner)(reference) } else { Owner::Alive }
}

/// A task that is given up.
struct Failed<'n> {
    image: &'n str,
    task: &'n Tag,
    message: &'static str,
}

/// The tasks whose agent has been silent for too long.
fn failed<'n>(node: &'n NodeImage, waits: &mut Waits) -> Vec<Failed<'n>> {
    let mut all = Vec::new();
    for (image, task) in
        node.spec.images.iter().flat_map(|(name, image)| image.tags.iter().map(move |tag| (name, tag)))
    {
        let Some(created) = task.created_at.as_ref().and_then(Time::timestamp) else { continue };
        let known =
            last_status(node, image, &task.tag).filter(|known| round(known.version) >= round(task.version));
        let deadline = task.pull_policy.active_deadline_seconds;
        let (limit, message) = match (known, deadline) {
            (None, _) => (TIMEOUT, "node has not responded for a long time"),
            (Some(known), Some(seconds)) if known.completion_time.is_none() => {
                let limit = TIMEOUT.saturating_add(SignedDuration::from_secs(seconds));
                (limit, "pulling exceeds the activeDeadlineSeconds")
            }
            _ => continue,
        };
        if waits.is_over(created, limit) {
            all.push(Failed { image, task, message });
        }
    }
    all
}

/// Notes in the status that tasks have failed, and records Events of their owners.
fn fail(node: &NodeImage, failed: &[Failed<'_>], now: Timestamp) -> Step {
    let mut statuses: BTreeMap<&str, Vec<TagStatus>> = BTreeMap::new();
    for (name, image) in &node.spec.images {
        let tags = image.tags.iter().filter_map(|tag| {
            let known = last_status(node, name, &tag.tag).cloned();
            let failed = failed.iter().find(|failed| failed.image == name && failed.task.tag == tag.tag);
            let Some(Failed { message, .. }) = failed else { return known };
            let known = known.filter(|known| round(known.version) == round(tag.version));
            Some(TagStatus {
                tag: tag.tag.clone(),
                phase: FAILED.to_owned(),
                completion_time: Some(now.into()),
                version: tag.version,
                message: (*message).to_owned(),
                ..known.unwrap_or_default()
            })
        });
        let tags: Vec<TagStatus> = tags.collect();
        if !tags.is_empty() {
            statuses.insert(name, tags);
        }
    }
    let count = |phase: &str| statuses.values().flatten().filter(|status| status.phase == phase).count();
    // What is not in the spec any more is removed.
    let gone = node.status.image_statuses.keys().filter(|name| !statuses.contains_key(name.as_str()));
    let gone: Vec<&String> = gone.collect();
    let mut images: Map<String, Value> =
        statuses.iter().map(|(name, tags)| ((*name).to_owned(), json!({"tags": tags}))).collect();
    images.extend(gone.into_iter().map(|name| (name.clone(), Value::Null)));
    let desired: usize = node.spec.images.values().map(|image| image.tags.len()).sum();
    let metadata = json!({"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version});
    let status = json!({
        "desired": desired, "succeeded": count(SUCCEEDED), "pulling": count("Pulling"), "failed": count(FAILED),
        "imageStatuses": images,
    });
    let events = failed.iter().flat_map(|failed| reported(node, failed)).collect();
    Step::Fail(json!({"metadata": metadata, "status": status}).to_string(), events)
}

/// The Events about a failure: on the owners and on the NodeImage.
fn reported(node: &NodeImage, failed: &Failed<'_>) -> Vec<(ObjectReference, Event)> {
    let Failed { image, task, message } = failed;
    let name = &node.metadata.name;
    let own = ObjectReference {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        name: name.clone(),
        uid: node.metadata.uid.clone(),
        ..ObjectReference::default()
    };
    let event = || {
        let message = format!("Failed to pull image {image}:{} on node {name} for {message}", task.tag);
        warning("PullImageFailed", message)
    };
    task.owner_references.iter().cloned().chain([own]).map(|object| (object, event())).collect()
}
