//! Where traffic goes (docs/behaviour/rollouts.md#traffic).

use std::collections::BTreeMap;
use std::time::Duration;

use api::features::Feature;
use api::kinds::Time;
use api::kinds::rollout::{ConditionType, ReleaseStatus, Status, Step, StrategyKind, TrafficRoutingRef};
use jiff::Timestamp;

use super::pass::{Halt, Pass};
use crate::object::ObjectName;
use crate::script::{CONFIGURATION, Scripts};
use crate::traffic::{self, Context, Error, Progress};
use crate::view::View;

/// How soon is looked again at what no watch shows.
pub(super) const RECHECK: Duration = Duration::from_secs(3);

impl Pass<'_> {
    pub(super) fn check_network(&mut self) -> Result<(), Halt> {
        self.change_traffic(traffic::check)
    }

    pub(super) fn patch_stable_service(&mut self) -> Result<(), Halt> {
        self.change_traffic(traffic::patch_stable_service)
    }

    pub(super) fn restore_stable_service(&mut self) -> Result<(), Halt> {
        self.change_traffic(traffic::restore_stable_service)
    }

    pub(super) fn route(&mut self, step: &Step) -> Result<(), Halt> {
        self.change_traffic(|context, view| traffic::route_step(context, step, view))
    }

    pub(super) fn route_to_stable(&mut self) -> Result<(), Halt> {
        self.change_traffic(traffic::route_to_stable)
    }

    pub(super) fn route_to_new(&mut self) -> Result<(), Halt> {
        self.change_traffic(traffic::route_to_new)
    }

    pub(super) fn remove_canary_service(&mut self) -> Result<(), Halt> {
        self.change_traffic(traffic::remove_canary_service)
    }

    /// Has traffic go somewhere, and waits until it does. Without a Service nothing is to be done.
    fn change_traffic(
        &mut self,
        change: impl FnOnce(&Context<'_>, &View) -> Result<Progress, Error>,
    ) -> Result<(), Halt> {
        let strategy = &self.rollout.spec.strategy;
        let Some(routing) = strategy.traffic_routings().first() else { return Ok(()) };
        let (scripts, owner, last_change) = (self.scripts(routing)?, self.owner(), self.last_change());
        let none = BTreeMap::new();
        let release = self.release().clone();
        let context = Context {
            owner: &owner,
            namespace: &self.rollout.metadata.namespace,
            routing,
            stable_revision: &release.stable_revision,
            canary_revision: &release.pod_template_hash,
            revision_label: self.workload.map_or("", |workload| workload.revision_label),
            patch_labels: strategy.patch_pod_template_metadata().map_or(&none, |metadata| &metadata.labels),
            append_pod_selector: self.settings.gates.enabled(Feature::AppendPodSelector),
            disable_canary_service: strategy.disable_generate_canary_service(),
            last_change,
            now: self.moment.now,
            scripts: &scripts,
        };
        let progress = change(&context, self.view);
        self.carry(progress)
    }

    fn carry(&mut self, progress: Result<Progress, Error>) -> Result<(), Halt> {
        let progress = match progress {
            Ok(progress) => progress,
            Err(Error::Unread(unread)) => return Err(Halt::Unread(unread)),
            Err(Error::Problem(problem)) => return Err(self.wait_for(RECHECK, problem)),
        };
        self.writes.extend(progress.writes);
        if progress.changed {
            self.touch();
        }
        match (progress.done, progress.message) {
            (true, None) => Ok(()),
            (true, Some(message)) => {
                self.report(message);
                Ok(())
            }
            (false, message) => {
                if let Some(again) = progress.again {
                    self.look_again(again);
                }
                Err(self.wait(message.unwrap_or_else(|| "traffic is being changed".to_owned())))
            }
        }
    }

    /// The scripts of users, where network objects need any.
    fn scripts(&self, routing: &TrafficRoutingRef) -> Result<Scripts, Halt> {
        if routing.ingress.is_none() && routing.custom_network_refs.is_empty() {
            return Ok(Scripts::default());
        }
        let name = ObjectName::new("v1", "ConfigMap", &self.settings.namespace, CONFIGURATION);
        Ok(Scripts::of(self.view.object(&name)?))
    }

    /// When traffic was last changed: since the release is where it is now, its time is only written for that.
    fn last_change(&mut self) -> Option<Timestamp> {
        let is_same = place(&self.status, self.kind) == place(&self.rollout.status, self.kind);
        let time = self.release().last_update_time.as_ref().and_then(Time::timestamp);
        time.filter(|_| is_same)
    }
}

/// Where a release stands.
fn place(status: &Status, kind: StrategyKind) -> impl PartialEq {
    let reason = status.condition(&ConditionType::Progressing).map(|condition| condition.reason.clone());
    let release = status.release(kind).map(|release| {
        let ReleaseStatus { current_step_index, current_step_state, finalising_step, .. } = release;
        (*current_step_index, current_step_state.clone(), finalising_step.clone())
    });
    (status.phase.clone(), reason, release)
}
