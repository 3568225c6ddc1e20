//! The NodeImage's own webhooks.

use std::future::ready;

use api::features::Feature;
use kinds::nodeimage::{defaulting, validation};
use values::verdict::Verdict;

use super::resource::{Defaulting, ValidatedAt, Validation, Write};

const GATES: [Feature; 1] = [Feature::KruiseDaemon];

pub(crate) const DEFAULTING: Defaulting = Defaulting {
    path: "/mutate-apps-kruise-io-nodeimage",
    default: |write| defaulting::default(write.object, write.old, (write.admission.clock)().now),
};

pub(crate) const VALIDATION: Validation = Validation {
    at: ValidatedAt::Path { path: "/validate-apps-kruise-io-nodeimage", legacy: None },
    validate: |write| Box::pin(ready(validate(write))),
};

/// Checks a NodeImage against itself. One that can't be read must be able to lose its finalizers.
fn validate(write: &Write<'_>) -> Verdict {
    write.without_gate(&GATES).unwrap_or_else(|| match write.leaves_spec() {
        true => Verdict::allow(),
        false => validation::review(write.object),
    })
}
