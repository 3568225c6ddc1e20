//! Why a Pod is in its subset, and which one the next Pod comes into.

use std::fmt;

use super::places::{free, items};
use super::record::Matched;
use super::spread::{Spread, is_schedulable};
use crate::pod::observed::ObservedPod;
use crate::text::selector::Labels;

/// What a WorkloadSpread is to a new Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The Pod comes into this subset.
    Subset(String),
    /// No subset takes the Pod.
    NoPlace,
    /// `spec.targetRef` is not the workload of the Pod.
    OtherWorkload,
    /// `spec.targetFilter` does not select the Pod.
    OtherPods,
    /// `spec.targetFilter.selector` can't be used.
    BrokenSelector(String),
    /// It is being deleted, or names no workload.
    Inactive,
}

impl Reason {
    /// Why a WorkloadSpread is not that of a Pod with these labels.
    pub(super) fn of_other(spread: &Spread, labels: &(impl Labels + ?Sized)) -> Self {
        match spread.problem() {
            _ if !spread.is_active() => Self::Inactive,
            Some(problem) => Self::BrokenSelector(problem.to_string()),
            None if !spread.selects(labels) => Self::OtherPods,
            None => Self::OtherWorkload,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subset(subset) => write!(formatter, "puts the Pod into subset {subset}"),
            Self::NoPlace => formatter.write_str("leaves the Pod as it is: no subset takes it"),
            Self::OtherWorkload => {
                formatter.write_str("does not divide the Pods of its workload: spec.targetRef is another one")
            }
            Self::OtherPods => {
                formatter.write_str("is not meant for the Pod: spec.targetFilter selects others")
            }
            Self::BrokenSelector(problem) => {
                write!(formatter, "divides no Pods: spec.targetFilter.selector is invalid: {problem}")
            }
            Self::Inactive => {
                formatter.write_str("divides no Pods: it is being deleted, or names no workload")
            }
        }
    }
}

/// What a subset can do for the next Pod of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// The subset.
    pub subset: String,
    /// Its active Pods.
    pub active: i32,
    /// Pods on their way into it.
    pub creating: usize,
    /// Pods on their way out of it.
    pub deleting: usize,
    /// How many more it takes; `None` where any number.
    pub free: Option<i32>,
    /// Its Pods find nodes.
    pub is_schedulable: bool,
    /// The next Pod comes here.
    pub is_next: bool,
}

/// What each subset can do for the next Pod of `version`, by the status.
pub fn outlook(spread: &Spread, version: &str, replicas: Option<i32>) -> Vec<Outlook> {
    let items = items(spread.object(), version);
    let mut outlooks: Vec<Outlook> = spread
        .subsets()
        .iter()
        .zip(&items)
        .map(|(subset, item)| Outlook {
            subset: subset.name.clone(),
            active: item.replicas,
            creating: item.creating_pods.len(),
            deleting: item.deleting_pods.len(),
            free: free(subset, item, replicas),
            is_schedulable: is_schedulable(item),
            is_next: false,
        })
        .collect();
    let takes = |outlook: &&mut Outlook| outlook.is_schedulable && outlook.free.is_none_or(|free| free > 0);
    if let Some(next) = outlooks.iter_mut().find(takes) {
        next.is_next = true;
    }
    outlooks
}

impl fmt::Display for Outlook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subset, active, creating, deleting, free, is_schedulable, is_next } = self;
        write!(formatter, "subset {subset}: {active} active")?;
        for (count, word) in [(creating, "on their way in"), (deleting, "on their way out")] {
            if *count > 0 {
                write!(formatter, ", {count} {word}")?;
            }
        }
        match free {
            None => formatter.write_str(", no limit")?,
            Some(free) => write!(formatter, ", {free} places free")?,
        }
        if !is_schedulable {
            formatter.write_str("; left out, since its Pods found no node")?;
        }
        if *is_next {
            formatter.write_str("; takes the next Pod")?;
        }
        Ok(())
    }
}

/// Why a Pod is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In this subset.
    Member(String),
    /// Its subset is not in the spec any more.
    SubsetGone(String),
    /// Another WorkloadSpread put it into a subset.
    Foreign(String),
    /// It has no node yet, and no subset took it when it was created.
    Unplaced,
    /// It runs, and the next reconcile finds the subset that suits its node, if any does.
    Unmarked,
}

impl Standing {
    /// What a Pod is to a WorkloadSpread that divides the Pods of its workload.
    pub fn of(spread: &Spread, pod: &ObservedPod) -> Self {
        match Matched::of(pod) {
            Some(matched) if matched.name != spread.name() => Self::Foreign(matched.name),
            Some(matched) if spread.subset(&matched.subset).is_some() => Self::Member(matched.subset),
            Some(matched) if !matched.subset.is_empty() => Self::SubsetGone(matched.subset),
            _ if pod.spec.node_name.is_empty() => Self::Unplaced,
            _ => Self::Unmarked,
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(subset) => write!(formatter, "is in subset {subset}"),
            Self::SubsetGone(subset) => {
                write!(formatter, "is in no subset: {subset} is not in spec.subsets any more")
            }
            Self::Foreign(other) => {
                write!(formatter, "is in no subset yet: WorkloadSpread {other} put it into one of its own")
            }
            Self::Unplaced => formatter.write_str("is in no subset: none took it when it was created"),
            Self::Unmarked => {
                formatter.write_str("is in no subset: none suits its node, or it was not looked at yet")
            }
        }
    }
}
