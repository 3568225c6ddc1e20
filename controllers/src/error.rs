//! Why a reconcile failed.

use std::sync::Arc;
use std::time::Duration;

use cluster::queue::Failure;
use cluster::{ApiError, ErrorReason, Retry};

/// The longest pause while a kind can't be listed.
const NOT_LISTED: Duration = Duration::from_secs(30);

/// Why a reconcile failed, and at which object; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The API server refused a request, or can't be reached.
    #[error("{request}: {0}", request = .0.request())]
    Api(#[from] ApiError),
    /// An object of the API server is not what its kind says.
    #[error("{object} is not understood: {source}")]
    Object {
        /// What it was.
        object: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A workload may not be read, or is of a kind that is not served: it is not known whether it exists.
    #[error("a workload can't be read: {0}")]
    Unreadable(Arc<str>),
    /// What the object asks for can't be recorded.
    #[error("no ControllerRevision can be made: {0}")]
    Record(#[from] values::canonical::CanonicalError),
    /// A Pod's Node is not there.
    #[error("node {0:?} does not exist")]
    NoNode(String),
    /// Objects of this kind are not listed yet.
    #[error("{0} can't be listed")]
    NotListed(&'static str),
    /// A ControllerRevision that was just written is not what is wanted.
    #[error(
        "the ControllerRevision that was written is not the one that is wanted: somebody else writes them too"
    )]
    Unsettled,
    /// The object is being deleted, or another one has its name.
    #[error("the {0} is being deleted")]
    Ending(&'static str),
    /// What was planned could not be carried out.
    #[error("{0}")]
    Action(String),
    /// What was planned could not be carried out, and something else is due soon.
    #[error("{problem}")]
    Due {
        /// What happened.
        problem: String,
        /// When to reconcile again at the latest.
        within: Duration,
    },
    /// Some of many could not be brought on; the others were.
    #[error("{failed} {of} failed, the first: {first}")]
    Several {
        /// What they are.
        of: &'static str,
        /// How many.
        failed: usize,
        /// Name and problem of the first of them.
        first: String,
    },
}

impl ReconcileError {
    /// What to say when `object` can't be read.
    pub fn of_object(object: &'static str) -> impl Fn(serde_json::Error) -> Self {
        move |source| Self::Object { object, source }
    }

    /// What users get to read: of the API server only what it said.
    pub fn message(&self) -> String {
        match self {
            Self::Api(error) => error.to_string(),
            other => other.to_string(),
        }
    }

    /// When to try again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Api(error) => error.retry(),
            Self::Unreadable(_) => Retry::Later,
            Self::Ending(_) => Retry::Now,
            _ => Retry::WhenHealthy,
        }
    }

    /// Whether the API server refuses this request, and would continue to do so: no sign of trouble that others
    /// have as well.
    pub fn is_refusal(&self) -> bool {
        self.retry() == Retry::Later
    }

    /// Whether what was asked for may have been done.
    pub fn may_have_acted(&self) -> bool {
        match self {
            Self::Api(error) => error.may_have_acted(),
            _ => true,
        }
    }

    /// Whether no answer came.
    pub fn is_unanswered(&self) -> bool {
        match self {
            Self::Api(error) => error.reason() == ErrorReason::Unanswered,
            _ => true,
        }
    }
}

impl Failure for ReconcileError {
    fn retry(&self) -> Retry {
        self.retry()
    }

    fn pauses(&self) -> (Duration, Duration) {
        const FIRST: Duration = Duration::from_millis(5);
        const LONGEST: Duration = Duration::from_secs(600);
        match self {
            Self::Due { within, .. } => (FIRST, (*within).clamp(FIRST, LONGEST)),
            Self::NotListed(_) => (FIRST, NOT_LISTED),
            _ => (FIRST, LONGEST),
        }
    }
}
