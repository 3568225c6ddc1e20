//! The UnitedDeployment's own webhooks. Deletes are decided by [`protection`](super::protection).

use kinds::uniteddeployment::defaulting;
use kinds::uniteddeployment::validation::{Context, review, trials};

use super::resource::{Defaulting, Validation};
use super::templates::judged;

pub(crate) const DEFAULTING: Defaulting =
    |write| defaulting::default(write.object, write.old, write.version, &write.admission.gates);

pub(crate) const VALIDATION: Validation = |write| {
    let context =
        Context { gates: &write.admission.gates, allow_privileged: write.admission.flags.allow_privileged };
    Box::pin(judged(write, review(write.object, write.old, &context), trials))
};
