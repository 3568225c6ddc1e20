//! What must never happen by the controller's own doing, and where a CloneSet must come to.
//!
//! A call is judged by what it does to the Pods as they are, and by what its plan could know. Pods that
//! served when the plan was made and that users or faults took since are not held against it.
//!
//! 1. *Budget.* Taking an available Pod away leaves `replicas - maxUnavailable` available ones.
//! 2. *Surge.* A Pod is created only while there are fewer than `replicas + maxSurge`.
//! 3. *Partition.* An update, or a scale-in, leaves `partition` Pods at older revisions; a new Pod is made
//!    from the newest revision only if they are there.
//! 4. *Named first.* No Pod is chosen for deletion while one that is to be deleted is there; what goes as
//!    named is named.
//! 5. *Once.* No Pod is deleted twice; a scale-in leaves `replicas` Pods; no two Pods share an instance id.
//! 6. *Claims.* No claim of a Pod that lives is deleted; in the end every claim has its Pod, or waits for
//!    one, where claims are reused, since others took its Pod.
//! 7. *In place.* A change that a running Pod can take does not recreate it.
//! 8. *Order.* Containers change in the order of their launch priority.
//! 9. *Held.* Nothing is updated while the CloneSet is paused or of type OnDelete; nothing is deleted that
//!    its preDelete hook holds.
//! 10. *Rest.* When users and faults have come to an end, so does the controller, and every Pod is where it
//!     belongs, and is what its revision says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use api::conditions::IN_PLACE_UPDATE_READY;
use api::kinds::cloneset::CloneSet;
use api::kinds::shared::{PodUpdatePolicy, UpdateStrategyType};
use api::labels::{CLONESET_INSTANCE_ID, CONTROLLER_REVISION_HASH, LIFECYCLE_STATE, SPECIFIED_DELETE};
use jiff::Timestamp;

use super::controller::View;
use super::server::Server;
use super::timeline::{Actor, Look};
use crate::kinds::cloneset::counting::Limits;
use crate::pod::lifecycle::hooked;
use crate::pod::observed::ObservedPod;
use crate::text::selector::Selector;
use crate::workload::action::{Action, DeleteReason, WriteReason};
use crate::workload::children::Claim;
use crate::workload::plan::Plan;
use crate::workload::revision::short_hash;

mod in_place;
mod plans;
mod rest;

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule, by the word that begins its description.
    pub rule: &'static str,
    /// What happened.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.rule, self.text)
    }
}

/// Who took what, and which rules were broken.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) violations: Vec<Violation>,
    /// Who last made a Pod serve, exist, or stay where it is no longer, by its identity.
    lost_by: BTreeMap<Box<str>, Actor>,
    /// Instance ids of Pods that the controller deleted.
    deleted: BTreeSet<Box<str>>,
    /// Labels that hooks of the CloneSet ever named: they come and go.
    hook_labels: BTreeSet<String>,
}

/// The Pod counts as available (spec 31 §6.2).
fn is_available(pod: &ObservedPod, min_ready_seconds: i32, now: Timestamp) -> bool {
    is_serving(pod) && pod.is_ready_for(min_ready_seconds, now)
}

/// Available but for `minReadySeconds`.
fn is_serving(pod: &ObservedPod) -> bool {
    pod.is_active()
        && &*pod.status.phase == "Running"
        && pod.is_ready()
        && pod.condition(IN_PLACE_UPDATE_READY).is_none_or(|condition| &*condition.status == "True")
        && matches!(pod.label(LIFECYCLE_STATE), None | Some("" | "Normal"))
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

/// What a CloneSet asks for, as the checks need it.
struct Wanted<'a> {
    set: &'a CloneSet,
    selector: Option<Selector>,
    limits: Limits,
    min_ready_seconds: i32,
}

impl<'a> Wanted<'a> {
    fn of(set: &'a CloneSet) -> Self {
        Self {
            set,
            selector: Selector::compile(&set.spec.selector).ok(),
            limits: Limits::of(&set.spec),
            min_ready_seconds: set.spec.min_ready_seconds.unwrap_or(0),
        }
    }

    /// The Pod is active and belongs to the CloneSet.
    fn owns(&self, pod: &ObservedPod) -> bool {
        pod.is_active()
            && pod.controller().is_some_and(|owner| owner.uid == self.set.metadata.uid)
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.metadata.labels))
    }

    fn names(&self, pod: &ObservedPod) -> bool {
        pod.label(SPECIFIED_DELETE).is_some()
            || self.set.spec.scale_strategy.pods_to_delete.iter().any(|name| **name == *pod.metadata.name)
    }

    /// The Pod leaves, or is to leave.
    fn leaves(&self, pod: &ObservedPod) -> bool {
        is_preparing_delete(pod) || self.names(pod)
    }

    fn is_held(&self) -> bool {
        let strategy = &self.set.spec.update_strategy;
        strategy.rolling_update.paused || strategy.kind == Some(UpdateStrategyType::OnDelete)
    }

    fn excludes_preparing_delete(&self) -> bool {
        self.set.spec.scale_strategy.exclude_preparing_delete
    }
}

fn is_preparing_delete(pod: &ObservedPod) -> bool {
    pod.label(LIFECYCLE_STATE) == Some("PreparingDelete")
}

fn is_at(pod: &ObservedPod, revision: &str) -> bool {
    pod.label(CONTROLLER_REVISION_HASH).is_some_and(|label| short_hash(label) == short_hash(revision))
}

/// At the newest revision as scaling sees it (spec 31 §9.1).
fn counts_as_new(pod: &ObservedPod, view: &View) -> bool {
    let is_prepared = pod.label(LIFECYCLE_STATE) == Some("PreparingUpdate");
    is_at(pod, &view.update_revision) || (view.prepared_is_new && is_prepared)
}

fn count<'p>(pods: impl Iterator<Item = &'p Arc<ObservedPod>>, counts: impl Fn(&ObservedPod) -> bool) -> i64 {
    i64::try_from(pods.filter(|pod| counts(pod)).count()).unwrap_or(i64::MAX)
}

impl Ledger {
    /// A Pod changed.
    pub(super) fn observe(
        &mut self,
        actor: Actor,
        before: &ObservedPod,
        after: &ObservedPod,
        set: &CloneSet,
    ) {
        let ends = before.is_active() && !after.is_active();
        let selecting = set.spec.selector.match_labels.iter().flatten().map(|(key, _)| key.as_str());
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

    fn report(&mut self, rule: &'static str, text: String) {
        self.violations.push(Violation { rule, text });
    }

    /// Pods that the plan saw as `counts` says, and that are so no longer because of others.
    fn taken_by_others(
        &self,
        view: &View,
        server: &Server,
        wanted: &Wanted<'_>,
        counts: impl Fn(&ObservedPod) -> bool,
    ) -> i64 {
        count(view.pods.iter(), |seen| {
            let counted = |pod: &ObservedPod| wanted.owns(pod) && counts(pod);
            let now = server.pod(&seen.metadata.name, &seen.metadata.uid);
            counted(seen)
                && !now.is_some_and(|pod| counted(pod))
                && self.lost_by.get(&seen.metadata.uid) != Some(&Actor::Kutter)
        })
    }

    /// Rule 1, after an available Pod was taken away.
    fn judge_budget(&mut self, view: &View, server: &Server, what: &str) {
        let wanted = Wanted::of(&view.set);
        let serves = |pod: &ObservedPod| is_available(pod, wanted.min_ready_seconds, view.now);
        let left = count(server.pods.values(), |pod| wanted.owns(pod) && serves(pod));
        let taken = self.taken_by_others(view, server, &wanted, serves);
        let Limits { replicas, max_unavailable, .. } = wanted.limits;
        if left + taken < replicas - max_unavailable {
            self.report(
                "Budget",
                format!(
                    "{what}: {left} Pods are left available, and {taken} more but for others, of {replicas} \
                     with maxUnavailable {max_unavailable}"
                ),
            );
        }
    }

    /// Rule 3, after a Pod that is not new was taken away or led to the newest revision.
    fn judge_partition(
        &mut self,
        view: &View,
        server: &Server,
        is_new: impl Fn(&ObservedPod) -> bool,
        what: &str,
    ) {
        let wanted = Wanted::of(&view.set);
        let stays = |pod: &ObservedPod| !is_new(pod) && !wanted.leaves(pod);
        let left = count(server.pods.values(), |pod| wanted.owns(pod) && stays(pod));
        let taken = self.taken_by_others(view, server, &wanted, stays);
        let partition = wanted.limits.partition;
        if left + taken < partition {
            self.report(
                "Partition",
                format!("{what}: {left} Pods stay at older revisions, and {taken} more but for others; {partition} should"),
            );
        }
    }

    pub(super) fn judge_creation(&mut self, view: &View, pod: &ObservedPod, server: &Server) {
        let wanted = Wanted::of(&view.set);
        let name = &pod.metadata.name;
        let excludes = wanted.excludes_preparing_delete();
        let total =
            count(server.pods.values(), |pod| wanted.owns(pod) && !(excludes && is_preparing_delete(pod)));
        let Limits { replicas, max_surge, .. } = wanted.limits;
        if total > replicas + max_surge {
            self.report(
                "Surge",
                format!("with Pod {name} there are {total} of {replicas} with maxSurge {max_surge}"),
            );
        }
        let id = pod.label(CLONESET_INSTANCE_ID);
        let twins = server.pods.values().filter(|other| {
            other.is_active()
                && other.metadata.uid != pod.metadata.uid
                && other.label(CLONESET_INSTANCE_ID) == id
        });
        if let Some(twin) = twins.map(|twin| twin.metadata.name.clone()).next() {
            self.report("Once", format!("Pods {name} and {twin} have the same instance id"));
        }
    }

    pub(super) fn judge_deletion(
        &mut self,
        view: &View,
        action: Option<&Action>,
        before: &ObservedPod,
        server: &Server,
    ) {
        let name = &before.metadata.name;
        if before.metadata.deletion_timestamp.is_some() {
            self.report("Once", format!("Pod {name} is deleted a second time"));
        }
        let wanted = Wanted::of(&view.set);
        self.lost_by.insert(before.metadata.uid.clone(), Actor::Kutter);
        self.deleted.extend(before.label(CLONESET_INSTANCE_ID).map(Box::from));
        if hooked(wanted.set.spec.lifecycle.pre_delete.as_ref(), &before.metadata) {
            self.report("Held", format!("Pod {name} is deleted, which its hook holds"));
        }
        if wanted.owns(before) && is_available(before, wanted.min_ready_seconds, view.now) {
            self.judge_budget(view, server, &format!("deletes Pod {name}"));
        }
        let Some(Action::DeletePod { reason, .. }) = action else { return };
        let holds = match reason {
            DeleteReason::ScaleIn => {
                self.judge_scale_in(view, before, server);
                true
            }
            DeleteReason::Specified => wanted.names(before),
            DeleteReason::Released => is_preparing_delete(before),
        };
        if !holds {
            self.report("Named first", format!("Pod {name} is deleted as {reason:?}, which it is not"));
        }
    }

    /// Rules 3 and 5, after a Pod was chosen since there were too many.
    fn judge_scale_in(&mut self, view: &View, before: &ObservedPod, server: &Server) {
        let wanted = Wanted::of(&view.set);
        let name = &before.metadata.name;
        let stays = |pod: &ObservedPod| !is_preparing_delete(pod);
        let left = count(server.pods.values(), |pod| wanted.owns(pod) && stays(pod));
        let taken = self.taken_by_others(view, server, &wanted, stays);
        if left + taken < wanted.limits.replicas {
            self.report(
                "Once",
                format!(
                    "Pod {name} is one too many to go: {left} are left, and {taken} more but for others, of {}",
                    wanted.limits.replicas
                ),
            );
        }
        let is_new = |pod: &ObservedPod| counts_as_new(pod, view);
        if !is_new(before) {
            self.judge_partition(view, server, is_new, &format!("scales in Pod {name}"));
        }
    }

    pub(super) fn judge_claim(&mut self, claim: &Claim, server: &Server) {
        let id = claim.metadata.labels.get(CLONESET_INSTANCE_ID);
        let mut users =
            server.pods.values().filter(|pod| pod.is_active() && pod.label(CLONESET_INSTANCE_ID) == id);
        if let Some(user) = users.next() {
            let (claim, user) = (&claim.metadata.name, user.metadata.name.clone());
            self.report("Claims", format!("claim {claim} of Pod {user} is deleted"));
        }
    }

    pub(super) fn judge_write(
        &mut self,
        view: &View,
        action: Option<&Action>,
        (before, after): (&Arc<ObservedPod>, &Arc<ObservedPod>),
        server: &Server,
    ) {
        let wanted = Wanted::of(&view.set);
        let name = &before.metadata.name;
        let Some(Action::WritePod { reason, revision, .. }) = action else { return };
        let takes =
            matches!(reason, WriteReason::UpdateInPlace | WriteReason::Recreate | WriteReason::PrepareDelete);
        if takes {
            self.lost_by.insert(before.metadata.uid.clone(), Actor::Kutter);
        }
        let available =
            |pod: &ObservedPod| is_available(pod, wanted.min_ready_seconds, view.now) && wanted.owns(pod);
        if *reason != WriteReason::Release && available(before) && !available(after) {
            self.lost_by.insert(before.metadata.uid.clone(), Actor::Kutter);
            self.judge_budget(view, server, &format!("writes to Pod {name} ({reason:?})"));
        }
        if matches!(reason, WriteReason::UpdateInPlace | WriteReason::Recreate)
            && *revision == view.update_revision
        {
            let is_new = |pod: &ObservedPod| is_at(pod, &view.update_revision);
            self.judge_partition(view, server, is_new, &format!("updates Pod {name}"));
        }
        if *reason == WriteReason::PrepareDelete && !wanted.names(before) && !is_preparing_delete(before) {
            self.judge_scale_in(view, before, server);
        }
        if *reason == WriteReason::Recreate {
            self.judge_recreation(view, before, server, revision);
        }
        self.judge_order(before, after);
    }
}
