//! What the kubectl plugin decides (docs/behaviour/kubectl-kruise.md), on objects in their JSON form, of any version.
//!
//! ```text
//!   kinds       the kinds that it knows, and how people name them     progress     how far a rollout is
//!   history     the revisions of a workload, and which one is meant   edit         flags and templates of workloads
//!   containers  images, environment, resources, accounts              removal      scaling down by chosen Pods
//!   migration   from a Deployment to a CloneSet, step by step         staged       Rollouts, and their steps
//!   creation    jobs, restarts and pulls from a few words             generator    a ResourceDistribution from files
//!   described   a Rollout as a page                                   deployment   rolling back a Deployment
//!   pods        what Pods wait for                                template     a Pod template as text
//! ```

pub mod containers;
pub mod creation;
pub mod deployment;
pub mod described;
pub mod edit;
pub mod generator;
pub mod history;
pub mod kinds;
pub mod migration;
pub mod pods;
pub mod progress;
pub mod removal;
pub mod staged;
pub mod template;

#[cfg(test)]
mod tests;
