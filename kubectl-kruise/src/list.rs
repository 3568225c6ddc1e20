//! `get all`, by kubectl, with the kinds that are installed.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};

use super::hand_over;
use super::words::Words;

/// The kinds, in the order of their tables.
const IN_NAMESPACES: [&str; 17] = [
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
    "gameservers.game.kruise.io",
];
/// The group of OpenKruiseGame, which few clusters have: its absence is not reported.
const SELDOM: &str = ".game.kruise.io";
/// The kinds that are in no namespace.
const OF_THE_CLUSTER: [&str; 4] = [
    "resourcedistributions.apps.kruise.io",
    "sidecarsets.apps.kruise.io",
    "nodeimages.apps.kruise.io",
    "nodepodprobes.apps.kruise.io",
];

/// The flag by which the kinds of the cluster are listed too: `--cluster` names a cluster of the kubeconfig.
const CLUSTER_SCOPED: &str = "--cluster-scoped";
/// The words of the same meaning that list the objects of all namespaces.
const EVERYWHERE: [&str; 3] = ["-A", "--all-namespaces", "--all-namespaces=true"];
/// The words by which changes are followed.
const WATCHING: [&str; 5] = ["-w", "--watch", "--watch=true", "--watch-only", "--watch-only=true"];
/// How kubectl begins the line about a kind that may not be listed.
const FORBIDDEN: &str = "Error from server (Forbidden): ";
/// How it begins lines about all else that goes wrong.
const FAILURES: [&str; 4] = ["Error", "error:", "Unable to connect", "The connection to the server"];

/// The kinds to list of those that are installed, and those to report that are not.
fn chosen(installed: &str, with_cluster: bool) -> (Vec<&'static str>, Vec<&'static str>) {
    let installed: Vec<&str> = installed.lines().map(str::trim).collect();
    let of_cluster = OF_THE_CLUSTER.iter().filter(|_| with_cluster);
    let (kinds, mut absent): (Vec<&str>, Vec<&str>) =
        IN_NAMESPACES.iter().chain(of_cluster).partition(|kind| installed.contains(kind));
    absent.retain(|kind| !kind.ends_with(SELDOM));
    (kinds, absent)
}

/// Lists with kubectl the kinds that are installed; anything but `all` is kubectl's own.
pub(super) fn run(given: &[OsString]) -> anyhow::Result<ExitCode> {
    let words: Option<Vec<String>> = given.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let Some(words) = words else { return hand_over(given) };
    let line = Words::read(&words, "get")?;
    let Some(all) = line.target.filter(|at| line.rest.get(*at).is_some_and(|word| word == "all")) else {
        return hand_over(given);
    };
    let has = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
    let with_cluster = has(&EVERYWHERE) || has(&[CLUSTER_SCOPED]);
    let mut kubectl = Command::new("kubectl");
    kubectl.args(["api-resources", "-o", "name"]).args(line.connection()?.flags());
    let output = kubectl.output().context("kubectl can't be started")?;
    let (kinds, absent) = chosen(&String::from_utf8_lossy(&output.stdout), with_cluster);
    if kinds.is_empty() {
        bail!("none of the kinds is installed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    if !absent.is_empty() {
        eprintln!("not installed: {}", absent.join(", "));
    }
    let for_kinds = |kinds: &str| {
        let mut words = line.rest.clone();
        words.iter_mut().skip(all).take(1).for_each(|word| kinds.clone_into(word));
        words.retain(|word| word != CLUSTER_SCOPED);
        let mut kubectl = Command::new("kubectl");
        kubectl.args(words);
        kubectl
    };
    if has(&WATCHING) { watch(kinds.into_iter().map(for_kinds)) } else { once(for_kinds(&kinds.join(","))) }
}

/// Lists all kinds. Those that may not be listed are passed over.
fn once(mut kubectl: Command) -> anyhow::Result<ExitCode> {
    let mut child = kubectl.stderr(Stdio::piped()).spawn().context("kubectl can't be started")?;
    let (mut forbidden, mut failures) = (0, 0);
    for line in child.stderr.take().into_iter().flat_map(|errors| BufReader::new(errors).lines()) {
        let line = line?;
        if let Some(why) = line.strip_prefix(FORBIDDEN) {
            forbidden += 1;
            eprintln!("not listed: {why}");
            continue;
        }
        failures += usize::from(FAILURES.iter().any(|failure| line.starts_with(failure)));
        eprintln!("{line}");
    }
    let is_right = child.wait()?.success() || (forbidden > 0 && failures == 0);
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Follows all kinds, each by a kubectl of its own: one watches a single kind.
fn watch(all: impl Iterator<Item = Command>) -> anyhow::Result<ExitCode> {
    let started: Vec<_> = all.map(|mut kubectl| kubectl.spawn()).collect();
    let mut is_right = false;
    for child in started {
        is_right |= child.context("kubectl can't be started")?.wait()?.success();
    }
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
        assert!(!absent.iter().any(|kind| kind.starts_with("gameserver")));
        let (games, _) = chosen("gameservers.game.kruise.io\ngameserversets.game.kruise.io\n", false);
        assert_eq!(games, ["gameserversets.game.kruise.io", "gameservers.game.kruise.io"]);
        assert_eq!(chosen(installed, true).0, ["clonesets.apps.kruise.io", "sidecarsets.apps.kruise.io"]);
    }
}
