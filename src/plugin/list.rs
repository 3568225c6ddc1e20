//! `get all`, by kubectl, with the kinds that are installed.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

use super::hand_over;
use super::words::Words;

/// The kinds, in the order of their tables.
const IN_NAMESPACES: [&str; 16] = [
    "clonesets.apps.kruise.io",
    "statefulsets.apps.kruise.io",
    "daemonsets.apps.kruise.io",
    "rollouts.rollouts.kruise.io",
    "broadcastjobs.apps.kruise.io",
    "containerrecreaterequests.apps.kruise.io",
    "advancedcronjobs.apps.kruise.io",
    "uniteddeployments.apps.kruise.io",
    "podprobemarkers.apps.kruise.io",
    "imagepulljobs.apps.kruise.io",
    "podunavailablebudgets.policy.kruise.io",
    "workloadspreads.apps.kruise.io",
    "persistentpodstates.apps.kruise.io",
    "imagelistpulljobs.apps.kruise.io",
    "ephemeraljobs.apps.kruise.io",
    "gameserversets.game.kruise.io",
];
/// The kinds that are in no namespace.
const OF_THE_CLUSTER: [&str; 3] =
    ["resourcedistributions.apps.kruise.io", "sidecarsets.apps.kruise.io", "nodeimages.apps.kruise.io"];

/// The flag by which the kinds of the cluster are listed too.
const CLUSTER_SCOPED: &str = "--cluster-scoped";

/// The kinds to list of those that are installed, and those that are not.
fn chosen(installed: &str, with_cluster: bool) -> (Vec<&'static str>, Vec<&'static str>) {
    let installed: Vec<&str> = installed.lines().map(str::trim).collect();
    let of_cluster = OF_THE_CLUSTER.iter().filter(|_| with_cluster);
    IN_NAMESPACES.iter().chain(of_cluster).partition(|kind| installed.contains(kind))
}

/// Becomes kubectl with the kinds that are installed; anything but `all` is kubectl's own.
pub(super) fn run(given: &[OsString]) -> anyhow::Result<ExitCode> {
    let words: Option<Vec<String>> = given.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let Some(words) = words else { return hand_over(given) };
    let mut line = Words::read(&words, "get")?;
    let Some(all) = line.target.and_then(|at| line.rest.get_mut(at)).filter(|word| *word == "all") else {
        return hand_over(given);
    };
    let with_cluster =
        words.iter().any(|word| ["-A", "--all-namespaces", CLUSTER_SCOPED].contains(&word.as_str()));
    let connection = Words::read(&words, "get")?.connection()?;
    let output =
        Command::new("kubectl").args(["api-resources", "-o", "name"]).args(connection.flags()).output();
    let output = output.context("kubectl can't be started")?;
    let (kinds, absent) = chosen(&String::from_utf8_lossy(&output.stdout), with_cluster);
    if kinds.is_empty() {
        bail!("none of the kinds is installed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    if !absent.is_empty() {
        eprintln!("not installed: {}", absent.join(", "));
    }
    *all = kinds.join(",");
    line.rest.retain(|word| word != CLUSTER_SCOPED);
    hand_over(&line.rest.into_iter().map(OsString::from).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_installed_is_listed() {
        let installed = "pods\nclonesets.apps.kruise.io\nsidecarsets.apps.kruise.io\n";
        let (kinds, absent) = chosen(installed, false);
        assert_eq!(kinds, ["clonesets.apps.kruise.io"]);
        assert!(absent.contains(&"rollouts.rollouts.kruise.io"));
        assert_eq!(chosen(installed, true).0, ["clonesets.apps.kruise.io", "sidecarsets.apps.kruise.io"]);
    }
}
