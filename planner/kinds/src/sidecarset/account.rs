//! The account of a SidecarSet: which Pods it is meant for, which of them have its sidecars, and why the
//! others have not.
//!
//! ```text
//!   Pods --record--> ledger: the Pods, and for each SidecarSet those that it may be meant for
//!                       |
//!   Inventory, scope --> Case::judge --> Account --> annotation kutter.io/sidecarset-pods, metrics
//!                       |    ^           ^
//!                 eviction   |           '--- findings of the rollout: who is not updated, and why
//!                            '--- matching::unselected, which admission asks too
//! ```
//!
//! 1. One function judges a Pod, for the controller and for `kutter explain`; whether a SidecarSet selects it
//!    is decided by the function that decides it in admission.
//! 2. Pods that have ended, or are being deleted, do not count.
//! 3. The same Pods give the same account, byte for byte.
//! 4. What is known of all Pods by the ledger is what reading each of them would show.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::explanation;
use super::index::Entry;
use super::inventory::Inventory;
use super::matching::unselected;
use super::rollout::{ExclusionReason, Hold, Plan, RolloutSet};
use super::subject::{digest, selection};
use pod::observed::ObservedPod;
use values::moment::rfc3339;

pub mod eviction;
pub mod hints;
pub mod ledger;
mod reason;
mod record;
mod scope;
#[cfg(test)]
mod tests;

pub use reason::Reason;
pub use record::{PodRecord, Uid};
pub use scope::Scope;

pub use super::subject::Subject;

/// How many Pods are named for each reason.
const NAMED: usize = 20;
/// How many reasons are reported.
const REASONS: usize = 16;
/// How long all names together may be, in bytes: the SidecarSet is held in memory and sent to watchers.
const NAMES: usize = 8192;
/// How much of a Pod's name is used in that of an Event.
const NAME: usize = 230;
/// How long a reason may be, in bytes.
const MESSAGE: usize = 1000;
/// Since when a SidecarSet selects the Pods that it does, as an account found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since {
    second: i64,
    selection: String,
}

/// The name of the Event that reports a missed Pod: always the same one, so that it is recorded once, whichever replica
/// leads.
pub fn event_name(pod: &str, uid: Uid, sidecar_set: &str) -> String {
    let end = pod.floor_char_boundary(NAME);
    format!("{}.{:016x}", pod.get(..end).unwrap_or_default(), digest(&format!("{uid}/{sidecar_set}")))
}

/// What a SidecarSet is to a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// It is not meant for the Pod.
    Unselected(Reason),
    /// It is meant for the Pod, which has none of its sidecars.
    Left(Reason),
    /// The Pod has its sidecars.
    Injected,
}

impl Relation {
    /// The Pod should have been injected.
    pub fn is_missed(&self) -> bool {
        *self == Self::Left(Reason::Missed)
    }
}

/// A SidecarSet, and what decides what it is to Pods.
#[derive(Debug)]
pub struct Case<'a> {
    entry: &'a Entry,
    canaries: Vec<&'a Entry>,
    inventory: &'a Inventory,
    scope: &'a Scope,
    since: i64,
    selection: String,
    /// New Pods come to admission at all.
    registered: bool,
}

impl<'a> Case<'a> {
    /// The case of a SidecarSet of the inventory.
    pub fn new(
        entry: &'a Entry,
        subject: &Subject,
        inventory: &'a Inventory,
        scope: &'a Scope,
        now: Timestamp,
    ) -> Self {
        let mut canaries = inventory.sidecar_sets().all();
        canaries.retain(|other| other.object.canary_base() == Some(entry.name()));
        Self {
            canaries,
            since: subject.since(entry, now),
            selection: selection(&entry.object.spec),
            entry,
            inventory,
            scope,
            registered: true,
        }
    }

    /// With what an account found earlier: others may take the annotation away, or it could not be written.
    #[must_use]
    pub fn remembering(mut self, known: Option<&Since>, subject: &Subject, now: Timestamp) -> Self {
        if let Some(known) = known {
            let same = known.selection == self.selection;
            self.since = if same { known.second.max(subject.created) } else { now.as_second() };
        }
        self
    }

    /// With the knowledge of whether admission is registered for Pods.
    #[must_use]
    pub fn registered(mut self, registered: bool) -> Self {
        self.registered = registered;
        self
    }

    /// The name of the SidecarSet.
    pub fn name(&self) -> &str {
        self.entry.name()
    }

    /// True if Pods that it would be meant for in another Namespace are reported, where it is meant for none.
    fn looks_elsewhere(&self) -> bool {
        !self.entry.is_scoped()
    }

    /// What the SidecarSet is to a Pod.
    pub fn judge(&self, pod: &PodRecord) -> Relation {
        let namespace = self.inventory.namespace(&pod.namespace);
        match unselected(self.entry, &pod.labels, || namespace) {
            Ok(None) => {}
            Ok(Some(reason)) => return Relation::Unselected(Reason::Admission(reason)),
            Err(error) => return Relation::Unselected(Reason::BrokenSelector(error.to_string())),
        }
        if pod.injected().any(|name| name == self.entry.name()) {
            return Relation::Injected;
        }
        if let Some(reason) = self.scope.excludes(namespace, pod) {
            return Relation::Left(reason);
        }
        Relation::Left(match self.admission(pod) {
            Some(reason) => Reason::Admission(reason),
            // Times of creation are whole seconds: in doubt the Pod came first.
            None if pod.created() <= self.since => Reason::CreatedBefore,
            None => Reason::Missed,
        })
    }

    /// Why admission would add nothing to a Pod although the SidecarSet selects it.
    fn admission(&self, pod: &PodRecord) -> Option<explanation::Reason> {
        if self.entry.object.spec.injection_strategy.paused {
            return Some(explanation::Reason::Paused);
        }
        if self.entry.contribution.as_ref().is_ok_and(|contribution| contribution.has_no_containers()) {
            return Some(explanation::Reason::OnlyAnnotations);
        }
        let namespace = || self.inventory.namespace(&pod.namespace);
        // Of several the last one counts, as in admission.
        let canary = self.canaries.iter().rfind(|canary| {
            !canary.object.spec.injection_strategy.paused
                && matches!(unselected(canary, &pod.labels, namespace), Ok(None))
        });
        canary.map(|canary| explanation::Reason::ReplacedByCanary { canary: canary.name().to_owned() })
    }
}

/// Why a Pod that has sidecars of a SidecarSet has not the present ones; `None` where it has them, or gets
/// them now.
pub fn not_updated(set: &RolloutSet, plan: &Plan, pod: &ObservedPod) -> Option<Reason> {
    if let Err(apart @ ExclusionReason::Lacks(_)) = set.belongs(pod) {
        return Some(Reason::ExclusionReason(apart));
    }
    let waiting = plan.waiting.iter().find(|waiting| waiting.pod.metadata.uid == pod.metadata.uid)?;
    Some(Reason::Hold(waiting.hold.clone()))
}

/// The Pods of a SidecarSet, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Pods that its selectors match.
    pub matched: usize,
    /// Those of them that have its sidecars.
    pub injected: usize,
    /// Those of them that should have been injected and were not.
    pub missed: usize,
    /// Why Pods have no sidecars, or not the present ones.
    pub findings: Findings,
    since: i64,
    selection: String,
}

impl Account {
    /// Counts the Pods.
    pub fn of<'p>(case: &Case<'_>, pods: impl IntoIterator<Item = &'p PodRecord>) -> Self {
        let mut account = Self {
            since: case.since,
            selection: case.selection.clone(),
            findings: hints::of(&case.entry.object, case.inventory, case.scope).into_iter().collect(),
            ..Self::default()
        };
        let mut elsewhere = Findings::default();
        for pod in pods.into_iter().filter(|pod| !pod.is_leaving()) {
            let (selected, reason) = match case.judge(pod) {
                Relation::Injected => {
                    account.injected = account.injected.saturating_add(1);
                    (true, None)
                }
                Relation::Left(reason) => (true, Some(reason)),
                // Most Pods of a cluster have other labels.
                Relation::Unselected(Reason::Admission(
                    explanation::Reason::OtherLabels | explanation::Reason::EmptySelector,
                )) => (false, None),
                Relation::Unselected(reason @ Reason::Admission(explanation::Reason::OtherNamespace)) => {
                    elsewhere.add(&reason, &pod.namespace, &pod.name);
                    (false, None)
                }
                Relation::Unselected(reason) => (false, Some(reason)),
            };
            account.matched = account.matched.saturating_add(usize::from(selected));
            if let Some(reason) = reason {
                account.missed = account.missed.saturating_add(usize::from(reason == Reason::Missed));
                account.findings.add(&reason, &pod.namespace, &pod.name);
            }
        }
        // A SidecarSet that selects Namespaces leaves others out on purpose; of one that has no Pods it may be the
        // cause.
        if account.matched == 0 && case.looks_elsewhere() {
            account.findings.extend(&elsewhere);
        }
        account
    }

    /// Since when its SidecarSet selects these Pods.
    pub fn since(&self) -> Since {
        Since { second: self.since, selection: self.selection.clone() }
    }

    /// The annotation that reports it.
    pub fn annotation(&self) -> String {
        #[derive(Serialize)]
        struct Annotation<'a> {
            matched: usize,
            injected: usize,
            missed: usize,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            reasons: Vec<ReasonText<'a>>,
            since: String,
            selection: &'a str,
        }
        let annotation = Annotation {
            matched: self.matched,
            injected: self.injected,
            missed: self.missed,
            reasons: self.findings.reported(),
            since: rfc3339(Timestamp::from_second(self.since).unwrap_or_default()),
            selection: &self.selection,
        };
        // Numbers and texts: writing them as JSON cannot fail.
        serde_json::to_string(&annotation).unwrap_or_default()
    }
}

/// Reasons, and the Pods that they hold for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings(Vec<Finding>);

/// A reason, and the Pods that it holds for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The reason.
    pub reason: Reason,
    /// How many Pods it holds for; 0 where it concerns the SidecarSet itself.
    pub count: usize,
    /// The first of these Pods, by namespace and name.
    pods: BTreeSet<(Box<str>, Box<str>)>,
    /// Pods that are the cause.
    because_of: BTreeSet<(Box<str>, Box<str>)>,
}

/// A finding as the annotation records it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReasonText<'a> {
    reason: &'a str,
    message: String,
    #[serde(skip_serializing_if = "is_zero")]
    count: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pods: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    because_of: Vec<String>,
}

/// Others put their own words into some reasons.
fn shortened(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(MESSAGE));
    message
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Finding {
    fn new(reason: Reason) -> Self {
        Self { reason, count: 0, pods: BTreeSet::new(), because_of: BTreeSet::new() }
    }

    /// The first of its Pods.
    pub fn pods(&self) -> impl Iterator<Item = String> {
        full_names(&self.pods)
    }

    /// The first of the Pods that are the cause.
    pub fn because_of(&self) -> impl Iterator<Item = String> {
        full_names(&self.because_of)
    }
}

fn full_names(pods: &BTreeSet<(Box<str>, Box<str>)>) -> impl Iterator<Item = String> {
    pods.iter().map(|(namespace, name)| format!("{namespace}/{name}"))
}

/// Takes a Pod in, if it is among the first.
fn name_first(pods: &mut BTreeSet<(Box<str>, Box<str>)>, namespace: &str, name: &str) {
    let last = pods.last().filter(|_| pods.len() >= NAMED);
    if last.is_none_or(|(last_namespace, last)| (namespace, name) < (last_namespace, last)) {
        pods.insert((namespace.into(), name.into()));
        if pods.len() > NAMED {
            pods.pop_last();
        }
    }
}

impl FromIterator<Reason> for Findings {
    fn from_iter<I: IntoIterator<Item = Reason>>(reasons: I) -> Self {
        Self(reasons.into_iter().map(Finding::new).collect())
    }
}

impl Findings {
    /// Those of a rollout: the Pods that have sidecars, though not the present ones, and why they are not
    /// updated.
    pub fn of_rollout<'p>(
        set: &RolloutSet,
        plan: &Plan,
        pods: impl IntoIterator<Item = &'p ObservedPod>,
    ) -> Self {
        let mut findings = Self::default();
        for pod in pods {
            if let Err(apart @ ExclusionReason::Lacks(_)) = set.belongs(pod) {
                findings.add(&Reason::ExclusionReason(apart), &pod.metadata.namespace, &pod.metadata.name);
            }
        }
        // Each refusal names its Pod: one represents all.
        let refused = plan.waiting.iter().map(|waiting| &waiting.hold);
        let refused = refused.filter(|hold| matches!(hold, Hold::Refused(_))).min();
        for waiting in &plan.waiting {
            let hold = refused.filter(|_| matches!(waiting.hold, Hold::Refused(_))).unwrap_or(&waiting.hold);
            let metadata = &waiting.pod.metadata;
            let busy: &[_] = if matches!(hold, Hold::MaxUnavailable { .. }) { &plan.busy } else { &[] };
            findings.add_because(&Reason::Hold(hold.clone()), &metadata.namespace, &metadata.name, busy);
        }
        findings
    }

    /// Notes that a reason holds for a Pod.
    pub fn add(&mut self, reason: &Reason, namespace: &str, name: &str) {
        self.add_because(reason, namespace, name, &[]);
    }

    /// Notes that a reason holds for a Pod, of which others are the cause.
    fn add_because(&mut self, reason: &Reason, namespace: &str, name: &str, because_of: &[Arc<ObservedPod>]) {
        if !self.0.iter().any(|finding| finding.reason == *reason) {
            let mut finding = Finding::new(reason.clone());
            for busy in because_of.iter().map(|pod| &pod.metadata) {
                name_first(&mut finding.because_of, &busy.namespace, &busy.name);
            }
            self.0.push(finding);
        }
        if let Some(finding) = self.0.iter_mut().find(|finding| finding.reason == *reason) {
            finding.count = finding.count.saturating_add(1);
            name_first(&mut finding.pods, namespace, name);
        }
    }

    /// Adds those of another part.
    pub fn extend(&mut self, others: &Self) {
        self.0.extend(others.0.iter().cloned());
    }

    /// All of them, in the order of their words and texts.
    pub fn sorted(&self) -> Vec<&Finding> {
        let mut sorted: Vec<&Finding> = self.0.iter().collect();
        sorted.sort_by_cached_key(|finding| (finding.reason.word(), finding.reason.to_string()));
        sorted
    }

    fn reported(&self) -> Vec<ReasonText<'_>> {
        let mut room = NAMES;
        let mut fitting = |names: &mut dyn Iterator<Item = String>| -> Vec<String> {
            let fits = |name: &String| {
                let left = room.checked_sub(name.len());
                room = left.unwrap_or(0);
                left.is_some()
            };
            names.take_while(fits).collect()
        };
        let reported = self.sorted().into_iter().take(REASONS).map(|finding| ReasonText {
            reason: finding.reason.word(),
            message: shortened(finding.reason.to_string()),
            count: finding.count,
            pods: fitting(&mut finding.pods()),
            because_of: fitting(&mut finding.because_of()),
        });
        reported.collect()
    }
}
