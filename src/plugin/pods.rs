//! `exec`, `logs` and `cp`: kubectl's own, for Pods of our workloads and for the container of a sidecar that works now.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::Parser;
use planner::plugin::kinds::WorkloadKind;
use serde_json::Value;

use super::connection::Connection;
use super::create::pod_of;
use super::hand_over;

/// Which container of a sidecar that is upgraded without a gap works now.
const WORKING: &str = "kruise.io/sidecarset-working-hotupgrade-container";
/// Flags of kubectl with a value behind them that come before a Pod.
const WITH_VALUE: [&str; 8] = [
    "-c",
    "--container",
    "--pod-running-timeout",
    "--since",
    "--since-time",
    "--tail",
    "--limit-bytes",
    "--retries",
];

/// The flags about the connection alone.
#[derive(Debug, Parser)]
struct ConnectionAlone {
    #[command(flatten)]
    connection: Connection,
}

/// A command line of kubectl, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
struct CommandLine {
    /// The container of a SidecarSet.
    sidecar: Option<String>,
    /// Where the Pod is named, among the rest.
    target: Option<usize>,
    /// All but the sidecar.
    rest: Vec<String>,
    /// The flags about the connection.
    connection: Vec<String>,
}

impl CommandLine {
    fn read(words: &[String], verb: &str) -> anyhow::Result<Self> {
        let mut line = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                line.rest.push(word.clone());
                line.rest.extend(words.cloned());
                break;
            }
            let (flag, value) =
                word.split_once('=').map_or((word.as_str(), None), |(flag, value)| (flag, Some(value)));
            if matches!(flag, "-S" | "--sidecar") {
                let value = value.map(str::to_owned).or_else(|| words.next().cloned());
                line.sidecar = Some(value.ok_or_else(|| anyhow!("flag needs an argument: {flag}"))?);
                continue;
            }
            let is_of_connection = matches!(
                flag,
                "-n" | "--namespace" | "--kubeconfig" | "--context" | "--cluster" | "--user" | "--as"
            );
            let takes_value = value.is_none() && (is_of_connection || WITH_VALUE.contains(&flag));
            let is_target = !word.starts_with('-')
                && word != verb
                && line.target.is_none()
                && (verb != "cp" || word.contains(':'));
            if is_target {
                line.target = Some(line.rest.len());
            }
            line.rest.push(word.clone());
            let value = if takes_value { words.next() } else { None };
            line.rest.extend(value.cloned());
            if is_of_connection {
                line.connection.push(word.clone());
                line.connection.extend(value.cloned());
            }
        }
        Ok(line)
    }
}

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
    let line = CommandLine::read(&words, verb)?;
    let Some(target) = line.target.and_then(|at| line.rest.get(at)) else { return hand_over(given) };
    let is_ours = target.split_once('/').is_some_and(|(kind, _)| WorkloadKind::named(kind).is_some());
    if line.sidecar.is_none() && !is_ours {
        return hand_over(given);
    }
    let alone = ConnectionAlone::try_parse_from(
        std::iter::once("kubectl-kruise").chain(line.connection.iter().map(String::as_str)),
    )?;
    let (of_pod, behind) =
        if verb == "cp" { target.split_once(':').unwrap_or((target, "")) } else { (target.as_str(), "") };
    let mut connection = alone.connection;
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

    fn read(text: &str) -> CommandLine {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        CommandLine::read(
            &words,
            words.iter().find(|word| ["exec", "logs", "cp"].contains(&word.as_str())).unwrap(),
        )
        .unwrap()
    }

    #[test]
    fn the_pod_and_the_sidecar_are_found_among_flags() {
        let line = read("-n shop exec -it -S agent web-1 -- sh -S x");
        assert_eq!(line.sidecar.as_deref(), Some("agent"));
        assert_eq!(line.rest.join(" "), "-n shop exec -it web-1 -- sh -S x");
        assert_eq!(line.rest[line.target.unwrap()], "web-1");
        assert_eq!(line.connection, ["-n", "shop"]);
        let line = read("logs --tail 5 clone/web --sidecar=agent --namespace=shop");
        assert_eq!(line.rest[line.target.unwrap()], "clone/web");
        assert_eq!(line.connection, ["--namespace=shop"]);
        let line = read("cp here shop/web:/tmp/there -S agent");
        assert_eq!(line.rest[line.target.unwrap()], "shop/web:/tmp/there");
        assert_eq!(read("exec").target, None);
    }

    #[test]
    fn a_sidecar_that_does_not_work_here_is_an_error() {
        let pod = json!({"metadata": {"annotations": {WORKING: r#"{"agent":"agent-2"}"#}}});
        assert_eq!(working(&pod, "agent").unwrap(), "agent-2");
        assert!(working(&pod, "nosuch").unwrap_err().to_string().ends_with("there are: agent"));
        assert!(working(&json!({}), "agent").is_err());
    }
}
