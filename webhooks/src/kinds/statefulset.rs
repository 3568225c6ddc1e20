//! Validation of StatefulSets. Deletes are decided by [`protection`](super::protection).

use admission::world::Watched;
use kinds::statefulset::validation::{Context, review};
use values::verdict::Verdict;

use super::resource::Write;

pub(super) fn validate(write: &Write<'_>) -> Verdict {
    let admission = write.admission;
    let world = admission.index.world();
    // Where they are not known, the controller still refuses what can't grow.
    let is_known = admission.index.can_answer(Watched::StorageClass);
    let context = Context {
        gates: &admission.gates,
        allow_privileged: admission.flags.allow_privileged,
        storage_classes: is_known.then(|| world.storage_classes()),
    };
    review(write.object, write.old, &context)
}
