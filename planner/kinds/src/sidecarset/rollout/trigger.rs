//! Which changes of Pods ask for a new plan (docs/behaviour/sidecarset.md#triggers).
//!
//! The rule is drawn from the plan itself: a change asks for a plan exactly if it changes what the plan sees
//! of the Pod. So the status is never stale, not even with type `NotUpdate`
//! (docs/behaviour/sidecarset.md#triggers).

use jiff::SignedDuration;

use super::rollout_pod::View;
use super::set::RolloutSet;
use pod::observed::ObservedPod;

/// Changes that concern the status alone are gathered for as long.
const GATHERING: SignedDuration = SignedDuration::from_secs(1);

/// When to plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The change does not concern the SidecarSet.
    Nothing,
    /// At once.
    Now,
    /// After this time; a plan that comes earlier anyhow is enough.
    After(SignedDuration),
}

/// What the change from `old` to `new` asks of a SidecarSet. `None` means a Pod that is not there:
/// before it was created, or after it was deleted. The SidecarSets to ask are those that either state
/// names ([`super::injected`]).
pub fn trigger(set: &RolloutSet, old: Option<&ObservedPod>, new: Option<&ObservedPod>) -> Trigger {
    let belonging = |pod: Option<&ObservedPod>| {
        pod.filter(|pod| set.belongs(pod).is_ok()).map(|pod| (View::of(set, pod), pod.is_ready()))
    };
    let (old, new) = (belonging(old), belonging(new));
    if old == new {
        return Trigger::Nothing;
    }
    // A rollout waits for containers, not for a clock: the one that has started is what lets the next Pod go.
    let is_held = set.strategy.never || set.strategy.paused;
    if is_held { Trigger::After(GATHERING) } else { Trigger::Now }
}
