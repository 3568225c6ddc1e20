//! `exec`, `logs` and `cp`: kubectl's own, for Pods of our workloads and for the container of a sidecar that works now.

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, anyhow};
use cluster::resource::PODS;
use plugin::containers::{preferred, selected, working_container};
use plugin::kinds::WorkloadKind;
use plugin::pods::text;
use serde_json::Value;

use super::connection::{Connection, Session};
use super::create::{pod_name, read_pod, workload_pods};
use super::hand_over;
use super::target::Named;
use super::words::Words;

/// Becomes kubectl, with the Pod and the container that are meant.
pub(super) fn run(given: &[OsString], verb: &str) -> anyhow::Result<ExitCode> {
    let words: Option<Vec<String>> = given.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let Some(words) = words else { return hand_over(given) };
    let line = Words::read(&words, verb)?;
    let Some(target) = line.target.and_then(|at| line.rest.get(at)) else { return hand_over(given) };
    let is_ours = target.split_once('/').is_some_and(|(kind, _)| WorkloadKind::named(kind).is_some());
    if line.sidecar.is_none() && !is_ours {
        return hand_over(given);
    }
    let (of_pod, behind) =
        if verb == "cp" { target.split_once(':').unwrap_or((target, "")) } else { (target.as_str(), "") };
    let mut connection = line.connection()?;
    let mut name = of_pod;
    if let Some((namespace, pod)) = of_pod.split_once('/').filter(|_| verb == "cp" && !is_ours) {
        connection.namespace = Some(namespace.to_owned());
        name = pod;
    }
    let pod = connection.with(async |session| pod_of(session, &connection, name).await)?;
    let mut rest = line.rest.clone();
    let named = text(&pod, "/metadata/name");
    let word = match (verb, of_pod.split_once('/')) {
        ("cp", Some((namespace, _))) if !is_ours => format!("{namespace}/{named}:{behind}"),
        ("cp", _) => format!("{named}:{behind}"),
        _ => named.to_owned(),
    };
    if let Some(place) = line.target.and_then(|at| rest.get_mut(at)) {
        *place = word;
    }
    if let Some(sidecar) = &line.sidecar {
        let container = working_container(&pod, sidecar).map_err(anyhow::Error::msg)?;
        eprintln!("Enter working container {container} of SidecarSet.");
        let at = rest.iter().position(|word| word == "--").unwrap_or(rest.len());
        rest.splice(at..at, ["-c".to_owned(), container]);
    }
    hand_over(&rest.into_iter().map(OsString::from).collect::<Vec<_>>())
}

/// Finds the named Pod, or the Pod to enter of the named workload or Service.
async fn pod_of(session: &Session, connection: &Connection, target: &str) -> anyhow::Result<Value> {
    if let Some(name) = pod_name(target) {
        return read_pod(session, name).await;
    }
    let workload = target.split_once('/');
    let workload = workload.and_then(|(kind, name)| Some(Named::new(WorkloadKind::named(kind)?, name)));
    let pods = match workload {
        Some(workload) => workload_pods(session, &workload).await?,
        None => selected_pods(session, connection, target).await?,
    };
    preferred(&pods).cloned().ok_or_else(|| anyhow!("{target} has no Pods"))
}

/// The Pods that an object of Kubernetes selects: kubectl knows the names of all kinds.
async fn selected_pods(
    session: &Session,
    connection: &Connection,
    target: &str,
) -> anyhow::Result<Vec<Value>> {
    let mut kubectl = Command::new("kubectl");
    kubectl.args(["get", target, "-o", "json"]).args(connection.flags()).stderr(Stdio::inherit());
    let output = kubectl.output().context("kubectl, which finds the object, can't be started")?;
    anyhow::ensure!(output.status.success(), "{target} was not found");
    let object = serde_json::from_slice(&output.stdout).context("the answer of kubectl is not understood")?;
    let pods = session.list(&PODS.namespaced(&session.namespace)).await?;
    selected(&object, pods).with_context(|| format!("{target} selects no Pods"))
}
