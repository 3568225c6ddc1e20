//! Which Nodes have a NodePodProbe, and what changes in it
//! (docs/behaviour/probes.md#the-controller-of-nodepodprobes).

use api::kinds::nodepodprobe::{API_VERSION, KIND, NodePodProbe, PodProbe};
use serde::Serialize;

use super::probed::{Probed, canonical};
use crate::workload::object_version::ObjectVersion;

/// A Node, as much of it as a NodePodProbe has to do with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// It represents something else than a machine: no agent runs there.
    pub is_virtual: bool,
    /// It is ready.
    pub is_ready: bool,
    /// Its deletion was asked for.
    pub is_deleting: bool,
}

impl Node {
    /// Whether an agent runs there.
    pub fn has_agent(self) -> bool {
        !self.is_virtual && !self.is_deleting
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// Create the NodePodProbe.
    Create(String),
    /// Delete it.
    Delete(ObjectVersion),
    /// Change its spec by this merge patch.
    Change(String),
}

/// What to do about the NodePodProbe of the Node `name`, whose agent probes these Pods.
pub fn step(name: &str, node: Option<Node>, known: Option<&NodePodProbe>, probed: &[Probed<'_>]) -> Step {
    let node = node.filter(|node| !node.is_deleting);
    let wanted = || -> Vec<PodProbe> { probed.iter().filter_map(Probed::entry).collect() };
    let Some(known) = known else {
        let machine = node.filter(|node| node.is_ready && node.has_agent());
        return machine.map_or(Step::Nothing, |_| Step::Create(created(name, &wanted())));
    };
    if known.metadata.deletion_timestamp.is_some() {
        return Step::Nothing;
    }
    if node.is_none() {
        return Step::Delete(ObjectVersion::object(&known.metadata));
    }
    let wanted = wanted();
    if comparable(&known.spec.pod_probes) == wanted { Step::Nothing } else { change(known, &wanted) }
}

/// What a NodePodProbe says, in the order and the form in which it is written here.
fn comparable(known: &[PodProbe]) -> Vec<PodProbe> {
    let mut all = known.to_vec();
    for pod in &mut all {
        for probe in &mut pod.probes {
            probe.probe = probe.probe.as_ref().map(|raw| canonical(raw).unwrap_or_else(|| raw.clone()));
        }
        pod.probes.sort_by(|one, other| one.name.cmp(&other.name));
    }
    all.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    all
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    pod_probes: &'a [PodProbe],
}

fn created(name: &str, pod_probes: &[PodProbe]) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Object<'a> {
        api_version: &'static str,
        kind: &'static str,
        metadata: Metadata<'a>,
        spec: Spec<'a>,
    }
    #[derive(Serialize)]
    struct Metadata<'a> {
        name: &'a str,
    }
    let spec = Spec { pod_probes };
    let object = Object { api_version: API_VERSION, kind: KIND, metadata: Metadata { name }, spec };
    // Texts, numbers and JSON that was read: writing them cannot fail.
    serde_json::to_string(&object).unwrap_or_default()
}

fn change(known: &NodePodProbe, pod_probes: &[PodProbe]) -> Step {
    #[derive(Serialize)]
    struct Change<'a> {
        metadata: Metadata<'a>,
        spec: Spec<'a>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        uid: &'a str,
        resource_version: &'a str,
    }
    let metadata = Metadata { uid: &known.metadata.uid, resource_version: &known.metadata.resource_version };
    // As above.
    let change = serde_json::to_string(&Change { metadata, spec: Spec { pod_probes } });
    Step::Change(change.unwrap_or_default())
}
