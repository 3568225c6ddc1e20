//! The ImageListPullJob's own webhooks.

use std::future::ready;

use api::features::Feature;
use kinds::imagelistpulljob::{defaulting, validation};
use values::json_patch::Patch;
use values::verdict::Verdict;

use super::resource::{Defaulting, ValidatedAt, Validation, Write};

const GATES: [Feature; 2] = [Feature::KruiseDaemon, Feature::ImagePullJobGate];

pub(crate) const DEFAULTING: Defaulting = Defaulting {
    path: "/mutate-apps-kruise-io-imagelistpulljob",
    default: |write| {
        // What is left as it is needs nothing, or it would be validated.
        if write.leaves_spec() {
            return Ok(Patch::default());
        }
        defaulting::default(write.object)
    },
};

pub(crate) const VALIDATION: Validation = Validation {
    at: ValidatedAt::Path { path: "/validate-apps-kruise-io-imagelistpulljob", legacy: None },
    validate: |write| Box::pin(ready(validate(write))),
};

/// Checks an ImageListPullJob against itself.
fn validate(write: &Write<'_>) -> Verdict {
    // Labels and finalizers of what is stored can be changed, whatever is wrong with it, or it could not go.
    if write.leaves_spec() {
        return Verdict::allow();
    }
    write.without_gate(&GATES).unwrap_or_else(|| validation::review(write.object))
}
