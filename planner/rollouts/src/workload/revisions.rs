//! ControllerRevisions of a workload.

use api::labels::CONTROLLER_REVISION_HASH;
use kinds::workload::status::selector_text;
use pod::revision_labels::short_hash;
use serde_json::Value;

use crate::object::Object as _;
use crate::view::{ListName, Unread, View};

/// The ControllerRevisions that a workload manages, the oldest first.
///
/// # Errors
/// They have not been read.
pub fn controller_revisions<'v>(workload: &Value, view: &'v View) -> Result<Vec<&'v Value>, Unread> {
    let selector = workload.pointer("/spec/selector").cloned().unwrap_or_default();
    let selector = selector_text(&serde_json::from_value(selector).unwrap_or_default());
    let namespace = workload.text("/metadata/namespace");
    let listed = view.list(&ListName::new("apps/v1", "ControllerRevision", namespace, &selector))?;
    let owner = Some(workload.uid());
    let mut revisions: Vec<&Value> =
        listed.iter().filter(|revision| revision.controller() == owner).collect();
    revisions.sort_by_key(|revision| revision.number("/revision").unwrap_or(0));
    Ok(revisions)
}

/// What Pods of a ControllerRevision have in their label.
pub(crate) fn revision_hash(revision: &Value) -> &str {
    short_hash(revision.label(CONTROLLER_REVISION_HASH).unwrap_or(revision.name()))
}
