//! What a release was, for those who look back (docs/behaviour/rollouts.md#rollouthistory).

use std::collections::BTreeMap;

use api::kinds::rollout::{self, Phase, Reason, ReleaseStatus, Rollout, TrafficRoutingRef, WorkloadRef};
use api::kinds::rollouthistory::{API_VERSION, KIND};
use api::labels::{ROLLOUT_BATCH_ID, ROLLOUT_ID, ROLLOUT_NAME};
use serde_json::{Map, Value, json};
use values::moment::Moment;

use crate::object::{Object as _, ObjectName};
use crate::plan::Plan;
use crate::view::{ListName, Unread, View};
use crate::write::Write;

#[cfg(test)]
mod tests;

/// The version in which HTTPRoutes are read.
const GATEWAY: &str = "gateway.networking.k8s.io/v1";
/// How many releases that are over are kept.
const LIMIT: usize = 10;

/// What to record of a Rollout's releases.
///
/// # Errors
/// Something has not been read.
pub fn plan(rollout: &Rollout, view: &View, moment: &Moment) -> Result<Plan<()>, Unread> {
    let mut plan = Plan::only(());
    let selector = format!("{ROLLOUT_NAME}={}", rollout.metadata.name);
    let histories = view.list(&ListName::new(API_VERSION, KIND, &rollout.metadata.namespace, &selector))?;
    let (over, running): (Vec<_>, Vec<_>) =
        histories.iter().partition(|history| history.text("/status/phase") == "completed");
    let release = running_release(rollout);
    let is_recorded = |history: &&Value, release: &ReleaseStatus| {
        history.text("/spec/rollout/rolloutID") == release.observed_rollout_id
    };
    for history in &running {
        if !release.is_some_and(|release| is_recorded(history, release)) {
            plan.writes.push(completed(rollout, history, view)?);
        }
    }
    if let Some(release) =
        release.filter(|release| !running.iter().any(|history| is_recorded(history, release)))
    {
        plan.writes.push(begun(rollout, release, view, moment)?);
    }
    plan.writes.extend(forgotten(over));
    Ok(plan)
}

/// The release that is running. None is recorded of a blue-green one.
fn running_release(rollout: &Rollout) -> Option<&ReleaseStatus> {
    let status = &rollout.status;
    let progressing = status.condition(&rollout::ConditionType::Progressing)?;
    let is_running = status.phase == Phase::Progressing
        && matches!(progressing.reason, Reason::Initializing | Reason::InRolling | Reason::Paused);
    status.canary_status.as_ref().filter(|release| is_running && !release.observed_rollout_id.is_empty())
}

/// Records the objects of a release as they are.
fn begun(rollout: &Rollout, release: &ReleaseStatus, view: &View, moment: &Moment) -> Result<Write, Unread> {
    let (metadata, reference) = (&rollout.metadata, &rollout.spec.workload_ref);
    let named = |api_version: &str, kind: &str, name: &str| {
        ObjectName::new(api_version, kind, &metadata.namespace, name)
    };
    let spec_of = |name: &ObjectName| -> Result<Value, Unread> {
        Ok(view.object(name)?.and_then(|object| object.get("spec")).cloned().unwrap_or_default())
    };
    let id = &release.observed_rollout_id;
    let data = spec_of(&named(rollout::API_VERSION, rollout::KIND, &metadata.name))?;
    let mut spec = Map::new();
    spec.insert("rollout".to_owned(), json!({"rolloutID": id, "name": metadata.name, "data": data}));
    let data = spec_of(&named(&reference.api_version, &reference.kind, &reference.name))?;
    let WorkloadRef { api_version, kind, name } = reference;
    let workload = json!({"apiVersion": api_version, "kind": kind, "name": name, "data": data});
    spec.insert("workload".to_owned(), workload);
    if let Some(routing) = rollout.spec.strategy.traffic_routings().first() {
        let info = |name: ObjectName| Ok(json!({"name": name.name, "data": spec_of(&name)?}));
        spec.insert("service".to_owned(), info(named("v1", "Service", &routing.service))?);
        let mut network = Map::new();
        for (member, api_version, kind, name) in network_objects(routing) {
            network.insert(member.to_owned(), info(named(api_version, kind, name))?);
        }
        spec.insert("trafficRouting".to_owned(), network.into());
    }
    let name = format!("{}-{}", metadata.name, moment.random().name_suffix(6));
    let name = named(API_VERSION, KIND, &name);
    let object = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name.name,
            "namespace": name.namespace,
            "labels": {ROLLOUT_NAME: metadata.name, ROLLOUT_ID: id},
        },
        "spec": spec,
    });
    Ok(Write::Create { name, object })
}

/// The network objects that a history has room for.
fn network_objects(routing: &TrafficRoutingRef) -> impl Iterator<Item = (&str, &str, &str, &str)> {
    let ingress = routing.ingress.as_ref();
    let ingress =
        ingress.map(|ingress| ("ingress", "networking.k8s.io/v1", "Ingress", ingress.name.as_str()));
    let route = routing.gateway.as_ref();
    let route = route.map(|route| ("httpRoute", GATEWAY, "HTTPRoute", route.http_route_name.as_str()));
    ingress.into_iter().chain(route)
}

/// Records which Pods each step brought, once the release is over.
fn completed(rollout: &Rollout, history: &Value, view: &View) -> Result<Write, Unread> {
    let id = history.text("/spec/rollout/rolloutID");
    let selector = format!("{ROLLOUT_ID}={id}");
    let pods = view.list(&ListName::new("v1", "Pod", &rollout.metadata.namespace, &selector))?;
    let mut steps: BTreeMap<i32, Vec<Value>> = BTreeMap::new();
    for pod in pods {
        let step = pod.label(ROLLOUT_BATCH_ID).and_then(|step| step.parse().ok());
        let (ip, node) = (pod.text("/status/podIP"), pod.text("/spec/nodeName"));
        let info = json!({"name": pod.name(), "ip": ip, "nodeName": node});
        step.into_iter().for_each(|step| steps.entry(step).or_default().push(info.clone()));
    }
    let steps = steps.into_iter().map(|(step, pods)| json!({"canaryStepIndex": step, "pods": pods}));
    let patch = json!({
        "metadata": {"uid": history.uid(), "resourceVersion": history.resource_version()},
        "status": {"phase": "completed", "canarySteps": steps.collect::<Vec<_>>()},
    });
    let name = ObjectName::new(API_VERSION, KIND, &rollout.metadata.namespace, history.name());
    Ok(Write::Patch { name, subresource: "status", patch })
}

/// Deletes the oldest releases beyond those that are kept.
fn forgotten(mut over: Vec<&Value>) -> impl Iterator<Item = Write> {
    over.sort_by_key(|history| (history.text("/metadata/creationTimestamp"), history.name()));
    let excess = over.len().saturating_sub(LIMIT);
    over.into_iter().take(excess).map(|history| {
        let name = ObjectName::new(API_VERSION, KIND, history.text("/metadata/namespace"), history.name());
        Write::delete(&name, history)
    })
}
