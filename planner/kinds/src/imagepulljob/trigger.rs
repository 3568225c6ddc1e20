//! Which changes concern which jobs (docs/behaviour/images.md#what-wakes-a-job).

use std::collections::BTreeSet;

use api::kinds::nodeimage::{NodeImage, TagStatus};

use super::{Job, is_placed};
use crate::workload::image_task::{fate, is_owned_by, last_status, task};
use pod::node_fit::NodeFacts;
use pod::observed::ObservedPod;

/// Whether a NodeImage came, went, or belongs to other jobs than before.
pub fn changes_sets(old: Option<&NodeImage>, new: Option<&NodeImage>) -> bool {
    let facts = |node: &NodeImage| (node.metadata.uid.clone(), node.metadata.deletion_timestamp.is_some());
    match (old, new) {
        (Some(old), Some(new)) => facts(old) != facts(new) || old.metadata.labels != new.metadata.labels,
        _ => true,
    }
}

/// Whether a job has one node more or less: the node is created, is deleted, begins to match or ceases to.
pub fn concerns(job: &Job, old: Option<&NodeImage>, new: Option<&NodeImage>) -> bool {
    let included = |node: Option<&NodeImage>| {
        let alive = node.filter(|node| node.metadata.deletion_timestamp.is_none());
        alive.is_some_and(|node| job.nodes.include(node).unwrap_or(true))
    };
    included(old) != included(new)
}

/// The names of images for which something has changed that concerns jobs.
pub fn changed_images<'n>(old: &'n NodeImage, new: &'n NodeImage) -> BTreeSet<&'n str> {
    let names = |node: &'n NodeImage| node.spec.images.keys().chain(node.status.image_statuses.keys());
    let differs = |name: &&String| {
        old.spec.images.get(*name) != new.spec.images.get(*name)
            || old.status.image_statuses.get(*name) != new.status.image_statuses.get(*name)
    };
    names(old).chain(names(new)).filter(differs).map(String::as_str).collect()
}

/// Whether the change of a NodeImage concerns a job of an image that has changed. How much of it is pulled is nothing
/// to a job.
pub fn is_about(job: &Job, old: &NodeImage, new: &NodeImage) -> bool {
    let image = &job.image;
    let secrets =
        |node: &NodeImage| node.spec.images.get(&image.name).map(|image| image.pull_secrets.clone());
    let word = job.word();
    let result = |status: &TagStatus| (status.version, status.phase.clone(), fate(Some(status), &word));
    let said = |node| last_status(node, &image.name, &image.tag).map(result);
    secrets(old) != secrets(new) || task(old, image) != task(new, image) || said(old) != said(new)
}

/// Whether the change of a Node has a job wait for it or no longer. One that has its task keeps it.
pub fn concerns_by_facts(
    job: &Job,
    node: &NodeImage,
    old: Option<&NodeFacts>,
    new: Option<&NodeFacts>,
) -> bool {
    let has_task = task(node, &job.image).is_some_and(|task| is_owned_by(task, &job.object.metadata.uid));
    job.when.holds(old) != job.when.holds(new) && !has_task && job.nodes.include(node).unwrap_or(true)
}

/// Whether the change of a Pod adds a node to a job, or takes one away.
pub fn concerns_by_pod(job: &Job, old: Option<&ObservedPod>, new: Option<&ObservedPod>) -> bool {
    let leads_to = |pod: Option<&ObservedPod>| {
        let pod = pod.filter(|pod| is_placed(pod) && job.nodes.include_pod(&pod.metadata.labels));
        pod.map(|pod| pod.spec.node_name.clone())
    };
    leads_to(old) != leads_to(new)
}
