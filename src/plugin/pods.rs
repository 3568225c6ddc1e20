//! `exec`, `logs` and `cp`: kubectl's own, for Pods of our workloads and for the container of a sidecar that works now.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::bail;
use planner::plugin::kinds::WorkloadKind;
use serde_json::Value;

use super::create::pod_of;
use super::hand_over;
use super::words::Words;

/// Which container of a sidecar that is upgraded without a gap works now.
const WORKING: &str = "kruise.io/sidecarset-working-hotupgrade-container";
/// The container that works for that of a SidecarSet.
fn working(pod: &Value, sidecar: &str) -> anyhow::Result<String> {
    let text =
        pod.pointer("/metadata/annotations").and_then(|all| all.get(WORKING)?.as_str()).unwrap_or("{}");
    let known: serde_json::Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    if let Some(name) = known.get(sidecar).and_then(Value::as_str) {
        return Ok(name.to_owned());
    }
    let known: Vec<&str> = known.keys().map(String::as_str).collect();
    bail!("no container {sidecar:?} of a SidecarSet works in this Pod; there are: {}", known.join(", "))
}

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
    let pod = connection.with(async |session| pod_of(session, name).await)?;
    let mut rest = line.rest.clone();
    let named = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let word = match (verb, of_pod.split_once('/')) {
        ("cp", Some((namespace, _))) if !is_ours => format!("{namespace}/{named}:{behind}"),
        ("cp", _) => format!("{named}:{behind}"),
        _ => named.to_owned(),
    };
    if let Some(place) = line.target.and_then(|at| rest.get_mut(at)) {
        *place = word;
    }
    if let Some(sidecar) = &line.sidecar {
        let container = working(&pod, sidecar)?;
        eprintln!("Enter working container {container} of SidecarSet.");
        let at = rest.iter().position(|word| word == "--").unwrap_or(rest.len());
        rest.splice(at..at, ["-c".to_owned(), container]);
    }
    hand_over(&rest.into_iter().map(OsString::from).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sidecar_that_does_not_work_here_is_an_error() {
        let pod = json!({"metadata": {"annotations": {WORKING: r#"{"agent":"agent-2"}"#}}});
        assert_eq!(working(&pod, "agent").unwrap(), "agent-2");
        assert!(working(&pod, "nosuch").unwrap_err().to_string().ends_with("there are: agent"));
        assert!(working(&json!({}), "agent").is_err());
    }
}
