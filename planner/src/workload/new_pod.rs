//! The Pods and claims that a workload creates.

/// A claim to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewClaim {
    /// Its name.
    pub name: String,
    /// Its JSON.
    pub json: String,
}
