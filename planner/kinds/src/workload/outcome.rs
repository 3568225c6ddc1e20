//! What came of the steps of a plan, which its status reports.

/// How carrying out a step of a plan went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It was not tried.
    #[default]
    Skipped,
    /// All of it was done, or there was nothing to do. Conflicts, after which the next plan tries again,
    /// count as success.
    Succeeded,
    /// It failed with this message.
    Failed(String),
}
