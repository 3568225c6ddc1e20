//! The scale step (docs/behaviour/cloneset.md#scale-step): brings the number of Pods to what is wanted, and
//! deletes those that are to be deleted.
//!
//! Where Pods are missing, Pods that are let go by their preDelete hook and named Pods that serve nobody are
//! deleted all the same: they would otherwise wait as long as creation is held up
//! (docs/behaviour/cloneset.md#scale-step).

use api::kinds::cloneset::Spec as CloneSetSpec;
use api::labels::CLONESET_INSTANCE_ID;
use serde::Deserialize;

use super::claims::{instance_ids, missing};
use super::counting::{Difference, named_surge};
use super::members::counts_as_new;
use super::pod::{self, Blueprint};
use super::ranking::{Topology, rank};
use super::scale_in_order::ScaleInOrder;
use super::working::Working;
use crate::workload::action::{Action, DeleteReason, WriteReason};
use crate::workload::allowance::Allowance;
use crate::workload::deletion;
use crate::workload::member::Member;
use crate::workload::recipe::{Cookbook, Recipe};
use crate::workload::snapshot::Snapshot;
use ::pod::lifecycle::{self, State};
use values::event::{Event, warning};
use values::moment::Random;

/// As many Pods are created by one plan at most, which holds the JSON of each; their creation leads to the
/// next.
const BURST: usize = 500;

/// What the step comes to.
#[derive(Debug, Default)]
pub(super) struct Scale {
    pub(super) actions: Vec<Action>,
    pub(super) events: Vec<Event>,
    pub(super) problem: Option<String>,
    /// The arithmetic behind it.
    pub(super) difference: Difference,
    /// Pods that are not created until one that has ended its time under the same name is gone.
    pub(super) waiting_names: usize,
}

pub(super) fn plan(working: &Working<'_>, random: &mut Random) -> Scale {
    let kept = keep_after_all(working);
    let difference = working.difference(working.prepared_is_new);
    if !kept.is_empty() {
        return Scale { actions: kept, difference, ..Scale::default() };
    }
    let mut scale = Scale { difference, ..Scale::default() };
    if difference.up > 0 {
        create(working, difference, random, &mut scale);
    }
    scale.actions.extend(delete_leaving(working, difference));
    if scale.actions.is_empty() && difference.up == 0 && difference.down > 0 {
        scale_in(working, difference, &mut scale);
    }
    scale
}

/// Pods that wait for deletion and are needed again stay, unless they were made not ready meanwhile.
fn keep_after_all(working: &Working<'_>) -> Vec<Action> {
    let hooks = &working.set().spec.lifecycle;
    let marks = [&hooks.pre_delete, &hooks.in_place_update];
    if marks.into_iter().flatten().any(|hook| hook.mark_pod_not_ready) {
        return Vec::new();
    }
    let leaving = working.members.iter().filter(|member| member.is_leaving()).count();
    let pods = working.members.len();
    let wanted = usize::try_from(working.limits.replicas).unwrap_or(0);
    let needed = (wanted + leaving).saturating_sub(pods);
    let waiting =
        working.members.iter().filter(|member| member.is_preparing_delete() && !member.is_specified);
    let kept = waiting.take(needed).map(|member| {
        let writes = lifecycle::enter(member.pod, State::PreparingNormal, false, working.now);
        Action::write_pod(member.pod, writes, WriteReason::KeepAfterAll)
    });
    kept.collect()
}

fn create(working: &Working<'_>, difference: Difference, random: &mut Random, scale: &mut Scale) {
    let Difference { up, up_limit, up_old, .. } = difference;
    let is_new = working.set().status.observed_generation != working.set().metadata.generation;
    // Once per change, not with every reconcile (docs/behaviour/cloneset.md#events).
    if up > up_limit && (up_limit > 0 || is_new) {
        let message =
            format!("scaleUp is limited because of scaleStrategy.maxUnavailable, limit: {up_limit}");
        scale.events.push(warning("ScaleUpLimited", message));
    }
    let count = usize::try_from(up_limit).unwrap_or(0).min(BURST);
    let old = usize::try_from(up_old).unwrap_or(0);
    let found = instance_ids(working.snapshot, &working.claims, &working.taken, count, random);
    scale.waiting_names = found.waiting;
    let CloneSetSpec { template, volume_claim_templates: claims, .. } = &working.set().spec;
    let present = (template.as_ref(), claims.as_ref());
    let cookbook = Cookbook::new(working.snapshot, working.update.name(), present, working.rules.labels);
    let (older, newest) = (cookbook.recipe(working.current), cookbook.recipe(working.update));
    for (index, id) in found.ids.into_iter().enumerate() {
        let recipe = if index < old { &older } else { &newest };
        match recipe.as_ref().map_err(Clone::clone).and_then(|recipe| new_pod(working, recipe, &id)) {
            Ok(action) => scale.actions.push(action),
            Err(problem) => scale.problem = Some(problem),
        }
    }
}

fn new_pod(working: &Working<'_>, recipe: &Recipe<'_>, id: &str) -> Result<Action, String> {
    let set = working.set();
    let Recipe { revision, template, claims } = recipe;
    let claims = claims.as_ref();
    let blueprint = Blueprint { revision, template: template.get(), claims, labels: working.rules.labels };
    let now = values::moment::rfc3339(working.now);
    Ok(Action::CreatePod {
        name: format!("{}-{id}", set.metadata.name),
        json: pod::pod(set, blueprint, id, &now).map_err(|error| error.to_string())?,
        revision: (*revision).to_owned(),
        claims: missing(working.snapshot, &working.claims, claims, id).map_err(|error| error.to_string())?,
        instance_id: id.to_owned(),
    })
}

/// Deletes Pods that were to be deleted before: those in `PreparingDelete`, and specified ones as far as
/// the budget bears it.
fn delete_leaving(working: &Working<'_>, difference: Difference) -> Vec<Action> {
    // While Pods are missing none that serves may go.
    let mut allowance = if difference.up == 0 { difference.allowance() } else { Allowance::default() };
    let preparing = working.members.iter().filter(|member| member.is_preparing_delete());
    let mut actions: Vec<Action> =
        preparing.flat_map(|member| delete(working, member, DeleteReason::Released)).collect();
    let specified =
        working.members.iter().filter(|member| member.is_specified && !member.is_preparing_delete());
    let is_left = |member: &Member<'_>| difference.is_left(is_old(working, member));
    let going = specified.filter(|member| allowance.take(member, is_left(member)));
    actions.extend(going.flat_map(|member| delete(working, member, DeleteReason::Specified)));
    actions
}

fn is_old(working: &Working<'_>, member: &Member<'_>) -> bool {
    !counts_as_new(member, working.prepared_is_new)
}

/// Deletes the Pod, or lets its preDelete hook know; nothing where the hook knows and still holds it. Claims
/// that could be reused are marked first, so that they go with the Pod whatever happens in between.
fn delete(working: &Working<'_>, member: &Member<'_>, reason: DeleteReason) -> Vec<Action> {
    match deletion::delete(member.pod, &working.set().spec.lifecycle, reason, working.now) {
        Some(Action::DeletePod { pod, reason, .. }) => {
            let reuse = working.set().spec.scale_strategy.enable_pvc_reuse;
            let marks = if reuse { working.claims.mark(member.pod) } else { Vec::new() };
            if !marks.is_empty() {
                return marks;
            }
            let claims = working.claims.of_pod(member.pod.label(CLONESET_INSTANCE_ID));
            vec![Action::DeletePod { pod, claims, reason }]
        }
        other => other.into_iter().collect(),
    }
}

/// Chooses the Pods that are too many. Waits for those that leave anyway.
fn scale_in(working: &Working<'_>, difference: Difference, scale: &mut Scale) {
    if working.members.iter().any(Member::is_leaving) {
        return;
    }
    let down = usize::try_from(difference.down).unwrap_or(0);
    let old = usize::try_from(difference.down_old).unwrap_or(0).min(down);
    let (new_members, old_members): (Vec<&Member<'_>>, Vec<&Member<'_>>) =
        working.members.iter().partition(|member| !is_old(working, member));
    let keys = topology_keys(working);
    let Snapshot { nodes, costs, .. } = working.snapshot;
    let labels = ScaleInOrder::of(working.set());
    let topology = Topology { keys: &keys, nodes, costs, labels: &labels };
    let mut allowance = difference.allowance();
    let mut going = first(&old_members, old, topology);
    going.retain(|member| allowance.take(member, difference.is_left(true)));
    // What is more than replicas and maxSurge is for users, not for the rollout: where old Pods have to stay until
    // new ones are available, new ones go. A pause is no scaling in.
    let beyond = difference.down - (i64::from(named_surge(&working.set().spec)) - difference.surge);
    let beyond = usize::try_from(beyond).unwrap_or(0).saturating_sub(going.len());
    if difference.goes_back {
        // The partition keeps the old Pods, so new ones go for the user. It is enough that others serve.
        let by_users = i64::try_from(beyond).unwrap_or(i64::MAX).min(allowance.serving);
        allowance.proven = allowance.proven.max(by_users);
    }
    let mut new = first(&new_members, (down - old).max(beyond), topology);
    new.retain(|member| allowance.take(member, difference.is_left(false)));
    going.append(&mut new);
    scale.actions =
        going.into_iter().flat_map(|member| delete(working, member, DeleteReason::ScaleIn)).collect();
}

/// The first `count` of a group by rank.
fn first<'m, 'a>(group: &[&'m Member<'a>], count: usize, topology: Topology<'_>) -> Vec<&'m Member<'a>> {
    if count >= group.len() {
        return group.to_vec();
    }
    if count == 0 {
        return Vec::new();
    }
    let order = rank(group, topology);
    order.into_iter().take(count).filter_map(|position| group.get(position).copied()).collect()
}

/// `topologyKey` of each constraint of the template.
fn topology_keys(working: &Working<'_>) -> Vec<String> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Template {
        spec: Spec,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec {
        topology_spread_constraints: Option<Vec<Constraint>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Constraint {
        topology_key: String,
    }
    let template = working.set().spec.template.as_ref();
    let template: Option<Template> = template.and_then(|template| serde_json::from_str(template.get()).ok());
    let constraints = template.and_then(|template| template.spec.topology_spread_constraints);
    constraints.into_iter().flatten().map(|constraint| constraint.topology_key).collect()
}
