//! What the plan of a workload with revisions begins with.

use api::Raw;
use jiff::Timestamp;

use super::explanation::Explanation;
use super::kind::{Workload, WorkloadStatus};
use super::plan::Plan;
use super::revision::{self, Choice, StoredRevision, Wanted};
use super::snapshot::Snapshot;
use values::selector::Selector;

/// The revision of this template, which is to be chosen.
///
/// # Errors
/// Why the template can't be recorded.
pub(crate) fn wanted<'a, W: Workload>(
    snapshot: &Snapshot<'a, W>,
    template: Option<&Raw>,
    hash_label: &'a str,
) -> Result<Wanted<'a>, String> {
    let workload = snapshot.workload;
    let collisions = snapshot.collisions(workload.status().collision_count());
    Wanted::of_template(workload.owner(), workload.metadata(), template, hash_label, collisions)
}

/// The selector, and the revisions that it matches.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    pub(crate) selector: Selector,
    /// All revisions, oldest first.
    pub(crate) history: Vec<&'a StoredRevision>,
    /// The revision that Pods come from.
    pub(crate) current: &'a StoredRevision,
    /// The revision that Pods go to.
    pub(crate) update: &'a StoredRevision,
}

impl<'a> Start<'a> {
    /// Looks at the revisions. Of a workload that is being deleted none is chosen anew.
    ///
    /// # Errors
    /// The whole plan, where something can't be used, or the chosen revision is to be written first.
    pub(crate) fn of<W: Workload>(
        snapshot: &Snapshot<'a, W>,
        now: Timestamp,
        choose: impl FnOnce(&[&'a StoredRevision]) -> Result<Choice<'a>, String>,
    ) -> Result<Self, Box<Plan<W::Status>>> {
        let (metadata, status) = (snapshot.workload.metadata(), snapshot.workload.status());
        let impossible = |problem| Box::new(Plan::impossible(snapshot.workload, problem, now));
        let selector = Selector::compile(snapshot.workload.selector())
            .map_err(|error| impossible(format!("spec.selector can't be used: {error}")))?;
        let revisions = snapshot.revisions.iter().map(|revision| &**revision);
        let history = revision::history(revisions, &selector, &metadata.uid);
        let update = if metadata.deletion_timestamp.is_some() {
            revision::current(&history, status.update_revision()).or(history.last().copied())
        } else {
            let Choice { stored, step } = choose(&history).map_err(impossible)?;
            if let Some(step) = step {
                let explanation = Explanation::of_revision(&step);
                return Err(Box::new(Plan { revision: Some(step), explanation, ..Plan::default() }));
            }
            stored
        };
        // Without any revision nothing was ever created.
        let update = update.ok_or_else(Box::default)?;
        let current = revision::current(&history, status.current_revision()).unwrap_or(update);
        Ok(Self { selector, history, current, update })
    }
}
