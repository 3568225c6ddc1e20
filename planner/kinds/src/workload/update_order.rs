//! In which order Pods are updated (docs/behaviour/in-place-update.md), the same rules for all workloads:
//! what hurts least first, then what the user ranks higher, then spread over a label's values.
//!
//! The order is total: Pods that no rule distinguishes go by namespace and name, so every replica and every
//! run decides alike. Validation refuses terms that can't be used; here such a term matches no Pod.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use api::labels::LIFECYCLE_STATE;
use api::sidecarset::{PriorityStrategy, ScatterTerm};
use jiff::Timestamp;

use pod::observed::ObservedPod;
use values::selector::Selector;

mod scatter;
#[cfg(test)]
mod tests;
pub(crate) mod validation;

/// The scatter value for each value that occurs.
const EACH_VALUE: &str = "*";

/// The order of an update, compiled from the strategies of a workload.
#[derive(Clone, Debug, Default)]
pub struct UpdateOrder {
    priority: Priority,
    scatter: Vec<Term>,
    /// `*` means each value that occurs; else it is a value like any other.
    expands: bool,
    /// Pods that prepare for an update already go first.
    prepared_first: bool,
    /// Pods that no rule distinguishes stay in the order in which they are given.
    keeps_given: bool,
}

#[derive(Clone, Debug, Default)]
enum Priority {
    #[default]
    None,
    /// The sum of the weights of the terms that match.
    Weights(Vec<(i64, Option<Selector>)>),
    /// The number at the end of the first of these labels.
    Labels(Vec<String>),
}

/// Pods with this value of this label are spread; an empty value means Pods without the label too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Term {
    key: String,
    value: String,
}

impl Term {
    fn matches(&self, pod: &ObservedPod) -> bool {
        pod.label(&self.key).unwrap_or_default() == self.value
    }
}

impl UpdateOrder {
    /// The order of a workload: Pods in lifecycle state `PreparingUpdate` go first.
    pub fn of_workload(priority: Option<&PriorityStrategy>, scatter: &[ScatterTerm]) -> Self {
        Self { prepared_first: true, ..Self::compile(priority, scatter) }
    }

    /// The order of a StatefulSet: what the priority does not distinguish stays as it is given.
    pub fn of_stateful_set(priority: &PriorityStrategy) -> Self {
        Self { keeps_given: true, ..Self::compile(Some(priority), &[]) }
    }

    /// The order of a SidecarSet: the scatter value `*` means each value that occurs.
    pub fn of_sidecar_set(priority: Option<&PriorityStrategy>, scatter: &[ScatterTerm]) -> Self {
        Self { expands: true, ..Self::compile(priority, scatter) }
    }

    fn compile(priority: Option<&PriorityStrategy>, scatter: &[ScatterTerm]) -> Self {
        let priority = match priority {
            Some(priority) if !priority.weight_priority.is_empty() => {
                let terms = priority.weight_priority.iter();
                let weighed = |term: &api::sidecarset::WeightTerm| {
                    (i64::from(term.weight), Selector::compile(&term.match_selector).ok())
                };
                Priority::Weights(terms.map(weighed).collect())
            }
            Some(priority) if !priority.order_priority.is_empty() => Priority::Labels(
                priority.order_priority.iter().map(|term| term.ordered_key.clone()).collect(),
            ),
            _ => Priority::None,
        };
        let scatter =
            scatter.iter().map(|term| Term { key: term.key.clone(), value: term.value.clone() }).collect();
        Self { priority, scatter, ..Self::default() }
    }

    /// The positions in `waiting`, in the order in which these Pods are to be updated. `all` are all Pods
    /// of the workload, the waiting ones among them: they say how a label is spread.
    pub fn sort(&self, waiting: &[&ObservedPod], all: &[&ObservedPod]) -> Vec<usize> {
        let mut order: Vec<(usize, &ObservedPod)> = waiting.iter().copied().enumerate().collect();
        if !self.keeps_given {
            order.sort_by_cached_key(|(_, pod)| default_key(pod));
        }
        match &self.priority {
            Priority::None => {}
            Priority::Weights(terms) => order.sort_by_cached_key(|(_, pod)| Reverse(weight(terms, pod))),
            Priority::Labels(keys) => order.sort_by_cached_key(|(_, pod)| label_rank(keys, pod)),
        }
        for term in self.terms(waiting, all) {
            order = scatter::spread(order, all, &term);
        }
        if self.prepared_first {
            order.sort_by_key(|(_, pod)| pod.label(LIFECYCLE_STATE) != Some("PreparingUpdate"));
        }
        order.into_iter().map(|(position, _)| position).collect()
    }

    /// The scatter terms to apply, in their order.
    fn terms(&self, waiting: &[&ObservedPod], all: &[&ObservedPod]) -> Vec<Term> {
        let mut terms: Vec<Term> = Vec::new();
        for term in &self.scatter {
            let meant = if self.expands && term.value == EACH_VALUE {
                let values: BTreeSet<&str> = all.iter().filter_map(|pod| pod.label(&term.key)).collect();
                values
                    .into_iter()
                    .map(|value| Term { key: term.key.clone(), value: value.to_owned() })
                    .collect()
            } else {
                vec![term.clone()]
            };
            for term in meant {
                if !terms.contains(&term) {
                    terms.push(term);
                }
            }
        }
        if terms.len() > 1 {
            let matches = |term: &Term| waiting.iter().filter(|pod| term.matches(pod)).count();
            terms.retain(|term| matches(term) > 0);
            terms.sort_by_cached_key(|term| Reverse(matches(term)));
        }
        terms
    }
}

/// Kubernetes' order of active Pods: the smaller one is missed less
/// (docs/behaviour/in-place-update.md#scatter).
type DefaultKey<'p> =
    (bool, u8, bool, Reverse<Timestamp>, Reverse<(i32, i32)>, Reverse<Timestamp>, &'p str, &'p str);

fn default_key(pod: &ObservedPod) -> DefaultKey<'_> {
    let phase = match &*pod.status.phase {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    };
    let ready = pod.condition("Ready").filter(|condition| &*condition.status == "True");
    // A time that is not known counts as the latest.
    let since = ready.map_or(Timestamp::MIN, |ready| ready.since().unwrap_or(Timestamp::MAX));
    (
        !pod.spec.node_name.is_empty(),
        phase,
        ready.is_some(),
        Reverse(since),
        Reverse(restarts(pod)),
        Reverse(pod.metadata.created().unwrap_or(Timestamp::MAX)),
        &pod.metadata.namespace,
        &pod.metadata.name,
    )
}

/// The most restarts of a container, and of a native sidecar.
fn restarts(pod: &ObservedPod) -> (i32, i32) {
    let native = |name: &str| pod.native_sidecars().any(|container| *container.name == *name);
    let containers = pod.status.container_statuses.iter();
    let natives = pod.status.init_container_statuses.iter().filter(|status| native(&status.name));
    (
        containers.map(|status| status.restart_count).max().unwrap_or(0),
        natives.map(|status| status.restart_count).max().unwrap_or(0),
    )
}

/// The sum of the weights of the terms that match.
fn weight(terms: &[(i64, Option<Selector>)], pod: &ObservedPod) -> i64 {
    let matches = |selector: &Option<Selector>| {
        selector.as_ref().is_some_and(|selector| selector.matches(&pod.metadata.labels))
    };
    terms.iter().filter(|(_, selector)| matches(selector)).map(|(weight, _)| weight).sum()
}

/// Which of the labels the Pod has first, and the number at the end of its value, larger first. A Pod without
/// any comes before all others, as with OpenKruise (docs/behaviour/in-place-update.md#update-order).
fn label_rank(keys: &[String], pod: &ObservedPod) -> (Option<usize>, Reverse<i64>) {
    let labels = keys.iter().enumerate().find_map(|(index, key)| Some((index, pod.label(key)?)));
    labels.map_or((None, Reverse(0)), |(index, value)| (Some(index), Reverse(trailing_number(value))))
}

/// The digits at the end of `text` as a number; 0 where there are none, or too many.
fn trailing_number(text: &str) -> i64 {
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
    text.get(text.len().saturating_sub(digits)..).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
