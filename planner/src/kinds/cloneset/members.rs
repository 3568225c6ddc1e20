//! A Pod of a CloneSet, looked at once: everything that the steps of a plan ask about it.

use std::collections::HashSet;
use std::sync::Arc;

use api::kinds::cloneset::CloneSet;
use api::labels::{CLONESET_INSTANCE_ID, SPECIFIED_DELETE};
use jiff::{SignedDuration, Timestamp};

use super::REVISION_LABELS;
use super::counting::{Facts, Group};
use crate::pod::inplace::readiness::gate_is_open;
use crate::pod::lifecycle::{State, is_normal};
use crate::pod::observed::ObservedPod;

/// An active Pod of the CloneSet.
#[derive(Clone, Debug)]
pub(super) struct Member<'a> {
    pub(super) pod: &'a Arc<ObservedPod>,
    /// Its lifecycle state, if it has one.
    pub(super) state: Option<State>,
    /// At the update revision.
    pub(super) is_updated: bool,
    /// It is to be deleted, by its name or its label.
    pub(super) is_specified: bool,
    /// Running, ready, and not under update in place.
    pub(super) is_ready: bool,
    /// Ready, and its lifecycle state does not hold it back: available but for `minReadySeconds`.
    pub(super) is_serving: bool,
    /// Serving, and ready for `minReadySeconds`.
    pub(super) is_available: bool,
    /// When a Pod that is serving becomes available.
    pub(super) available_at: Option<Timestamp>,
}

impl<'a> Member<'a> {
    fn new(pod: &'a Arc<ObservedPod>, context: &Context<'_>) -> Self {
        let is_ready = &*pod.status.phase == "Running" && pod.is_ready() && gate_is_open(pod);
        let is_serving = is_ready && is_normal(pod);
        let is_available = is_serving && pod.is_ready_for(context.min_ready_seconds, context.now);
        let waits = is_serving && !is_available;
        let since = pod.condition("Ready").and_then(|ready| ready.last_transition_time);
        let wanted = SignedDuration::from_secs(context.min_ready_seconds.into());
        Self {
            pod,
            state: State::of(pod),
            is_updated: REVISION_LABELS.is_at(pod, context.update_revision),
            is_specified: pod.label(SPECIFIED_DELETE).is_some()
                || context.named.contains(&*pod.metadata.name),
            is_ready,
            is_serving,
            is_available,
            available_at: since.filter(|_| waits).and_then(|since| since.checked_add(wanted).ok()),
        }
    }

    pub(super) fn name(&self) -> &'a str {
        &self.pod.metadata.name
    }

    /// The id that the Pod shares with its claims.
    pub(super) fn instance_id(&self) -> Option<&'a str> {
        self.pod.label(CLONESET_INSTANCE_ID)
    }

    pub(super) fn is_preparing_delete(&self) -> bool {
        self.state == Some(State::PreparingDelete)
    }

    /// It goes as soon as it may: the CloneSet waits for that and need not choose another one.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_specified || self.is_preparing_delete()
    }

    pub(super) fn facts(&self) -> Facts {
        Facts {
            preparing_delete: self.is_preparing_delete(),
            specified: self.is_specified,
            available: self.is_available,
        }
    }
}

struct Context<'s> {
    update_revision: &'s str,
    named: HashSet<&'s str>,
    min_ready_seconds: i32,
    now: Timestamp,
}

/// Looks at every active Pod. The order is that of the Pods.
pub(super) fn members<'a>(
    pods: &[&'a Arc<ObservedPod>],
    set: &CloneSet,
    update_revision: &str,
    now: Timestamp,
) -> Vec<Member<'a>> {
    let context = Context {
        update_revision,
        named: set.spec.scale_strategy.pods_to_delete.iter().map(String::as_str).collect(),
        min_ready_seconds: set.spec.min_ready_seconds.unwrap_or(0),
        now,
    };
    pods.iter().map(|pod| Member::new(pod, &context)).collect()
}

/// The Pods counted, those at the update revision last. `prepared_is_new` counts Pods that prepare for
/// an update as updated.
pub(super) fn groups(members: &[Member<'_>], prepared_is_new: bool) -> (Group, Group) {
    let (mut old, mut new) = (Group::default(), Group::default());
    for member in members {
        let group = if counts_as_new(member, prepared_is_new) { &mut new } else { &mut old };
        group.add(member.facts());
    }
    (old, new)
}

/// The classifier of the scale step (spec 31 §6.2).
pub(super) fn counts_as_new(member: &Member<'_>, prepared_is_new: bool) -> bool {
    member.is_updated || (prepared_is_new && member.state == Some(State::PreparingUpdate))
}
