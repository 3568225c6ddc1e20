//! Which Pods a budget counts, which of them use it up, and when it gives again.

use std::sync::Arc;

use api::Raw;
use api::annotations::UNHEALTHY_PODS;
use api::features::{Feature, FeatureGates};
use api::kinds::podunavailablebudget::PodUnavailableBudget;
use jiff::Timestamp;

use super::available::Availability;
use super::budget::{Budget, protecting};
use super::check::passes;
use super::record::Entry;
use super::terms::{UnhealthyPods, protected_operations};
use crate::workload::explanation::{Blocker, Explanation};
use crate::workload::namespaced::Entry as _;
use pod::observed::{ObservedPod, PodCondition};
use values::moment::rfc3339;

/// The state of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// More Pods may become unavailable.
    Open,
    /// No more may.
    Exhausted,
    /// It holds nothing: no Pod has to be available, or nobody has counted yet.
    WithoutEffect,
}

impl State {
    /// One word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Exhausted => "exhausted",
            Self::WithoutEffect => "without-effect",
        }
    }
}

/// The Events about a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its state.
    pub state: State,
    /// The active Pods that it protects, by name.
    pub counted: Vec<String>,
    /// The numbers, and the Pods that are not available.
    pub explanation: Explanation,
}

/// Explains a budget. `budgets` are all of its namespace, in any order, and `pods` the Pods there; it is none of them if
/// there is no such budget. Which Pods belong to it is decided as by admission.
pub fn explain(
    name: &str,
    budgets: &[Raw],
    pods: &[Arc<ObservedPod>],
    gates: &FeatureGates,
    now: Timestamp,
) -> Option<Report> {
    let mut known: Vec<Budget> =
        budgets.iter().filter_map(|budget| Budget::read(budget.get()).ok()).collect();
    known.sort_by(|one, other| one.precedence(other));
    let own = known.iter().find(|budget| budget.name() == name)?;
    let budget: PodUnavailableBudget = serde_json::from_str(own.object.get()).ok()?;
    let is_own =
        |pod: &&Arc<ObservedPod>| protecting(&known, pod).is_some_and(|budget| budget.name() == name);
    let mut pods: Vec<&Arc<ObservedPod>> = pods.iter().filter(|pod| pod.is_active()).filter(is_own).collect();
    pods.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    let status = &budget.status;
    let state = if status.desired_available <= 0 {
        State::WithoutEffect
    } else if status.unavailable_allowed > 0 {
        State::Open
    } else {
        State::Exhausted
    };
    let available = Availability::new(gates);
    let explanation = Explanation {
        summary: summary(&budget),
        is_complete: state == State::Open,
        limits: limits(&budget, own, &pods, gates),
        blockers: pods.iter().filter_map(|pod| blocker(&budget, pod, available, now)).collect(),
        ..Explanation::default()
    };
    let counted = pods.iter().map(|pod| pod.metadata.name.to_string()).collect();
    Some(Report { state, counted, explanation })
}

fn summary(budget: &PodUnavailableBudget) -> String {
    let status = &budget.status;
    if status.observed_generation.is_none() {
        return "its controller has not counted yet: it holds nothing; does the controller run?".to_owned();
    }
    format!(
        "{} of {} Pods available, {} needed: {} more may become unavailable",
        status.current_available, status.total_replicas, status.desired_available, status.unavailable_allowed
    )
}

fn limits(
    budget: &PodUnavailableBudget,
    own: &Budget,
    pods: &[&Arc<ObservedPod>],
    gates: &FeatureGates,
) -> Vec<String> {
    let protected = protected_operations(budget, gates.enabled(Feature::InPlacePodVerticalScaling));
    let gate = |feature: Feature| if gates.enabled(feature) { "" } else { " (its gate is off)" };
    let named =
        |operation: &super::terms::Operation| format!("{}{}", operation.name(), gate(operation.gate()));
    let operations: Vec<String> = protected.iter().map(named).collect();
    let mut limits = vec![format!("holds {}", operations.join(", "))];
    let passing =
        |pod: &ObservedPod| passes(pod) || own.scope.ignored.matches(&pod.metadata.labels).unwrap_or(false);
    let (passing, others): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| passing(pod));
    if !passing.is_empty() {
        limits.push(format!("always pass: {}", names(&passing)));
    }
    if let Some(choice) = UnhealthyPods::given(budget) {
        let available = Availability::new(gates);
        let failing: Vec<_> = others.into_iter().filter(|pod| available.pod_fails(pod)).collect();
        let what = match choice {
            UnhealthyPods::Protect => "holds Pods that are not ready like available ones",
            UnhealthyPods::Release => "lets Pods that are not ready pass",
        };
        let separator = if failing.is_empty() { "" } else { ": " };
        limits.push(format!("annotation {UNHEALTHY_PODS} {what}{separator}{}", names(&failing)));
    }
    let observed = budget.status.observed_generation;
    if observed.is_some() && observed < budget.metadata.generation {
        limits.push("the numbers are those of an older spec; requests are decided by the new one".to_owned());
    }
    limits
}

fn names(pods: &[&&Arc<ObservedPod>]) -> String {
    let names: Vec<&str> = pods.iter().map(|pod| &*pod.metadata.name).collect();
    names.join(", ")
}

/// Why a Pod does not count as available.
fn blocker(
    budget: &PodUnavailableBudget,
    pod: &ObservedPod,
    available: Availability,
    now: Timestamp,
) -> Option<Blocker> {
    let metadata = &pod.metadata;
    let (reason, message, remedy, since) = match Entry::of(&budget.status, &metadata.name, metadata.created())
    {
        Some(entry) => {
            let what = if entry.leaves { "deletion or eviction" } else { "change" };
            let until = if entry.end() > now { rfc3339(entry.end()) } else { "the next count".to_owned() };
            let remedy = format!("if it stays available, it counts again from {until}");
            ("Admitted", format!("uses a unit: its {what} was admitted"), remedy, Some(entry.since))
        }
        None => {
            let obstacle = available.obstacle(pod)?;
            let since = pod.condition("Ready").and_then(PodCondition::since);
            ("Unavailable", format!("is not available: {obstacle}"), "it counts when it is".to_owned(), since)
        }
    };
    Some(Blocker { pod: metadata.name.to_string(), reason, message, remedy, since })
}
