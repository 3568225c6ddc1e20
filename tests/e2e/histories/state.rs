//! What both sides have to agree on: the Pods and claims of a workload that has settled.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::labels::{CONTROLLER_REVISION_HASH, LIFECYCLE_STATE, SUBSET_NAME, UNITED_REVISION};
use pod::observed::ObservedPod;
use pod::revision_labels::short_hash;

use serde_json::Value;

use super::change::{LATE, SIDECAR};

/// A workload's Pods and claims, without what chance decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pods: Vec<PodState>,
    claims: Vec<String>,
    /// What the status counts.
    counts: BTreeMap<String, i64>,
}

/// Numbers of a status that count no Pods, or those of one of several older revisions.
const UNCOUNTED: [&str; 3] = ["collisionCount", "currentReplicas", "observedGeneration"];

/// A Pod, without what chance decides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodState {
    /// Of Pods whose names are not made up.
    name: Option<String>,
    /// That of a UnitedDeployment.
    subset: Option<String>,
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
    /// Of a workload with this status; `has_names` where the names of Pods and claims are not made up.
    pub fn of(pods: &[Arc<ObservedPod>], claims: &[(&str, &str)], status: &Value, has_names: bool) -> Self {
        let newest = newest(status);
        let mut pods: Vec<PodState> = pods.iter().map(|pod| PodState::of(pod, newest, has_names)).collect();
        pods.sort();
        // Claims are named by their templates, the workload and the Pod. Which of several Pods is deleted is chance
        // where names are made up, and so are the size of its claims, and how many stay of a template that came later.
        let claim = |(name, size): &(&str, &str)| match name.find("-web-") {
            Some(end) if !has_names => name[..end].to_owned(),
            _ => format!("{name} {size}"),
        };
        let mut claims: Vec<String> = claims.iter().map(claim).collect();
        claims.sort();
        claims.dedup_by(|one, other| one == other && !has_names && one.starts_with(LATE));
        let counts = status.as_object().into_iter().flatten();
        // What is left out is 0.
        let counts = counts
            .filter_map(|(name, count)| Some((name.clone(), count.as_i64().filter(|count| *count != 0)?)));
        let counts = counts.filter(|(name, _)| !UNCOUNTED.contains(&name.as_str())).collect();
        Self { pods, claims, counts }
    }

    pub fn is_ready(&self) -> bool {
        self.pods.iter().all(|pod| pod.is_ready)
    }

    /// What differs, in lines.
    pub fn difference(&self, other: &Self) -> String {
        let lines = |state: &Self| -> Vec<String> {
            let pods = state.pods.iter().map(|pod| format!("{pod:?}"));
            let rest = [format!("claims: {:?}", state.claims), format!("counts: {:?}", state.counts)];
            pods.chain(rest).collect()
        };
        let (own, mut others) = (lines(self), lines(other));
        let mut difference = String::new();
        for line in own {
            match others.iter().position(|other| *other == line) {
                Some(at) => drop(others.remove(at)),
                None => difference += &format!("- {line}\n"),
            }
        }
        difference + &others.iter().map(|line| format!("+ {line}\n")).collect::<String>()
    }
}

impl PodState {
    fn of(pod: &ObservedPod, newest: &str, has_names: bool) -> Self {
        let revision = short_hash(revision(pod).unwrap_or_default());
        // At which of several older revisions Pods stay is chance: it depends on how far a rollout came.
        let is_known = revision == short_hash(newest);
        let runs = |name: &str| pod.container_status(name).map_or("", |status| &*status.image).to_owned();
        Self {
            name: has_names.then(|| pod.metadata.name.to_string()),
            subset: pod.label(SUBSET_NAME).map(ToOwned::to_owned),
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

/// The newest revision, by this status of a workload; both sides make its name from the template.
pub fn newest(status: &Value) -> &str {
    let mut names =
        ["updateRevision", "updatedRevision"].into_iter().filter_map(|name| status[name].as_str());
    names.next().unwrap_or_default()
}

/// The revision of a Pod: that of the UnitedDeployment, where there is one.
pub fn revision(pod: &ObservedPod) -> Option<&str> {
    pod.label(UNITED_REVISION).or(pod.label(CONTROLLER_REVISION_HASH))
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
