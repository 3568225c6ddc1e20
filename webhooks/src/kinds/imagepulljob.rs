//! The ImagePullJob's own webhooks.

use std::future::ready;

use api::features::Feature;
use kinds::imagepulljob::{defaulting, validation};
use values::json_patch::Patch;

use super::resource::{Defaulting, Validation};

const GATES: [Feature; 2] = [Feature::KruiseDaemon, Feature::ImagePullJobGate];

pub(crate) const DEFAULTING: Defaulting = |write| {
    // What is left as it is needs nothing, or it would be validated.
    if write.leaves_spec() {
        return Ok(Patch::default());
    }
    defaulting::default(write.object, write.version, write.old.is_none())
};

pub(crate) const VALIDATION: Validation = |write| {
    let verdict = write.early_answer(&GATES).unwrap_or_else(|| validation::review(write.object, write.old));
    Box::pin(ready(verdict))
};
