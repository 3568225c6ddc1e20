//! The PodUnavailableBudget's own webhook.

use admission::world::Watched;
use kinds::podunavailablebudget::validation::{Context, review};
use values::verdict::Verdict;

use super::resource::Write;

/// Checks a budget against itself, its former self and the other budgets of its namespace.
pub(super) fn validate(write: &Write<'_>) -> Verdict {
    let admission = write.admission;
    if let Some(refused) = admission.not_loaded(Watched::PodUnavailableBudget) {
        return refused;
    }
    let budgets = admission.index.world().budgets_in(write.namespace);
    let context = Context { version: write.version, gates: &admission.gates, budgets: &budgets };
    review(write.object, write.old, &context)
}
