//! SidecarSets: what they add to a Pod, and what they may say (docs/behaviour/pod-mutation.md).
//!
//! ```text
//!   inventory     what the rules read of the cluster: SidecarSets, Namespaces, recorded revisions, configuration
//!   index         all SidecarSets, found by namespace and label; each prepared as a contribution
//!   matching      which of them a Pod gets, and from which revision
//!   injection     the step of the Pod webhook; build, sources, resources and records are its parts
//!   calculator    the expression language of resource policies
//!   explanation   why a SidecarSet was injected or not
//!   defaulting, validation   the SidecarSet's own webhooks
//!   rollout, history   updates of running Pods, and the revisions they come from
//!   revision      what those revisions record
//!   account       which Pods have its sidecars, and why the others have not
//!   subject       what a SidecarSet says about its account
//! ```

pub mod account;
pub(crate) mod build;
pub mod calculator;
pub(crate) mod contribution;
pub mod defaulting;
pub mod explanation;
pub mod history;
pub mod index;
pub mod injection;
pub mod inventory;
pub(crate) mod matching;
pub mod recorded;
pub(crate) mod records;
pub(crate) mod resources;
pub(crate) mod revision;
pub mod rollout;
pub(crate) mod sources;
mod subject;
pub mod validation;
