//! How far a rollout is, in the words that scripts look for (docs/behaviour/kubectl-kruise.md#rollout-status).

use api::kinds::shared::IntOrString;
use serde_json::Value;

use super::kinds::WorkloadKind;
use super::pods;
use crate::text::percent::{self, Rounding, scaled};

/// What there is to say about a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It goes on.
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

fn number(total: i64) -> i32 {
    i32::try_from(total).unwrap_or(i32::MAX)
}

/// Numbers of an object, which may be missing or odd.
struct Object<'a>(&'a Value);

impl<'a> Object<'a> {
    fn number(&self, pointer: &str) -> i64 {
        self.0.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
    }

    fn text(&self, pointer: &str) -> &'a str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
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
        percent::partition(self.partition_setting().as_ref(), number(total)).into()
    }

    /// How many of so many Nodes keep a Pod of the old revision.
    fn nodes_kept(&self, total: i64) -> i64 {
        let kept = self.partition_setting().and_then(|share| scaled(&share, number(total), Rounding::Down));
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
        let conditions = self.0.pointer("/status/conditions").and_then(Value::as_array);
        conditions.into_iter().flatten().any(|condition| {
            let is = |name: &str, text: &str| condition.get(name).and_then(Value::as_str) == Some(text);
            is("type", kind) && is("status", status) && reason.is_none_or(|reason| is("reason", reason))
        })
    }
}

/// The rollout is held up by its own spec.
pub fn is_paused(object: &Value) -> bool {
    Object(object).strategy("paused").and_then(Value::as_bool).unwrap_or(false)
}

/// The names of the Pods of a workload that are at its update revision: those that are ready, and the others.
pub fn updated_pods<'a>(object: &Value, pods: &'a [Value]) -> (Vec<&'a str>, Vec<&'a str>) {
    let object = Object(object);
    let (uid, revision) = (object.text("/metadata/uid"), object.text("/status/updateRevision"));
    let is_updated = |pod: &&Value| {
        let hash = Object(pod).text("/metadata/labels/controller-revision-hash");
        pods::is_owned(pod, uid) && pods::is_revision(revision, hash)
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
    match kind {
        WorkloadKind::CloneSet => Some(of_clone_set(&object)),
        WorkloadKind::AdvancedStatefulSet => Some(of_stateful_set(&object)),
        WorkloadKind::AdvancedDaemonSet => Some(of_daemon_set(&object)),
        WorkloadKind::UnitedDeployment => Some(of_united(&object)),
        WorkloadKind::SidecarSet => Some(of_sidecar_set(&object)),
        WorkloadKind::Rollout => Some(of_rollout(&object)),
        WorkloadKind::Deployment => Some(of_deployment(&object)),
        WorkloadKind::BroadcastJob | WorkloadKind::AdvancedCronJob => None,
    }
}

fn of_clone_set(object: &Object<'_>) -> Progress {
    if !object.is_observed() {
        return Progress::Waiting("Waiting for CloneSet spec update to be observed...".to_owned());
    }
    if object.has("Progressing", "False", Some("ProgressDeadlineExceeded")) {
        let name = object.text("/metadata/name");
        return Progress::Failed(format!("cloneset {name:?} exceeded its progress deadline"));
    }
    let replicas = object.replicas();
    let partition = object.partition(replicas);
    let expected = object.0.pointer("/status/expectedUpdatedReplicas").and_then(Value::as_i64);
    let target = expected.unwrap_or(replicas - partition);
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
    if !object.is_observed() {
        return Progress::Waiting(
            "Waiting for Advanced StatefulSet spec update to be observed...".to_owned(),
        );
    }
    let replicas = object.replicas();
    let target = replicas - object.partition(replicas);
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
    let lacking = |wanted: i64, pointer: &str| wanted - object.number(pointer);
    let updated = lacking(target, "/status/updatedReadyReplicas");
    let lacking = if updated > 0 { updated } else { lacking(replicas, "/status/readyReplicas") };
    (lacking > 0).then(|| Progress::Waiting(format!("Waiting for {lacking} pods to be ready...")))
}

fn of_daemon_set(object: &Object<'_>) -> Progress {
    let name = object.text("/metadata/name");
    if !object.is_observed() {
        return Progress::Waiting("Waiting for advanced daemon set spec update to be observed...".to_owned());
    }
    let desired = object.number("/status/desiredNumberScheduled");
    let target = desired - object.nodes_kept(desired);
    let updated = object.number("/status/updatedNumberScheduled");
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

fn of_united(object: &Object<'_>) -> Progress {
    let name = object.text("/metadata/name");
    if !object.is_observed() {
        return Progress::Waiting("Waiting for UnitedDeployment spec update to be observed...".to_owned());
    }
    let replicas = object.replicas();
    let subsets = object.0.pointer("/status/subsetStatuses").and_then(Value::as_array);
    let kept: i64 = subsets.into_iter().flatten().map(|subset| Object(subset).number("/partition")).sum();
    let target = (replicas - kept).max(0);
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
    if !object.is_observed() {
        return Progress::Waiting("Waiting for SidecarSet spec update to be observed...".to_owned());
    }
    let [matched, updated, ready] = ["matchedPods", "updatedPods", "updatedReadyPods"]
        .map(|name| object.number(&format!("/status/{name}")));
    let is_held =
        object.text("/spec/updateStrategy/type") == "NotUpdate" || object.strategy("selector").is_some();
    if is_held {
        // How many Pods the strategy leaves alone is not in the status.
        return Progress::Done(format!(
            "sidecarset {name:?}: {updated} of {matched} pods are updated, and its strategy leaves others as they are"
        ));
    }
    let target = matched - object.partition(matched);
    if updated < target {
        return Progress::Waiting(format!(
            "Waiting for partitioned roll out to finish: {updated} out of {target} pods have been updated..."
        ));
    }
    if ready < target {
        return Progress::Waiting(format!("Waiting for {} pods to be ready...", target - ready));
    }
    Progress::Done(format!("sidecarset {name:?} successfully rolled out"))
}

/// As kubectl tells it.
fn of_deployment(object: &Object<'_>) -> Progress {
    let name = object.text("/metadata/name");
    if !object.is_observed() {
        return Progress::Waiting("Waiting for deployment spec update to be observed...".to_owned());
    }
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
        return waiting(format!("{} old replicas are pending termination", all - updated));
    }
    if available < updated {
        return waiting(format!("{available} of {updated} updated replicas are available"));
    }
    Progress::Done(format!("deployment {name:?} successfully rolled out"))
}

fn of_rollout(object: &Object<'_>) -> Progress {
    let name = object.text("/metadata/name");
    if !object.is_observed() {
        return Progress::Waiting("Waiting for Rollout spec update to be observed...".to_owned());
    }
    let phase = object.text("/status/phase");
    let is_over = phase == "Healthy";
    if object.has("Progressing", "False", Some("Canceled"))
        || (is_over && object.has("Succeeded", "False", None))
    {
        return Progress::Failed(format!("rollout {name:?} was canceled"));
    }
    if is_over && object.has("Succeeded", "True", None) {
        return Progress::Done(format!("rollout {name:?} successfully rolled out"));
    }
    let steps = ["canaryStatus", "blueGreenStatus"].map(|member| format!("/status/{member}"));
    let Some(steps) = steps.iter().find_map(|pointer| object.0.pointer(pointer)) else {
        return Progress::Waiting(format!("Waiting for rollout {name:?}: phase {phase}..."));
    };
    let steps = Object(steps);
    let (step, state) = (steps.number("/currentStepIndex"), steps.text("/currentStepState"));
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn clone_set(strategy: &Value, status: &Value) -> Progress {
        let mut whole = json!({"observedGeneration": 2, "updateRevision": "web-1"});
        whole.as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
        let object = json!({"apiVersion": "apps.kruise.io/v1beta1", "metadata": {"name": "web", "generation": 2},
            "spec": {"replicas": 5, "updateStrategy": strategy}, "status": whole});
        progress(WorkloadKind::CloneSet, &object).unwrap()
    }

    #[test]
    fn a_rollout_of_a_clone_set_goes_through_its_messages() {
        let in_place = json!({"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "partition": "50%"}});
        let waiting = |text: &str| Progress::Waiting(text.to_owned());
        let found = clone_set(&in_place, &json!({"observedGeneration": 1}));
        assert_eq!(found, waiting("Waiting for CloneSet spec update to be observed..."));
        let found = clone_set(&in_place, &json!({"updatedReplicas": 1}));
        assert_eq!(
            found,
            waiting("Waiting for partitioned roll out to finish: 1 out of 2 new pods have been updated...")
        );
        let found = clone_set(
            &in_place,
            &json!({"updatedReplicas": 2, "updatedReadyReplicas": 1, "readyReplicas": 4}),
        );
        assert_eq!(found, waiting("Waiting for 1 pods to be ready..."));
        let done = json!({"updatedReplicas": 2, "updatedReadyReplicas": 2, "readyReplicas": 5, "availableReplicas": 5});
        assert_eq!(
            clone_set(&in_place, &done),
            Progress::Done("partitioned roll out complete: 2 new pods have been updated...".to_owned())
        );
        let all = json!({"updatedReplicas": 5, "updatedReadyReplicas": 5, "readyReplicas": 5, "availableReplicas": 5});
        assert_eq!(
            clone_set(&json!({}), &all),
            Progress::Done("CloneSet rolling update complete 5 pods at revision web-1...".to_owned())
        );
        let late = json!({"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]});
        assert_eq!(
            clone_set(&json!({}), &late),
            Progress::Failed(r#"cloneset "web" exceeded its progress deadline"#.to_owned())
        );
    }

    #[test]
    fn other_kinds_have_their_own_words() {
        let set = json!({"metadata": {"name": "db", "generation": 1}, "spec": {"replicas": 3},
            "status": {"observedGeneration": 1, "updatedReplicas": 1}});
        let found = progress(WorkloadKind::AdvancedStatefulSet, &set).unwrap();
        assert_eq!(
            found.message(),
            "Waiting for partitioned roll out to finish:1 out of 3 new pods has been updated..."
        );
        let set = json!({"metadata": {"name": "log", "generation": 1}, "spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}},
            "status": {"observedGeneration": 1, "desiredNumberScheduled": 3, "updatedNumberScheduled": 2, "numberAvailable": 2}});
        let found = progress(WorkloadKind::AdvancedDaemonSet, &set).unwrap();
        assert_eq!(
            found.message(),
            r#"Waiting for advanced daemon set "log" rollout to finish: 2 of 3 updated pods are available..."#
        );
        // Half of five Nodes are two that keep their Pod, as its controller counts.
        let half = json!({"metadata": {"name": "log", "generation": 1}, "spec": {"updateStrategy": {"rollingUpdate": {"partition": "50%"}}},
            "status": {"observedGeneration": 1, "desiredNumberScheduled": 5, "updatedNumberScheduled": 2, "numberAvailable": 5}});
        let found = progress(WorkloadKind::AdvancedDaemonSet, &half).unwrap();
        assert!(found.message().contains("2 out of 3 new pods have been updated"), "{found:?}");
        let united = json!({"metadata": {"name": "web", "generation": 1}, "spec": {"replicas": 3},
            "status": {"observedGeneration": 1, "updatedReplicas": 2, "updatedReadyReplicas": 2, "readyReplicas": 3,
                "subsetStatuses": [{"partition": 1}]}});
        let found = progress(WorkloadKind::UnitedDeployment, &united).unwrap();
        assert_eq!(found, Progress::Done(r#"uniteddeployment "web" successfully rolled out"#.to_owned()));
        assert_eq!(progress(WorkloadKind::BroadcastJob, &json!({})), None);
    }

    #[test]
    fn sidecars_and_deployments_are_followed() {
        let found = |kind: WorkloadKind, spec: &Value, mut status: Value| {
            status["observedGeneration"] = 1.into();
            let object = json!({"metadata": {"name": "a", "generation": 1}, "spec": spec, "status": status});
            progress(kind, &object).unwrap().message().to_owned()
        };
        let set = |strategy: &Value, updated: i64, ready: i64| {
            let status = json!({"matchedPods": 4, "updatedPods": updated, "updatedReadyPods": ready});
            found(WorkloadKind::SidecarSet, &json!({"updateStrategy": strategy}), status)
        };
        let half = json!({"partition": "50%"});
        assert!(set(&half, 1, 1).contains("1 out of 2 pods have been updated"));
        assert_eq!(set(&half, 2, 1), "Waiting for 1 pods to be ready...");
        assert_eq!(set(&half, 2, 2), r#"sidecarset "a" successfully rolled out"#);
        let held = set(&json!({"type": "NotUpdate"}), 1, 1);
        assert!(
            held.contains("1 of 4 pods are updated, and its strategy leaves others as they are"),
            "{held}"
        );
        let deployment = |status: Value| found(WorkloadKind::Deployment, &json!({"replicas": 3}), status);
        let text = deployment(json!({"updatedReplicas": 1}));
        assert!(text.contains("1 out of 3 new replicas have been updated..."), "{text}");
        let text = deployment(json!({"updatedReplicas": 3, "replicas": 4}));
        assert!(text.contains("1 old replicas are pending termination..."), "{text}");
        let text = deployment(json!({"updatedReplicas": 3, "replicas": 3, "availableReplicas": 2}));
        assert!(text.contains("2 of 3 updated replicas are available..."), "{text}");
        let text = deployment(json!({"updatedReplicas": 3, "replicas": 3, "availableReplicas": 3}));
        assert_eq!(text, r#"deployment "a" successfully rolled out"#);
        let late = json!({"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]});
        assert_eq!(deployment(late), r#"deployment "a" exceeded its progress deadline"#);
    }

    #[test]
    fn updated_pods_are_told_by_their_readiness() {
        let set = json!({"metadata": {"uid": "u"}, "status": {"updateRevision": "web-7d"}});
        let pod = |name: &str, uid: &str, hash: &str, ready: &str| {
            json!({"metadata": {"name": name, "labels": {"controller-revision-hash": hash}, "ownerReferences": [{"uid": uid}]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}})
        };
        let pods = [
            pod("b", "u", "7d", "True"),
            pod("a", "u", "web-7d", "True"),
            pod("c", "u", "7d", "False"),
            pod("d", "u", "old", "True"),
            pod("e", "x", "7d", "True"),
        ];
        assert_eq!(updated_pods(&set, &pods), (vec!["a", "b"], vec!["c"]));
    }

    #[test]
    fn a_bar_shows_what_is_updated() {
        let set = json!({"spec": {"replicas": 4}, "status": {"updatedReplicas": 1, "readyReplicas": 3, "availableReplicas": 9}});
        let bar = |kind| super::bar(kind, &set);
        let expected = "[#####---------------] 1/4 updated, 3 ready, 4 available";
        assert_eq!(bar(WorkloadKind::CloneSet).as_deref(), Some(expected));
        assert_eq!(bar(WorkloadKind::BroadcastJob), None);
        let none = "[--------------------] 0/0 updated, 0 ready, 0 available";
        assert_eq!(bar(WorkloadKind::AdvancedDaemonSet).as_deref(), Some(none));
    }

    #[test]
    fn each_kind_is_paused_in_its_place() {
        let beta = json!({"apiVersion": "apps.kruise.io/v1beta1"});
        assert_eq!(
            pause_pointer(WorkloadKind::CloneSet, &beta),
            Ok("/spec/updateStrategy/rollingUpdate/paused")
        );
        assert_eq!(pause_pointer(WorkloadKind::BroadcastJob, &beta), Ok("/spec/paused"));
        let alpha = json!({"apiVersion": "apps.kruise.io/v1alpha1"});
        assert_eq!(pause_pointer(WorkloadKind::CloneSet, &alpha), Ok("/spec/updateStrategy/paused"));
        let on_delete = json!({"spec": {"updateStrategy": {"type": "OnDelete"}}});
        assert!(pause_pointer(WorkloadKind::AdvancedDaemonSet, &on_delete).is_err());
        assert_eq!(pause_pointer(WorkloadKind::SidecarSet, &beta), Err("pausing is not supported"));
    }

    #[test]
    fn a_rollout_of_its_own_kind_is_followed_to_its_end() {
        let found = |status: Value| {
            progress(
                WorkloadKind::Rollout,
                &json!({"metadata": {"name": "web", "generation": 1}, "status": status}),
            )
            .unwrap()
        };
        let paused = json!({"observedGeneration": 1, "phase": "Progressing", "canaryStatus": {"currentStepIndex": 2, "currentStepState": "StepPaused"}});
        assert_eq!(
            found(paused),
            Progress::Waiting(
                r#"Waiting for rollout "web": phase Progressing, step 2, StepPaused..."#.to_owned()
            )
        );
        let over = |succeeded: &str| json!({"observedGeneration": 1, "phase": "Healthy", "conditions": [{"type": "Succeeded", "status": succeeded}]});
        assert_eq!(
            found(over("True")),
            Progress::Done(r#"rollout "web" successfully rolled out"#.to_owned())
        );
        assert_eq!(found(over("False")), Progress::Failed(r#"rollout "web" was canceled"#.to_owned()));
        assert!(matches!(found(json!({})), Progress::Waiting(_)));
    }
}
