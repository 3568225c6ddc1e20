//! What the API server stores for an ImageListPullJob (docs/behaviour/images.md#defaults-of-imagelistpulljobs).

use api::kinds::imagelistpulljob::KIND;

use crate::workload::image_pull::default_spec;
use crate::workload::submitted::completed;
use values::json_patch::Patch;
use values::verdict::Denial;

/// The operations that complete `object`. Whether the registry is asked is left to the job of each image.
///
/// # Errors
/// Code 400 for what is no object.
pub fn default(object: &str) -> Result<Patch, Denial> {
    completed(object, None, KIND, |job, patch| drop(default_spec(job, patch)))
}
