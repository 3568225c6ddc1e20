//! ImageListPullJob: an ImagePullJob for each image of a list (docs/behaviour/images.md#imagelistpulljob).
//!
//! ```text
//!   defaulting, validation   what an ImageListPullJob may say
//!   plan                     its ImagePullJobs, and its status
//! ```

use api::kinds::{imagelistpulljob, imagepulljob};

pub mod defaulting;
pub mod plan;
pub mod validation;

/// The spec of the job of one image.
fn spec_of(list: &imagelistpulljob::Spec, image: &str) -> imagepulljob::Spec {
    imagepulljob::Spec {
        completion_policy: list.completion_policy.clone(),
        image: image.to_owned(),
        image_pull_policy: list.image_pull_policy.clone(),
        parallelism: list.parallelism.clone(),
        pod_selector: list.pod_selector.clone(),
        pull_policy: list.pull_policy.clone(),
        pull_secrets: list.pull_secrets.clone(),
        sandbox_config: list.sandbox_config.clone(),
        selector: list.selector.clone(),
    }
}
