//! What a release does to its workload in one plan, as data; and where it can do nothing.

use api::kinds::batchrelease::{API_VERSION, BatchRelease, KIND};
use api::kinds::rollout::WorkloadRef;
use kinds::workload::owner::Owner;

use super::{Style, Workload, WorkloadKind};
use crate::draft::Draft;
use crate::object::Object as _;
use crate::view::View;
use crate::write::Write;

/// How a release ends for its workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All Pods get the present template, and the workload is as it was.
    HandBack,
    /// The Pods stay as they are, and nobody holds the workload any more.
    Leave,
    /// Another release takes the workload over as it is.
    Continue,
}

/// What a release does to its workload in one plan.
pub(crate) struct Task<'a> {
    pub(crate) release: &'a BatchRelease,
    pub(crate) workload: &'a Workload,
    pub(crate) view: &'a View,
    /// The workload as it is to be.
    pub(crate) draft: Draft<'a>,
    /// What is written before it, to other objects.
    pub(crate) writes: Vec<Write>,
}

impl<'a> Task<'a> {
    /// Nothing yet.
    pub(crate) fn of(release: &'a BatchRelease, workload: &'a Workload, view: &'a View) -> Self {
        let draft = Draft::of(&workload.name, &workload.object);
        Self { release, workload, view, draft, writes: Vec::new() }
    }

    /// Something is to be written, so that the status of the workload says nothing about it yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.draft.is_changed() || !self.writes.is_empty()
    }

    /// All that is to be written.
    pub(crate) fn into_writes(self) -> impl Iterator<Item = Write> {
        self.writes.into_iter().chain(self.draft.into_write())
    }
}

/// The owner reference to a BatchRelease, as the objects have it that it made.
pub(super) fn owner(release: &BatchRelease) -> Owner<'_> {
    Owner::of(API_VERSION, KIND, &release.metadata)
}

/// What says on a workload that a BatchRelease holds it.
pub(super) fn control_info(release: &BatchRelease) -> String {
    serde_json::to_string(&owner(release)).unwrap_or_default()
}

/// Why a workload can't be released in a style; `None` where it can.
pub(crate) fn refusal(reference: &WorkloadRef, style: Style) -> Option<String> {
    let WorkloadRef { api_version, kind, name } = reference;
    match WorkloadKind::of(reference) {
        None => Some(format!("{kind} {name} of {api_version} can't be released in batches")),
        Some(supported) if !supported.supports(style) => {
            Some(format!("{kind} {name} of {api_version} can't be released blue-green"))
        }
        Some(_) => None,
    }
}

/// Why this one workload can't be released in its style; `None` where it can.
pub(crate) fn refusal_of(workload: &Workload) -> Option<String> {
    let replaces_in_place =
        matches!(workload.object.text("/spec/updateStrategy/type"), "InPlaceIfPossible" | "InPlaceOnly");
    let is_refused =
        workload.style == Style::BlueGreen && workload.kind == WorkloadKind::CloneSet && replaces_in_place;
    let name = &workload.name.name;
    is_refused
        .then(|| format!("CloneSet {name} can be released blue-green only with updateStrategy.type ReCreate"))
}
