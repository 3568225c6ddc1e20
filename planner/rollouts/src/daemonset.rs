//! Rolls a DaemonSet of Kubernetes as far as its release allows (docs/behaviour/rollouts.md#the-daemonset-controller). A
//! release holds the DaemonSet at type OnDelete, so that Kubernetes brings a Pod of the newest template wherever an old one
//! was deleted. Which old Pods are deleted, and when, is decided here:
//!
//! 1. `partition` old Pods stay.
//! 2. No more Nodes than `maxUnavailable` are without an available Pod, where it was so.
//! 3. None is deleted while a newer template than that of the release would follow it.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use api::annotations::{DAEMONSET_ADVANCED_CONTROL, POD_DELETION_COST};
use api::kinds::shared::IntOrString;
use api::labels::CONTROLLER_REVISION_HASH;
use jiff::{SignedDuration, Timestamp};
use pod::observed::ObservedPod;
use pod::revision_labels::short_hash;
use serde::Deserialize;
use serde_json::Value;
use values::event::normal;
use values::moment::{Moment, just_after};
use values::percent::{Rounding, scaled};

use crate::object::{Object as _, ObjectName, group};
use crate::plan::Plan;
use crate::view::{Unread, View};
use crate::workload::{controller_revisions, revision_hash};
use crate::write::Write;

#[cfg(test)]
mod tests;

/// How far the release has come: the annotation `rollouts.kruise.io/daemonset-advanced-control`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Control {
    /// How many Pods stay old.
    partition: usize,
    /// The revision that the release brings; empty where that is not said.
    revision: String,
}

/// The Pods of a DaemonSet.
struct Pods<'a> {
    all: &'a [Arc<ObservedPod>],
    /// Those of an older revision that nobody ends yet, the first to be deleted first.
    old: Vec<&'a Arc<ObservedPod>>,
    /// How many Nodes have no available Pod.
    unavailable: usize,
    now: Timestamp,
    min_ready_seconds: i32,
}

/// What is to be done about a DaemonSet; `None` where no release holds it.
///
/// # Errors
/// Something that the plan needs has not been read.
pub fn plan(daemonset: &Value, view: &View, moment: &Moment) -> Result<Option<Plan<()>>, Unread> {
    let Some(control) = Control::of(daemonset) else { return Ok(None) };
    let mut plan = Plan::only(());
    let Some(revision) = newest_revision(daemonset, view)? else { return Ok(Some(plan)) };
    if !control.revision.is_empty() && short_hash(&control.revision) != revision {
        return Ok(Some(plan));
    }
    let mut pods = Pods::read(daemonset, view.pods_of(daemonset.uid())?, revision, moment.now);
    let chosen = pods.choose(&control, max_unavailable(daemonset));
    for pod in &chosen {
        let (namespace, name) = (&*pod.metadata.namespace, &*pod.metadata.name);
        let message = format!("Deleted pod {namespace}/{name} for batch update");
        plan.events.push(normal("PodDeleted", message));
        let name = ObjectName::new("v1", "Pod", namespace, name);
        plan.writes.push(Write::Delete { name, uid: pod.metadata.uid.to_string() });
    }
    let rest = pods.old.len() - chosen.len();
    if rest > control.partition {
        plan.again = pods.next_available();
    }
    Ok(Some(plan))
}

impl Control {
    /// How far a release lets the DaemonSet go; `None` where none holds it.
    fn of(daemonset: &Value) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        struct Written {
            partition: IntOrString,
            batch_revision: Option<String>,
        }
        let is_held = group(daemonset.text("/apiVersion")) == "apps"
            && daemonset.text("/spec/updateStrategy/type") == "OnDelete"
            && !daemonset.is_deleting();
        let text = daemonset.annotation(DAEMONSET_ADVANCED_CONTROL).filter(|_| is_held)?;
        let Written { partition, batch_revision } = serde_json::from_str(text).ok()?;
        let partition = match partition {
            IntOrString::Int(number) => number,
            IntOrString::String(text) => text.trim().parse().ok()?,
        };
        let partition = usize::try_from(partition).unwrap_or(0);
        Some(Self { partition, revision: batch_revision.unwrap_or_default() })
    }
}

impl<'a> Pods<'a> {
    fn read(daemonset: &Value, all: &'a [Arc<ObservedPod>], revision: &str, now: Timestamp) -> Self {
        let min_ready_seconds = daemonset.number("/spec/minReadySeconds").unwrap_or(0);
        let min_ready_seconds = i32::try_from(min_ready_seconds).unwrap_or(i32::MAX);
        let mut pods = Self { all, old: Vec::new(), unavailable: 0, now, min_ready_seconds };
        let available = all.iter().filter(|pod| pods.is_available(pod)).count();
        // A Node whose Pod has gone and whose next one is still to come has none.
        pods.unavailable = all.len().max(nodes(daemonset)).saturating_sub(available);
        let is_old = |pod: &&Arc<ObservedPod>| {
            pod.is_active() && pod.label(CONTROLLER_REVISION_HASH).map(short_hash) != Some(revision)
        };
        pods.old = all.iter().filter(is_old).collect();
        pods.old.sort_by_cached_key(|pod| {
            let is_pending = &*pod.status.phase == "Pending";
            (
                !is_pending,
                pod.is_ready(),
                deletion_cost(pod),
                Reverse(pod.metadata.created()),
                pod.metadata.name.clone(),
            )
        });
        pods
    }

    fn is_available(&self, pod: &ObservedPod) -> bool {
        pod.is_active() && pod.is_ready_for(self.min_ready_seconds, self.now)
    }

    /// Old Pods to delete. Those that are not available cost nothing.
    fn choose(&mut self, control: &Control, max_unavailable: usize) -> Vec<&'a Arc<ObservedPod>> {
        let needed = self.old.len().saturating_sub(control.partition);
        let mut chosen = Vec::new();
        for pod in self.old.iter().copied() {
            if chosen.len() == needed {
                break;
            }
            if self.is_available(pod) {
                if self.unavailable >= max_unavailable {
                    continue;
                }
                self.unavailable += 1;
            }
            chosen.push(pod);
        }
        chosen
    }

    /// When the next Pod that is ready has been so for long enough, of which no watch tells.
    fn next_available(&self) -> Option<Duration> {
        let wait = SignedDuration::from_secs(self.min_ready_seconds.into());
        let waiting =
            self.all.iter().filter(|pod| pod.is_active() && pod.is_ready() && !self.is_available(pod));
        let due = waiting.filter_map(|pod| pod.condition("Ready")?.since()?.checked_add(wait).ok());
        due.min().map(|due| just_after(due, self.now))
    }
}

/// The hash of the newest revision: that of Pods to come. `None` where it is not known yet.
fn newest_revision<'v>(daemonset: &Value, view: &'v View) -> Result<Option<&'v str>, Unread> {
    let observed = daemonset.number("/status/observedGeneration").unwrap_or(0);
    if observed < daemonset.number("/metadata/generation").unwrap_or(0) {
        return Ok(None);
    }
    Ok(controller_revisions(daemonset, view)?.pop().map(revision_hash))
}

/// How many Nodes are to have a Pod.
fn nodes(daemonset: &Value) -> usize {
    let desired = daemonset.number("/status/desiredNumberScheduled").unwrap_or(0);
    usize::try_from(desired).unwrap_or(0)
}

/// How many Nodes may be without an available Pod: at least one.
fn max_unavailable(daemonset: &Value) -> usize {
    let written = daemonset.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable").cloned();
    let written = written.and_then(|value| serde_json::from_value::<IntOrString>(value).ok());
    let total = i32::try_from(nodes(daemonset)).unwrap_or(i32::MAX);
    let number = written.and_then(|value| scaled(&value, total, Rounding::Down)).unwrap_or(1);
    usize::try_from(number).unwrap_or(0).max(1)
}

fn deletion_cost(pod: &ObservedPod) -> i32 {
    pod.annotation(POD_DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or(0)
}
