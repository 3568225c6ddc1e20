//! A PodUnavailableBudget as the server keeps it, and whose Pods it protects.

use std::cmp::Ordering;

use api::Raw;
use api::annotations::{RELATED_PUB, RELATED_PUB_OLDER};
use api::kinds::Time;
use api::kinds::podunavailablebudget::PodUnavailableBudget;
use jiff::Timestamp;

use super::reason::Reason;
use super::terms::UnhealthyPods;
use crate::workload::namespaced::Entry;
use crate::workload::resolved::ResolvedWorkload;
use crate::workload::target::Workload;
use pod::observed::ObservedPod;
use pod::selector::PodSelector;
use values::reservation;
use values::selector::{Labels, SelectorError};

/// A budget of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// Which Pods it is for.
    pub(crate) scope: Scope,
    /// The object, but for `metadata.managedFields`: what is left is in it.
    pub object: Raw,
}

/// Which Pods a budget is for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scope {
    pub(crate) name: Box<str>,
    target: Option<Workload<'static>>,
    selector: PodSelector,
    /// Pods that always pass.
    pub(crate) ignored: PodSelector,
    /// Whether Pods that are not ready pass.
    pub(crate) unhealthy: UnhealthyPods,
    /// Unset it counts as the youngest, so that a manifest does not displace what is there.
    created: Timestamp,
}

impl Budget {
    /// Reads a PodUnavailableBudget.
    pub fn read(object: &str) -> Result<Self, serde_json::Error> {
        let budget: PodUnavailableBudget = serde_json::from_str(object)?;
        Ok(Self { object: reservation::kept(object)?, scope: Scope::of(&budget) })
    }

    /// Why the selector can't be used, if so.
    pub fn problem(&self) -> Option<&SelectorError> {
        self.scope.selector.problem()
    }
}

impl Scope {
    pub(crate) fn of(budget: &PodUnavailableBudget) -> Self {
        let PodUnavailableBudget { metadata, spec, .. } = budget;
        let created = metadata.creation_timestamp.as_ref().and_then(Time::timestamp);
        Self {
            name: metadata.name.as_str().into(),
            target: spec.target_ref.as_ref().map(|target| Workload::from(target).into_owned()),
            selector: PodSelector::compile(spec.selector.as_ref()),
            ignored: PodSelector::compile(spec.ignored_pod_selector.as_ref()),
            unhealthy: UnhealthyPods::given(budget).unwrap_or_default(),
            created: created.unwrap_or(Timestamp::MAX),
        }
    }

    /// Why the budget does not match a Pod, as far as the Pod itself shows it; `None` where it does.
    pub(crate) fn mismatch(
        &self,
        workload: Option<&Workload<'_>>,
        labels: &(impl Labels + ?Sized),
    ) -> Option<Reason> {
        if let (Some(target), Some(workload)) = (&self.target, workload) {
            return (target != workload).then_some(Reason::OtherWorkload);
        }
        match (&self.selector, self.selector.matches(labels)) {
            (PodSelector::Nothing, _) => Some(Reason::EmptySelector),
            (_, Ok(true)) => None,
            (_, Ok(false)) => Some(Reason::OtherLabels),
            (_, Err(error)) => Some(Reason::BrokenSelector(error.to_string())),
        }
    }

    /// Whether Pods with these labels are selected.
    pub(crate) fn selects(&self, labels: &(impl Labels + ?Sized)) -> bool {
        self.selector.matches(labels).is_ok_and(|matches| matches)
    }

    /// Whether the Pods of a workload are counted: it is the target, or its Pods are selected.
    pub(crate) fn counts_by(&self, workload: &ResolvedWorkload) -> bool {
        match &self.target {
            Some(target) => {
                (&*target.group, &*target.kind, &*target.name)
                    == (&*workload.group, &*workload.kind, &*workload.metadata.name)
            }
            None => self.selects(&workload.template_labels),
        }
    }

    /// Whether the budget matches a Pod, as far as the Pod itself shows it.
    pub(crate) fn matches(&self, pod: &ObservedPod) -> bool {
        self.mismatch(Workload::of_pod(pod).as_ref(), &pod.metadata.labels).is_none()
    }

    /// Whether the Pod's own workload is the target.
    pub(crate) fn names_workload_of(&self, pod: &ObservedPod) -> bool {
        self.target.is_some() && self.target == Workload::of_pod(pod)
    }

    /// Whether the mark of a Pod may name this budget: it matches, or its target may be a workload further up in
    /// the chain of owners, which only the controller knows.
    pub(crate) fn may_be_marked(&self, pod: &ObservedPod) -> bool {
        let workload = Workload::of_pod(pod);
        let above = match (&self.target, &workload) {
            (Some(target), Some(workload)) => {
                (&target.group, &target.kind) != (&workload.group, &workload.kind)
            }
            (Some(_), None) => !pod.metadata.owner_references.is_empty(),
            (None, _) => false,
        };
        above || self.matches(pod)
    }
}

/// The budget that protects a Pod, of those of its namespace: the one that its mark names, unless that is wrong;
/// else the first that matches (docs/behaviour/podunavailablebudget.md#which-budget-protects-a-pod).
pub(crate) fn protecting<'b>(budgets: &'b [Budget], pod: &ObservedPod) -> Option<&'b Budget> {
    let matches = |budget: &&Budget| budget.scope.matches(pod);
    let named = mark(pod).and_then(|name| budgets.iter().find(|budget| budget.name() == name));
    if let Some(named) = named.filter(matches) {
        return Some(named);
    }
    let first = budgets.iter().find(matches);
    // No workload further up counts where a budget names the Pod's own.
    let above = named.filter(|budget| budget.scope.may_be_marked(pod));
    first.filter(|budget| budget.scope.names_workload_of(pod)).or(above).or(first)
}

/// The name of the budget with which a Pod is marked.
pub(crate) fn mark(pod: &ObservedPod) -> Option<&str> {
    let mut marks = [RELATED_PUB, RELATED_PUB_OLDER].into_iter().filter_map(|key| pod.annotation(key));
    marks.find(|name| !name.is_empty())
}

impl Entry for Budget {
    fn name(&self) -> &str {
        &self.scope.name
    }

    /// A budget that names its workload comes first, then the oldest, then by name
    /// (docs/behaviour/podunavailablebudget.md#which-budget-protects-a-pod).
    fn precedence(&self, other: &Self) -> Ordering {
        let rank = |budget: &Self| (budget.scope.target.is_none(), budget.scope.created);
        rank(self).cmp(&rank(other)).then_with(|| self.name().cmp(other.name()))
    }
}
