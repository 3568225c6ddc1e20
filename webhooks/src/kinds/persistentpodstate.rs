//! The PersistentPodState's own webhook, and whether admission of Pods knows the objects.

use std::future::ready;

use admission::world::Watched;
use informers::index::CacheState;
use kinds::persistentpodstate::validation::{Context, review};
use values::verdict::Verdict;

use super::resource::{Validation, Write};
use crate::admission::Admission;

pub(crate) const VALIDATION: Validation = |write| Box::pin(ready(validate(write)));

/// Checks a PersistentPodState against itself, its former self and the others of its namespace.
fn validate(write: &Write<'_>) -> Verdict {
    if let Some(answer) = write.early_answer(&[]) {
        return answer;
    }
    let admission = write.admission;
    let needed = [Watched::PersistentPodState, Watched::ConfigMap];
    if let Some(refused) = needed.into_iter().find_map(|kind| admission.not_loaded(kind)) {
        return refused;
    }
    let world = admission.index.world();
    let states = world.pod_states();
    review(write.object, write.old, &Context { others: states.of(write.namespace), listed: states.listed() })
}

/// The refusal while PersistentPodStates are not known. Where there is no such kind, there are none.
pub(crate) fn not_loaded(admission: &Admission) -> Option<Verdict> {
    let is_absent = admission.index.cache_state(Watched::PersistentPodState) == CacheState::Absent;
    if is_absent { None } else { admission.not_loaded(Watched::PersistentPodState) }
}
