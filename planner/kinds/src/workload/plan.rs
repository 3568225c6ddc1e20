//! A plan: everything to do about one workload now, and how it is carried out.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::action::Action;
use super::conditions::condition;
use super::explanation::{Blocker, Explanation};
use super::kind::{Workload, WorkloadStatus};
use super::object_version::ObjectVersion;
use super::revision::RevisionStep;
use super::status::StatusPlan;
use values::event::Event;

pub use super::outcome::Outcome;

/// What to do.
///
/// # How it is carried out
/// 1. If there is a [`Plan::revision`], write it, put it into the snapshot and plan again; the rest of this
///    plan is empty. A second plan that still has one ends the reconcile with an error.
/// 2. [`Plan::release`]. If an action fails, do what is left of the list and the status, and try again
///    later.
/// 3. [`Plan::scale`]. Creations go in batches of 1, 2, 4, ...; after a batch with a failure no other is
///    begun. The other actions do not wait for one another: one that fails stops no other, nor a creation.
/// 4. [`Plan::update`], in two parts ([`Plan::split_update`]): one continues beside `scale`; the other comes after it,
///    and only if not one action of `scale` succeeded, not even in part, nor was left without an answer, for it
///    was planned on the Pods as they are in the snapshot; unless [`Plan::counts_scale`] says otherwise. No failure
///    stops another action.
/// 5. [`Plan::status`] with the outcome of both steps: [`StatusPlan::patch`]. The first failure of a step
///    is its outcome, except conflicts; [`Problems`] come first.
/// 6. [`Plan::pre_download`], one action after another, whatever came of the one before; [`Plan::owner_patch`];
///    [`Plan::obsolete_revisions`]. Failures are only logged.
/// 7. Events: [`Plan::events`], and those of each action ([`Action::success`], [`Action::failure`]).
/// 8. Look again after [`Plan::requeue_after`]. What failed is tried again after a pause that grows with each
///    failure in a row; nothing else waits for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<S> {
    /// A revision to write first.
    pub revision: Option<RevisionStep>,
    /// What stops belonging to the workload: Pods that the selector does not match, claims without a Pod. And
    /// claims that were to go and stay.
    pub release: Vec<Action>,
    /// The scale step.
    pub scale: Vec<Action>,
    /// The update step.
    pub update: Vec<Action>,
    /// The update step counts with what the scale step does: it continues beside it.
    pub counts_scale: bool,
    /// What to do about ImagePullJobs, in this order.
    pub pre_download: Vec<Action>,
    /// What could not be planned.
    pub problems: Problems,
    /// The status; none where nothing can be said about the workload.
    pub status: Option<StatusPlan<S>>,
    /// A JSON patch of the workload itself, with its preconditions.
    pub owner_patch: Option<String>,
    /// Revisions to delete.
    pub obsolete_revisions: Vec<ObjectVersion>,
    /// Events that do not hang on the success of an action.
    pub events: Vec<Event>,
    /// When to reconcile again though nothing happens.
    pub requeue_after: Option<Duration>,
    /// What blocks progress.
    pub explanation: Explanation,
}

impl<S> Default for Plan<S> {
    fn default() -> Self {
        Self {
            revision: None,
            release: Vec::new(),
            scale: Vec::new(),
            update: Vec::new(),
            counts_scale: false,
            pre_download: Vec::new(),
            problems: Problems::default(),
            status: None,
            owner_patch: None,
            obsolete_revisions: Vec::new(),
            events: Vec::new(),
            requeue_after: None,
            explanation: Explanation::default(),
        }
    }
}

/// Parts of a plan that could not be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// Why the scale step is not complete.
    pub scale: Option<String>,
    /// Why the update step is not complete.
    pub update: Option<String>,
}

impl Problems {
    /// What blocks the steps, since when their conditions report it.
    pub(crate) fn blockers<S: WorkloadStatus>(&self, status: &S) -> Vec<Blocker> {
        let conditions = status.conditions();
        let reported = [(&self.scale, S::FAILED_SCALE.0), (&self.update, S::FAILED_UPDATE.0)];
        let blocker = |(problem, kind): (&Option<String>, &str)| {
            Some(Blocker {
                pod: String::new(),
                reason: "Failed",
                message: problem.clone()?,
                remedy: "correct what it names".to_owned(),
                since: condition(&conditions, kind).and_then(|known| known.since()),
            })
        };
        reported.into_iter().filter_map(blocker).collect()
    }
}

impl<S> Plan<S> {
    /// The actions of all steps, in their order.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.release.iter().chain(&self.scale).chain(&self.update)
    }

    /// The update step in two parts: what continues beside the scale step, and what comes after it. What is under
    /// way continues ([`Action::goes_on`]), except at Pods that the scale step deletes or keeps. Where there is no
    /// scale step, nothing waits.
    pub fn split_update(&self) -> (Vec<&Action>, Vec<&Action>) {
        let scaled: HashSet<&str> = self.scale.iter().map(Action::object).collect();
        let is_beside = |action: &&Action| {
            scaled.is_empty()
                || ((self.counts_scale || action.goes_on()) && !scaled.contains(action.object()))
        };
        self.update.iter().partition(is_beside)
    }
}

impl<S: WorkloadStatus> Plan<S> {
    /// Nothing can be planned. The status keeps what it says, for nothing was done about this generation, and
    /// says why.
    pub(crate) fn impossible<W: Workload<Status = S>>(workload: &W, problem: String, now: Timestamp) -> Self {
        let explanation = Explanation::of_problem(W::KIND, &problem);
        let mut status = StatusPlan::unchanged(workload, now);
        explanation.record(&mut status, now);
        let problems = Problems { scale: Some(problem), update: None };
        Self { problems, explanation, status: Some(status), ..Self::default() }
    }

    /// True where nothing is created, deleted or written.
    pub fn is_idle(&self) -> bool {
        self.revision.is_none()
            && self.release.is_empty()
            && self.scale.is_empty()
            && self.update.is_empty()
            && self.owner_patch.is_none()
            && self.obsolete_revisions.is_empty()
    }
}

impl<S> fmt::Display for Plan<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.revision {
            Some(RevisionStep::Create(revision)) => {
                writeln!(formatter, "create ControllerRevision {}", revision.name)?;
            }
            Some(RevisionStep::Patch { revision, .. }) => {
                writeln!(formatter, "make ControllerRevision {} the newest", revision.name)?;
            }
            None => {}
        }
        for action in self.release.iter().chain(&self.scale) {
            writeln!(formatter, "{action}")?;
        }
        // These are done only where those above do nothing.
        for action in &self.update {
            let is_beside = self.scale.is_empty() || self.counts_scale || action.goes_on();
            let prefix = if is_beside { "" } else { "otherwise: " };
            writeln!(formatter, "{prefix}{action}")?;
        }
        for problem in [&self.problems.scale, &self.problems.update].into_iter().flatten() {
            writeln!(formatter, "problem: {problem}")?;
        }
        if let Some(patch) = &self.owner_patch {
            writeln!(formatter, "patch the workload: {patch}")?;
        }
        for revision in &self.obsolete_revisions {
            writeln!(formatter, "delete ControllerRevision {}", revision.name)?;
        }
        if let Some(delay) = self.requeue_after {
            writeln!(formatter, "look again after {delay:?}")?;
        }
        write!(formatter, "{}", self.explanation)
    }
}
