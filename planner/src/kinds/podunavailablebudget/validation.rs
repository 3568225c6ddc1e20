//! What a PodUnavailableBudget may say (docs/behaviour/podunavailablebudget.md#validation).

use api::kinds::podunavailablebudget::{Spec, TargetReference};

mod overlap;

use overlap::loosely_overlap;

/// How two budgets of a namespace conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// They name the same workload.
    Target,
    /// Their selectors can match the same Pods.
    Selector,
}

/// The conflict of two budgets. One that names its workload and one with a selector never conflict.
pub(crate) fn conflict(one: &Spec, other: &Spec) -> Option<Conflict> {
    let group = |target: &TargetReference| {
        target.api_version.split_once('/').map_or("", |(group, _)| group).to_owned()
    };
    let identity = |target: &TargetReference| (group(target), target.kind.clone(), target.name.clone());
    if let (Some(one), Some(other)) = (&one.target_ref, &other.target_ref) {
        return (identity(one) == identity(other)).then_some(Conflict::Target);
    }
    match (&one.selector, &other.selector) {
        (Some(one), Some(other)) => loosely_overlap(one, other).then_some(Conflict::Selector),
        _ => None,
    }
}
