//! Why a Pod is in its subset, and which one the next Pod comes into.

use std::fmt;

use api::annotations::REQUIRE_SUBSET;

use super::record::Matched;
use super::slots::{free, items};
use super::spread::{Spread, is_schedulable};
use super::version::IGNORED;
use crate::workload::target::Workload;
use pod::observed::ObservedPod;
use values::selector::Labels;

/// What a WorkloadSpread is to a new Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The Pod comes into this subset.
    Subset(String),
    /// No subset takes the Pod.
    NoSlot,
    /// No subset takes the Pod, which needs one.
    Required,
    /// `spec.targetRef` is not the workload of the Pod.
    OtherWorkload,
    /// `spec.targetFilter` does not select the Pod.
    OtherPods,
    /// `spec.targetFilter.selector` can't be used.
    BrokenSelector(String),
    /// It is being deleted, or names no workload.
    Inactive,
}

impl Reason {
    /// Why a WorkloadSpread is not that of a Pod with these labels.
    pub(super) fn of_other(spread: &Spread, labels: &(impl Labels + ?Sized)) -> Self {
        match spread.problem() {
            _ if !spread.is_active() => Self::Inactive,
            Some(problem) => Self::BrokenSelector(problem.to_string()),
            None if !spread.selects(labels) => Self::OtherPods,
            None => Self::OtherWorkload,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subset(subset) => write!(formatter, "puts the Pod into subset {subset}"),
            Self::NoSlot => formatter.write_str("leaves the Pod as it is: no subset takes it"),
            Self::Required => {
                write!(formatter, "refuses the Pod: no subset takes it, and {REQUIRE_SUBSET} asks for one")
            }
            Self::OtherWorkload => {
                formatter.write_str("does not divide the Pods of its workload: spec.targetRef is another one")
            }
            Self::OtherPods => {
                formatter.write_str("is not meant for the Pod: spec.targetFilter selects others")
            }
            Self::BrokenSelector(problem) => {
                write!(formatter, "divides no Pods: spec.targetFilter.selector is invalid: {problem}")
            }
            Self::Inactive => {
                formatter.write_str("divides no Pods: it is being deleted, or names no workload")
            }
        }
    }
}

/// What a subset can do for the next Pod of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubsetCapacity {
    /// The subset.
    pub subset: String,
    /// Its active Pods.
    pub active: i32,
    /// Pods on their way into it.
    pub creating: usize,
    /// Pods on their way out of it.
    pub deleting: usize,
    /// How many more it takes; `None` where any number.
    pub free: Option<i32>,
    /// Its Pods find nodes.
    pub is_schedulable: bool,
    /// The next Pod comes here.
    pub is_next: bool,
}

/// What each subset can do for the next Pod of `version`, by the status.
pub fn outlook(spread: &Spread, version: &str, replicas: Option<i32>) -> Vec<SubsetCapacity> {
    let items = items(spread.object(), version);
    let mut outlooks: Vec<SubsetCapacity> = spread
        .subsets()
        .iter()
        .zip(&items)
        .map(|(subset, item)| SubsetCapacity {
            subset: subset.name.clone(),
            active: item.replicas,
            creating: item.creating_pods.len(),
            deleting: item.deleting_pods.len(),
            free: free(subset, item, replicas),
            is_schedulable: is_schedulable(item),
            is_next: false,
        })
        .collect();
    let takes =
        |outlook: &&mut SubsetCapacity| outlook.is_schedulable && outlook.free.is_none_or(|free| free > 0);
    if let Some(next) = outlooks.iter_mut().find(takes) {
        next.is_next = true;
    }
    outlooks
}

impl fmt::Display for SubsetCapacity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subset, active, creating, deleting, free, is_schedulable, is_next } = self;
        write!(formatter, "subset {subset}: {active} active")?;
        for (count, word) in [(creating, "on their way in"), (deleting, "on their way out")] {
            if *count > 0 {
                write!(formatter, ", {count} {word}")?;
            }
        }
        match free {
            None => formatter.write_str(", no limit")?,
            Some(free) => write!(formatter, ", {free} slots free")?,
        }
        if !is_schedulable {
            formatter.write_str("; left out, since its Pods found no node")?;
        }
        if *is_next {
            formatter.write_str("; takes the next Pod")?;
        }
        Ok(())
    }
}

/// Why a Pod is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementReason {
    /// In this subset.
    Member(String),
    /// Its subset is not in the spec any more.
    SubsetGone(String),
    /// Another WorkloadSpread put it into a subset.
    Foreign(String),
    /// It has no node yet, and no subset took it when it was created.
    Unplaced,
    /// It runs, and the next reconcile finds the subset that suits its node, if any does.
    Unmarked,
}

impl PlacementReason {
    /// What a Pod is to a WorkloadSpread that divides the Pods of its workload.
    pub fn of(spread: &Spread, pod: &ObservedPod) -> Self {
        match Matched::of(pod) {
            Some(matched) if matched.name != spread.name() => Self::Foreign(matched.name),
            Some(matched) if spread.subset(&matched.subset).is_some() => Self::Member(matched.subset),
            Some(matched) if !matched.subset.is_empty() => Self::SubsetGone(matched.subset),
            _ if pod.spec.node_name.is_empty() => Self::Unplaced,
            _ => Self::Unmarked,
        }
    }
}

impl fmt::Display for PlacementReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(subset) => write!(formatter, "is in subset {subset}"),
            Self::SubsetGone(subset) => {
                write!(formatter, "is in no subset: {subset} is not in spec.subsets any more")
            }
            Self::Foreign(other) => {
                write!(formatter, "is in no subset yet: WorkloadSpread {other} put it into one of its own")
            }
            Self::Unplaced => formatter.write_str("is in no subset: none took it when it was created"),
            Self::Unmarked => {
                formatter.write_str("is in no subset: none suits its node, or it was not reconciled yet")
            }
        }
    }
}

/// What a WorkloadSpread does with Pods, now and next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The subsets for each version of Pods that is known, or for all Pods where none is.
    pub versions: Vec<(String, Vec<SubsetCapacity>)>,
    /// The Pods of the target by name.
    pub pods: Vec<(String, PlacementReason)>,
}

/// Explains a WorkloadSpread, some of whose namespace's Pods are given.
pub fn explain(spread: &Spread, pods: &[ObservedPod]) -> Report {
    let known: Vec<&String> = spread.object().status.versioned_subset_statuses.keys().collect();
    let known =
        if known.is_empty() { vec![IGNORED] } else { known.into_iter().map(String::as_str).collect() };
    let versions = known.into_iter().map(|version| (version.to_owned(), outlook(spread, version, None)));
    let is_meant = |pod: &&ObservedPod| {
        let is_marked = Matched::of(pod).is_some_and(|matched| matched.name == spread.name());
        let owner = pod.controller().map(Workload::from);
        let is_owned = owner.as_ref() == Some(spread.target())
            || Workload::of_pod(pod).as_ref() == Some(spread.target());
        pod.is_active() && spread.selects(&pod.metadata.labels) && (is_marked || is_owned)
    };
    let mut reported: Vec<(String, PlacementReason)> = pods
        .iter()
        .filter(is_meant)
        .map(|pod| (pod.metadata.name.to_string(), PlacementReason::of(spread, pod)))
        .collect();
    reported.sort_by(|(one, _), (other, _)| one.cmp(other));
    Report { versions: versions.collect(), pods: reported }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_next_subset_and_the_slot_of_each_pod_are_shown() {
        let unschedulable = json!([{"type": "Schedulable", "status": "False", "reason": "PodUnschedulable"}]);
        let object = json!({"metadata": {"name": "ws", "namespace": "shop"}, "spec": {
            "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"},
            "subsets": [{"name": "a", "maxReplicas": 3}, {"name": "b", "maxReplicas": 2}, {"name": "c"}]},
            "status": {"versionedSubsetStatuses": {"versionIgnored": [
                {"name": "a", "replicas": 1, "missingReplicas": 2, "conditions": unschedulable},
                {"name": "b", "replicas": 2, "missingReplicas": 0, "creatingPods": {"p": "2026-01-01T00:00:00Z"}}]}}});
        let spread = Spread::read(&object.to_string()).unwrap();
        let pod = |name: &str, mark: &str, node: &str| {
            let owner = json!([{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": "u", "controller": true}]);
            let metadata = json!({"name": name, "ownerReferences": owner, "annotations": {"apps.kruise.io/matched-workloadspread": mark}});
            ObservedPod::read(&json!({"metadata": metadata, "spec": {"nodeName": node}}).to_string()).unwrap()
        };
        let pods = [
            pod("p1", r#"{"name":"ws","subset":"a"}"#, "n"),
            pod("p2", r#"{"name":"ws","subset":"gone"}"#, "n"),
            pod("p3", r#"{"name":"other","subset":"a"}"#, "n"),
            pod("p4", "", ""),
            pod("p5", "", "n"),
        ];
        let report = explain(&spread, &pods);
        let lines: Vec<String> = report.versions[0].1.iter().map(ToString::to_string).collect();
        let expected = [
            "subset a: 1 active, 2 slots free; left out, since its Pods found no node",
            "subset b: 2 active, 1 on their way in, 0 slots free",
            "subset c: 0 active, no limit; takes the next Pod",
        ];
        assert_eq!(lines, expected);
        let pods: Vec<String> =
            report.pods.iter().map(|(name, standing)| format!("{name} {standing}")).collect();
        let expected = [
            "p1 is in subset a",
            "p2 is in no subset: gone is not in spec.subsets any more",
            "p3 is in no subset yet: WorkloadSpread other put it into one of its own",
            "p4 is in no subset: none took it when it was created",
            "p5 is in no subset: none suits its node, or it was not reconciled yet",
        ];
        assert_eq!(pods, expected);
    }
}
