//! How far a rollout is, in the words that scripts look for (docs/behaviour/kubectl-kruise.md#rollout-status).

#[cfg(test)]
mod tests;

use api::kinds::shared::IntOrString;
use serde_json::Value;

use super::kinds::WorkloadKind;
use super::{pods, staged};
use values::percent::{self, Rounding, scaled};

/// What kubectl says of workloads whose Pods are updated when somebody deletes them.
const ROLLING_ONLY: &str = "rollout status is only available for RollingUpdate strategy type";
/// The annotation that a workload has while a Rollout takes it through its steps.
pub(super) const IN_PROGRESSING: &str = "rollouts.kruise.io/in-progressing";

/// What there is to say about a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It continues.
    Waiting(String),
    /// It is over, and did what it was to do.
    Done(String),
    /// It will not come to its end.
    Failed(String),
}

impl Progress {
    /// What is printed.
    pub fn message(&self) -> &str {
        match self {
            Self::Waiting(message) | Self::Done(message) | Self::Failed(message) => message,
        }
    }
}

/// A number of Pods or Nodes, which is negative in no object of a controller.
fn count(total: i64) -> i32 {
    i32::try_from(total.max(0)).unwrap_or(i32::MAX)
}

/// Numbers of an object, which may be missing or odd.
struct Object<'a>(&'a Value);

impl<'a> Object<'a> {
    fn number(&self, pointer: &str) -> i64 {
        pods::number(self.0, pointer)
    }

    fn text(&self, pointer: &str) -> &'a str {
        pods::text(self.0, pointer)
    }

    fn is_true(&self, pointer: &str) -> bool {
        self.0.pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A setting of the update strategy, where either version has it.
    fn strategy(&self, name: &str) -> Option<&Value> {
        let nested = self.0.pointer(&format!("/spec/updateStrategy/rollingUpdate/{name}"));
        nested
            .or_else(|| self.0.pointer(&format!("/spec/updateStrategy/{name}")))
            .filter(|value| !value.is_null())
    }

    fn replicas(&self) -> i64 {
        self.0.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1).max(0)
    }

    /// How many of so many Pods stay at the old revision.
    fn partition(&self, total: i64) -> i64 {
        percent::partition(self.partition_setting().as_ref(), count(total)).into()
    }

    /// How many of so many Nodes keep a Pod of the old revision.
    fn nodes_kept(&self, total: i64) -> i64 {
        let kept = self.partition_setting().and_then(|share| scaled(&share, count(total), Rounding::Down));
        i64::from(kept.unwrap_or(0)).clamp(0, total.max(0))
    }

    fn partition_setting(&self) -> Option<IntOrString> {
        serde_json::from_value(self.strategy("partition")?.clone()).ok()
    }

    fn is_observed(&self) -> bool {
        let observed = self.number("/status/observedGeneration");
        observed > 0 && observed >= self.number("/metadata/generation")
    }

    /// A condition of this type has this status, and this reason where one is named.
    fn has(&self, kind: &str, status: &str, reason: Option<&str>) -> bool {
        pods::list(self.0, "/status/conditions").any(|condition| {
            let is = |pointer: &str, text: &str| pods::text(condition, pointer) == text;
            is("/type", kind) && is("/status", status) && reason.is_none_or(|reason| is("/reason", reason))
        })
    }
}

/// The spec of the workload pauses its rollout.
pub fn is_paused(kind: WorkloadKind, object: &Value) -> bool {
    let object = Object(object);
    match kind {
        WorkloadKind::Rollout => object.is_true("/spec/strategy/paused"),
        WorkloadKind::Deployment | WorkloadKind::BroadcastJob | WorkloadKind::AdvancedCronJob => {
            object.is_true("/spec/paused")
        }
        WorkloadKind::CloneSet
        | WorkloadKind::AdvancedStatefulSet
        | WorkloadKind::AdvancedDaemonSet
        | WorkloadKind::UnitedDeployment
        | WorkloadKind::SidecarSet => object.strategy("paused").and_then(Value::as_bool).unwrap_or(false),
    }
}

/// The rollout waits for a person: it is paused, or a step of a Rollout waits for approval.
pub fn is_held(kind: WorkloadKind, object: &Value) -> bool {
    is_paused(kind, object) || (kind == WorkloadKind::Rollout && staged::awaits_approval(object))
}

/// What a Rollout waits for that says it is over while its workload is held for a further release: the status is about the
/// one before then.
pub fn awaits_workload(rollout: &Value, workload: &Value) -> Option<Progress> {
    let rollout = Object(rollout);
    let annotations = workload.pointer("/metadata/annotations");
    let is_held = annotations.and_then(|all| all.get(IN_PROGRESSING)).is_some();
    let is_behind = rollout.text("/status/phase") == "Healthy" && is_held;
    let name = rollout.text("/metadata/name");
    is_behind
        .then(|| Progress::Waiting(format!("Waiting for rollout {name:?} to observe its workload update...")))
}

/// The names of the Pods of a workload that are at its update revision: those that are ready, and the others.
pub fn updated_pods<'a>(object: &Value, pods: &'a [Value]) -> (Vec<&'a str>, Vec<&'a str>) {
    let object = Object(object);
    let (uid, revision) = (object.text("/metadata/uid"), object.text("/status/updateRevision"));
    let is_updated = |pod: &&Value| {
        let hash = Object(pod).text("/metadata/labels/controller-revision-hash");
        pods::is_controlled_by(pod, uid) && pods::is_revision(revision, hash)
    };
    let updated = pods.iter().filter(is_updated);
    let (ready, others): (Vec<&Value>, Vec<&Value>) = updated.partition(|pod| pods::is_ready(pod));
    let names = |pods: Vec<&'a Value>| {
        let names = pods.into_iter().filter_map(|pod| pod.pointer("/metadata/name")?.as_str());
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names
    };
    (names(ready), names(others))
}

/// How many of the wanted Pods are updated, as a bar, and how many are ready and available.
pub fn bar(kind: WorkloadKind, object: &Value) -> Option<String> {
    /// Letters of the bar.
    const WIDTH: i64 = 20;
    let object = Object(object);
    let (wanted, names) = match kind {
        WorkloadKind::AdvancedDaemonSet => {
            let names = ["updatedNumberScheduled", "numberReady", "numberAvailable"];
            (object.number("/status/desiredNumberScheduled"), names)
        }
        WorkloadKind::CloneSet | WorkloadKind::AdvancedStatefulSet | WorkloadKind::UnitedDeployment => {
            (object.replicas(), ["updatedReplicas", "readyReplicas", "availableReplicas"])
        }
        WorkloadKind::SidecarSet => {
            (object.number("/status/matchedPods"), ["updatedPods", "readyPods", "readyPods"])
        }
        _ => return None,
    };
    let [updated, ready, available] =
        names.map(|name| object.number(&format!("/status/{name}")).clamp(0, wanted.max(0)));
    let full = updated.saturating_mul(WIDTH).checked_div(wanted).unwrap_or(0);
    let bar: String = (0..WIDTH).map(|at| if at < full { '#' } else { '-' }).collect();
    Some(format!("[{bar}] {updated}/{wanted} updated, {ready} ready, {available} available"))
}

/// How far the rollout of a workload is; `None` for a kind that has none.
pub fn progress(kind: WorkloadKind, object: &Value) -> Option<Progress> {
    let object = Object(object);
    let may_roll = matches!(
        kind,
        WorkloadKind::CloneSet | WorkloadKind::AdvancedStatefulSet | WorkloadKind::AdvancedDaemonSet
    );
    if may_roll && object.text("/spec/updateStrategy/type") == "OnDelete" {
        return Some(Progress::Failed(ROLLING_ONLY.to_owned()));
    }
    let (words, of): (&str, fn(&Object<'_>) -> Progress) = match kind {
        WorkloadKind::CloneSet => ("CloneSet", of_clone_set),
        WorkloadKind::AdvancedStatefulSet => ("Advanced StatefulSet", of_stateful_set),
        WorkloadKind::AdvancedDaemonSet => ("advanced daemon set", of_daemon_set),
        WorkloadKind::UnitedDeployment => ("UnitedDeployment", of_united),
        WorkloadKind::SidecarSet => ("SidecarSet", of_sidecar_set),
        WorkloadKind::Rollout => ("Rollout", of_rollout),
        WorkloadKind::Deployment => ("deployment", of_deployment),
        WorkloadKind::BroadcastJob | WorkloadKind::AdvancedCronJob => return None,
    };
    if !object.is_observed() {
        return Some(Progress::Waiting(format!("Waiting for {words} spec update to be observed...")));
    }
    Some(of(&object))
}

fn of_clone_set(object: &Object<'_>) -> Progress {
    if object.has("Progressing", "False", Some("ProgressDeadlineExceeded")) {
        let name = object.text("/metadata/name");
        return Progress::Failed(format!("cloneset {name:?} exceeded its progress deadline"));
    }
    let replicas = object.replicas();
    let partition = object.partition(replicas);
    let expected = object.0.pointer("/status/expectedUpdatedReplicas").and_then(Value::as_i64);
    let target = expected.unwrap_or(replicas.saturating_sub(partition));
    let updated = object.number("/status/updatedReplicas");
    if updated < target {
        return Progress::Waiting(format!(
            "Waiting for partitioned roll out to finish: {updated} out of {target} new pods have been updated..."
        ));
    }
    if let Some(waiting) = readiness(object, target, replicas) {
        return waiting;
    }
    let policy = object.strategy("podUpdatePolicy").or_else(|| object.0.pointer("/spec/updateStrategy/type"));
    let is_in_place = policy.and_then(Value::as_str).is_some_and(|policy| policy.starts_with("InPlace"));
    if is_in_place || partition > 0 {
        return Progress::Done(format!(
            "partitioned roll out complete: {updated} new pods have been updated..."
        ));
    }
    let (available, revision) =
        (object.number("/status/availableReplicas"), object.text("/status/updateRevision"));
    Progress::Done(format!("CloneSet rolling update complete {available} pods at revision {revision}..."))
}

fn of_stateful_set(object: &Object<'_>) -> Progress {
    let replicas = object.replicas();
    let target = replicas.saturating_sub(object.partition(replicas));
    let updated = object.number("/status/updatedReplicas");
    if updated < target {
        return Progress::Waiting(format!(
            "Waiting for partitioned roll out to finish:{updated} out of {target} new pods has been updated..."
        ));
    }
    if let Some(waiting) = readiness(object, target, replicas) {
        return waiting;
    }
    let (available, revision) =
        (object.number("/status/availableReplicas"), object.text("/status/updateRevision"));
    Progress::Done(format!(
        "Advanced StatefulSet rolling update complete {available} pods at revision {revision}..."
    ))
}

/// Updated Pods that are not ready, or others.
fn readiness(object: &Object<'_>, target: i64, replicas: i64) -> Option<Progress> {
    let lacking = |wanted: i64, pointer: &str| wanted.saturating_sub(object.number(pointer));
    let updated = lacking(target, "/status/updatedReadyReplicas");
    let lacking = if updated > 0 { updated } else { lacking(replicas, "/status/readyReplicas") };
    (lacking > 0).then(|| Progress::Waiting(format!("Waiting for {lacking} pods to be ready...")))
}

fn of_daemon_set(object: &Object<'_>) -> Progress {
    let name = object.text("/metadata/name");
    let desired = object.number("/status/desiredNumberScheduled");
    let updated = object.number("/status/updatedNumberScheduled");
    if object.strategy("selector").is_some() {
        return left_alone("advanced daemon set", name, updated, desired);
    }
    let target = desired.saturating_sub(object.nodes_kept(desired));
    if updated < target {
        return Progress::Waiting(format!(
            "Waiting for advanced daemon set {name:?} rollout to finish: {updated} out of {target} new pods have been updated..."
        ));
    }
    let available = object.number("/status/numberAvailable");
    if available < desired {
        return Progress::Waiting(format!(
            "Waiting for advanced daemon set {name:?} rollout to finish: {available} of {desired} updated pods are available..."
        ));
    }
    Progress::Done(format!("advanced daemon set {name:?} successfully rolled out"))
}

/// The end of a rollout whose strategy leaves Pods alone: how many these are is not in the status.
fn left_alone(kind: &str, name: &str, updated: i64, all: i64) -> Progress {
    Progress::Done(format!(
        "{kind} {name:?}: {updated} of {all} pods are updated, and its strategy leaves others as they are"
    ))
}

fn of_united(object: &Object<'_>) -> Progress {
    let name = object.text("/metadata/name");
    let replicas = object.replicas();
    let kept = pods::list(object.0, "/status/subsetStatuses").map(|one| pods::number(one, "/partition"));
    let target = replicas.saturating_sub(kept.fold(0, i64::saturating_add)).max(0);
    let updated = object.number("/status/updatedReplicas");
    if updated < target {
        return Progress::Waiting(format!(
            "Waiting for partitioned roll out to finish: {updated} out of {target} new pods have been updated..."
        ));
    }
    match readiness(object, target, replicas) {
        Some(waiting) => waiting,
        None => Progress::Done(format!("uniteddeployment {name:?} successfully rolled out")),
    }
}

fn of_sidecar_set(object: &Object<'_>) -> Progress {
    let name = object.text("/metadata/name");
    let [matched, updated, ready] = ["matchedPods", "updatedPods", "updatedReadyPods"]
        .map(|name| object.number(&format!("/status/{name}")));
    let is_held =
        object.text("/spec/updateStrategy/type") == "NotUpdate" || object.strategy("selector").is_some();
    if is_held {
        return left_alone("sidecarset", name, updated, matched);
    }
    let target = matched.saturating_sub(object.partition(matched));
    if updated < target {
        return Progress::Waiting(format!(
            "Waiting for partitioned roll out to finish: {updated} out of {target} pods have been updated..."
        ));
    }
    if ready < target {
        return Progress::Waiting(format!(
            "Waiting for {} pods to be ready...",
            target.saturating_sub(ready)
        ));
    }
    Progress::Done(format!("sidecarset {name:?} successfully rolled out"))
}

/// As kubectl prints it.
fn of_deployment(object: &Object<'_>) -> Progress {
    let name = object.text("/metadata/name");
    if object.has("Progressing", "False", Some("ProgressDeadlineExceeded")) {
        return Progress::Failed(format!("deployment {name:?} exceeded its progress deadline"));
    }
    let replicas = object.replicas();
    let [all, updated, available] = ["replicas", "updatedReplicas", "availableReplicas"]
        .map(|name| object.number(&format!("/status/{name}")));
    let waiting = |text: String| {
        Progress::Waiting(format!("Waiting for deployment {name:?} rollout to finish: {text}..."))
    };
    if updated < replicas {
        return waiting(format!("{updated} out of {replicas} new replicas have been updated"));
    }
    if all > updated {
        return waiting(format!("{} old replicas are pending termination", all.saturating_sub(updated)));
    }
    if available < updated {
        return waiting(format!("{available} of {updated} updated replicas are available"));
    }
    Progress::Done(format!("deployment {name:?} successfully rolled out"))
}

fn of_rollout(object: &Object<'_>) -> Progress {
    let name = object.text("/metadata/name");
    let phase = object.text("/status/phase");
    let is_over = phase == "Healthy";
    match phase {
        "Terminating" => return Progress::Failed(format!("rollout {name:?} is being deleted")),
        "Disabled" => return Progress::Failed(format!("rollout {name:?} is disabled")),
        _ => {}
    }
    if object.has("Progressing", "False", Some("Canceled"))
        || (is_over && object.has("Succeeded", "False", None))
    {
        return Progress::Failed(format!("rollout {name:?} was canceled"));
    }
    if object.has("Stalled", "True", None) {
        return Progress::Failed(format!("rollout {name:?} exceeded its progress deadline"));
    }
    // Where nothing was rolled out yet, there is no condition Succeeded.
    if is_over && !object.has("Progressing", "True", None) {
        return Progress::Done(format!("rollout {name:?} successfully rolled out"));
    }
    let Some(steps) = staged::steps_of(object.0) else {
        return Progress::Waiting(format!("Waiting for rollout {name:?}: phase {phase}..."));
    };
    let step = object.number(&format!("/status/{steps}/currentStepIndex"));
    let state = object.text(&format!("/status/{steps}/currentStepState"));
    Progress::Waiting(format!("Waiting for rollout {name:?}: phase {phase}, step {step}, {state}..."))
}

/// Whether something of the kind can be paused: where, and why not.
///
/// # Errors
/// What to say to the user.
pub fn pause_pointer(kind: WorkloadKind, object: &Value) -> Result<&'static str, &'static str> {
    let strategy = Object(object).text("/spec/updateStrategy/type").to_owned();
    let rolls = matches!(strategy.as_str(), "" | "RollingUpdate");
    let is_flat = Object(object).text("/apiVersion").ends_with("v1alpha1");
    match kind {
        WorkloadKind::CloneSet if is_flat => Ok("/spec/updateStrategy/paused"),
        WorkloadKind::CloneSet | WorkloadKind::AdvancedStatefulSet | WorkloadKind::AdvancedDaemonSet
            if !rolls =>
        {
            Err("is not updated by RollingUpdate")
        }
        WorkloadKind::CloneSet | WorkloadKind::AdvancedStatefulSet | WorkloadKind::AdvancedDaemonSet => {
            Ok("/spec/updateStrategy/rollingUpdate/paused")
        }
        WorkloadKind::BroadcastJob | WorkloadKind::AdvancedCronJob => Ok("/spec/paused"),
        WorkloadKind::Rollout => Ok("/spec/strategy/paused"),
        WorkloadKind::UnitedDeployment | WorkloadKind::SidecarSet | WorkloadKind::Deployment => {
            Err("pausing is not supported")
        }
    }
}

/// Whether the member at this pointer is true.
pub fn is_set(object: &Value, pointer: &str) -> bool {
    Object(object).is_true(pointer)
}
