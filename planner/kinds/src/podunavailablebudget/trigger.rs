//! Which budgets the controller reconciles when something has changed, and when
//! (docs/behaviour/podunavailablebudget.md#the-controller).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::features::FeatureGates;
use api::kinds::podunavailablebudget::PodUnavailableBudget;

use super::available::{Availability, trace};
use super::budget::{Scope, mark};
use crate::workload::resolved::ResolvedWorkload;
use pod::observed::ObservedPod;

/// Changes of Pods come in numbers: those of this time are counted, and written, together.
const BURST: Duration = Duration::from_millis(200);
/// An admitted deletion of a Pod is recorded: its effect is counted with what else happens meanwhile.
const DELETION: Duration = Duration::from_secs(5);

/// A budget that appears, or whose spec changes, is reconciled at once. Its status is written for each batch of
/// requests, and the budget is reconciled when these have been carried out.
pub fn of_budget(old: Option<&PodUnavailableBudget>, new: Option<&PodUnavailableBudget>) -> Duration {
    let of_status = old.zip(new).is_some_and(|(old, new)| {
        old.spec == new.spec && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
    });
    if of_status { BURST } else { Duration::ZERO }
}

/// When to reconcile the budgets of a Pod that has changed; `None` where it makes no difference to them.
pub fn of_pod(
    old: Option<&ObservedPod>,
    new: Option<&ObservedPod>,
    gates: &FeatureGates,
) -> Option<Duration> {
    let leaves = |pod: &ObservedPod| pod.metadata.deletion_timestamp.is_some();
    let (old, new) = match (old, new) {
        (None, None) => return None,
        (None, Some(_)) => return Some(BURST),
        (Some(old), new) if leaves(old) => {
            return new.filter(|new| new.metadata.uid != old.metadata.uid).map(|_| BURST);
        }
        (Some(_), None) => return Some(BURST),
        (Some(old), Some(new)) => (old, new),
    };
    if leaves(new) {
        return Some(DELETION);
    }
    let counts = Availability::new(gates);
    let differs = old.is_active() != new.is_active()
        || counts.holds_for(old) != counts.holds_for(new)
        || trace(old) != trace(new)
        || old.metadata.labels != new.metadata.labels
        || old.metadata.owner_references != new.metadata.owner_references
        || mark(old) != mark(new);
    differs.then_some(BURST)
}

/// The budgets of a Pod, of those of its namespace: the one that it is marked with, or else all that may count it.
pub fn budgets_of(pod: &ObservedPod, budgets: &[Arc<PodUnavailableBudget>]) -> Vec<String> {
    let name = |budget: &Arc<PodUnavailableBudget>| budget.metadata.name.clone();
    let marked = mark(pod).and_then(|mark| budgets.iter().find(|budget| budget.metadata.name == mark));
    match marked {
        Some(budget) => vec![name(budget)],
        None => budgets.iter().filter(|budget| Scope::of(budget).may_be_marked(pod)).map(name).collect(),
    }
}

/// The budgets, of those of its namespace, that count by a workload which has changed: they name it, or select its
/// Pods. So what they want is lowered before the workload deletes Pods.
pub fn of_workload(
    old: Option<&ResolvedWorkload>,
    new: Option<&ResolvedWorkload>,
    budgets: &[Arc<PodUnavailableBudget>],
) -> BTreeSet<String> {
    let counts =
        |workload: &ResolvedWorkload| (workload.replicas, workload.metadata.deletion_timestamp.is_some());
    if old.map(counts) == new.map(counts) {
        return BTreeSet::new();
    }
    let concerned = |budget: &&Arc<PodUnavailableBudget>| {
        let scope = Scope::of(budget);
        old.into_iter().chain(new).any(|workload| scope.counts_by(workload))
    };
    budgets.iter().filter(concerned).map(|budget| budget.metadata.name.clone()).collect()
}

/// The Pods that a budget selects, of those of its namespace.
pub fn selected(budget: &PodUnavailableBudget, mut pods: Vec<Arc<ObservedPod>>) -> Vec<Arc<ObservedPod>> {
    let scope = Scope::of(budget);
    pods.retain(|pod| scope.selects(&pod.metadata.labels));
    pods
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn budget(name: &str, spec: Value) -> Arc<PodUnavailableBudget> {
        let mut budget = json!({"metadata": {"name": name}});
        budget["spec"] = spec;
        Arc::new(serde_json::from_value(budget).unwrap())
    }

    fn budgets() -> Vec<Arc<PodUnavailableBudget>> {
        let target =
            |kind: &str| json!({"targetRef": {"apiVersion": "apps/v1beta1", "kind": kind, "name": "web"}});
        vec![
            budget("by-deployment", target("Deployment")),
            budget("by-set", target("StatefulSet")),
            budget("by-labels", json!({"selector": {"matchLabels": {"app": "web"}}})),
            budget("of-others", json!({"selector": {"matchLabels": {"app": "db"}}})),
            budget("of-none", json!({"selector": {}})),
        ]
    }

    fn pod(metadata: Value, ready: bool) -> ObservedPod {
        let condition = json!({"type": "Ready", "status": if ready { "True" } else { "False" }});
        let status = json!({"phase": "Running", "conditions": [condition]});
        let mut pod = json!({"status": status});
        pod["metadata"] = metadata;
        ObservedPod::read(&pod.to_string()).unwrap()
    }

    #[test]
    fn changes_that_are_counted_lead_to_budgets() {
        let gates = FeatureGates::default();
        let due = |old: Option<&ObservedPod>, new: Option<&ObservedPod>| of_pod(old, new, &gates);
        let (ready, unready) =
            (pod(json!({"labels": {"a": "b"}}), true), pod(json!({"labels": {"a": "b"}}), false));
        let leaving = pod(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), true);
        assert_eq!(due(None, Some(&ready)), Some(BURST));
        assert_eq!(due(Some(&ready), Some(&ready)), None);
        assert_eq!(due(Some(&ready), Some(&unready)), Some(BURST));
        assert_eq!(due(Some(&ready), Some(&pod(json!({}), true))), Some(BURST));
        let state = json!({"apps.kruise.io/inplace-update-state": "{}"});
        let updated = pod(json!({"labels": {"a": "b"}, "annotations": state}), false);
        assert_eq!(due(Some(&unready), Some(&updated)), Some(BURST));
        assert_eq!(due(Some(&ready), Some(&leaving)), Some(DELETION));
        assert_eq!(due(Some(&leaving), Some(&leaving)), None);
        assert_eq!(due(Some(&ready), None), Some(BURST));
        assert_eq!(due(Some(&leaving), None), None);
    }

    #[test]
    fn a_pod_leads_to_the_budget_of_its_mark_or_to_those_that_may_count_it() {
        let find = |metadata: Value| budgets_of(&pod(metadata, true), &budgets());
        let mark = |name: &str| json!({"pub.kruise.io/related-pub": name});
        assert_eq!(find(json!({"labels": {"app": "db"}})), ["of-others"]);
        assert_eq!(find(json!({"labels": {"app": "db"}, "annotations": mark("by-set")})), ["by-set"]);
        assert_eq!(find(json!({"labels": {"app": "db"}, "annotations": mark("gone")})), ["of-others"]);
        let owner = json!({"apiVersion": "a/v1", "kind": "A", "name": "a", "uid": "u", "controller": true});
        assert_eq!(find(json!({"ownerReferences": [owner]})), ["by-deployment", "by-set"]);
    }

    #[test]
    fn a_workload_leads_to_the_budgets_that_count_by_it() {
        let workload = |replicas: u32| {
            let labels = json!({"metadata": {"labels": {"app": "web"}}});
            let object =
                json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas, "template": labels}});
            ResolvedWorkload::read("apps", "Deployment", &object.to_string()).unwrap()
        };
        let find = |old: Option<&ResolvedWorkload>, new: Option<&ResolvedWorkload>| {
            of_workload(old, new, &budgets()).into_iter().collect::<Vec<_>>()
        };
        let (three, four) = (workload(3), workload(4));
        assert_eq!(find(None, Some(&three)), ["by-deployment", "by-labels"]);
        assert_eq!(find(Some(&three), Some(&four)), ["by-deployment", "by-labels"]);
        assert_eq!(find(Some(&three), None).len(), 2);
        assert!(find(Some(&three), Some(&three)).is_empty());
    }

    #[test]
    fn requests_that_took_units_are_counted_together() {
        let one = budget("web", json!({"maxUnavailable": 1}));
        let mut taken = (*one).clone();
        taken.status.unavailable_allowed = 1;
        assert_eq!(of_budget(Some(&one), Some(&taken)), BURST);
        assert_eq!(of_budget(None, Some(&one)), Duration::ZERO);
        assert_eq!(of_budget(Some(&one), Some(&budget("web", json!({"maxUnavailable": 2})))), Duration::ZERO);
    }
}
