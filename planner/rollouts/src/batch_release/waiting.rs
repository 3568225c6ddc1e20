//! What a release waits for, in words.

use std::sync::Arc;

use api::kinds::batchrelease::{BatchRelease, Phase};
use pod::observed::ObservedPod;

use super::ready::{Lack, lack};
use super::{batch_of, labels};
use crate::view::{Unread, View};
use crate::workload::Workload;

/// What a release waits for, such as "batch 2: 3 of 5 new pods ready; `web-7x` ImagePullBackOff"; `None` where it waits for
/// nothing but to go on.
///
/// # Errors
/// The Pods have not been read.
pub fn waiting(release: &BatchRelease, workload: &Workload, view: &View) -> Result<Option<String>, Unread> {
    let status = &release.status;
    if !status.message.is_empty() {
        return Ok(Some(status.message.clone()));
    }
    let Some(present) = status.canary_status.as_ref().filter(|_| status.phase == Phase::Progressing) else {
        return Ok(None);
    };
    let Some(batch) = batch_of(release, workload, present).filter(|_| workload.replicas > 0) else {
        return Ok(None);
    };
    let labels = labels::of_batches(release, workload, present, &batch, view)?;
    let (present_pods, wanted, what) = match lack(release, workload, &batch, &labels) {
        None => return Ok(None),
        Some(Lack::New { present, wanted }) => (present, wanted, "pods new"),
        Some(Lack::Ready { present, wanted }) => (present, wanted, "new pods ready"),
        Some(Lack::Labels { present, wanted }) => (present, wanted, "new pods labelled"),
    };
    let number = present.current_batch + 1;
    let words = format!("batch {number}: {present_pods} of {wanted} {what}");
    Ok(Some(match trouble(&workload.new_pods(view)?) {
        Some(trouble) => format!("{words}; {trouble}"),
        None => words,
    }))
}

/// The first Pod that says why it is not ready, and what it says; else the first that is not.
fn trouble(pods: &[&Arc<ObservedPod>]) -> Option<String> {
    let mut unready = pods.iter().filter(|pod| !pod.is_ready());
    let told = unready.clone().find_map(|pod| Some((pod, reason(pod)?)));
    let (pod, reason) = told.or_else(|| unready.next().map(|pod| (pod, "is not ready".to_owned())))?;
    Some(format!("`{}` {reason}", pod.metadata.name))
}

/// Why a Pod is not ready, where somebody says it.
fn reason(pod: &ObservedPod) -> Option<String> {
    let unscheduled = pod.condition("PodScheduled").filter(|condition| &*condition.status == "False");
    failure(pod).or(unscheduled.map(|condition| &*condition.reason)).map(str::to_owned)
}

/// Why a container of a Pod does not start.
pub(crate) fn failure(pod: &ObservedPod) -> Option<&str> {
    let statuses = pod.status.init_container_statuses.iter().chain(&*pod.status.container_statuses);
    let waiting = statuses.filter_map(|status| status.state.waiting.as_ref());
    let is_trouble = |reason: &&str| !matches!(*reason, "" | "ContainerCreating" | "PodInitializing");
    waiting.map(|waiting| &*waiting.reason).find(is_trouble)
}
