//! How many Pods to create, to delete and to update: the whole arithmetic of a CloneSet
//! (docs/behaviour/cloneset.md#counting-pods) as one function of a few numbers.
//!
//! Invariants:
//! 1. With what it asks for, a CloneSet never has more than `replicas + maxSurge` Pods.
//! 2. With what it allows, available Pods never fall below `replicas - maxUnavailable`.

use api::kinds::cloneset::{RollingUpdate, Spec};
use api::kinds::shared::{IntOrString, UpdateStrategyType};

use crate::workload::allowance::Allowance;
use values::percent::{self, Rounding};

#[cfg(test)]
mod tests;

/// What the CloneSet asks for, as numbers of Pods (docs/behaviour/cloneset.md#numbers-and-percentages).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Pods wanted.
    pub replicas: i64,
    /// Pods that stay at older revisions.
    pub partition: i64,
    /// Pods that may exist beyond `replicas` while Pods are replaced; 0 while paused, and for `OnDelete`,
    /// which replaces nothing by itself.
    pub max_surge: i64,
    /// Pods that may be unavailable.
    pub max_unavailable: i64,
    /// Pods that may be unavailable while Pods are added; no limit where there is none.
    pub scale_max_unavailable: Option<i64>,
}

impl Limits {
    /// The numbers that `spec` means. What can't be read counts as 0.
    pub fn of(spec: &Spec) -> Self {
        let replicas = replicas(spec);
        let rolling = &spec.update_strategy.rolling_update;
        let on_delete = is_on_delete(spec);
        let surges = !rolling.paused && !on_delete;
        let max_surge = if surges { named_surge(spec) } else { 0 };
        let max_unavailable = if *rolling == RollingUpdate::default() && on_delete {
            let default = IntOrString::String("20%".to_owned());
            percent::scaled(&default, replicas, Rounding::Down).unwrap_or(0)
        } else {
            percent::max_unavailable(rolling.max_unavailable.as_ref(), replicas, max_surge)
        };
        let scale = percent::scale_max_unavailable(spec.scale_strategy.max_unavailable.as_ref(), replicas);
        Self {
            replicas: replicas.into(),
            partition: percent::partition(rolling.partition.as_ref(), replicas).into(),
            max_surge: max_surge.into(),
            max_unavailable: max_unavailable.into(),
            scale_max_unavailable: scale.map(i64::from),
        }
    }
}

/// The `maxSurge` of the spec, whether it is in force or not.
pub(super) fn named_surge(spec: &Spec) -> i32 {
    percent::max_surge(spec.update_strategy.rolling_update.max_surge.as_ref(), replicas(spec))
}

/// The number of Pods wanted: 1 where none is given.
pub(crate) fn replicas(spec: &Spec) -> i32 {
    spec.replicas.unwrap_or(1).max(0)
}

/// Pods wait until somebody deletes them.
pub(crate) fn is_on_delete(spec: &Spec) -> bool {
    spec.update_strategy.kind == Some(UpdateStrategyType::OnDelete)
}

/// Pods of one side, those at the update revision or the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// All of them.
    pub count: i64,
    /// Those in state `PreparingDelete`.
    pub preparing_delete: i64,
    /// All but those in `PreparingDelete`.
    pub active: i64,
    /// Active ones that are to be deleted.
    pub specified: i64,
    /// Of these, such as are not available.
    pub specified_unavailable: i64,
    /// Active ones that are not to be deleted and are not available.
    pub unavailable: i64,
    /// Active ones that serve, for too short a time to be available.
    pub waiting: i64,
}

/// What one Pod counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// It is in state `PreparingDelete`.
    pub preparing_delete: bool,
    /// It is to be deleted, by its name or its label.
    pub specified: bool,
    /// It is available.
    pub available: bool,
    /// It serves, available or not.
    pub serving: bool,
}

impl Group {
    /// Counts one more Pod.
    pub fn add(&mut self, facts: Facts) {
        self.count += 1;
        if facts.preparing_delete {
            self.preparing_delete += 1;
            return;
        }
        self.active += 1;
        self.waiting += i64::from(facts.serving && !facts.available);
        if facts.specified {
            self.specified += 1;
            self.specified_unavailable += i64::from(!facts.available);
        } else if !facts.available {
            self.unavailable += 1;
        }
    }
}

/// What the arithmetic reads beside the Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// What is asked for.
    pub limits: Limits,
    /// Pods may go back to the current revision: it differs from the update revision, and the gate
    /// `CloneSetPartitionRollback` is on.
    pub rollback: bool,
    /// Pods in `PreparingDelete` do not count when Pods are added.
    pub exclude_preparing_delete: bool,
    /// The update takes no Pod out of service, and asks for none beyond `replicas`.
    pub keeps_serving: bool,
}

/// The answer. All numbers but `update` and `update_limit` are at least 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Pods wanted beyond `replicas` for now.
    pub surge: i64,
    /// Of these, such as are at older revisions.
    pub surge_old: i64,
    /// Pods missing.
    pub up: i64,
    /// Of the missing ones, such as are to be created at the current revision; may exceed `up`.
    pub up_old: i64,
    /// Pods to create now, because of `scaleStrategy.maxUnavailable`.
    pub up_limit: i64,
    /// Pods too many, beside those that are to be deleted anyway.
    pub down: i64,
    /// Of these, such as are at older revisions.
    pub down_old: i64,
    /// Available Pods that may be deleted now.
    pub ready_limit: i64,
    /// Pods that are available, or serve on the side that is being left, of which so many may be deleted now.
    pub proven_limit: i64,
    /// Pods that serve, for long enough to be available or not yet, of which so many may be deleted now.
    pub serving_limit: i64,
    /// Pods to update to the update revision or, where negative, back to the current one.
    pub update: i64,
    /// Pods that may be unavailable while updating; may be negative.
    pub update_limit: i64,
    /// Pods go back to the current revision: those at the update revision served before, not the others.
    pub goes_back: bool,
}

impl Difference {
    /// What may be deleted now.
    pub fn allowance(&self) -> Allowance {
        let Self { ready_limit, proven_limit, serving_limit, .. } = *self;
        Allowance { available: ready_limit, proven: proven_limit, serving: serving_limit }
    }

    /// Pods of this side served before the rollout, which leads away from them.
    pub fn is_left(&self, is_old: bool) -> bool {
        is_old != self.goes_back
    }
}

impl Question {
    /// Compares what is wanted with the Pods at the update revision (`new`) and the others (`old`).
    pub fn answer(&self, old: Group, new: Group) -> Difference {
        let Limits { replicas, partition, max_unavailable, .. } = self.limits;
        let mut old_diff = old.active - partition;
        let mut new_diff = new.active - (replicas - partition);
        let (old_all, new_all) = (old_diff, new_diff);
        if !self.rollback {
            old_diff = old_diff.max(0);
            new_diff = new_diff.min(0);
        }
        let unavailable = new.preparing_delete + old.preparing_delete + new.unavailable + old.unavailable;
        let specified = new.specified + old.specified;
        // OpenKruise leaves these out, and then deletes an available Pod beside one that is broken and to be
        // deleted too.
        let leaving_broken = new.specified_unavailable + old.specified_unavailable;
        let pods = old.count + new.count;
        let ready = max_unavailable + pods - replicas - unavailable - leaving_broken;
        // The side that is being left is the one that has the larger surplus. Named Pods are in it: those that are
        // recreated there are named. Without a partition no Pod returns; where it keeps all Pods, all new ones do.
        let goes_back = self.rollback && partition > 0 && (new_all > old_all || partition >= replicas);
        let (left, target) = if goes_back { (new, old) } else { (old, new) };
        let proven = ready + left.waiting;
        let surplus = (pods - replicas).max(0);
        let held = (surplus - proven).clamp(0, surplus);
        let (surge, surge_old) =
            self.surge(held, unavailable, new.specified, specified, (old_diff, new_diff));

        let (mut total, mut total_old) = (pods, old.count);
        if self.exclude_preparing_delete {
            total -= new.preparing_delete + old.preparing_delete;
            total_old -= old.preparing_delete;
        }
        let (want, want_old) = (replicas + surge, partition + surge_old);
        let up = (want - total).max(0);
        let allowed = self.limits.scale_max_unavailable.map_or(up, |limit| (limit - unavailable).max(0));
        let down = (total - specified - want).max(0);
        let (mut old_stay, mut new_stay) = (old_all - old.specified, new_all - new.specified);
        if !self.rollback {
            old_stay = old_stay.max(0);
            new_stay = new_stay.min(0);
        }
        let update = match old_stay.signum() * new_stay.signum() {
            -1 if old_stay.abs() <= new_stay.abs() => old_stay,
            -1 => -new_stay,
            // Pods are missing, or too many, on both sides: that is for scaling to settle.
            _ => 0,
        };
        let deletes = specified > 0 || down > 0;
        let limit = |number: i64| if deletes { number.max(0) } else { 0 };
        Difference {
            surge,
            surge_old,
            up,
            up_old: if up > 0 { (want_old - total_old).max(0) } else { 0 },
            up_limit: up.min(allowed),
            down,
            down_old: if down > 0 { (total_old - old.specified - want_old).max(0) } else { 0 },
            ready_limit: limit(ready),
            proven_limit: limit(proven),
            serving_limit: limit(proven + target.waiting),
            update,
            update_limit: if update != 0 { max_unavailable + pods - replicas } else { 0 },
            goes_back,
        }
    }

    /// Pods wanted beyond `replicas`, and how many of them at older revisions: as many as are to be
    /// replaced, by a deletion that the budget does not bear, or by an update. An update also keeps `held`, the Pods
    /// that are there beyond `replicas` in place of unavailable ones.
    fn surge(
        &self,
        held: i64,
        unavailable: i64,
        specified_new: i64,
        specified: i64,
        (old_diff, new_diff): (i64, i64),
    ) -> (i64, i64) {
        let Limits { max_surge, max_unavailable, .. } = self.limits;
        if max_surge <= 0 {
            return (0, 0);
        }
        let for_scale = (unavailable + specified - max_unavailable).clamp(0, specified);
        let for_scale_old = (for_scale - specified_new).max(0);
        let (mut for_update, mut for_update_old) = (0, 0);
        if old_diff.signum() * new_diff.signum() == -1 && !self.keeps_serving {
            for_update = held + old_diff.abs().min(new_diff.abs());
            let goes_back = if old_diff.abs() <= new_diff.abs() { old_diff < 0 } else { new_diff > 0 };
            for_update_old = if goes_back { for_update } else { 0 };
        }
        let (wanted, wanted_old) =
            if for_scale >= for_update { (for_scale, for_scale_old) } else { (for_update, for_update_old) };
        let surge = max_surge.min(wanted);
        (surge, surge.min(wanted_old))
    }
}
