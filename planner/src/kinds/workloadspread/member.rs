//! A Pod of a WorkloadSpread and its place.

use std::sync::Arc;

use crate::pod::observed::ObservedPod;

/// A Pod and its place.
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
