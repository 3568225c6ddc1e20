//! The Pods of a CloneSet, and on which side of a rollout each counts.

use std::sync::Arc;

use api::kinds::cloneset::CloneSet;
use jiff::Timestamp;

use super::counting::{Facts, Group};
use crate::workload::member::{Member, MemberRules};
use pod::lifecycle::State;
use pod::observed::ObservedPod;
use pod::revision_labels::RevisionLabels;

/// Looks at every active Pod. The order is that of the Pods.
pub(super) fn members<'a>(
    pods: &[&'a Arc<ObservedPod>],
    set: &CloneSet,
    update_revision: &str,
    now: Timestamp,
) -> Vec<Member<'a>> {
    let rules = MemberRules {
        update_revision,
        // Both forms of the label are recognised, whatever the gate.
        labels: RevisionLabels::CloneSet { short: false },
        named: set.spec.scale_strategy.pods_to_delete.iter().map(String::as_str).collect(),
        min_ready_seconds: set.spec.min_ready_seconds.unwrap_or(0),
        now,
    };
    pods.iter().map(|pod| Member::new(pod, &rules)).collect()
}

/// The Pods counted, those at the update revision last. `prepared_is_new` counts Pods that prepare for
/// an update as updated.
pub(super) fn groups(members: &[Member<'_>], prepared_is_new: bool) -> (Group, Group) {
    let (mut old, mut new) = (Group::default(), Group::default());
    for member in members {
        let group = if counts_as_new(member, prepared_is_new) { &mut new } else { &mut old };
        group.add(Facts {
            preparing_delete: member.is_preparing_delete(),
            specified: member.is_specified,
            available: member.is_available,
            serving: member.is_serving,
        });
    }
    (old, new)
}

/// The Pod counts among those at the update revision when Pods are created or deleted.
pub(super) fn counts_as_new(member: &Member<'_>, prepared_is_new: bool) -> bool {
    member.is_updated || (prepared_is_new && member.state == Some(State::PreparingUpdate))
}
