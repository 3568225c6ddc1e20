//! How many Pods may be taken out of service now. A Pod that serves is never taken away in favour of one that is not
//! available yet: a longer `minReadySeconds` makes no Pod broken
//! (docs/behaviour/in-place-update.md#which-pods-may-be-taken-out-of-service).

use super::member::Member;

/// So many Pods of each sort may go before too few of it are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Available Pods.
    pub available: i64,
    /// Proven ones: those that are available, and those that serve at a revision from which the rollout leads away.
    pub proven: i64,
    /// All that serve.
    pub serving: i64,
}

impl Allowance {
    /// What may go of these Pods while `floor` of them stay. Each Pod comes with whether the rollout leads away
    /// from its revision.
    pub(crate) fn above<'m, 'a: 'm>(
        floor: i64,
        members: impl Iterator<Item = (&'m Member<'a>, bool)>,
    ) -> Self {
        let mut allowance = Self { available: -floor, proven: -floor, serving: -floor };
        for (member, is_left) in members {
            allowance.add(member, is_left, 1);
        }
        allowance
    }

    /// Takes the Pod out of service, if it may go; false where it has to stay. What serves nobody may always go.
    pub(crate) fn take(&mut self, member: &Member<'_>, is_left: bool) -> bool {
        let left = match (member.is_available, is_left) {
            _ if !member.is_serving => return true,
            (true, _) => self.available,
            (false, true) => self.proven,
            (false, false) => self.serving,
        };
        if left > 0 {
            self.add(member, is_left, -1);
        }
        left > 0
    }

    fn add(&mut self, member: &Member<'_>, is_left: bool, number: i64) {
        if member.is_serving {
            self.serving += number;
            self.proven += if member.is_available || is_left { number } else { 0 };
            self.available += if member.is_available { number } else { 0 };
        }
    }
}
