//! What happened, for people: entries to read, and the states of Pods to draw.

use std::fmt;

use api::labels::{CONTROLLER_REVISION_HASH, LIFECYCLE_STATE, SPECIFIED_DELETE};

use super::agenda::Milliseconds;
use pod::observed::ObservedPod;
use pod::revision_labels::short_hash;

/// Who did something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// Somebody who uses the workload.
    User,
    /// Kutter's controllers.
    Kutter,
    /// The scheduler.
    Scheduler,
    /// The kubelet of a node.
    Kubelet,
    /// Kubernetes, in place of a node that is silent.
    Node,
    /// Chance.
    Fault,
}

impl fmt::Display for Actor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::User => "user",
            Self::Kutter => "kutter",
            Self::Scheduler => "scheduler",
            Self::Kubelet => "kubelet",
            Self::Node => "kubernetes",
            Self::Fault => "chance",
        })
    }
}

/// Numbers of Pods, those that are being deleted or have ended left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// At older revisions.
    pub old: i64,
    /// At the newest revision.
    pub new: i64,
    /// Available.
    pub available: i64,
    /// As few as may be available by the workload's own doing: replicas less maxUnavailable.
    pub floor: i64,
    /// As many as may exist by the workload's own doing: replicas and maxSurge.
    pub ceiling: i64,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub time: Milliseconds,
    /// Who did it.
    pub actor: Actor,
    /// What it is.
    pub text: String,
    /// The Pods after it.
    pub counts: Counts,
}

/// How a Pod looks from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It does not run yet.
    Pending,
    /// It runs and is not ready.
    NotReady,
    /// It is ready, but does not count as available.
    Ready,
    /// It counts as available.
    Available,
    /// It is being deleted.
    Terminating,
    /// It has ended and stays as it is.
    Ended,
}

/// A Pod between two changes of its look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// From when.
    pub from: Milliseconds,
    /// Until when.
    pub to: Milliseconds,
    /// The short hash of its revision.
    pub revision: String,
    /// Its look.
    pub look: Look,
}

/// A Pod from its creation to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// The Pod's name.
    pub name: String,
    uid: String,
    /// What it looked like.
    pub spans: Vec<Span>,
    ended: bool,
}

/// Everything that happened.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// What happened, in its order.
    pub entries: Vec<Entry>,
    /// The Pods, in the order of their creation.
    pub tracks: Vec<Track>,
    /// Numbers of Pods, each from its time on.
    pub samples: Vec<(Milliseconds, Counts)>,
    /// When it ends.
    pub end: Milliseconds,
}

impl Timeline {
    pub(super) fn record(&mut self, time: Milliseconds, actor: Actor, text: String, counts: Counts) {
        self.entries.push(Entry { time, actor, text, counts });
    }

    /// Records the Pods as they are now.
    pub(super) fn draw<'a>(
        &mut self,
        time: Milliseconds,
        pods: impl Iterator<Item = (&'a ObservedPod, Look)>,
        counts: Counts,
    ) {
        self.end = time;
        let mut present = Vec::new();
        for (pod, look) in pods {
            present.push(&*pod.metadata.uid);
            let revision = short_hash(pod.label(CONTROLLER_REVISION_HASH).unwrap_or_default()).to_owned();
            let position = self.tracks.iter().position(|track| *track.uid == *pod.metadata.uid);
            let track = match position.and_then(|position| self.tracks.get_mut(position)) {
                Some(track) => track,
                None => self.tracks.push_mut(Track {
                    name: pod.metadata.name.to_string(),
                    uid: pod.metadata.uid.to_string(),
                    spans: Vec::new(),
                    ended: false,
                }),
            };
            match track.spans.last_mut() {
                Some(span) if span.look == look && span.revision == revision => span.to = time,
                last => {
                    if let Some(span) = last {
                        span.to = time;
                    }
                    track.spans.push(Span { from: time, to: time, revision, look });
                }
            }
        }
        for track in self.tracks.iter_mut().filter(|track| !track.ended) {
            if !present.contains(&&*track.uid) {
                track.ended = true;
                if let Some(span) = track.spans.last_mut() {
                    span.to = time;
                }
            }
        }
        if self.samples.last().is_none_or(|(_, known)| *known != counts) {
            self.samples.push((time, counts));
        }
    }
}

/// What changed in a Pod, as far as people care.
pub(super) fn describe(before: &ObservedPod, after: &ObservedPod) -> Vec<String> {
    let mut changes = Vec::new();
    if before.spec.node_name != after.spec.node_name {
        changes.push(format!("is placed on {}", after.spec.node_name));
    }
    for container in after.running_containers() {
        let known = before.container(&container.name);
        if known.is_some_and(|known| known.image != container.image) {
            changes.push(format!("is to run image {} in container {}", container.image, container.name));
        }
    }
    let revision = after.label(CONTROLLER_REVISION_HASH);
    if let Some(revision) = revision.filter(|_| before.label(CONTROLLER_REVISION_HASH) != revision) {
        changes.push(format!("goes to revision {}", short_hash(revision)));
    }
    let state = after.label(LIFECYCLE_STATE);
    if let Some(state) = state.filter(|_| before.label(LIFECYCLE_STATE) != state) {
        changes.push(format!("enters state {state}"));
    }
    match (before.label(SPECIFIED_DELETE), after.label(SPECIFIED_DELETE)) {
        (None, Some(_)) => changes.push("is marked for deletion".to_owned()),
        (Some(_), None) => changes.push("is not marked for deletion any more".to_owned()),
        _ => {}
    }
    if before.metadata.deletion_timestamp.is_none() && after.metadata.deletion_timestamp.is_some() {
        changes.push("is being deleted".to_owned());
    }
    if before.status.phase != after.status.phase {
        changes.push(match &*after.status.phase {
            "Running" => "starts".to_owned(),
            phase => format!("is {phase}"),
        });
    }
    for status in after.status.container_statuses.iter().chain(&after.status.init_container_statuses) {
        let known = before.container_status(&status.name);
        if known.is_some_and(|known| known.restart_count != status.restart_count && status.restart_count > 0)
        {
            changes.push(format!("has started container {} again, with {}", status.name, status.image));
        }
        let reason = status.state.waiting.as_ref().map_or("", |waiting| &*waiting.reason);
        let known =
            known.and_then(|known| known.state.waiting.as_ref()).map_or("", |waiting| &*waiting.reason);
        if !reason.is_empty() && reason != known {
            changes.push(format!("cannot run {}: {reason}", status.image));
        }
    }
    match (before.is_ready(), after.is_ready()) {
        (false, true) => changes.push("is ready".to_owned()),
        (true, false) => changes.push("is not ready".to_owned()),
        _ => {}
    }
    changes
}
