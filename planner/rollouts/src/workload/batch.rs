//! How many Pods a batch makes new (docs/behaviour/rollouts.md#batches).

use api::kinds::rollout::Step;
use api::kinds::shared::IntOrString;
use values::percent::{Rounding, partition, scaled};

use super::{Style, Workload, WorkloadKind};

/// How many Pods are new after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch<'a> {
    /// As it is written.
    pub(crate) size: &'a IntOrString,
    /// Of all Pods.
    pub(crate) planned: i32,
    /// Those that had the new version already when a rollback in batches began included.
    pub(crate) updated: i32,
    /// How many are kept old.
    pub(crate) stable: i32,
}

impl<'a> Batch<'a> {
    /// A batch of a workload. `no_need` Pods had the new version already when a rollback in batches began.
    pub(crate) fn of(size: &'a IntOrString, workload: &Workload, no_need: Option<i32>) -> Self {
        let replicas = workload.replicas;
        let planned = planned(size, workload);
        let no_need = no_need.unwrap_or(0).clamp(0, replicas);
        let mut batch = Self { size, planned, updated: planned, stable: replicas - planned };
        if no_need > 0 {
            let taken_back = share(size, replicas - no_need);
            batch.updated = no_need + taken_back;
            // In their order the Pods that are to be taken back come first, and all the others after them.
            batch.stable =
                if workload.is_ordered() { replicas - taken_back } else { replicas - batch.updated };
        }
        if workload.kind == WorkloadKind::CloneSet && workload.style == Style::Partition {
            // A whole share may keep one Pod more.
            let kept = partition(Some(&batch.clone_set_partition(replicas)), replicas);
            let most = replicas - kept;
            (batch.planned, batch.updated) = (batch.planned.min(most), batch.updated.min(most));
        }
        batch
    }

    /// The partition of a CloneSet that keeps so many Pods old. Where the batch is a share it is a share too, which holds
    /// while the CloneSet grows; and a whole one, as every version of a CloneSet reads it.
    pub(crate) fn clone_set_partition(&self, replicas: i32) -> IntOrString {
        let IntOrString::String(size) = self.size else { return IntOrString::Int(self.stable) };
        if self.stable >= replicas {
            return IntOrString::String("100%".to_owned());
        }
        let share = i64::from(self.stable.max(0)) * 100 / i64::from(replicas.max(1));
        let keeps_none = share == 0 && self.stable > 0 && size != "100%";
        IntOrString::String(format!("{}%", if keeps_none { 1 } else { share }))
    }
}

/// How many Pods of a workload are new after a batch of this size.
pub(crate) fn planned(size: &IntOrString, workload: &Workload) -> i32 {
    match (workload.kind, workload.style) {
        // A share of less than all never makes all of several Pods new.
        (WorkloadKind::Deployment, Style::Partition | Style::BlueGreen) => {
            partition(Some(size), workload.replicas)
        }
        _ => share(size, workload.replicas),
    }
}

/// How many Pods are new after a step.
pub(crate) fn updated_after(step: &Step, workload: &Workload) -> i32 {
    step.replicas.as_ref().map_or(0, |size| Batch::of(size, workload, None).updated)
}

fn share(size: &IntOrString, replicas: i32) -> i32 {
    scaled(size, replicas, Rounding::Up).unwrap_or(0).clamp(0, replicas.max(0))
}
