//! What must never happen by the controller's own doing, and where a workload must come to.
//!
//! A call is judged by what it does to the Pods as they are, and by what its plan could know. Pods that
//! served when the plan was made and that users or faults took since are not held against it.
//!
//! These rules hold for every kind; each kind adds its own ([`Simulated`]).
//!
//! 1. *Budget.* Taking an available Pod away leaves `replicas - maxUnavailable` available ones. *Served.* Taking a
//!    Pod away that serves at a revision which the rollout leads away from leaves as many that are available, or serve
//!    at such a revision: older ones or, while Pods of a CloneSet go back, the newest one.
//! 2. *Surge.* A Pod is created only while there are fewer than `replicas + maxSurge`.
//! 3. *Once.* No Pod is deleted twice, and no plan touches an object twice.
//! 4. *Claims.* No claim of a Pod that lives is deleted.
//! 5. *In place.* A change that a running Pod can take does not recreate it.
//! 6. *Order.* Containers change in the order of their launch priority.
//! 7. *Held.* Nothing is deleted that its preDelete hook holds.
//! 8. *Rest.* When users and faults have come to an end, so does the controller, and every Pod is where it
//!    belongs, and is what its revision says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::labels::SPECIFIED_DELETE;
use api::meta::LabelSelector;
use jiff::Timestamp;

use super::kind::{Bounds, Deed, Scene, Simulated, View, Violation, count, is_available, is_serving};
use super::server::Server;
use super::timeline::{Actor, Look};
use kinds::workload::action::{Action, DeleteReason, WriteReason};
use kinds::workload::children::Claim;
use kinds::workload::plan::Plan;
use pod::lifecycle::hooked;
use pod::observed::ObservedPod;

mod in_place;
mod rest;

/// Who took what, and which rules were broken.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    pub(super) violations: Vec<Violation>,
    /// Who last made a Pod serve, exist, or stay where it is no longer, by its identity.
    lost_by: BTreeMap<Box<str>, Actor>,
    /// Pods that the controller deleted, as they were.
    deleted: Vec<Arc<ObservedPod>>,
    /// Labels that hooks of the workload ever named: they come and go.
    hook_labels: BTreeSet<String>,
}

/// How the Pod looks.
pub(super) fn look(pod: &ObservedPod, min_ready_seconds: i32, now: Timestamp) -> Look {
    if pod.metadata.deletion_timestamp.is_some() {
        Look::Terminating
    } else if !pod.is_active() {
        Look::Ended
    } else if is_available(pod, min_ready_seconds, now) {
        Look::Available
    } else if pod.is_ready() {
        Look::Ready
    } else if &*pod.status.phase == "Running" {
        Look::NotReady
    } else {
        Look::Pending
    }
}

impl Ledger {
    /// A Pod changed.
    pub(super) fn observe(
        &mut self,
        actor: Actor,
        before: &ObservedPod,
        after: &ObservedPod,
        selector: &LabelSelector,
    ) {
        let ends = before.is_active() && !after.is_active();
        let selecting = selector.match_labels.iter().flatten().map(|(key, _)| key.as_str());
        let is_relabelled =
            selecting.chain([SPECIFIED_DELETE]).any(|key| before.label(key) != after.label(key));
        if ends || is_relabelled || (is_serving(before) && !is_serving(after)) {
            self.lost_by.insert(after.metadata.uid.clone(), actor);
        }
    }

    /// A Pod is gone.
    pub(super) fn lose(&mut self, actor: Actor, before: &ObservedPod) {
        if before.is_active() {
            self.lost_by.insert(before.metadata.uid.clone(), actor);
        }
    }

    /// Nobody knows any more whose deletions were the controller's.
    pub(super) fn forget_deletions(&mut self) {
        self.deleted.clear();
    }

    /// Judges a plan before it is carried out.
    pub(super) fn review<W: Simulated>(
        &mut self,
        plan: &Plan<W::Status>,
        view: &View<W>,
        server: &Server<W>,
    ) {
        let hooks = view.workload.lifecycle();
        for hook in [&hooks.pre_delete, &hooks.in_place_update, &hooks.pre_normal].into_iter().flatten() {
            self.hook_labels.extend(hook.labels_handler.keys().cloned());
        }
        let scene = Scene::new(view, &server.pods, &server.revisions, &self.lost_by);
        let mut broken = Vec::new();
        review_objects(plan, &mut broken);
        review_creations(plan, &scene, &mut broken);
        W::judge_plan(plan, &scene, &mut broken);
        self.violations.append(&mut broken);
    }

    pub(super) fn judge_creation<W: Simulated>(
        &mut self,
        view: &View<W>,
        pod: &ObservedPod,
        server: &Server<W>,
    ) {
        let scene = Scene::new(view, &server.pods, &server.revisions, &self.lost_by);
        let mut broken = Vec::new();
        let bounds = scene.bounds();
        let total = scene.left(|pod| scene.workload().is_counted(pod));
        if total > bounds.ceiling() {
            let text = format!(
                "with Pod {} there are {total} of {} with maxSurge {}",
                pod.metadata.name, bounds.replicas, bounds.max_surge
            );
            broken.push(Violation::new("Surge", text));
        }
        W::judge_deed(&Deed::Create(pod), &scene, &mut broken);
        self.violations.append(&mut broken);
    }

    pub(super) fn judge_deletion<W: Simulated>(
        &mut self,
        view: &View<W>,
        reason: Option<DeleteReason>,
        before: &Arc<ObservedPod>,
        server: &Server<W>,
    ) {
        let name = &before.metadata.name;
        self.lost_by.insert(before.metadata.uid.clone(), Actor::Kutter);
        self.deleted.push(before.clone());
        let scene = Scene::new(view, &server.pods, &server.revisions, &self.lost_by);
        let mut broken = Vec::new();
        if before.metadata.deletion_timestamp.is_some() {
            broken.push(Violation::new("Once", format!("Pod {name} is deleted a second time")));
        }
        if hooked(scene.workload().lifecycle().pre_delete.as_ref(), &before.metadata) {
            broken.push(Violation::new("Held", format!("Pod {name} is deleted, which its hook holds")));
        }
        if scene.owns(before) && is_budgeted(&scene, before) {
            broken.extend(budget(&scene, before, &format!("deletes Pod {name}")));
        }
        if reason == Some(DeleteReason::Recreate) {
            broken.extend(in_place::judge_recreation(&scene, before, scene.update_revision()));
        }
        if let Some(reason) = reason {
            W::judge_deed(&Deed::Delete { pod: before, reason }, &scene, &mut broken);
        }
        self.violations.append(&mut broken);
    }

    pub(super) fn judge_claim<W: Simulated>(&mut self, claim: &Claim, server: &Server<W>) {
        let mut users = server.pods.values().filter(|pod| pod.is_active() && server.belongs(claim, pod));
        if let Some(user) = users.next() {
            let (claim, user) = (&claim.metadata.name, &user.metadata.name);
            let text = format!("claim {claim} of Pod {user} is deleted");
            self.violations.push(Violation::new("Claims", text));
        }
    }

    pub(super) fn judge_write<W: Simulated>(
        &mut self,
        view: &View<W>,
        action: Option<&Action>,
        (before, after): (&Arc<ObservedPod>, &Arc<ObservedPod>),
        server: &Server<W>,
    ) {
        let name = &before.metadata.name;
        let Some(Action::WritePod { reason, revision, .. }) = action else { return };
        let reason = *reason;
        let scene = Scene::new(view, &server.pods, &server.revisions, &self.lost_by);
        let available = |pod: &ObservedPod| scene.is_available(pod) && scene.owns(pod);
        let serves = |pod: &ObservedPod| is_serving(pod) && scene.owns(pod);
        let is_lost = reason != WriteReason::Release
            && ((available(before) && !available(after)) || (serves(before) && !serves(after)));
        let takes =
            matches!(reason, WriteReason::UpdateInPlace | WriteReason::Recreate | WriteReason::PrepareDelete);
        if takes || is_lost {
            self.lost_by.insert(before.metadata.uid.clone(), Actor::Kutter);
        }
        let scene = Scene::new(view, &server.pods, &server.revisions, &self.lost_by);
        let mut broken = Vec::new();
        if is_lost && is_budgeted(&scene, before) {
            broken.extend(budget(&scene, before, &format!("writes to Pod {name} ({reason:?})")));
        }
        W::judge_deed(&Deed::Write { pod: before, reason, revision }, &scene, &mut broken);
        if reason == WriteReason::Recreate {
            broken.extend(in_place::judge_recreation(&scene, before, revision));
        }
        in_place::judge_order(before, after, &mut broken);
        self.violations.append(&mut broken);
    }
}

/// Taking this Pod away is up to the budget.
fn is_budgeted<W: Simulated>(scene: &Scene<'_, W>, pod: &ObservedPod) -> bool {
    W::SCALES_IN_WITHIN_BUDGET || scene.workload().is_counted(pod)
}

/// Rule 3: no object is touched twice.
fn review_objects<S>(plan: &Plan<S>, broken: &mut Vec<Violation>) {
    let mut seen = BTreeSet::new();
    for action in plan.release.iter().chain(&plan.scale) {
        if !seen.insert(action.object()) {
            let text = format!("the plan has two actions for {}", action.object());
            broken.push(Violation::new("Once", text));
        }
    }
}

/// Rule 2.
fn review_creations<W: Simulated>(plan: &Plan<W::Status>, scene: &Scene<'_, W>, broken: &mut Vec<Violation>) {
    let created = plan.scale.iter().filter(|action| matches!(action, Action::CreatePod { .. })).count();
    if created == 0 {
        return;
    }
    let bounds = scene.bounds();
    let known = count(scene.observed(), |pod| scene.workload().is_counted(pod));
    let total = known + i64::try_from(created).unwrap_or(i64::MAX);
    if total > bounds.ceiling() {
        let text =
            format!("the plan makes {total} Pods of {} with maxSurge {}", bounds.replicas, bounds.max_surge);
        broken.push(Violation::new("Surge", text));
    }
}

/// Rule 1, after a Pod that was as `before` was taken away.
fn budget<W: Simulated>(scene: &Scene<'_, W>, before: &ObservedPod, what: &str) -> Option<Violation> {
    let is_available = |pod: &ObservedPod| scene.is_available(pod);
    let served = |pod: &ObservedPod| is_serving(pod) && W::is_left(pod, scene);
    let is_proven = |pod: &ObservedPod| is_available(pod) || served(pod);
    let (rule, left, taken) = match (is_available(before), served(before)) {
        (true, _) => ("Budget", scene.left(is_available), scene.taken(is_available)),
        (false, true) => ("Served", scene.left(is_proven), scene.taken(is_proven)),
        (false, false) => return None,
    };
    let bounds = scene.bounds();
    (left + taken < bounds.floor()).then(|| {
        let Bounds { replicas, max_unavailable, .. } = bounds;
        let text = format!(
            "{what}: {left} Pods are left in service, and {taken} more but for others, of {replicas} \
             with maxUnavailable {max_unavailable}"
        );
        Violation::new(rule, text)
    })
}
