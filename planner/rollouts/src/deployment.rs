//! Rolls a Deployment as far as its release allows (docs/behaviour/rollouts.md#the-deployment-controller). A release holds
//! the Deployment paused and of type Recreate. Kubernetes' own controller then writes its status, notes revisions, and
//! keeps the one ReplicaSet that has Pods as large as the Deployment; with Pods in two of them it leaves their sizes
//! alone, and these are decided here.
//!
//! ```text
//!   strategy   what the release allows: its annotation, as numbers of Pods
//!   sets       the ReplicaSets, of which one has the present template
//!   sizes      how large each of them is to be next
//!   new_set    the ReplicaSet of a new template
//!   event      what is reported
//! ```

use api::annotations::{DEPLOYMENT_EXTRA_STATUS, LAST_APPLIED};
use kinds::workload::resolved::DEPLOYMENT_REVISION;
use serde_json::{Value, json};

use crate::draft::Draft;
use crate::object::{Object as _, ObjectName};
use crate::plan::Plan;
use crate::view::{Unread, View};
use crate::write::Write;
use sets::{Set, Sets};
use strategy::{Limits, Strategy};

mod event;
mod new_set;
mod sets;
mod sizes;
mod strategy;
#[cfg(test)]
mod tests;

pub use event::create_failed;
pub use new_set::template_hash;
pub(crate) use sets::template_of;
pub use sets::{replica_sets, same_template};
pub(crate) use strategy::hold_strategy;

/// The API version of Deployments and ReplicaSets.
const APPS: &str = "apps/v1";
/// How many Pods the Deployment had when its ReplicaSet got its size. Kubernetes takes a difference as a sign that somebody
/// has scaled the Deployment.
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// How many Pods the Deployment could have at most then, by which Kubernetes scales in proportion.
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a Deployment that its ReplicaSets do not take over.
const OWN: [&str; 6] = [
    LAST_APPLIED,
    DEPLOYMENT_REVISION,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deployment.kubernetes.io/revision-history",
    "deprecated.deployment.rollback.to",
];

/// Settings of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The MutatingWebhookConfiguration that keeps held Deployments paused.
    pub webhook_configuration: String,
}

/// What is to be done about a Deployment; `None` where no release holds it.
///
/// # Errors
/// Something that the plan needs has not been read.
pub fn plan(deployment: &Value, view: &View, settings: &Settings) -> Result<Option<Plan<()>>, Unread> {
    let Some(strategy) = Strategy::of(deployment) else { return Ok(None) };
    let mut plan = Plan::only(());
    let is_recreate = deployment.text("/spec/strategy/type") == "Recreate";
    if !is_guarded(view, settings)? {
        if is_recreate {
            plan.writes.push(released(deployment, &strategy));
            plan.events.push(event::unguarded(&settings.webhook_configuration));
        }
        return Ok(Some(plan));
    }
    if !is_recreate {
        let name = deployment_name(deployment);
        let mut draft = Draft::of(&name, deployment);
        hold_strategy(draft.edit(), false);
        plan.writes.extend(draft.into_write());
        return Ok(Some(plan));
    }
    if sets::selects_all(deployment) {
        plan.events.push(event::selecting_all());
        return Ok(Some(plan));
    }
    let limits = strategy.limits(deployment);
    let sets = Sets::read(deployment, view)?;
    let sizes = sizes::next(&limits, &sets);
    match &sets.new {
        Some(set) => resize(&mut plan, set, sizes.new, &limits),
        None if sizes.new > 0 => {
            if let Some(set) = new_set::new_set(deployment, &sets, &limits, sizes.new, view)? {
                plan.events.push(event::scaled(set.name(), 0, sizes.new));
                plan.writes.push(Write::Create { name: sets::name_of(&set), object: set });
            }
        }
        None => {}
    }
    for (set, size) in sets.old.iter().zip(&sizes.old) {
        resize(&mut plan, set, *size, &limits);
    }
    plan.writes.extend(extra_status(deployment, &sets, &limits));
    Ok(Some(plan))
}

/// The webhook is in force without which anybody could let the Deployment go.
fn is_guarded(view: &View, settings: &Settings) -> Result<bool, Unread> {
    const VERSION: &str = "admissionregistration.k8s.io/v1";
    let name = ObjectName::new(VERSION, "MutatingWebhookConfiguration", "", &settings.webhook_configuration);
    Ok(view.object(&name)?.is_some_and(|configuration| !configuration.is_deleting()))
}

/// Gives the Deployment its own way to update back: one of type Recreate that somebody lets go loses all its Pods at once.
fn released(deployment: &Value, strategy: &Strategy) -> Write {
    let rolling_update = strategy.rolling_update();
    let patch = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling_update}}});
    Write::patch(&deployment_name(deployment), deployment, patch)
}

fn deployment_name(deployment: &Value) -> ObjectName {
    ObjectName::new(APPS, "Deployment", deployment.text("/metadata/namespace"), deployment.name())
}

/// Changes the size of a ReplicaSet, and its notes about the Deployment, where they differ.
fn resize(plan: &mut Plan<()>, set: &Set<'_>, size: i64, limits: &Limits) {
    let is_scaled = size != set.replicas;
    let noted = set.object.annotation(DESIRED_REPLICAS);
    // Notes of a ReplicaSet without Pods are not read.
    if !is_scaled && (size == 0 || noted == Some(&*limits.replicas.to_string())) {
        return;
    }
    let patch = json!({"metadata": {"annotations": notes(limits)}, "spec": {"replicas": size}});
    plan.writes.push(Write::patch(&sets::name_of(set.object), set.object, patch));
    plan.events.extend(is_scaled.then(|| event::scaled(set.object.name(), set.replicas, size)));
}

/// What a ReplicaSet notes of the size of its Deployment.
fn notes(limits: &Limits) -> Value {
    let most = limits.replicas + limits.surge;
    json!({DESIRED_REPLICAS: limits.replicas.to_string(), MAX_REPLICAS: most.to_string()})
}

/// Says how far the Deployment is, where what it says differs.
fn extra_status(deployment: &Value, sets: &Sets<'_>, limits: &Limits) -> Option<Write> {
    let ready = sets.new.as_ref().map_or(0, |set| set.ready);
    let status = json!({"updatedReadyReplicas": ready, "expectedUpdatedReplicas": limits.expected});
    let known: Option<Value> =
        deployment.annotation(DEPLOYMENT_EXTRA_STATUS).and_then(|text| serde_json::from_str(text).ok());
    let is_known = known.is_some_and(|known| {
        // Go leaves out what is 0.
        ["/updatedReadyReplicas", "/expectedUpdatedReplicas"]
            .iter()
            .all(|field| known.number(field).unwrap_or(0) == status.number(field).unwrap_or(0))
    });
    let patch = json!({"metadata": {"annotations": {DEPLOYMENT_EXTRA_STATUS: status.to_string()}}});
    (!is_known).then(|| Write::patch(&deployment_name(deployment), deployment, patch))
}
