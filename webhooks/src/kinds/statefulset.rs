//! The StatefulSet's own webhooks. Deletes are decided by [`protection`](super::protection).

use admission::world::Watched;
use kinds::statefulset::defaulting;
use kinds::statefulset::validation::{Context, review};

use super::resource::{Defaulting, Validation};

pub(crate) const DEFAULTING: Defaulting =
    |write| defaulting::default(write.object, write.old, write.version, &write.admission.gates);

pub(crate) const VALIDATION: Validation = |write| {
    Box::pin(async move {
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
    })
};
