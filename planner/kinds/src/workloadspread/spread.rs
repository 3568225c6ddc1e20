//! A WorkloadSpread as the rules read it.

use std::cmp::Ordering;
use std::sync::Arc;

use api::Raw;
use api::annotations::REQUIRE_SUBSET;
use api::kinds::shared::ScheduleStrategyType;
use api::kinds::workloadspread::{Subset, SubsetStatus, WorkloadSpread};
use jiff::SignedDuration;

use crate::workload::namespaced::Entry;
use crate::workload::target::Workload;
use values::percent::{Rounding, scaled};
use values::reservation;
use values::selector::{Labels, Selector, SelectorError};

/// The condition of a subset: whether its Pods find a node.
pub(crate) const SCHEDULABLE: &str = "Schedulable";
/// How long a subset whose Pods could not be scheduled is left out at least.
const SHORTEST_RECOVERY: SignedDuration = SignedDuration::from_secs(300);
/// Seconds beside those for which Pods wait, for their replacements.
const REPLACEMENT_SECONDS: i64 = 5;

/// A WorkloadSpread. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread(Arc<Inner>);

#[derive(Debug, PartialEq)]
struct Inner {
    object: WorkloadSpread,
    target: Workload<'static>,
    filter: Result<Selector, SelectorError>,
    text: Raw,
}

/// The most Pods of one version in a subset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maximum {
    Unlimited,
    Pods(i32),
    /// A share of a number that is not known.
    Unknown,
}

impl Spread {
    /// Reads a WorkloadSpread in v1beta1.
    ///
    /// # Errors
    /// What is wrong with a text that is none.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        let object: WorkloadSpread = serde_json::from_str(text)?;
        let target = Workload::from(&object.spec.target_ref).into_owned();
        let selector = object.spec.target_filter.as_ref().and_then(|filter| filter.selector.as_ref());
        let filter = selector.map_or_else(|| Ok(Selector::default()), Selector::compile);
        Ok(Self(Arc::new(Inner { object, target, filter, text: reservation::kept(text)? })))
    }

    /// The object.
    pub fn object(&self) -> &WorkloadSpread {
        &self.0.object
    }

    /// Its text, but for `metadata.managedFields`.
    pub fn text(&self) -> &Raw {
        &self.0.text
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.object.metadata.name
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.0.object.metadata.namespace
    }

    /// The workload whose Pods it divides.
    pub fn target(&self) -> &Workload<'static> {
        &self.0.target
    }

    /// The subsets in their order.
    pub fn subsets(&self) -> &[Subset] {
        &self.0.object.spec.subsets
    }

    /// The subset of this name.
    pub fn subset(&self, name: &str) -> Option<&Subset> {
        self.subsets().iter().find(|subset| subset.name == name)
    }

    /// Whether it divides Pods at all: it names a workload and is not being deleted.
    pub fn is_active(&self) -> bool {
        !self.target().name.is_empty() && self.0.object.metadata.deletion_timestamp.is_none()
    }

    /// Why `spec.targetFilter.selector` can't be used, if so.
    pub fn problem(&self) -> Option<&SelectorError> {
        self.0.filter.as_ref().err()
    }

    /// Whether it is meant for Pods with these labels. Without a selector it is meant for all, with one that can't
    /// be used for none.
    pub fn selects(&self, labels: &(impl Labels + ?Sized)) -> bool {
        self.0.filter.as_ref().is_ok_and(|selector| selector.matches(labels))
    }

    /// Where the workload says how many Pods it wants, as the user gives it.
    pub fn replicas_paths(&self) -> &[String] {
        self.0.object.spec.target_filter.as_ref().map_or(&[], |filter| &filter.replicas_path_list)
    }

    /// Whether the workload's number of replicas matters for the quotas.
    pub fn has_shares(&self) -> bool {
        use api::kinds::shared::IntOrString::String;
        self.subsets().iter().any(|subset| matches!(subset.max_replicas, Some(String(_))))
    }

    /// Whether a Pod of its workload that no subset takes is not let through.
    pub fn requires_subset(&self) -> bool {
        let required = self.0.object.metadata.annotations.get(REQUIRE_SUBSET);
        required.is_some_and(|required| required.eq_ignore_ascii_case("true"))
    }

    /// Whether some subset patches Pods.
    pub fn has_patches(&self) -> bool {
        self.subsets().iter().any(|subset| subset.patch.as_ref().is_some_and(|patch| !patch.is_null()))
    }

    /// Its target is a StatefulSet, of Kubernetes or of Kruise: Pods are divided by their ordinals.
    pub fn goes_by_ordinal(&self) -> bool {
        self.target().kind == "StatefulSet"
    }

    /// The name of the only subset, if it takes any number of Pods.
    pub(crate) fn only_subset(&self) -> Option<&Subset> {
        match self.subsets() {
            [only] if only.max_replicas.is_none() => Some(only),
            _ => None,
        }
    }

    /// After how many seconds a Pod that finds no node is replaced in the next subset; `None` where that is off.
    pub(crate) fn critical_seconds(&self) -> Option<i32> {
        let strategy = &self.0.object.spec.schedule_strategy;
        let seconds = strategy.adaptive.as_ref()?.reschedule_critical_seconds?;
        (strategy.kind == Some(ScheduleStrategyType::Adaptive) && seconds > 0).then_some(seconds)
    }

    /// How long a subset is left out after its Pods found no node: until a Pod that finds a node in none but the last
    /// has tried all before, so that none goes round for ever.
    pub(crate) fn recovery(&self) -> SignedDuration {
        let others = i64::try_from(self.subsets().len()).unwrap_or(i64::MAX).saturating_sub(1);
        let round = others.saturating_mul(self.critical_seconds().unwrap_or(0).into());
        SHORTEST_RECOVERY.max(SignedDuration::from_secs(round.saturating_add(REPLACEMENT_SECONDS)))
    }
}

/// The most Pods of one version in `subset` while the workload has `replicas`.
pub(crate) fn maximum(subset: &Subset, replicas: Option<i32>) -> Maximum {
    use api::kinds::shared::IntOrString::{Int, String};
    match (&subset.max_replicas, replicas) {
        (None, _) => Maximum::Unlimited,
        (Some(Int(number)), _) => Maximum::Pods((*number).max(0)),
        (Some(String(_)), None) => Maximum::Unknown,
        (Some(share), Some(replicas)) => {
            Maximum::Pods(scaled(share, replicas.max(0), Rounding::Up).unwrap_or(0).max(0))
        }
    }
}

/// How many Pods more a subset takes: `active` of its Pods run, of which `deleting` are to go soon, and `creating`
/// are on their way (docs/behaviour/workloadspread.md#free-slots).
pub(crate) fn free_slots(max: i32, active: i32, deleting: usize, creating: usize) -> i32 {
    let [deleting, creating] = [deleting, creating].map(|count| i32::try_from(count).unwrap_or(i32::MAX));
    let staying = active.saturating_sub(deleting);
    max.saturating_sub(staying).saturating_sub(creating).clamp(0, max)
}

/// Whether the Pods of a subset find nodes, as far as is known.
pub(crate) fn is_schedulable(status: &SubsetStatus) -> bool {
    use api::kinds::shared::ConditionStatus;
    let unschedulable = |condition: &api::kinds::shared::MetaCondition| {
        condition.kind == SCHEDULABLE && condition.status == ConditionStatus::False
    };
    !status.conditions.iter().any(unschedulable)
}

impl Entry for Spread {
    fn name(&self) -> &str {
        self.name()
    }

    fn precedence(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}
