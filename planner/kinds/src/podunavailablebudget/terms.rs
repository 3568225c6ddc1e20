//! What a budget asks for: which operations take a unit, on which Pods, and how many must be available
//! (docs/behaviour/podunavailablebudget.md#numbers).

use api::annotations::{PUB_PROTECT_OPERATIONS, PUB_PROTECT_TOTAL_REPLICAS, UNHEALTHY_PODS};
use api::features::Feature;
use api::kinds::podunavailablebudget::{PodUnavailableBudget, ProtectOperation, Spec};

use values::percent::{Rounding, scaled};

/// What is done to a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Its deletion.
    Delete,
    /// A change of its spec, or a label that makes it unavailable.
    Update,
    /// Its eviction.
    Evict,
    /// A change of its requests and limits alone, without a restart.
    Resize,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 4] = [Self::Delete, Self::Update, Self::Evict, Self::Resize];

    /// The word for it in `spec.protectOperations`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delete => "DELETE",
            Self::Update => "UPDATE",
            Self::Evict => "EVICT",
            Self::Resize => "RESIZE",
        }
    }

    /// The gate without which nothing is held.
    pub fn gate(self) -> Feature {
        match self {
            Self::Delete | Self::Evict => Feature::PodUnavailableBudgetDeleteGate,
            Self::Update | Self::Resize => Feature::PodUnavailableBudgetUpdateGate,
        }
    }

    fn of(protected: &ProtectOperation) -> Option<Self> {
        match protected {
            ProtectOperation::Delete => Some(Self::Delete),
            ProtectOperation::Update => Some(Self::Update),
            ProtectOperation::Evict => Some(Self::Evict),
            ProtectOperation::Resize => Some(Self::Resize),
            ProtectOperation::Other(_) => None,
        }
    }
}

/// What becomes of a request about a Pod that is not ready
/// (docs/behaviour/podunavailablebudget.md#pods-that-are-not-ready).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UnhealthyPods {
    /// It takes no unit, and passes.
    #[default]
    Release,
    /// It needs a unit, as one about an available Pod does.
    Protect,
}

impl UnhealthyPods {
    /// Every choice.
    pub(crate) const ALL: [Self; 2] = [Self::Protect, Self::Release];

    /// The word for it in the annotation.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Release => "Release",
            Self::Protect => "Protect",
        }
    }

    /// What the annotation of a budget says; `None` where there is none, or another word.
    pub(crate) fn given(budget: &PodUnavailableBudget) -> Option<Self> {
        let word = budget.metadata.annotations.get(UNHEALTHY_PODS)?;
        Self::ALL.into_iter().find(|choice| choice.name() == word)
    }
}

/// Operations that a budget protects where it says nothing.
const DEFAULT: [Operation; 3] = [Operation::Delete, Operation::Update, Operation::Evict];

/// The operations that take a unit: those of the spec, else of the annotation that v1alpha1 has in its place, else
/// all but resizes. Where resizes are no operation of their own they count as updates.
pub(crate) fn protected_operations(budget: &PodUnavailableBudget, vertical_scaling: bool) -> Vec<Operation> {
    let annotation = budget.metadata.annotations.get(PUB_PROTECT_OPERATIONS).map_or("", String::as_str);
    let listed: Vec<&str> = annotation.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
    let mut protected: Vec<Operation> = if !budget.spec.protect_operations.is_empty() {
        budget.spec.protect_operations.iter().filter_map(Operation::of).collect()
    } else if !listed.is_empty() {
        Operation::ALL.into_iter().filter(|operation| listed.contains(&operation.name())).collect()
    } else {
        DEFAULT.to_vec()
    };
    if !vertical_scaling && protected.contains(&Operation::Update) {
        protected.push(Operation::Resize);
    }
    protected
}

/// The total that the budget gives itself, in place of the replicas of its workloads.
pub(crate) fn given_total(budget: &PodUnavailableBudget) -> Option<i32> {
    let annotation = budget.metadata.annotations.get(PUB_PROTECT_TOTAL_REPLICAS);
    budget.spec.protect_total_replicas.or_else(|| annotation?.parse().ok())
}

/// How many Pods of `total` must be available. Both percentages are rounded up.
///
/// # Errors
/// A number that can't be read.
pub(crate) fn desired_available(spec: &Spec, total: i32) -> Result<i32, String> {
    let number = |value| {
        let number = scaled(value, total, Rounding::Up);
        number.ok_or_else(|| format!("invalid value for IntOrString: {value:?}"))
    };
    let desired = match (&spec.max_unavailable, &spec.min_available) {
        (Some(max), _) => total.saturating_sub(number(max)?),
        (None, Some(min)) => number(min)?,
        (None, None) => 0,
    };
    Ok(desired.max(0))
}
