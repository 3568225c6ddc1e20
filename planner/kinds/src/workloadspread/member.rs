//! A Pod of a WorkloadSpread and its subset.

use std::sync::Arc;

use super::record::Matched;
use pod::observed::ObservedPod;

/// What a Pod was known by at its creation.
pub(super) fn id(pod: &ObservedPod, matched: Option<&Matched>) -> String {
    let uid = matched.map(|matched| &matched.uid).filter(|uid| !uid.is_empty());
    uid.cloned().unwrap_or_else(|| pod.metadata.name.to_string())
}

/// A Pod and its subset.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) shared: &'a Arc<ObservedPod>,
    pub(super) pod: &'a ObservedPod,
    pub(super) version: &'a str,
    /// What it was known by at its creation.
    pub(super) id: String,
    /// The position of its subset; `None` where it belongs to none.
    pub(super) subset: Option<usize>,
    pub(super) is_adopted: bool,
}
