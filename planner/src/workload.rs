//! What several kinds share. This floor calls [`crate::pod`] and [`crate::text`].
//!
//! ```text
//!   revision            ControllerRevisions: their data, names and history
//!   compared_template   templates of workloads and revisions, as updates in place compare them
//!   update_order        which Pods are updated first
//!   pre_download        ImagePullJobs ahead of an update
//!   event               an Event to record
//!   namespace           Namespaces and their labels
//!   namespaced          objects of a kind that few Namespaces have, found by Namespace
//! ```
//!
//! A module belongs here once two kinds need it. It knows no kind: what differs between kinds comes in as an
//! argument.

pub mod compared_template;
pub mod event;
pub mod namespace;
pub(crate) mod namespaced;
pub mod pre_download;
pub mod revision;
pub mod update_order;
