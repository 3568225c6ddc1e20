//! One rule of traffic for several Rollouts (docs/behaviour/rollouts.md#trafficrouting): it holds while one of them is
//! releasing, which each says by a finalizer.

use std::collections::BTreeMap;
use std::time::Duration;

use api::finalizers::{PROGRESSING_ROLLOUT_PREFIX, TRAFFIC_ROUTING};
use api::kinds::rollout::{Step, TrafficRoutingRef};
use api::kinds::trafficrouting::{API_VERSION, KIND, Phase, Status, TrafficRouting};
use kinds::workload::owner::Owner;
use serde_json::json;
use values::moment::Moment;

use crate::object::ObjectName;
use crate::plan::Plan;
use crate::script::{CONFIGURATION, Scripts};
use crate::traffic::{self, Context, Error, Progress};
use crate::view::{Unread, View};
use crate::write::Write;

#[cfg(test)]
mod tests;

/// How soon is looked again at what no watch shows.
const RECHECK: Duration = Duration::from_secs(3);

/// What to do about a TrafficRouting. `namespace` is that of the installation, which has the scripts of users.
///
/// # Errors
/// Something has not been read.
pub fn plan(
    routing: &TrafficRouting,
    view: &View,
    namespace: &str,
    moment: &Moment,
) -> Result<Plan<Status>, Unread> {
    let status = Status { observed_generation: routing.metadata.generation, ..routing.status.clone() };
    let mut pass =
        Pass { routing, view, moment, scripts: scripts(routing, view, namespace)?, plan: Plan::only(status) };
    let finalizers = &routing.metadata.finalizers;
    let is_held = finalizers.iter().any(|held| held == TRAFFIC_ROUTING);
    if routing.metadata.deletion_timestamp.is_some() {
        pass.plan.status.phase = Phase::Terminating;
        if is_held && pass.each(traffic::route_to_stable)? {
            pass.set_finalizers(finalizers.iter().filter(|held| *held != TRAFFIC_ROUTING));
            pass.plan.status = routing.status.clone();
        }
        return Ok(pass.plan);
    }
    if !is_held {
        pass.set_finalizers(finalizers.iter().chain([&TRAFFIC_ROUTING.to_owned()]));
    }
    pass.advance()?;
    Ok(pass.plan)
}

/// The scripts of users, where network objects need any.
fn scripts(routing: &TrafficRouting, view: &View, namespace: &str) -> Result<Scripts, Unread> {
    let needs_script = |reference: &TrafficRoutingRef| {
        reference.ingress.is_some() || !reference.custom_network_refs.is_empty()
    };
    if !routing.spec.object_ref.iter().any(needs_script) {
        return Ok(Scripts::default());
    }
    Ok(Scripts::of(view.object(&ObjectName::new("v1", "ConfigMap", namespace, CONFIGURATION))?))
}

struct Pass<'a> {
    routing: &'a TrafficRouting,
    view: &'a View,
    moment: &'a Moment,
    scripts: Scripts,
    plan: Plan<Status>,
}

impl Pass<'_> {
    /// Goes from phase to phase, as far as nothing is to be waited for.
    fn advance(&mut self) -> Result<(), Unread> {
        let mut finalizers = self.routing.metadata.finalizers.iter();
        let is_releasing = finalizers.any(|held| held.starts_with(PROGRESSING_ROLLOUT_PREFIX));
        loop {
            match (&self.plan.status.phase, is_releasing) {
                (Phase::Healthy, true) => self.enter(Phase::Progressing, "TrafficRouting is Progressing"),
                (Phase::Healthy, false) => return Ok(()),
                (Phase::Progressing, true) => {
                    let step = self.step();
                    self.each(|context, view| traffic::route_step(context, &step, view))?;
                    return Ok(());
                }
                (Phase::Progressing, false) => self.enter(Phase::Finalizing, "TrafficRouting is Finalizing"),
                (Phase::Finalizing, _) => {
                    if !self.each(traffic::route_to_stable)? {
                        return Ok(());
                    }
                    self.enter(Phase::Healthy, "TrafficRouting is Healthy");
                }
                _ => {
                    self.plan.status.phase = Phase::Initial;
                    if !self.each(traffic::check)? {
                        return Ok(());
                    }
                    self.enter(Phase::Healthy, "TrafficRouting is Healthy");
                }
            }
        }
    }

    fn enter(&mut self, phase: Phase, message: &str) {
        self.plan.status.phase = phase;
        message.clone_into(&mut self.plan.status.message);
    }

    /// The rule, as the step of a release.
    fn step(&self) -> Step {
        let strategy = &self.routing.spec.strategy;
        Step {
            traffic: strategy.weight.map(|weight| format!("{weight}%")),
            matches: strategy.matches.clone(),
            request_header_modifier: strategy.request_header_modifier.clone(),
            ..Step::default()
        }
    }

    /// Changes traffic at each Service. Says whether all is as it is to be.
    fn each(
        &mut self,
        change: impl Fn(&Context<'_>, &View) -> Result<Progress, Error>,
    ) -> Result<bool, Unread> {
        let owner = json!(Owner::of(API_VERSION, KIND, &self.routing.metadata));
        for routing in &self.routing.spec.object_ref {
            let context = Context {
                owner: &owner,
                namespace: &self.routing.metadata.namespace,
                routing,
                stable_revision: "",
                canary_revision: "",
                revision_label: "",
                patch_labels: &BTreeMap::new(),
                append_pod_selector: false,
                disable_canary_service: true,
                last_change: None,
                now: self.moment.now,
                scripts: &self.scripts,
            };
            let progress = match change(&context, self.view) {
                Ok(progress) => progress,
                Err(Error::Unread(unread)) => return Err(unread),
                Err(Error::Problem(message)) => Progress { message: Some(message), ..Progress::default() },
            };
            self.plan.writes.extend(progress.writes);
            if let Some(message) = progress.message {
                self.plan.status.message = message;
            }
            if !progress.done {
                self.plan.again = Some(progress.again.unwrap_or(RECHECK));
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn set_finalizers<'f>(&mut self, finalizers: impl Iterator<Item = &'f String>) {
        let metadata = &self.routing.metadata;
        let name = ObjectName::new(API_VERSION, KIND, &metadata.namespace, &metadata.name);
        let patch = json!({"metadata": {
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "finalizers": finalizers.collect::<Vec<_>>(),
        }});
        self.plan.writes.push(Write::Patch { name, subresource: "", patch });
    }
}
