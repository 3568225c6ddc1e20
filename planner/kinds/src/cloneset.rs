//! CloneSet: a number of like Pods, owned directly, updated in place where possible
//! (docs/behaviour/cloneset.md).
//!
//! ```text
//!   defaulting, validation   what the webhooks do
//!
//!   Snapshot --plan--> Plan      one snapshot of everything, one list of actions
//!     members      each Pod, read once              counting  how many Pods to create, delete, update
//!     scale        creates and deletes               update    which Pods are updated, and to what
//!     ranking      which Pods go first               pod       names and labels of Pods and claims
//!     claims       whose claim is whose              status    what the status says
//!     explanation  what blocks progress              working   what these steps share
//!     scale_in_order   which Pods users want to go first
//! ```
//!
//! [`plan`] is a pure function. The same snapshot, in whatever order its lists are, and the same
//! [`Moment`] give the same plan.

use std::collections::BTreeSet;

use api::annotations::CLONESET_CLAIMS_HASH;
use api::features::Feature;
use api::kinds::cloneset::{API_VERSION, CloneSet, CloneSetCondition, KIND, PLURAL, Status};
use api::labels::{CLONESET_INSTANCE_ID, CONTROLLER_HASH};
use api::meta::LabelSelector;
use serde_json::json;

use crate::workload::action::Action;
use crate::workload::children::Claim;
use crate::workload::conditions::Condition;
use crate::workload::kind::{Workload, WorkloadStatus};
use crate::workload::member::{Member, own_pods};
use crate::workload::membership::Membership;
use crate::workload::plan::{Plan, Problems};
use crate::workload::revision::{self, Choice, HISTORY_LIMIT, Limit, StoredRevision};
use crate::workload::rollout_batch;
use crate::workload::snapshot::Snapshot;
use crate::workload::start::{self, Start};
use ::pod::inplace::Rules;
use ::pod::observed::ObservedPod;
use values::moment::{Moment, just_after};

pub mod claims;
pub mod counting;
pub mod defaulting;
mod explanation;
#[cfg(test)]
mod fixture;
mod members;
mod pod;
mod pre_download;
mod ranking;
mod scale;
mod scale_in_order;
mod status;
#[cfg(test)]
mod tests;
mod update;
pub mod validation;
mod working;

use claims::{Claims, TakenIds};
use counting::Limits;
use working::Working;

impl Workload for CloneSet {
    const API_VERSION: &'static str = API_VERSION;
    const KIND: &'static str = KIND;
    const PLURAL: &'static str = PLURAL;

    fn selector(&self) -> &LabelSelector {
        &self.spec.selector
    }

    fn wants_by_cost(&self) -> Option<i32> {
        Some(counting::replicas(&self.spec))
    }

    /// Where Pods are too many, and their template asks for them to be spread.
    fn reads_nodes(&self, pods: usize) -> bool {
        let template = self.spec.template.as_ref();
        pods > usize::try_from(counting::replicas(&self.spec)).unwrap_or(0)
            && template.is_some_and(|template| template.get().contains("topologySpreadConstraints"))
    }

    fn pod_of_claim(&self, claim: &Claim) -> Option<String> {
        claim.instance_id().map(|id| format!("{}-{id}", self.metadata.name))
    }

    fn plan(snapshot: &Snapshot<'_, Self>, moment: Moment) -> Plan<Status> {
        plan(snapshot, moment)
    }
}

impl WorkloadStatus for Status {
    const REQUIRED: &'static [&'static str] =
        &["replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "updatedReadyReplicas"];

    fn observed_generation(&self) -> Option<i64> {
        self.observed_generation
    }

    fn update_revision(&self) -> &str {
        &self.update_revision
    }

    fn current_revision(&self) -> &str {
        &self.current_revision
    }

    fn collision_count(&self) -> Option<i32> {
        self.collision_count
    }

    fn conditions(&self) -> Vec<Condition> {
        self.conditions.iter().map(Condition::from).collect()
    }

    fn set_conditions(&mut self, conditions: Vec<Condition>) {
        self.conditions = conditions.into_iter().map(CloneSetCondition::from).collect();
    }
}

/// Decides what to do about a CloneSet.
///
/// # Guarantees
/// - No step names a Pod twice.
/// - Carried out in whole or in part, a plan never makes more than `replicas + maxSurge` Pods, and never
///   takes more available Pods away than `maxUnavailable` allows.
/// - A CloneSet that is being deleted gets a status and nothing else.
pub fn plan(snapshot: &Snapshot<'_, CloneSet>, moment: Moment) -> Plan<Status> {
    let set = snapshot.workload;
    let start = Start::of(snapshot, moment.now, |history| choose(snapshot, history));
    let Start { selector, history, current, update } = match start {
        Ok(start) => start,
        Err(plan) => return *plan,
    };
    let (own, strangers) = own_pods(snapshot.pods, &set.metadata.uid, &selector);
    let mut working = Working {
        snapshot,
        now: moment.now,
        rules: Rules::clone_set(snapshot.gates, snapshot.environment.server),
        limits: Limits::of(&set.spec),
        history,
        current,
        update,
        members: members::members(&own, set, update.name(), moment.now),
        claims: Claims::of(snapshot),
        taken: TakenIds::of(snapshot),
        prepared_is_new: snapshot.gates.enabled(Feature::PreparingUpdateAsUpdate),
        keeps_serving: false,
    };
    working.keeps_serving = working.limits.max_surge > 0 && update::keeps_serving(&working);
    if set.metadata.deletion_timestamp.is_some() {
        let (status, _) = status::observe(&working);
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
fn steps(working: &Working<'_>, moment: Moment) -> Plan<Status> {
    let scale = scale::plan(working, &mut moment.random());
    let mut update = update::plan(working);
    let explanation = explanation::explain(working, &scale, &update);
    let (mut status, deadline) = status::observe(working);
    let standing = explanation.record(&mut status, working.now);
    let (live, labels) = ([working.current, working.update], working.rules.labels);
    let pods = working.members.iter().map(|member| member.pod);
    let limit = working.set().spec.revision_history_limit.unwrap_or(HISTORY_LIMIT);
    let available = working.members.iter().filter_map(|member| member.available_at).min();
    let times = [available, deadline, standing].into_iter().flatten();
    let delays = times.map(|time| just_after(time, working.now)).chain(update.step.requeue);
    let mut events = scale.events;
    events.append(&mut update.step.events);
    let plan = Plan {
        problems: Problems { scale: scale.problem, update: update.step.problem },
        scale: scale.actions,
        update: update.step.actions,
        pre_download: pre_download::plan(working),
        status: Some(status),
        owner_patch: remaining_names(working),
        obsolete_revisions: revision::unused(&working.history, &live, labels, pods, Limit::Unused(limit)),
        events,
        requeue_after: delays.min(),
        explanation,
        ..Plan::default()
    };
    rollout_batch::labelled(plan, &working.set().metadata, working.update.name())
}

/// Finds the revision of the present template, or what to write so that there is one.
fn choose<'a>(
    snapshot: &Snapshot<'_, CloneSet>,
    history: &[&'a StoredRevision],
) -> Result<Choice<'a>, String> {
    let spec = &snapshot.workload.spec;
    let claims = spec.volume_claim_templates.as_ref().map_or("[]", |claims| claims.get());
    let claims_hash = revision::claims_hash(claims)
        .map_err(|error| format!("spec.volumeClaimTemplates can't be read: {error}"))?;
    let mut wanted = start::wanted(snapshot, spec.template.as_ref(), CONTROLLER_HASH)?;
    wanted.annotations.insert(CLONESET_CLAIMS_HASH.to_owned(), claims_hash.clone());
    wanted.annotation_of_newest = Some((CLONESET_CLAIMS_HASH, &claims_hash));
    wanted.claims = Some(claims);
    Ok(revision::choose(wanted, history))
}

/// The Pod was taken out of the CloneSet by its labels: it lives on without an owner. Its claims go with it,
/// and do so first: without its owner nobody would know any more whose they are.
fn release(working: &Working<'_>, pod: &ObservedPod) -> Vec<Action> {
    let metadata = &working.set().metadata;
    let claims = working.claims.of_pod(pod.label(CLONESET_INSTANCE_ID));
    if claims.is_empty() {
        return vec![Membership::of::<CloneSet>(metadata).release(pod)];
    }
    claims.into_iter().map(|claim| claims::hand_over(claim, pod, &metadata.uid)).collect()
}

/// The JSON patch that leaves only names of Pods that exist in `podsToDelete`. It holds only while the list
/// is what was observed; what else changed in the CloneSet, its status above all, does not matter.
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
