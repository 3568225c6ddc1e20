//! Which workload serves which subset, and which Pods it runs (docs/behaviour/uniteddeployment.md#workloads).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::labels::SUBSET_NAME;

use super::children::{Child, ChildKind};
use super::snapshot::Snapshot;
use pod::observed::ObservedPod;
use values::selector::Selector;

/// A subset with its workload.
#[derive(Clone, Debug)]
pub(super) struct SubsetWorkload<'a> {
    pub(super) child: &'a Child,
    pub(super) pods: Vec<&'a Arc<ObservedPod>>,
}

impl<'a> SubsetWorkload<'a> {
    fn of(child: &'a Child) -> Self {
        Self { child, pods: Vec::new() }
    }

    /// The Pods that have not ended and are not being deleted.
    pub(super) fn active(&self) -> impl Iterator<Item = &'a Arc<ObservedPod>> {
        self.pods.iter().copied().filter(|pod| pod.is_active())
    }
}

/// The workloads, as they belong to subsets.
#[derive(Debug, Default)]
pub(super) struct SubsetWorkloads<'a> {
    pub(super) places: BTreeMap<&'a str, SubsetWorkload<'a>>,
    /// Own workloads of another kind, and second ones of a subset.
    pub(super) surplus: Vec<&'a Child>,
    /// Workloads that serve a subset from now on.
    pub(super) orphans: Vec<&'a Child>,
    /// Own workloads of which it is not known which subset they serve.
    pub(super) nameless: Vec<&'a Child>,
}

/// Sorts the workloads by subset. Of several the oldest that is not being deleted stays.
pub(super) fn found<'a>(snapshot: &Snapshot<'a>, kind: ChildKind) -> SubsetWorkloads<'a> {
    let united = snapshot.united;
    let selector = Selector::compile(&united.spec.selector).ok();
    let subsets: BTreeSet<&str> =
        united.spec.topology.subsets.iter().map(|subset| subset.name.as_str()).collect();
    let mut children: Vec<&Child> = snapshot
        .children
        .iter()
        .map(|child| &**child)
        .filter(|child| *child.namespace == *united.metadata.namespace && !child.deleting)
        .collect();
    children.sort_by_key(|child| (child.created, &child.name));
    let mut found = SubsetWorkloads::default();
    let matches = |child: &&Child| selector.as_ref().is_some_and(|selector| selector.matches(&child.labels));
    let (own, others): (Vec<&Child>, Vec<&Child>) =
        children.into_iter().partition(|child| child.is_of(&united.metadata.uid));
    let (nameless, own): (Vec<&Child>, Vec<&Child>) =
        own.into_iter().partition(|child| child.kind == kind && child.subset.is_empty());
    found.nameless = nameless;
    let (selected, unselected): (Vec<&Child>, Vec<&Child>) = own.into_iter().partition(matches);
    for child in selected {
        if child.kind != kind || found.places.contains_key(&*child.subset) {
            found.surplus.push(child);
        } else {
            found.places.insert(&child.subset, SubsetWorkload::of(child));
        }
    }
    // What the selector does not select serves where nothing else does; otherwise it is left alone.
    let serves = |child: &&Child| child.kind == kind && subsets.contains(&*child.subset);
    for child in unselected.into_iter().filter(serves) {
        found.places.entry(&child.subset).or_insert_with(|| SubsetWorkload::of(child));
    }
    for child in others.into_iter().filter(matches).filter(serves) {
        if child.owner.is_none() && !found.places.contains_key(&*child.subset) {
            found.orphans.push(child);
            found.places.insert(&child.subset, SubsetWorkload::of(child));
        }
    }
    for pod in snapshot.pods {
        let place = pod.label(SUBSET_NAME).and_then(|subset| found.places.get_mut(subset));
        if let Some(place) = place.filter(|place| place.child.runs(pod)) {
            place.pods.push(pod);
        }
    }
    found
}
