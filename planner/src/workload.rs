//! What all kinds of workloads share. This floor calls [`crate::pod`] and [`crate::text`].
//!
//! ```text
//!   revision       ControllerRevisions: their data, names, history and labels on Pods
//!   update_order   which Pods are updated first
//!   pre_download   ImagePullJobs ahead of an update
//!   event          an Event to record
//! ```

pub mod event;
pub mod pre_download;
pub mod revision;
pub mod update_order;
