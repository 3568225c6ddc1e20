//! The DaemonSet's own webhooks.

use kinds::daemonset::defaulting;
use kinds::daemonset::validation::{Context, review, trials};

use super::resource::{Defaulting, Validation};
use super::templates::judged;

pub(crate) const DEFAULTING: Defaulting = |write| defaulting::default(write.object, write.old, write.version);

pub(crate) const VALIDATION: Validation = |write| {
    let admission = write.admission;
    let context = Context { gates: &admission.gates, allow_privileged: admission.flags.allow_privileged };
    Box::pin(judged(write, review(write.object, write.old, &context), trials))
};
