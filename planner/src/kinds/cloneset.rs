//! CloneSet: a number of like Pods, owned directly, updated in place where possible (spec 31).
//!
//! ```text
//!   defaulting, validation   what the webhooks do
//!
//!   Snapshot --plan--> Plan      one look at everything, one list of what to do
//!     members      each Pod, looked at once          counting  how many Pods to create, delete, update
//!     scale        creates and deletes               update    goes on with updates, starts others
//!     ranking      which Pods go first               pod       the Pods and claims that are created
//!     claims       whose claim is whose              status, progress   what the status says
//!     explanation  what stands in the way, and what would clear it
//!     told         what a status tells of refusals to others than the controller
//!
//!   trigger      which CloneSet to look at when something has changed
//! ```
//!
//! [`plan`] is a pure function. The same snapshot, in whatever order its lists are, and the same
//! [`Moment`] give the same plan.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::features::{Feature, FeatureGates};
use api::kinds::cloneset::{API_VERSION, CloneSet, KIND};
use api::labels::CLONESET_INSTANCE_ID;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::json;

use crate::pod::inplace::Rules;
use crate::pod::observed::{ObservedPod, Pairs};
use crate::pod::write::PodWrite;
use crate::text::moment::Moment;
use crate::text::selector::Selector;
use crate::text::server_version::ServerVersion;
use crate::workload::event::Event;
use crate::workload::revision::workload::{
    self, Choice, RevisionLabels, StoredRevision, TemplateRevision, Workload,
};

pub mod action;
pub mod claims;
pub mod counting;
pub mod defaulting;
pub mod explanation;
#[cfg(test)]
mod fixture;
mod members;
mod pod;
pub mod pre_download;
mod progress;
mod ranking;
mod scale;
pub mod status;
#[cfg(test)]
mod tests;
mod told;
pub mod trigger;
mod update;
pub mod validation;

pub use action::{Action, DeleteReason, NewClaim, Part, RevisionStep, Seen, WriteReason};
pub use claims::Claim;
pub use explanation::{Blocker, Explanation};
pub use pre_download::PreDownload;
pub use status::{Outcome, StatusPlan, selector_text};
pub use told::{plan_as_told, trouble};

use claims::{Claims, TakenIds};
use counting::{Difference, Limits, Question};
use members::Member;

/// How Pods are found to be at a revision, whatever form their label has.
const REVISION_LABELS: RevisionLabels = RevisionLabels::CloneSet { short: false };

/// Non-live revisions that are kept where the CloneSet does not say.
const HISTORY_LIMIT: i32 = 10;

/// Everything that a plan is made from.
///
/// # Assumptions
/// The snapshot is never older than the controller's own writes about this CloneSet: every answer of the
/// API server to a create, a patch or a delete is in it, even where the watch has not shown it yet, and
/// after a write whose answer is not known (a timeout) the objects are read again before the next plan.
/// There are no expectations beside that. A snapshot that is older than what *others* did is harmless: each
/// write to an existing object carries the version that was looked at.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The CloneSet, in v1beta1.
    pub set: &'a CloneSet,
    /// Every Pod with an owner reference to this UID, whether it runs, ends or has ended.
    pub pods: &'a [Arc<ObservedPod>],
    /// The claims with an owner reference to this UID.
    pub claims: &'a [Arc<Claim>],
    /// The ControllerRevisions of the namespace that the selector matches or that this UID owns; others do
    /// no harm.
    pub revisions: &'a [Arc<StoredRevision>],
    /// Labels of nodes by name. Read only if the template has `topologySpreadConstraints`; nodes that are
    /// missing count as having no labels.
    pub nodes: &'a BTreeMap<Box<str>, Pairs>,
    /// Instance ids of Pods that this controller tried to create and the API server refused: their claims
    /// are kept for the next try (sharp edge 18). May be forgotten at a restart.
    pub refused: &'a BTreeSet<String>,
    /// Pods whose update in place the API server refused a short time ago, by UID. They are left alone, and
    /// others are updated in their place. May be forgotten at a restart.
    pub held: &'a BTreeMap<Box<str>, Refusal>,
    /// `status.collisionCount` as far as the controller has come with it since the status was written.
    pub collision_count: Option<i32>,
    /// The feature gates.
    pub gates: &'a FeatureGates,
    /// What the operator settled, and what the cluster can do.
    pub settings: Settings,
}

/// Why the update of a Pod was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What the API server said.
    pub message: Box<str>,
    /// When it said so for the first time.
    pub since: Timestamp,
}

/// What plans of all CloneSets have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The flag `--cloneset-scaling-exclude-preparing-delete`.
    pub exclude_preparing_delete: bool,
    /// The API server's version, which tells whether it has `pods/resize`.
    pub server: ServerVersion,
    /// The kind ImagePullJob is installed.
    pub pull_jobs: bool,
}

/// What to do.
///
/// # How it is carried out
/// 1. If there is a [`Plan::revision`], write it, put it into the snapshot and plan again; the rest of this
///    plan is empty. A second plan that still has one ends the reconcile with an error.
/// 2. [`Plan::release`]. If an action fails, do what is left of the list and the status, and try again
///    later.
/// 3. [`Plan::scale`]. Creations go in batches of 1, 2, 4, ...; after a batch with a failure no other is
///    begun. The other actions do not wait for one another: one that fails stops no other, nor a creation.
/// 4. [`Plan::update`], only if not one action of `scale` succeeded, not even in part, for it was planned on
///    the Pods as they are in the snapshot. Where one was left without an answer, only what is under way goes
///    on ([`WriteReason::Progress`]). No failure stops another action.
/// 5. [`Plan::status`] with the outcome of both steps: [`StatusPlan::patch`]. The first failure of a step
///    is its outcome, except conflicts; [`Problems`] come first.
/// 6. [`Plan::pre_download`], [`Plan::pods_to_delete`], then [`Plan::obsolete_revisions`]; failures are only logged.
/// 7. Events: [`Plan::events`], and those of each action ([`Action::success`], [`Action::failure`]).
/// 8. Look again after [`Plan::requeue_after`]. What failed is tried again after a pause that grows with each
///    failure in a row; nothing else waits for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// A revision to write first.
    pub revision: Option<RevisionStep>,
    /// What stops belonging to the CloneSet: Pods that the selector does not match, claims without a Pod. And
    /// claims that were to go and stay.
    pub release: Vec<Action>,
    /// The scale step.
    pub scale: Vec<Action>,
    /// The update step.
    pub update: Vec<Action>,
    /// What to do about ImagePullJobs.
    pub pre_download: PreDownload,
    /// What could not be planned.
    pub problems: Problems,
    /// The status; none where nothing can be said about the CloneSet.
    pub status: Option<StatusPlan>,
    /// A JSON patch of the CloneSet that takes Pods which are gone out of `podsToDelete`.
    pub pods_to_delete: Option<String>,
    /// Revisions to delete.
    pub obsolete_revisions: Vec<Seen>,
    /// Events that do not hang on the success of an action.
    pub events: Vec<Event>,
    /// When to look again though nothing happens.
    pub requeue_after: Option<Duration>,
    /// What stands in the way.
    pub explanation: Explanation,
}

/// Parts of a plan that could not be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// Why the scale step is not complete.
    pub scale: Option<String>,
    /// Why the update step is not complete.
    pub update: Option<String>,
}

impl Plan {
    /// Nothing can be planned. The status keeps what it says, for nothing was done about this generation, and
    /// tells why.
    fn impossible(set: &CloneSet, problem: String, now: Timestamp) -> Self {
        let explanation = Explanation::of_problem(&problem);
        let mut status = StatusPlan::unchanged(set, now);
        explanation.record(status.conditions_mut(), now);
        let problems = Problems { scale: Some(problem), update: None };
        Self { problems, explanation, status: Some(status), ..Self::default() }
    }

    /// True where nothing is created, deleted or written.
    pub fn is_idle(&self) -> bool {
        self.revision.is_none()
            && self.release.is_empty()
            && self.scale.is_empty()
            && self.update.is_empty()
            && self.pods_to_delete.is_none()
            && self.obsolete_revisions.is_empty()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.revision {
            Some(RevisionStep::Create(revision)) => {
                writeln!(formatter, "create ControllerRevision {}", revision.name)?;
            }
            Some(RevisionStep::Bump { revision, .. }) => {
                writeln!(formatter, "make ControllerRevision {} the newest", revision.name)?;
            }
            None => {}
        }
        for action in self.release.iter().chain(&self.scale) {
            writeln!(formatter, "{action}")?;
        }
        // These are done only where those above do nothing.
        let prefix = if self.scale.is_empty() { "" } else { "otherwise: " };
        for action in &self.update {
            writeln!(formatter, "{prefix}{action}")?;
        }
        for problem in [&self.problems.scale, &self.problems.update].into_iter().flatten() {
            writeln!(formatter, "problem: {problem}")?;
        }
        if let Some(patch) = &self.pods_to_delete {
            writeln!(formatter, "patch the CloneSet: {patch}")?;
        }
        for revision in &self.obsolete_revisions {
            writeln!(formatter, "delete ControllerRevision {}", revision.name)?;
        }
        if let Some(delay) = self.requeue_after {
            writeln!(formatter, "look again after {delay:?}")?;
        }
        write!(formatter, "{}", self.explanation)
    }
}

/// What the steps of one plan share.
struct Working<'a> {
    snapshot: &'a Snapshot<'a>,
    now: Timestamp,
    rules: Rules,
    limits: Limits,
    history: Vec<&'a StoredRevision>,
    current: &'a StoredRevision,
    update: &'a StoredRevision,
    members: Vec<Member<'a>>,
    claims: Claims<'a>,
    taken: TakenIds<'a>,
    /// Gate `PreparingUpdateAsUpdate`.
    prepared_is_new: bool,
}

impl<'a> Working<'a> {
    fn set(&self) -> &'a CloneSet {
        self.snapshot.set
    }

    /// The arithmetic, with one of the two classifiers (spec 31 §6.2).
    fn difference(&self, prepared_is_new: bool) -> Difference {
        let Snapshot { set, gates, settings, .. } = self.snapshot;
        let question = Question {
            limits: self.limits,
            rollback: self.current.name() != self.update.name()
                && gates.enabled(Feature::CloneSetPartitionRollback),
            exclude_preparing_delete: set.spec.scale_strategy.exclude_preparing_delete
                || settings.exclude_preparing_delete,
        };
        let (old, new) = members::groups(&self.members, prepared_is_new);
        question.answer(old, new)
    }
}

/// Decides what to do about a CloneSet.
///
/// # Guarantees
/// - No step names a Pod twice.
/// - Carried out in whole or in part, a plan never makes more than `replicas + maxSurge` Pods, and never
///   takes more available Pods away than `maxUnavailable` allows.
/// - A CloneSet that is being deleted gets a status and nothing else.
pub fn plan(snapshot: &Snapshot<'_>, moment: Moment) -> Plan {
    let set = snapshot.set;
    let selector = match Selector::compile(&set.spec.selector) {
        Ok(selector) => selector,
        Err(error) => {
            return Plan::impossible(set, format!("spec.selector can't be used: {error}"), moment.now);
        }
    };
    let revisions = snapshot.revisions.iter().map(|revision| &**revision);
    let history = workload::history(revisions, &selector, &set.metadata.uid);
    let is_ending = set.metadata.deletion_timestamp.is_some();
    let update = if is_ending {
        let name = &set.status.update_revision;
        history.iter().find(|revision| revision.name() == name).or(history.last()).copied()
    } else {
        match choose(snapshot, &history) {
            Ok(Chosen::Stored(revision)) => Some(revision),
            Ok(Chosen::ToWrite(step)) => {
                let explanation = Explanation::of_revision(&step);
                return Plan { revision: Some(step), explanation, ..Plan::default() };
            }
            Err(problem) => return Plan::impossible(set, problem, moment.now),
        }
    };
    // Without any revision nothing was ever created.
    let Some(update) = update else { return Plan::default() };
    let current = workload::current(&history, &set.status.current_revision).unwrap_or(update);
    let (members, strangers) = own_pods(snapshot, &selector, update.name(), moment.now);
    let working = Working {
        snapshot,
        now: moment.now,
        rules: Rules::clone_set(snapshot.gates, snapshot.settings.server),
        limits: Limits::of(&set.spec),
        history,
        current,
        update,
        members,
        claims: Claims::of(snapshot),
        taken: TakenIds::of(snapshot),
        prepared_is_new: snapshot.gates.enabled(Feature::PreparingUpdateAsUpdate),
    };
    if is_ending {
        let (status, _) = observe(&working);
        return Plan { status: Some(status), ..Plan::default() };
    }
    let mut plan = steps(&working, moment);
    plan.release = strangers.iter().flat_map(|pod| release(&working, pod)).collect();
    plan.release.extend(claims::cleanup(
        snapshot,
        &working.claims,
        &working.taken,
        working.difference(working.prepared_is_new).up > 0,
    ));
    plan.release.extend(working.claims.keep(&working.members, &plan.scale));
    plan
}

/// The scale step, the update step, and what follows from both.
fn steps(working: &Working<'_>, moment: Moment) -> Plan {
    let scale = scale::plan(working, &mut moment.random());
    let update = update::plan(working);
    let explanation = explanation::explain(working, &scale, &update);
    let (mut status, deadline) = observe(working);
    let standing = explanation.record(status.conditions_mut(), working.now);
    let labels = working.rules.labels;
    let live = [working.current.name(), working.update.name()];
    let pods = working.members.iter().map(|member| &**member.pod);
    let limit = working.set().spec.revision_history_limit.unwrap_or(HISTORY_LIMIT);
    let obsolete = workload::obsolete(&working.history, &live, pods, labels, limit);
    let available = working.members.iter().filter_map(|member| member.available_at).min();
    let times = [available, deadline, standing].into_iter().flatten();
    let delays = times.map(|time| delay(working.now, time)).chain(update.requeue);
    Plan {
        revision: None,
        release: Vec::new(),
        problems: Problems { scale: scale.problem, update: update.problem },
        scale: scale.actions,
        update: update.actions,
        pre_download: pre_download::plan(working),
        status: Some(status),
        pods_to_delete: remaining_names(working),
        obsolete_revisions: obsolete.into_iter().map(seen_revision).collect(),
        events: scale.events,
        requeue_after: delays.min(),
        explanation,
    }
}

fn observe(working: &Working<'_>) -> (StatusPlan, Option<Timestamp>) {
    let stored = working.set().status.collision_count.unwrap_or(0);
    let revisions = status::Revisions {
        current: working.current.name(),
        update: working.update.name(),
        collision_count: working.snapshot.collision_count.unwrap_or(stored).max(stored),
    };
    let expected = working.limits.replicas - working.limits.partition;
    status::observe(working.set(), &working.members, revisions, expected, working.now)
}

/// Until just after `time`: what must be longer ago than a number of seconds is so only then.
fn delay(now: Timestamp, time: Timestamp) -> Duration {
    const AFTER: SignedDuration = SignedDuration::from_millis(10);
    let delay = time.duration_since(now).max(SignedDuration::ZERO).saturating_add(AFTER);
    Duration::try_from(delay).unwrap_or_default()
}

enum Chosen<'a> {
    Stored(&'a StoredRevision),
    ToWrite(RevisionStep),
}

/// Finds the revision of the present template, or what to write so that there is one.
fn choose<'a>(snapshot: &Snapshot<'_>, history: &[&'a StoredRevision]) -> Result<Chosen<'a>, String> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Template {
        metadata: Option<Metadata>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Metadata {
        labels: Option<BTreeMap<String, String>>,
    }
    let set = snapshot.set;
    let template = set.spec.template.as_ref().ok_or("spec.template is missing")?;
    let unreadable = |error: &dyn fmt::Display| format!("spec.template can't be read: {error}");
    let candidate = TemplateRevision::of_template(template.get()).map_err(|error| unreadable(&error))?;
    let head: Template = serde_json::from_str(template.get()).map_err(|error| unreadable(&error))?;
    let labels = head.metadata.and_then(|metadata| metadata.labels).unwrap_or_default();
    let claims = set.spec.volume_claim_templates.as_ref().map_or("[]", |claims| claims.get());
    let claims_hash = workload::claims_hash(claims)
        .map_err(|error| format!("spec.volumeClaimTemplates can't be read: {error}"))?;
    let stored = set.status.collision_count.unwrap_or(0);
    let workload = Workload {
        claims_hash: Some(claims_hash),
        collision_count: snapshot.collision_count.unwrap_or(stored).max(stored),
        ..Workload::new(API_VERSION, KIND, &set.metadata, &labels)
    };
    let named = |name: &str| history.iter().find(|revision| revision.name() == name).copied();
    Ok(match workload::choose(candidate, history, &workload) {
        Choice::UseNewest { name } => {
            Chosen::Stored(named(&name).ok_or("the newest revision is not in the history")?)
        }
        Choice::BumpOld(bump) => {
            let revision = named(&bump.name).ok_or("the revision is not in the history")?;
            let patch = bump.to_json(revision);
            Chosen::ToWrite(RevisionStep::Bump { revision: seen_revision(revision), patch })
        }
        Choice::Create(revision) => Chosen::ToWrite(RevisionStep::Create(Box::new(revision))),
    })
}

fn seen_revision(revision: &StoredRevision) -> Seen {
    let metadata = &revision.metadata;
    Seen {
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
    }
}

/// The active Pods that the CloneSet controls: those that its selector matches, sorted by name, and the
/// others.
fn own_pods<'a>(
    snapshot: &Snapshot<'a>,
    selector: &Selector,
    update_revision: &str,
    now: Timestamp,
) -> (Vec<Member<'a>>, Vec<&'a Arc<ObservedPod>>) {
    let uid = &snapshot.set.metadata.uid;
    let controlled =
        |pod: &&Arc<ObservedPod>| pod.is_active() && pod.controller().is_some_and(|owner| owner.uid == *uid);
    let mut pods: Vec<&Arc<ObservedPod>> = snapshot.pods.iter().filter(controlled).collect();
    pods.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    let (own, strangers): (Vec<_>, Vec<_>) =
        pods.into_iter().partition(|pod| selector.matches(&pod.metadata.labels));
    (members::members(&own, snapshot.set, update_revision, now), strangers)
}

/// The Pod was taken out of the CloneSet by its labels: it lives on without an owner. Its claims go with it,
/// and do so first: without its owner nobody would know any more whose they are.
fn release(working: &Working<'_>, pod: &ObservedPod) -> Vec<Action> {
    let uid = &working.set().metadata.uid;
    let claims = working.claims.of_pod(pod.label(CLONESET_INSTANCE_ID));
    if !claims.is_empty() {
        return claims.into_iter().map(|claim| claims::hand_over(claim, pod, uid)).collect();
    }
    vec![Action::WritePod {
        pod: Seen::pod(pod),
        writes: vec![PodWrite { removed_owners: vec![uid.clone()], ..PodWrite::default() }],
        reason: WriteReason::Release,
        revision: String::new(),
    }]
}

/// The JSON patch that leaves only names of Pods that exist in `podsToDelete`. It holds only while the list
/// is what was looked at; what else changed in the CloneSet, its status above all, does not matter.
fn remaining_names(working: &Working<'_>) -> Option<String> {
    let metadata = &working.set().metadata;
    let names = &working.set().spec.scale_strategy.pods_to_delete;
    let exists: BTreeSet<&str> = working.members.iter().map(Member::name).collect();
    let left: Vec<&String> = names.iter().filter(|name| exists.contains(name.as_str())).collect();
    (left.len() < names.len()).then(|| {
        let path = "/spec/scaleStrategy/podsToDelete";
        json!([
            {"op": "test", "path": "/metadata/uid", "value": metadata.uid},
            {"op": "test", "path": path, "value": names},
            {"op": "replace", "path": path, "value": left},
        ])
        .to_string()
    })
}
