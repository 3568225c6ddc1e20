//! Metrics of ImagePullJobs.

use api::kinds::imagepulljob::ImagePullJob;

use super::samples::{Table, about, count, created, generation, number};

pub(crate) static TABLE: Table<ImagePullJob> = Table {
    kind: "imagepulljob",
    about,
    rows: &[
        created("kruise_imagepulljob_created"),
        generation("kruise_imagepulljob_metadata_generation"),
        number("kruise_imagepulljob_status_desired", "Nodes to pull onto.", |job| {
            Some(job.status.desired.into())
        }),
        number("kruise_imagepulljob_status_active", "Nodes that pull, or wait to.", |job| {
            count(job.status.active)
        }),
        number("kruise_imagepulljob_status_succeeded", "Nodes that have the image.", |job| {
            count(job.status.succeeded)
        }),
        number("kruise_imagepulljob_status_failed", "Nodes on which the pull failed.", |job| {
            count(job.status.failed)
        }),
    ],
};
