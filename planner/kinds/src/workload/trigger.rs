//! Which workloads of a kind have to be reconciled when an object has changed.
//!
//! Owners are identified by group and kind, never by version: Pods from before the present version keep their
//! owner. Where a change makes a difference to a plan, its workload is named: that is tested against "no
//! filter". Two things make a difference and are not reported, so that only the next reconcile finds them, ten
//! minutes later at the most: labels of nodes, and ControllerRevisions that nobody owns.

use std::collections::BTreeSet;

use api::meta::OwnerReference;

use super::children::Claim;
use super::kind::Workload;
use super::ordinal;
use super::revision::StoredRevision;
use pod::observed::{ObservedPod, PodMetadata};

/// Namespace and name of a workload.
pub type Name = (String, String);

/// The workload itself, if anything but its version has changed. Its status counts too: what somebody else
/// wrote there is put right.
pub fn of_workload<W: Workload>(old: Option<&W>, new: Option<&W>) -> Option<Name> {
    let metadata = old.or(new)?.metadata();
    let is_same = old.zip(new).is_some_and(|(old, new)| {
        let mut new = new.clone();
        new.metadata_mut().resource_version.clone_from(&old.metadata().resource_version);
        *old == new
    });
    (!is_same).then(|| (metadata.namespace.clone(), metadata.name.clone()))
}

/// The workloads that own the Pod now, and those that did before; where nobody does, the workload that could adopt
/// a Pod of this name.
pub fn of_pod<W: Workload>(old: Option<&ObservedPod>, new: Option<&ObservedPod>) -> BTreeSet<Name> {
    let mut names = of_metadata::<W>(old.map(|pod| &pod.metadata), new.map(|pod| &pod.metadata));
    if W::HAS_ORDINALS {
        let orphans = old.into_iter().chain(new).filter(|pod| pod.controller().is_none());
        names.extend(orphans.filter_map(|pod| {
            let (stem, _) = ordinal::split(&pod.metadata.name)?;
            Some((pod.metadata.namespace.to_string(), stem.to_owned()))
        }));
    }
    names
}

/// The workloads that own the claim now, and those that did before; and those to whose Pods a claim of this name
/// could belong.
pub fn of_claim<W: Workload>(old: Option<&Claim>, new: Option<&Claim>) -> BTreeSet<Name> {
    let mut names = of_metadata::<W>(old.map(|claim| &claim.metadata), new.map(|claim| &claim.metadata));
    if W::HAS_ORDINALS
        && let Some(claim) = old.or(new)
        && let Some(stem) = claim.stem()
    {
        // Names of templates and of workloads may have dashes themselves.
        let candidates = stem.match_indices('-').filter_map(|(dash, _)| stem.get(dash + 1..));
        let namespace = &claim.metadata.namespace;
        names.extend(candidates.map(|name| (namespace.to_string(), name.to_owned())));
    }
    names
}

/// The workloads that own the revision now, and those that did before.
pub fn of_revision<W: Workload>(
    old: Option<&StoredRevision>,
    new: Option<&StoredRevision>,
) -> BTreeSet<Name> {
    let metadata = old.into_iter().chain(new).map(|revision| &revision.metadata);
    metadata.flat_map(|metadata| owners::<W>(&metadata.namespace, &metadata.owner_references)).collect()
}

fn of_metadata<W: Workload>(old: Option<&PodMetadata>, new: Option<&PodMetadata>) -> BTreeSet<Name> {
    let states = old.into_iter().chain(new);
    states.flat_map(|metadata| owners::<W>(&metadata.namespace, &metadata.owner_references)).collect()
}

fn owners<'a, W: Workload>(
    namespace: &'a str,
    references: &'a [OwnerReference],
) -> impl Iterator<Item = Name> + 'a {
    let (group, _) = api::group_and_version(W::API_VERSION);
    let ours = move |owner: &&OwnerReference| owner.kind == W::KIND && owner.group() == group;
    references.iter().filter(ours).map(move |owner| (namespace.to_owned(), owner.name.clone()))
}
