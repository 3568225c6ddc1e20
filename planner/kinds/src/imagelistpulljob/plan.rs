//! The ImagePullJobs of a list, and what became of them
//! (docs/behaviour/images.md#the-controller-of-imagelistpulljobs).

use std::collections::BTreeMap;
use std::time::Duration;

use api::annotations::PULL_WHEN;
use api::kinds::ObjectMeta;
use api::kinds::imagelistpulljob::{API_VERSION, FailedImageStatus, ImageListPullJob, KIND, Status};
use api::kinds::imagepulljob::{self, ImagePullJob};
use api::labels::CONTROLLER_REVISION_HASH;
use jiff::{SignedDuration, Timestamp};
use serde_json::{json, to_value};

use crate::workload::image_pull::{is_endless, of_list, with_defaults};
use crate::workload::object_version::ObjectVersion;
use crate::workload::owner::Owner;
use crate::workload::status::merge_patch;
use values::hash::{fnv1_32, safe_encode};

#[cfg(test)]
mod tests;

/// What to do about a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// It has been over for long enough: it is deleted.
    pub expired: bool,
    /// The merge patch of its label.
    pub label: Option<String>,
    /// Jobs to create.
    pub create: Vec<String>,
    /// Labels and annotations of jobs to correct: names and merge patches.
    pub correct: Vec<(String, String)>,
    /// Jobs to delete.
    pub delete: Vec<ObjectVersion>,
    /// The merge patch of its status.
    pub status: Option<String>,
    /// When to reconcile again, even if nothing changes.
    pub again: Option<Duration>,
}

/// Plans for a list with the jobs that it owns.
pub fn plan(list: &ImageListPullJob, owned: &[&ImagePullJob], now: Timestamp) -> Plan {
    if list.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    let hash = hash(list);
    let mut plan = Plan { label: label(&list.metadata, &hash), ..Plan::default() };
    if let Some(completed) = &list.status.completion_time {
        let ttl = list.spec.completion_policy.ttl_seconds_after_finished;
        let due = ttl.zip(completed.timestamp()).map(|(ttl, completed)| {
            completed.saturating_add(SignedDuration::from_secs(ttl.into())).unwrap_or(Timestamp::MAX)
        });
        plan.again = due.map(|due| due.duration_since(now).try_into().unwrap_or_default());
        plan.expired = plan.again.is_some_and(|left| left.is_zero());
        return plan;
    }
    let mut alive: Vec<&ImagePullJob> =
        owned.iter().copied().filter(|job| job.metadata.deletion_timestamp.is_none()).collect();
    // Of two jobs for one image, such as one whose creation was not answered, the older one stays.
    alive.sort_by_key(|job| {
        (job.metadata.creation_timestamp.as_ref().map(|time| &time.0), &job.metadata.name)
    });
    let mut jobs: BTreeMap<&str, &ImagePullJob> = BTreeMap::new();
    for job in alive {
        let image = job.spec.image.as_str();
        let is_listed = list.spec.images.iter().any(|listed| listed == image);
        let is_equal = normal(&job.spec) == normal(&of_list(&list.spec, image));
        if !is_listed || !is_equal || jobs.contains_key(image) {
            plan.delete.push(ObjectVersion::object(&job.metadata));
            continue;
        }
        let patches = label(&job.metadata, &hash).into_iter().chain(pull_when(&list.metadata, &job.metadata));
        plan.correct.extend(patches.map(|patch| (job.metadata.name.clone(), patch)));
        jobs.insert(image, job);
    }
    let missing = list.spec.images.iter().filter(|image| !jobs.contains_key(image.as_str()));
    plan.create = missing.map(|image| new_job(list, image, &hash)).collect();
    let status = status(list, jobs.values().copied(), now);
    if status != list.status {
        let observed = (list.metadata.uid.as_str(), list.metadata.resource_version.as_str());
        plan.status = Some(merge_patch(observed, &list.status, &status, &["desired"]));
    }
    plan
}

/// A spec as it is compared: with its defaults, and without the time for which its job stays.
fn normal(spec: &imagepulljob::Spec) -> imagepulljob::Spec {
    let mut spec = with_defaults(spec.clone());
    spec.completion_policy.ttl_seconds_after_finished = None;
    spec
}

/// The hash of what all jobs of the list have in common.
fn hash(list: &ImageListPullJob) -> String {
    let text = to_value(normal(&of_list(&list.spec, ""))).unwrap_or_default().to_string();
    safe_encode(&fnv1_32(text.bytes()).to_string())
}

/// The patch that sets the hash of an object; `None` where it is right.
fn label(metadata: &ObjectMeta, hash: &str) -> Option<String> {
    let is_right = metadata.labels.get(CONTROLLER_REVISION_HASH).is_some_and(|known| known == hash);
    let metadata = json!({"uid": metadata.uid, "labels": {CONTROLLER_REVISION_HASH: hash}});
    (!is_right).then(|| json!({"metadata": metadata}).to_string())
}

/// The patch that has a job pull where its list may; `None` where it does.
fn pull_when(list: &ObjectMeta, job: &ObjectMeta) -> Option<String> {
    let [wanted, known] = [list, job].map(|metadata| metadata.annotations.get(PULL_WHEN));
    let metadata = json!({"uid": job.uid, "annotations": {PULL_WHEN: wanted}});
    (wanted != known).then(|| json!({"metadata": metadata}).to_string())
}

/// A job stays until its list is deleted: one that went earlier would be missed, and made again.
fn new_job(list: &ImageListPullJob, image: &str, hash: &str) -> String {
    let mut spec = of_list(&list.spec, image);
    spec.completion_policy.ttl_seconds_after_finished = None;
    let annotations: BTreeMap<_, _> =
        list.metadata.annotations.get_key_value(PULL_WHEN).into_iter().collect();
    let metadata = json!({
        "generateName": format!("{}-", list.metadata.name), "namespace": list.metadata.namespace,
        "labels": {CONTROLLER_REVISION_HASH: hash}, "annotations": annotations,
        "ownerReferences": [Owner::of(API_VERSION, KIND, &list.metadata)],
    });
    json!({
        "apiVersion": imagepulljob::API_VERSION, "kind": imagepulljob::KIND, "metadata": metadata, "spec": spec,
    })
    .to_string()
}

fn status<'a>(
    list: &ImageListPullJob,
    jobs: impl Iterator<Item = &'a ImagePullJob>,
    now: Timestamp,
) -> Status {
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let is_endless = is_endless(&of_list(&list.spec, ""));
    let (mut active, mut completed, mut succeeded) = (0, 0, 0);
    let mut failed = Vec::new();
    for job in jobs.filter(|job| job.status.start_time.is_some()) {
        let of = &job.status;
        let number = |count: Option<i32>| count.unwrap_or(0);
        active += i32::from(number(of.active) > 0);
        // The figures of a job may all agree before it knows its nodes; one without an end has nothing but them.
        let agree = of.desired == number(of.failed).saturating_add(number(of.succeeded));
        let is_over = of.completion_time.is_some() || (is_endless && agree);
        completed += i32::from(is_over);
        succeeded += i32::from(is_over && of.desired == number(of.succeeded));
        if number(of.failed) > 0 {
            let name = &job.metadata.name;
            failed.push(FailedImageStatus {
                image_pull_job: name.clone(),
                name: job.spec.image.clone(),
                message: format!(
                    "Please check for details which nodes failed by 'kubectl get ImagePullJob {name}'."
                ),
            });
        }
    }
    let desired = count(list.spec.images.len());
    let some = |count: i32| Some(count).filter(|count| *count > 0);
    let is_over = !is_endless && desired == completed;
    Status {
        active: some(active),
        completed: some(completed),
        completion_time: is_over.then(|| now.into()),
        desired,
        failed_image_statuses: failed,
        start_time: list.status.start_time.clone().or_else(|| Some(now.into())),
        succeeded: some(succeeded),
    }
}
