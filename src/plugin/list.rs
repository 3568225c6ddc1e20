//! `get all`, by kubectl, with the kinds that are installed.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

use super::connection::Connection;
use super::hand_over;

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

/// The kinds to list of those that are installed, and those that are not.
fn chosen(installed: &str, with_cluster: bool) -> (Vec<&'static str>, Vec<&'static str>) {
    let installed: Vec<&str> = installed.lines().map(str::trim).collect();
    let of_cluster = OF_THE_CLUSTER.iter().filter(|_| with_cluster);
    IN_NAMESPACES.iter().chain(of_cluster).partition(|kind| installed.contains(kind))
}

/// Becomes kubectl with the kinds that are installed; anything but `all` is kubectl's own.
pub(super) fn run(
    words: &[OsString],
    connection: &Connection,
    given: &[OsString],
) -> anyhow::Result<ExitCode> {
    let Some((first, rest)) = words.split_first().filter(|(first, _)| *first == "all") else {
        return hand_over(given);
    };
    let output =
        Command::new("kubectl").args(["api-resources", "-o", "name"]).args(connection.flags()).output();
    let output = output.context("kubectl can't be started")?;
    let with_cluster =
        rest.iter().any(|word| word == "-A" || word == "--all-namespaces" || word == "--cluster-scoped");
    let (kinds, absent) = chosen(&String::from_utf8_lossy(&output.stdout), with_cluster);
    if kinds.is_empty() {
        bail!("none of the kinds is installed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    if !absent.is_empty() {
        eprintln!("not installed: {}", absent.join(", "));
    }
    let all = kinds.join(",");
    let mut arguments: Vec<OsString> = Vec::new();
    let mut is_replaced = false;
    for word in given.iter().filter(|word| *word != "--cluster-scoped") {
        if !is_replaced && word == first {
            arguments.push(all.clone().into());
            is_replaced = true;
        } else {
            arguments.push(word.clone());
        }
    }
    hand_over(&arguments)
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
