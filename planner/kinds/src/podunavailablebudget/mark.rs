//! The mark of a new Pod: the name of the budget that protects it
//! (docs/behaviour/pod-mutation.md#podunavailablebudget-mark).
//!
//! Guarantees: a Pod is never refused, and nothing is asked of the cluster. A Pod that can't be
//! connected with its budget here gets its mark from the budget's controller.

use api::annotations::{RELATED_PUB, RELATED_PUB_OLDER};
use api::features::Feature;

use super::budget::Budget;
use super::reason::Reason;
use crate::workload::namespaced::{Entry, Namespaced};
use crate::workload::target::Workload;
use pod::review::{Draft, Reasons, ReviewContext};

/// Marks the Pod with the first budget of its namespace that matches. Without a match, marks that the
/// user gave stay.
pub fn mutate(
    draft: &mut Draft<'_>,
    context: &ReviewContext<'_>,
    budgets: &Namespaced<Budget>,
    reasons: &mut Reasons<Reason>,
) {
    let gates = [Feature::PodUnavailableBudgetDeleteGate, Feature::PodUnavailableBudgetUpdateGate];
    if !gates.into_iter().any(|gate| context.gates.enabled(gate)) {
        return;
    }
    let budgets = budgets.of(&draft.namespace);
    if budgets.is_empty() {
        return;
    }
    let labels = draft.labels.as_slice();
    let workload = draft.controller.as_ref().map(|owner| {
        Workload::behind(owner.group.as_ref(), owner.kind.as_ref(), owner.name.as_ref(), labels)
    });
    let mut first = None;
    for budget in budgets {
        let reason = match (budget.scope.mismatch(workload.as_ref(), labels), first) {
            (Some(reason), _) => reason,
            (None, Some(by)) => Reason::Displaced { by: String::from(by) },
            (None, None) => {
                first = Some(budget.name());
                Reason::Protects
            }
        };
        if reasons.are_wanted() {
            reasons.note(budget.name(), || reason);
        } else if first.is_some() {
            break;
        }
    }
    if let Some(name) = first {
        for annotation in [RELATED_PUB, RELATED_PUB_OLDER] {
            draft.set_annotation(annotation, name);
        }
    }
}
