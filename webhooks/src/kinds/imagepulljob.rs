//! The ImagePullJob's own webhooks.

use std::future::ready;

use api::features::Feature;
use planner::kinds::imagepulljob::{defaulting, validation};
use planner::text::verdict::Verdict;

use super::resource::{Defaulting, ValidatedAt, Validation, Write};

const GATES: [Feature; 2] = [Feature::KruiseDaemon, Feature::ImagePullJobGate];

pub(crate) const DEFAULTING: Defaulting = Defaulting {
    path: "/mutate-apps-kruise-io-imagepulljob",
    default: |write| defaulting::default(write.object, write.version, write.old.is_none()),
};

pub(crate) const VALIDATION: Validation = Validation {
    at: ValidatedAt::Path { path: "/validate-apps-kruise-io-imagepulljob", legacy: None },
    validate: |write| Box::pin(ready(validate(write))),
};

/// Checks an ImagePullJob against itself and its former self.
fn validate(write: &Write<'_>) -> Verdict {
    write.without_gate(&GATES).unwrap_or_else(|| validation::review(write.object, write.old))
}
