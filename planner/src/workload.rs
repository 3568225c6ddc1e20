//! What several kinds share. This floor calls [`crate::pod`] and [`crate::text`].
//!
//! ```text
//!   kind           what a kind of workload brings: the trait Workload, whose plan(Snapshot) gives a Plan
//!   snapshot       what a plan is made from              plan      what to do, and how it is carried out
//!   action         one thing to do, and its Events       seen      the precondition of a write
//!   revision       ControllerRevisions: their data, names and history
//!   owner          the owner reference of children       children  claims and other children
//!   new_pod        Pods and claims to create             event     an Event to record
//!   status         the patch of the status               conditions
//!   explanation    what stands in the way                told      what a status tells of refusals
//!   update_order   which Pods are updated first          trigger   which workloads to look at
//!   pre_download   ImagePullJobs ahead of an update
//!   compared_template   templates as updates in place compare them
//!   namespace      Namespaces and their labels           namespaced  objects found by Namespace
//! ```
//!
//! A module belongs here once two kinds need it. It knows no kind: what differs between kinds comes in as an
//! argument.

pub mod action;
pub mod children;
pub mod compared_template;
pub mod conditions;
pub mod event;
pub mod explanation;
pub mod kind;
pub mod namespace;
pub(crate) mod namespaced;
pub mod new_pod;
pub mod owner;
pub mod plan;
pub mod pre_download;
pub mod revision;
pub mod seen;
pub mod snapshot;
pub mod status;
pub mod told;
pub mod trigger;
pub mod update_order;
