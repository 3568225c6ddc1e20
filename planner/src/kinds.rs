//! The rules of each kind and feature, a folder each. Kinds don't know each other: what two of them need is
//! in [`crate::workload`] or [`crate::pod`].

pub mod cloneset;
pub mod deletion_protection;
pub mod podprobemarker;
pub mod podunavailablebudget;
pub mod sidecar_terminator;
pub mod sidecarset;
