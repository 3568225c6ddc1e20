//! The PodProbeMarker's own webhook.

use std::future::ready;

use api::features::Feature;
use kinds::podprobemarker::validation;
use values::verdict::Verdict;

use super::resource::{Validation, Write};

const GATES: [Feature; 2] = [Feature::PodProbeMarkerGate, Feature::KruiseDaemon];

pub(crate) const VALIDATION: Validation = |write| Box::pin(ready(validate(write)));

/// Checks a PodProbeMarker against itself and its former self.
fn validate(write: &Write<'_>) -> Verdict {
    write.without_gate(&GATES).unwrap_or_else(|| validation::review(write.object, write.old))
}
