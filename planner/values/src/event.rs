//! Kubernetes Events as data: a planner says what to report, the controllers record it.

/// What to report about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `Warning` instead of `Normal`.
    pub warning: bool,
    /// A word that says why.
    pub reason: &'static str,
    /// A sentence that says why.
    pub message: String,
}

/// An Event that reports something ordinary.
pub fn normal(reason: &'static str, message: String) -> Event {
    Event { warning: false, reason, message }
}

/// An Event that reports trouble.
pub fn warning(reason: &'static str, message: String) -> Event {
    Event { warning: true, reason, message }
}
