//! Which CloneSets have to be looked at when an object has changed (spec 31 §8.1).
//!
//! Owners are told by group and kind, never by version: Pods from before the present version keep their
//! owner. Where a change makes a difference to a plan, its CloneSet is named: that is tested against "no
//! filter". Two things make a difference and are not told of, so that only the next look finds them, ten
//! minutes later at the most: labels of nodes, and ControllerRevisions that nobody owns.

use std::collections::BTreeSet;

use api::kinds::ObjectMeta;
use api::kinds::cloneset::{CloneSet, KIND};
use api::meta::OwnerReference;

use super::Claim;
use crate::pod::observed::{ObservedPod, PodMetadata};
use crate::workload::revision::workload::StoredRevision;

#[cfg(test)]
mod tests;

/// Namespace and name of a CloneSet.
pub type Name = (String, String);

/// The CloneSet itself, if anything but its version has changed. Its status counts too: what somebody else
/// wrote there is put right.
pub fn of_set(old: Option<&CloneSet>, new: Option<&CloneSet>) -> Option<Name> {
    let ObjectMeta { namespace, name, .. } = &old.or(new)?.metadata;
    let is_same = old.zip(new).is_some_and(|(old, new)| {
        let resource_version = old.metadata.resource_version.clone();
        let metadata = ObjectMeta { resource_version, ..new.metadata.clone() };
        old.metadata == metadata && old.spec == new.spec && old.status == new.status
    });
    (!is_same).then(|| (namespace.clone(), name.clone()))
}

/// The CloneSets that own the Pod now, and those that did before.
pub fn of_pod(old: Option<&ObservedPod>, new: Option<&ObservedPod>) -> BTreeSet<Name> {
    of_metadata(old.map(|pod| &pod.metadata), new.map(|pod| &pod.metadata))
}

/// The CloneSets that own the claim now, and those that did before.
pub fn of_claim(old: Option<&Claim>, new: Option<&Claim>) -> BTreeSet<Name> {
    of_metadata(old.map(|claim| &claim.metadata), new.map(|claim| &claim.metadata))
}

/// The CloneSets that own the revision now, and those that did before.
pub fn of_revision(old: Option<&StoredRevision>, new: Option<&StoredRevision>) -> BTreeSet<Name> {
    let metadata = old.into_iter().chain(new).map(|revision| &revision.metadata);
    metadata.flat_map(|metadata| owners(&metadata.namespace, &metadata.owner_references)).collect()
}

fn of_metadata(old: Option<&PodMetadata>, new: Option<&PodMetadata>) -> BTreeSet<Name> {
    let states = old.into_iter().chain(new);
    states.flat_map(|metadata| owners(&metadata.namespace, &metadata.owner_references)).collect()
}

fn owners<'a>(namespace: &'a str, references: &'a [OwnerReference]) -> impl Iterator<Item = Name> + 'a {
    let ours = |owner: &&OwnerReference| owner.kind == KIND && owner.group() == api::APPS_GROUP;
    references.iter().filter(ours).map(move |owner| (namespace.to_owned(), owner.name.clone()))
}
