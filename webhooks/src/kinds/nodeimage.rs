//! The NodeImage's own webhooks.

use std::future::ready;

use api::features::Feature;
use kinds::nodeimage::{defaulting, validation};

use super::resource::{Defaulting, Validation};

pub(crate) const DEFAULTING: Defaulting =
    |write| defaulting::default(write.object, write.old, (write.admission.clock)().now);

pub(crate) const VALIDATION: Validation = |write| {
    let verdict =
        write.early_answer(&[Feature::KruiseDaemon]).unwrap_or_else(|| validation::review(write.object));
    Box::pin(ready(verdict))
};
