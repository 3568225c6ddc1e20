//! The UnitedDeployment's own webhooks. Deletes are decided by [`protection`](super::protection).

use kinds::deletion_protection::Kind;
use kinds::uniteddeployment::defaulting;
use kinds::uniteddeployment::validation::{Context, review};

use super::resource::{Defaulting, ValidatedAt, Validation};

pub(crate) const DEFAULTING: Defaulting = Defaulting {
    path: "/mutate-apps-kruise-io-uniteddeployment",
    default: |write| defaulting::default(write.object, write.old, write.version, &write.admission.gates),
};

pub(crate) const VALIDATION: Validation = Validation {
    at: ValidatedAt::Protection(Kind::UnitedDeployment),
    validate: |write| {
        let context = Context {
            gates: &write.admission.gates,
            allow_privileged: write.admission.flags.allow_privileged,
        };
        Box::pin(std::future::ready(review(write.object, write.old, &context)))
    },
};
