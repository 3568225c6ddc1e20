//! The AdvancedCronJob's own webhooks.

use std::future::ready;

use kinds::advancedcronjob::defaulting;
use kinds::advancedcronjob::validation::{Context, review};

use super::resource::{Defaulting, ValidatedAt, Validation};

pub(crate) const DEFAULTING: Defaulting = Defaulting {
    path: "/mutate-apps-kruise-io-advancedcronjob",
    default: |write| defaulting::default(write.object, write.old, &write.admission.gates),
};

pub(crate) const VALIDATION: Validation = Validation {
    at: ValidatedAt::Path { path: "/validate-apps-kruise-io-advancedcronjob", legacy: None },
    validate: |write| {
        let admission = write.admission;
        let context = Context { gates: &admission.gates, allow_privileged: admission.flags.allow_privileged };
        Box::pin(ready(review(write.object, write.old, &context)))
    },
};
