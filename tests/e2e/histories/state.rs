//! What both sides have to agree on: the Pods and claims of a workload that has settled.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::labels::{CONTROLLER_REVISION_HASH, LIFECYCLE_STATE};
use pod::observed::ObservedPod;
use pod::revision_labels::short_hash;

use super::change::SIDECAR;

/// A workload's Pods and claims, without what chance decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pods: Vec<PodState>,
    claims: Vec<String>,
}

/// A Pod, without what chance decides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodState {
    /// Of Pods whose names are not made up.
    name: Option<String>,
    revision: String,
    lifecycle: String,
    has_ended: bool,
    is_ready: bool,
    /// What each container is to run, and what runs.
    images: BTreeMap<String, (String, String)>,
}

/// How Pods came from one state to another.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Those that stayed, by how often their containers were restarted.
    stayed: Vec<BTreeMap<String, i32>>,
    /// How many are new.
    created: usize,
}

impl State {
    /// `newest` is the newest revision; `has_names` where the names of Pods and claims are not made up.
    pub fn of(pods: &[Arc<ObservedPod>], claims: &[&str], newest: &str, has_names: bool) -> Self {
        let mut pods: Vec<PodState> = pods.iter().map(|pod| PodState::of(pod, newest, has_names)).collect();
        pods.sort();
        // Claims are named by their templates, the workload and the Pod.
        let claim = |name: &&str| match name.find("-web-") {
            Some(end) if !has_names => name[..end].to_owned(),
            _ => (*name).to_owned(),
        };
        let mut claims: Vec<String> = claims.iter().map(claim).collect();
        claims.sort();
        Self { pods, claims }
    }

    pub fn is_ready(&self) -> bool {
        self.pods.iter().all(|pod| pod.is_ready)
    }

    /// What differs, in lines.
    pub fn difference(&self, other: &Self) -> String {
        let lines = |state: &Self| format!("{state:#?}");
        let (own, others) = (lines(self), lines(other));
        let only = |sign: char, these: &str, those: &str| {
            let those: Vec<&str> = those.lines().collect();
            these
                .lines()
                .filter(|line| !those.contains(line))
                .map(|line| format!("{sign} {line}\n"))
                .collect::<String>()
        };
        only('-', &own, &others) + &only('+', &others, &own)
    }
}

impl PodState {
    fn of(pod: &ObservedPod, newest: &str, has_names: bool) -> Self {
        let revision = short_hash(pod.label(CONTROLLER_REVISION_HASH).unwrap_or_default());
        // At which of several older revisions Pods stay is chance: it depends on how far a rollout came.
        let is_known = revision == short_hash(newest);
        let runs = |name: &str| pod.container_status(name).map_or("", |status| &*status.image).to_owned();
        Self {
            name: has_names.then(|| pod.metadata.name.to_string()),
            revision: if is_known { revision } else { "older" }.to_owned(),
            lifecycle: pod.label(LIFECYCLE_STATE).unwrap_or_default().to_owned(),
            has_ended: matches!(&*pod.status.phase, "Succeeded" | "Failed"),
            is_ready: pod.is_ready(),
            images: own_containers(pod)
                .filter(|_| is_known)
                .map(|(name, image)| (name.to_owned(), (image.to_owned(), runs(name))))
                .collect(),
        }
    }
}

impl Fate {
    pub fn between(before: &[Arc<ObservedPod>], after: &[Arc<ObservedPod>]) -> Self {
        let mut fate = Self::default();
        for pod in after {
            let earlier = before.iter().find(|earlier| earlier.metadata.uid == pod.metadata.uid);
            let Some(earlier) = earlier else {
                fate.created += 1;
                continue;
            };
            let restarts = |pod: &ObservedPod, name: &str| {
                pod.container_status(name).map_or(0, |status| status.restart_count)
            };
            let since =
                |(name, _): (&str, &str)| (name.to_owned(), restarts(pod, name) - restarts(earlier, name));
            fate.stayed.push(own_containers(pod).map(since).collect());
        }
        fate.stayed.sort();
        fate
    }
}

/// Names and images of the containers, without what is injected.
fn own_containers(pod: &ObservedPod) -> impl Iterator<Item = (&str, &str)> {
    let containers = pod.spec.containers.iter().map(|container| (&*container.name, &*container.image));
    containers.filter(|(name, _)| *name != SIDECAR)
}

/// The Pod of this number, in an order on which both sides agree; among Pods that are alike any will do.
pub fn choose<'p>(
    pods: &'p [Arc<ObservedPod>],
    number: usize,
    newest: &str,
    has_names: bool,
) -> Option<&'p Arc<ObservedPod>> {
    let mut pods: Vec<&Arc<ObservedPod>> = pods.iter().collect();
    pods.sort_by_key(|pod| PodState::of(pod, newest, has_names));
    pods.get(number.checked_rem(pods.len())?).copied()
}
