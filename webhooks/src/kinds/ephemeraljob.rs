//! The EphemeralJob's own webhook.

use std::future;

use kinds::ephemeraljob::validation::review;

use super::resource::{ValidatedAt, Validation};

pub(crate) const VALIDATION: Validation = Validation {
    at: ValidatedAt::Path { path: "/validate-apps-kruise-io-v1alpha1-ephemeraljob", legacy: None },
    validate: |write| {
        let verdict = review(write.object, write.old, write.admission.flags.allow_privileged);
        Box::pin(future::ready(verdict))
    },
};
