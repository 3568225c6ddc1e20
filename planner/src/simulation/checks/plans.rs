//! What must hold for a plan as a whole: rules 2, 3, 4, 5 and 9.

use std::collections::BTreeSet;

use super::{
    Ledger, Limits, ObservedPod, Plan, View, Wanted, count, counts_as_new, is_at, is_preparing_delete,
};
use api::kinds::cloneset::Status;

use crate::workload::action::{Action, DeleteReason, WriteReason};

impl Ledger {
    /// Looks at a plan before it is carried out.
    pub(in crate::simulation) fn review(&mut self, plan: &Plan<Status>, view: &View) {
        let wanted = Wanted::of(&view.set);
        let hooks = &view.set.spec.lifecycle;
        for hook in [&hooks.pre_delete, &hooks.in_place_update, &hooks.pre_normal].into_iter().flatten() {
            self.hook_labels.extend(hook.labels_handler.keys().cloned());
        }
        self.review_objects(plan);
        self.review_rollback(plan, view, &wanted);
        self.review_choices(plan, view, &wanted);
        self.review_creations(plan, view, &wanted);
        let is_update = |action: &Action| {
            matches!(
                action,
                Action::WritePod {
                    reason: WriteReason::UpdateInPlace | WriteReason::Recreate | WriteReason::PrepareUpdate,
                    ..
                }
            )
        };
        if wanted.is_held()
            && let Some(action) = plan.update.iter().find(|action| is_update(action))
        {
            self.report("Held", action.to_string());
        }
    }

    /// Rule 5: no object is touched twice.
    fn review_objects(&mut self, plan: &Plan<Status>) {
        let mut seen = BTreeSet::new();
        for action in plan.release.iter().chain(&plan.scale) {
            if !seen.insert(action.object()) {
                self.report("Once", format!("the plan has two actions for {}", action.object()));
            }
        }
    }

    /// Rule 3, of Pods that go back to an older revision: no more than are to be there.
    fn review_rollback(&mut self, plan: &Plan<Status>, view: &View, wanted: &Wanted<'_>) {
        let goes_back = |action: &&Action| {
            matches!(action, Action::WritePod { reason: WriteReason::UpdateInPlace | WriteReason::Recreate, revision, .. }
                if *revision != view.update_revision)
        };
        let back = i64::try_from(plan.update.iter().filter(goes_back).count()).unwrap_or(i64::MAX);
        let stays =
            |pod: &ObservedPod| wanted.owns(pod) && !wanted.leaves(pod) && !is_at(pod, &view.update_revision);
        let old = count(view.pods.iter(), stays);
        let partition = wanted.limits.partition;
        if back > 0 && old + back > partition {
            self.report(
                "Partition",
                format!("{back} Pods go back though {old} of {partition} are at older revisions"),
            );
        }
    }

    /// Rule 4.
    fn review_choices(&mut self, plan: &Plan<Status>, view: &View, wanted: &Wanted<'_>) {
        let own = || view.pods.iter().filter(|pod| wanted.owns(pod));
        let chosen = plan.scale.iter().filter(|action| match action {
            Action::DeletePod { reason, .. } => *reason == DeleteReason::ScaleIn,
            Action::WritePod { reason: WriteReason::PrepareDelete, pod, .. } => {
                !own().any(|own| *own.metadata.uid == *pod.uid && wanted.leaves(own))
            }
            _ => false,
        });
        if let (Some(action), Some(leaving)) = (chosen.clone().next(), own().find(|pod| wanted.leaves(pod))) {
            self.report("Named first", format!("{action}, while {} is to go", leaving.metadata.name));
        }
    }

    /// Rules 2 and 3.
    fn review_creations(&mut self, plan: &Plan<Status>, view: &View, wanted: &Wanted<'_>) {
        let (mut old, mut new) = (0, 0);
        for action in &plan.scale {
            if let Action::CreatePod { revision, .. } = action {
                if *revision == view.update_revision { new += 1 } else { old += 1 }
            }
        }
        if old + new == 0 {
            return;
        }
        let excludes = wanted.excludes_preparing_delete();
        let own =
            || view.pods.iter().filter(|pod| wanted.owns(pod) && !(excludes && is_preparing_delete(pod)));
        let Limits { replicas, partition, max_surge, .. } = wanted.limits;
        let total = count(own(), |_| true) + old + new;
        if total > replicas + max_surge {
            self.report(
                "Surge",
                format!("the plan makes {total} Pods of {replicas} with maxSurge {max_surge}"),
            );
        }
        let at_old = count(own(), |pod| !counts_as_new(pod, view)) + old;
        let current = &view.set.status.current_revision;
        let differs = !current.is_empty() && *current != view.update_revision;
        if differs && new > 0 && at_old < partition {
            self.report(
                "Partition",
                format!(
                    "{new} Pods are created at the newest revision while {at_old} of {partition} are older"
                ),
            );
        }
        if old > 0 && at_old > partition + max_surge {
            self.report("Partition", format!("with {old} new ones, {at_old} of {partition} Pods are older"));
        }
    }
}
