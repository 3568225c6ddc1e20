//! What an admission rule answers.

use crate::field::{FieldError, aggregate};
use crate::json_patch::Patch;

/// The answer of an admission step or of a whole webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request passes, changed by `edits`.
    Allow {
        /// Operations on the raw object of the request; empty where nothing changes.
        edits: Patch,
        /// Sentences that clients such as kubectl print.
        warnings: Vec<String>,
    },
    /// The request is refused.
    Deny(Denial),
    /// The request is refused, with a reason that clients such as `kubectl drain` act upon.
    Refuse(Denial, Reason),
}

/// The machine-readable reason of a refusal, `status.reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `Forbidden`
    Forbidden,
    /// `TooManyRequests`: the client tries again.
    TooManyRequests {
        /// After so many seconds.
        retry_after_seconds: u32,
    },
}

/// A refusal as the client sees it: `admission webhook "..." denied the request: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// HTTP-style code inside the review (docs/behaviour/api-and-registration.md#codes-of-denials).
    pub code: u16,
    /// The reason, in the words of the spec.
    pub message: String,
}

/// A refusal with code 400.
#[expect(clippy::needless_pass_by_value, reason = "`map_err` hands errors over")]
pub fn refused(problem: impl ToString) -> Denial {
    Denial { code: 400, message: problem.to_string() }
}

impl Denial {
    /// A refusal with this code.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// A step or a lookup failed: code 500.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(500, message)
    }
}

impl Verdict {
    /// Refused with this code for these errors, or else passes with these warnings.
    pub fn of(errors: &[FieldError], code: u16, warnings: Vec<String>) -> Self {
        match aggregate(errors) {
            Some(message) => Self::deny(code, message),
            None => Self::Allow { edits: Patch::default(), warnings },
        }
    }

    /// Passes unchanged.
    pub fn allow() -> Self {
        Self::Allow { edits: Patch::default(), warnings: Vec::new() }
    }

    /// Passes with these edits.
    pub fn edit(edits: Patch) -> Self {
        Self::Allow { edits, warnings: Vec::new() }
    }

    /// Refused.
    pub fn deny(code: u16, message: impl Into<String>) -> Self {
        Self::Deny(Denial::new(code, message))
    }

    /// Why the request is refused, if so.
    pub fn denial(&self) -> Option<&Denial> {
        match self {
            Self::Allow { .. } => None,
            Self::Deny(denial) | Self::Refuse(denial, _) => Some(denial),
        }
    }

    /// True where the request passes.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow { .. })
    }
}

impl From<Denial> for Verdict {
    fn from(denial: Denial) -> Self {
        Self::Deny(denial)
    }
}
