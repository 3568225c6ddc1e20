//! The rollout of a SidecarSet: which Pods get the present sidecars now, how, and why the others wait
//! (docs/behaviour/sidecarset.md).
//!
//! ```text
//!   set         RolloutSet: what is kept of a SidecarSet; which Pods belong to it
//!   standing    the state of one Pod: updated, consistent, ready, upgradable
//!   trigger     which changes of Pods ask for a plan
//!   selection   partition, order and maxUnavailable
//!   draft, hot  the writes that update one Pod, cold and by twins
//!   condition   `SidecarSetUpgradable`
//!   difference  what keeps a Pod from being updated in place
//!   status      the counts
//! ```
//!
//! # Guarantees
//! 1. A plan takes no more ready Pods than `maxUnavailable` leaves, also when a version comes while the one
//!    before is in progress, and leaves `partition` Pods as they are.
//! 2. The same snapshot gives the same plan, whatever the order of its Pods.
//! 3. Only images of the SidecarSet's own containers and annotations are written, never another container.
//! 4. A plan on a state in which nothing is left to do is empty. Whichever of the planned writes were made,
//!    further plans come to the same end.
//!
//! # Assumptions
//! 1. The snapshot holds the outcome of every write that the caller made: it puts the API server's answers
//!    into its cache, or waits until the watch shows them. The counts of unavailable Pods depend on it.
//! 2. Each write names the UID and the resource version of the Pod in the plan; a further write to the
//!    same Pod with the resource version of the answer to the one before. On a conflict, or any other
//!    failure of one Pod, the caller continues with the others and plans again; a Pod that was refused it
//!    names in [`plan_around`], so that it takes nobody's place.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::workload::revision::StoredRevision;
use pod::observed::ObservedPod;
use pod::write::PodWrite;
use values::event::Event;

mod condition;
mod consistency;
mod difference;
mod draft;
mod hot;
pub(in crate::sidecarset) mod record;
mod rollout_pod;
mod selection;
mod set;
mod status;
#[cfg(test)]
mod tests;
mod trigger;
mod upgrade;

pub(in crate::sidecarset) use set::injected_names;
pub use set::{ExclusionReason, RolloutSet, injected};
pub use trigger::{Trigger, trigger};

use difference::Differences;
use draft::Draft;
use rollout_pod::RolloutPod;

/// How many Pods a summary names for each reason.
const NAMED_PODS: usize = 3;

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The SidecarSet.
    pub set: &'a RolloutSet,
    /// Pods in namespaces that it selects ([`RolloutSet::selects_namespace`]) and that name it
    /// ([`injected`]); what else must hold is decided here.
    pub pods: &'a [Arc<ObservedPod>],
    /// Its ControllerRevisions, which say what keeps a Pod from being updated; may be incomplete.
    pub revisions: &'a [StoredRevision],
    /// Name of the current one (`history::Registration::latest`); empty while there is none.
    pub latest_revision: &'a str,
    /// How many names of revisions were taken by others.
    pub collision_count: i32,
}

/// What to do for a SidecarSet now.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// A JSON merge patch of the SidecarSet's `status` subresource, where it changes.
    pub status: Option<String>,
    /// Writes to Pods, in their order.
    pub pods: Vec<PodUpdate>,
    /// Events on the SidecarSet.
    pub events: Vec<Event>,
    /// The Pods that have older sidecars and are not updated now: first those that can't be, then the
    /// others in the order of the update.
    pub waiting: Vec<Waiting>,
    /// The Pods that take up `maxUnavailable`: those that are being updated already, and the ready ones that
    /// are taken in this plan.
    pub busy: Vec<Arc<ObservedPod>>,
}

/// The writes that one Pod needs.
#[derive(Clone, Debug)]
pub struct PodUpdate {
    /// The Pod in the state for which the writes are meant: namespace, name, UID and resource version.
    pub pod: Arc<ObservedPod>,
    /// The writes in their order; after one that fails, those behind it are left out.
    pub writes: Vec<PodWrite>,
    /// What they do.
    pub step: Step,
}

/// A step in the update of one Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The idle twin of a hot upgrade gets the empty image.
    Reset,
    /// The Pod gets the present sidecars.
    Upgrade,
    /// Only condition `SidecarSetUpgradable` changes.
    Condition,
}

/// A Pod that is not updated now.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The Pod.
    pub pod: Arc<ObservedPod>,
    /// Why it waits.
    pub hold: Hold,
}

/// Why a Pod is not updated now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// `spec.updateStrategy.type` is `NotUpdate`.
    NeverUpdated,
    /// `spec.updateStrategy.paused`.
    Paused,
    /// `spec.updateStrategy.selector` does not match.
    NotSelected,
    /// More than images changed: what, where that is known.
    NotUpgradable(Option<Arc<str>>),
    /// This container has not started with the image of the update before.
    Updating(Box<str>),
    /// The idle twin of the update before gets its empty image first.
    Resetting,
    /// `spec.updateStrategy.partition` keeps as many Pods as they are.
    Partition(i32),
    /// As many Pods are unavailable as may be.
    MaxUnavailable {
        /// Pods that are updated and not ready, or taken in this plan.
        busy: i32,
        /// The limit.
        limit: i32,
    },
    /// An annotation cannot be patched.
    Annotation(Box<str>),
    /// The API server refused the update, and said this.
    Refused(Box<str>),
}

/// Pods that are not written to for a while, by UID, and what the API server said when it refused.
pub type Refused = BTreeMap<Box<str>, Box<str>>;

impl fmt::Display for Hold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverUpdated => formatter.write_str("spec.updateStrategy.type is NotUpdate"),
            Self::Paused => formatter.write_str("spec.updateStrategy.paused is true"),
            Self::NotSelected => formatter.write_str("spec.updateStrategy.selector does not match"),
            Self::NotUpgradable(None) => formatter.write_str("more than images changed: recreate the Pod"),
            Self::NotUpgradable(Some(change)) => {
                write!(formatter, "more than images changed ({change}): recreate the Pod")
            }
            Self::Updating(container) => {
                write!(formatter, "container {container} has not started with the image given to it before")
            }
            Self::Resetting => formatter.write_str("the idle twin of the update before is reset first"),
            Self::Partition(kept) => {
                write!(formatter, "spec.updateStrategy.partition keeps {kept} Pods as they are")
            }
            Self::MaxUnavailable { busy, limit } => write!(
                formatter,
                "{busy} Pods are being updated and spec.updateStrategy.maxUnavailable is {limit}"
            ),
            Self::Annotation(problem) => formatter.write_str(problem),
            Self::Refused(message) => write!(formatter, "the update was refused ({message})"),
        }
    }
}

impl PodUpdate {
    /// The Event on the Pod that reports success.
    pub fn on_success(&self) -> Option<Event> {
        let message = "reset sidecar container image empty successfully".to_owned();
        (self.step == Step::Reset).then_some(Event {
            warning: false,
            reason: "ResetContainerSucceed",
            message,
        })
    }

    /// The Event on the Pod that reports a failure other than a conflict.
    pub fn on_failure(&self, error: &str) -> Option<Event> {
        let message = format!("reset sidecar container image empty failed: {error}");
        (self.step == Step::Reset).then_some(Event { warning: true, reason: "ResetContainerFailed", message })
    }
}

impl Plan {
    /// True if nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.status.is_none() && self.pods.is_empty() && self.events.is_empty()
    }

    /// Why Pods wait, in one line with a few of their names; `None` where none does.
    pub fn summary(&self) -> Option<String> {
        let mut by_reason: BTreeMap<&Hold, Vec<&ObservedPod>> = BTreeMap::new();
        let refused = self.waiting.iter().map(|waiting| &waiting.hold);
        let refused = refused.filter(|hold| matches!(hold, Hold::Refused(_))).min();
        for Waiting { pod, hold } in &self.waiting {
            // Each refusal names its Pod: one represents all.
            let reason = refused.filter(|_| matches!(hold, Hold::Refused(_))).unwrap_or(hold);
            by_reason.entry(reason).or_default().push(pod);
        }
        let reasons: Vec<String> = by_reason
            .iter()
            .map(|(hold, pods)| {
                let named = pods.iter().take(NAMED_PODS);
                let mut names: Vec<String> =
                    named.map(|pod| format!("{}/{}", pod.metadata.namespace, pod.metadata.name)).collect();
                if pods.len() > NAMED_PODS {
                    names.push("...".to_owned());
                }
                format!("{} wait ({}): {hold}", pods.len(), names.join(", "))
            })
            .collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

/// Whether the Pod was given other sidecars than the present ones, and may get these.
pub fn is_outdated(set: &RolloutSet, pod: &ObservedPod) -> bool {
    !set.strategy.never && set.belongs(pod).is_ok() && !rollout_pod::is_updated(set, pod)
}

/// Plans the next writes of a rollout (docs/behaviour/sidecarset.md#reconcile).
pub fn plan(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    plan_around(snapshot, &Refused::new(), now)
}

/// As [`plan`], without writes to the Pods that were refused before. Others go in their place: they count as
/// old Pods, and not as Pods that are being updated (docs/behaviour/sidecarset.md#pods-that-are-refused).
pub fn plan_around(snapshot: &Snapshot<'_>, refused: &Refused, now: Timestamp) -> Plan {
    let set = snapshot.set;
    if set.deleting {
        return Plan::default();
    }
    let belonging = snapshot.pods.iter().filter(|pod| set.belongs(pod).is_ok());
    let mut standings: Vec<RolloutPod> = belonging.map(|pod| RolloutPod::of(set, pod)).collect();
    standings.sort_by(|left, right| {
        let (left, right) = (&left.pod.metadata, &right.pod.metadata);
        (&left.namespace, &left.name).cmp(&(&right.namespace, &right.name))
    });
    let mut plan = Plan { status: status::patch(snapshot, &standings), ..Plan::default() };
    let all_wait = |hold: Hold| -> Vec<Waiting> {
        let old = standings.iter().filter(|standing| !standing.view.updated);
        old.map(|standing| Waiting { pod: standing.pod.clone(), hold: hold.clone() }).collect()
    };
    if set.strategy.never {
        plan.waiting = all_wait(Hold::NeverUpdated);
        return plan;
    }
    // What was begun is finished, even while paused: else two live twins stay
    // (docs/behaviour/sidecarset.md#reset-step).
    let writable = |standing: &&RolloutPod| !refused.contains_key(&standing.pod.metadata.uid);
    plan.pods.extend(standings.iter().filter(writable).filter_map(|standing| reset(set, standing, now)));
    if set.strategy.paused {
        plan.waiting = all_wait(Hold::Paused);
        return plan;
    }
    upgrade(&mut plan, snapshot, &standings, refused, now);
    plan
}

fn reset(set: &RolloutSet, standing: &RolloutPod, now: Timestamp) -> Option<PodUpdate> {
    if !standing.view.reset_due {
        return None;
    }
    let mut draft = Draft::new(set, &standing.pod, now);
    hot::reset(&mut draft, standing.view.updated);
    let writes = vec![draft.finish()];
    Some(PodUpdate { pod: standing.pod.clone(), writes, step: Step::Reset })
}

/// Adds the Pods that are updated now, and the conditions of the others.
fn upgrade(
    plan: &mut Plan,
    snapshot: &Snapshot<'_>,
    standings: &[RolloutPod],
    refused: &Refused,
    now: Timestamp,
) {
    let set = snapshot.set;
    let selection = selection::select(snapshot, standings, refused, now);
    let standing_at = |position: &usize| standings.get(*position);
    let taken = selection.taken.iter().filter_map(|(position, _)| standing_at(position));
    let busy = selection.busy.iter().filter_map(standing_at);
    let busy = busy.chain(taken.filter(|standing| standing.view.ready));
    plan.busy = busy.map(|standing| standing.pod.clone()).collect();
    let mut written: BTreeSet<usize> = (0..)
        .zip(standings)
        .filter(|(_, standing)| standing.view.reset_due || refused.contains_key(&standing.pod.metadata.uid))
        .map(|(position, _)| position)
        .collect();
    for (position, write) in selection.taken {
        written.insert(position);
        let Some(standing) = standings.get(position) else { continue };
        let condition = condition::write(set, &standing.pod, true, now);
        let writes = std::iter::once(write).chain(condition).collect();
        plan.pods.push(PodUpdate { pod: standing.pod.clone(), writes, step: Step::Upgrade });
    }
    let mut differences = Differences::new(set, snapshot.revisions);
    for (position, hold) in selection.held {
        let Some(standing) = standings.get(position) else { continue };
        let hold = match hold {
            Hold::NotUpgradable(_) => Hold::NotUpgradable(differences.of(&standing.pod)),
            other => other,
        };
        plan.waiting.push(Waiting { pod: standing.pod.clone(), hold });
    }
    let not_upgradable = standings.iter().filter(|standing| standing.view.is_not_upgradable()).count();
    let mut newly = false;
    // A Pod is written to once in a plan, for a second write would be planned on a state that has passed.
    for (_, standing) in (0..).zip(standings).filter(|(position, _)| !written.contains(position)) {
        let Some(upgradable) = standing.view.wanted_condition() else { continue };
        newly |= !upgradable;
        let writes: Vec<PodWrite> =
            condition::write(set, &standing.pod, upgradable, now).into_iter().collect();
        plan.pods.push(PodUpdate { pod: standing.pod.clone(), writes, step: Step::Condition });
    }
    // Once for each change of the SidecarSet or of a Pod, not in every round
    // (docs/behaviour/sidecarset.md#condition-sidecarsetupgradable).
    let changed = set.status.observed_generation.is_none_or(|observed| observed < set.generation);
    if not_upgradable > 0 && (newly || changed) {
        let message = format!(
            "SidecarSet in-place update detected {not_upgradable} not upgradable pod(s) in this round, will skip them."
        );
        plan.events.push(Event { warning: false, reason: "NotUpgradablePods", message });
    }
}
