//! The EphemeralJob's own webhook.

use std::future;

use kinds::ephemeraljob::validation::review;

use super::resource::Validation;

pub(crate) const VALIDATION: Validation = |write| {
    let verdict = review(write.object, write.old, write.admission.flags.allow_privileged);
    Box::pin(future::ready(verdict))
};
