//! ImageListPullJob: an ImagePullJob for each image of a list (docs/behaviour/images.md#imagelistpulljob).
//!
//! ```text
//!   defaulting, validation   what an ImageListPullJob may say
//!   plan                     its ImagePullJobs, and its status
//! ```

pub mod defaulting;
pub mod plan;
pub mod validation;
