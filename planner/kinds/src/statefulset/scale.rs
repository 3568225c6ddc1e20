//! The scale step (docs/behaviour/statefulset.md#scale-step): creates the Pods that are missing, replaces those that
//! have ended, and deletes those that are too many.
//!
//! Where Pods are managed one after another, the first slot that is not as it should be ends the step, and no update
//! begins either.

use std::collections::HashSet;

use super::identity;
use super::working::{Content, Numbered, Slot, Working, slot_name};
use crate::workload::action::{Action, DeleteReason};
use crate::workload::broken_pod::is_broken;
use crate::workload::deletion;
use pod::lifecycle::State;

/// What the step comes to.
#[derive(Debug, Default)]
pub(super) struct Scale {
    /// Pods to create.
    pub(super) creations: Vec<Action>,
    /// Pods to delete, and what comes before.
    pub(super) deletions: Vec<Action>,
    /// Why not all Pods are created.
    pub(super) problem: Option<String>,
    /// No update begins: Pods are managed one after another, and one is not as it should be.
    pub(super) stopped: bool,
    /// The slot for which the others wait.
    pub(super) waits_for: Option<String>,
    /// No update begins: Pods are managed one after another, and one waits for its hook.
    pub(super) holds: bool,
}

/// How many more Pods may be unavailable while Pods are created.
struct Budget(Option<usize>);

impl Budget {
    /// Takes one; false where none is left then.
    fn spend(&mut self) -> bool {
        match &mut self.0 {
            None => true,
            Some(left) => {
                *left = left.saturating_sub(1);
                *left > 0
            }
        }
    }
}

/// What becomes of the walk over the slots.
enum Walk {
    Continue,
    /// The slots behind wait, and so does everything else.
    Stop,
    /// The slots behind wait, but the update or deletion of this one continues.
    Hold,
    /// No other Pod is updated or deleted, but missing ones are created.
    Keep,
    /// The slots behind wait.
    Break,
}

/// `busy` names what is written to already.
pub(super) fn plan(working: &Working<'_>, busy: &HashSet<&str>) -> Scale {
    let mut scale = Scale::default();
    let mut budget = Budget(working.settings.scale_budget);
    let mut outdated = working.placed().filter(|pod| !working.counts_as_updated(pod)).count();
    for slot in &working.slots {
        let walk = match &slot.content {
            Content::Pod(pod) => plan_slot(working, pod, &mut budget, &mut scale),
            Content::Orphan(pod) => {
                let adopted = working.adoptable.iter().any(|known| known.metadata.uid == pod.metadata.uid);
                if !adopted && pod.metadata.deletion_timestamp.is_none() {
                    let name = &pod.metadata.name;
                    let problem = format!(
                        "pods \"{name}\" already exists: nobody owns it, and the selector does not match it"
                    );
                    scale.problem.get_or_insert(problem);
                }
                wait(working, &mut budget)
            }
            Content::Nothing => create(working, slot, &mut outdated, &mut budget, &mut scale),
        };
        match walk {
            Walk::Continue => {}
            // The Pod before it that waits for its hook continues.
            Walk::Stop if scale.holds => break,
            Walk::Stop => {
                scale.stopped = true;
                scale.waits_for = Some(slot_name(working, slot));
                break;
            }
            Walk::Hold | Walk::Keep => {
                scale.waits_for.get_or_insert_with(|| slot_name(working, slot));
                scale.holds = true;
                if matches!(walk, Walk::Hold) {
                    break;
                }
            }
            Walk::Break => {
                scale.waits_for = Some(slot_name(working, slot));
                break;
            }
        }
    }
    retry_refused(working, &budget, &mut scale.creations);
    if !scale.stopped && !scale.holds {
        remove(working, busy, &mut scale);
    }
    scale
}

/// Creations that were refused come last: after a failure no others are tried. They took nothing of the budget and may all
/// pass at once, so no more are tried than it has left, but one in any case, each in its turn.
fn retry_refused(working: &Working<'_>, budget: &Budget, creations: &mut Vec<Action>) {
    let is_refused = |action: &Action| working.snapshot.refused.contains(action.object());
    let (mut refused, fresh): (Vec<Action>, Vec<Action>) = creations.drain(..).partition(is_refused);
    *creations = fresh;
    if let (Some(left), false) = (budget.0, working.settings.monotonic) {
        let turn = usize::try_from(working.now.as_second()).unwrap_or(0);
        let number = refused.len().max(1);
        refused.rotate_left(turn % number);
        refused.truncate(left.max(1));
    }
    creations.append(&mut refused);
}

/// The Pod of this slot has to be waited for.
fn wait(working: &Working<'_>, budget: &mut Budget) -> Walk {
    match (working.settings.monotonic, budget.spend()) {
        (true, _) => Walk::Stop,
        (false, true) => Walk::Continue,
        (false, false) => Walk::Break,
    }
}

fn plan_slot(working: &Working<'_>, pod: &Numbered<'_>, budget: &mut Budget, scale: &mut Scale) -> Walk {
    if pod.has_ended() && !pod.is_terminating() {
        scale.deletions.extend(delete(working, pod, DeleteReason::Ended));
        return wait(working, budget);
    }
    let Numbered { member, .. } = pod;
    let monotonic = working.settings.monotonic;
    let limited = monotonic || working.settings.scale_budget.is_some();
    let prepares = pod.prepares();
    if pod.is_terminating() || (limited && !member.is_available && !prepares) {
        return wait(working, budget);
    }
    // While it is ready its PodUnavailableBudget may have nothing left before further Pods are there.
    match (limited && prepares, member.is_ready) {
        (true, true) if monotonic => Walk::Keep,
        (true, false) if monotonic => Walk::Hold,
        (true, false) => wait(working, budget),
        _ => Walk::Continue,
    }
}

fn create(
    working: &Working<'_>,
    slot: &Slot<'_>,
    outdated: &mut usize,
    budget: &mut Budget,
    scale: &mut Scale,
) -> Walk {
    let name = slot_name(working, slot);
    if let Some(retention) = working.settings.retention
        && working.claims.is_left_over(slot.ordinal, &name)
    {
        // It is deleted with the Pod before it; or is kept first, where the policy says so by now.
        if !retention.with_pod {
            scale.deletions.extend(working.claims.keep(slot.ordinal, &name));
        }
        return if working.settings.monotonic { Walk::Stop } else { Walk::Continue };
    }
    match new_pod(working, slot.ordinal, name, outdated) {
        Ok(action) => {
            // What is refused makes nothing unavailable that was not, for however long it is tried.
            let is_refused = working.snapshot.refused.contains(action.object());
            scale.creations.push(action);
            if is_refused && !working.settings.monotonic { Walk::Continue } else { wait(working, budget) }
        }
        Err(problem) => {
            scale.problem.get_or_insert(problem);
            if working.settings.monotonic { Walk::Stop } else { Walk::Continue }
        }
    }
}

fn new_pod(
    working: &Working<'_>,
    ordinal: i32,
    name: String,
    outdated: &mut usize,
) -> Result<Action, String> {
    let set = working.set();
    let is_old = is_at_current(working, ordinal, *outdated);
    let recipe = working.cookbook().recipe(if is_old { working.current } else { working.update })?;
    let claims = identity::claims(set, recipe.claims.as_ref(), ordinal);
    let mut claims = claims.map_err(|error| error.to_string())?;
    let ending = |name: &str| {
        working.claims.named(name).is_some_and(|claim| claim.metadata.deletion_timestamp.is_some())
    };
    if let Some(claim) = claims.iter().find(|claim| ending(&claim.name)) {
        return Err(format!("pvc {} is to be deleted", claim.name));
    }
    claims.retain(|claim| working.claims.named(&claim.name).is_none());
    let json = identity::pod(set, ordinal, &recipe, &working.rules, working.snapshot.gates, working.now);
    let json = json.map_err(|error| error.to_string())?;
    let revision = recipe.revision.to_owned();
    *outdated += usize::from(revision != working.update.name());
    Ok(Action::CreatePod { instance_id: name.clone(), name, revision, json, claims })
}

/// A new Pod is made from the current revision. `outdated` Pods are not at the update revision.
fn is_at_current(working: &Working<'_>, ordinal: i32, outdated: usize) -> bool {
    let settings = &working.settings;
    if settings.on_delete {
        return false;
    }
    match working.set().spec.update_strategy.rolling_update.unordered_update {
        None => settings.is_partitioned(ordinal),
        Some(_) => i64::try_from(outdated).is_ok_and(|outdated| outdated < settings.partition),
    }
}

/// Deletes the Pods that have no slot, the highest ordinal first.
fn remove(working: &Working<'_>, busy: &HashSet<&str>, scale: &mut Scale) {
    let monotonic = working.settings.monotonic;
    let unhealthy = working.pods().filter(|pod| !pod.is_healthy()).map(|pod| pod.ordinal).min();
    for pod in &working.condemned {
        if pod.is_terminating() {
            if monotonic {
                scale.stopped = true;
                scale.waits_for = Some(pod.name().to_owned());
                return;
            }
            continue;
        }
        let waits_for_hook = pod.member.state == Some(State::PreparingDelete);
        let is_first = unhealthy == Some(pod.ordinal);
        // Several that have ended, or that a broken revision left, would wait for each other.
        let may_go = is_first || waits_for_hook || pod.has_ended() || is_broken(pod.pod());
        if monotonic && !pod.member.is_available && !may_go {
            scale.stopped = true;
            scale.waits_for = Some(pod.name().to_owned());
            return;
        }
        // Once the Pod is gone nobody knows any more with what its claims were to go: their owners come first.
        if !working.claims.is_written(pod.ordinal, busy) {
            scale.deletions.extend(delete(working, pod, DeleteReason::ScaleIn));
        }
        if monotonic {
            scale.stopped = true;
            scale.waits_for = Some(pod.name().to_owned());
            return;
        }
    }
}

/// Deletes the Pod, or lets its preDelete hook know; nothing where the hook knows and still holds it.
pub(super) fn delete(working: &Working<'_>, pod: &Numbered<'_>, reason: DeleteReason) -> Option<Action> {
    deletion::delete(pod.pod(), &working.set().spec.lifecycle, reason, working.now)
}
