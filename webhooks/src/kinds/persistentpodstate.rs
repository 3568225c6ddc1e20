//! The PersistentPodState's own webhook, and whether admission of Pods knows the objects.

use admission::world::Watched;
use informers::index::CacheState;
use kinds::persistentpodstate::validation::{Context, review};
use values::verdict::Verdict;

use super::resource::Write;
use crate::admission::Admission;

/// Checks a PersistentPodState against itself, its former self and the others of its namespace.
pub(super) fn validate(write: &Write<'_>) -> Verdict {
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
