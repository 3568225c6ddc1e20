//! Histories: CloneSets made at random, and what happens to them at random, each from one seed.
//!
//! `KUTTER_SIMULATION_HISTORIES` sets how many are run, `KUTTER_SIMULATION_FIRST` the seed of the first. A
//! failure names its seed;
//! `KUTTER_SIMULATION_SEED=<seed> cargo test -p kutter-planner --lib simulation::tests::one_history` tells
//! that one from beginning to end.

use std::ops::Range;

use api::kinds::cloneset::CloneSet;

use super::*;
use crate::histories::{first_failing, histories, variable};
use crate::kinds::cloneset::plan;

mod broadcastjob;
mod broken;
mod budget;
mod daemonset;
mod history;
mod scenarios;
mod statefulset;

use history::History;

/// Histories that are run where nothing else is said.
const HISTORIES: u64 = 2_000;
/// The longest time that a CloneSet may take to come to rest.
const LIMIT: Milliseconds = 4 * 3_600_000;

/// What goes wrong in a history; nothing where all is well.
fn verdict(history: &History, planner: Planner<'_, CloneSet>) -> Option<String> {
    let (_, verdict) = history.run(planner, false);
    verdict
}

/// The first history that fails, by its seed.
fn first_failure(seeds: Range<u64>, planner: Planner<'_, CloneSet>) -> Option<(u64, String)> {
    first_failing(seeds, |seed| verdict(&History::new(seed), planner))
}

/// The history without what it fails without, and told from beginning to end.
fn told(history: History, planner: Planner<'_, CloneSet>) -> String {
    let history = history.shortened(planner);
    let (cluster, verdict) = history.run(planner, true);
    let (blockers, listed) = (cluster.blockers().join("\n"), listed(&cluster));
    format!("{history:#?}\n{listed}{blockers}\n{}", verdict.unwrap_or_default())
}

/// What happened, a line for each.
fn listed<W: Simulated>(cluster: &Cluster<'_, W>) -> String {
    let line = |entry: &timeline::Entry| {
        let counts = entry.counts;
        format!(
            "{:>9} {:<10} {} [old {} new {} available {}]\n",
            entry.time, entry.actor, entry.text, counts.old, counts.new, counts.available
        )
    };
    cluster.timeline().entries.iter().map(line).collect()
}

/// Lets these steps happen to the workload. Gives the cluster at its end, and what went wrong.
fn played<'p, W: Simulated>(
    workload: W,
    settings: Settings,
    steps: &[(Milliseconds, Step<W>)],
    planner: Planner<'p, W>,
) -> (Cluster<'p, W>, Option<String>) {
    let mut cluster = Cluster::new(workload, settings, planner);
    let mut time = 0;
    for (pause, step) in steps {
        time += pause;
        cluster.add(time, step.clone());
    }
    cluster.run_until(time);
    let rest = cluster.settle_down(LIMIT);
    let verdict = match (cluster.violations().first(), rest) {
        (Some(violation), _) => Some(violation.to_string()),
        (None, Rest::Converged) => None,
        (None, rest) => Some(format!("Rest: {rest:?}")),
    };
    (cluster, verdict)
}

#[test]
fn no_history_breaks_a_rule_and_all_come_to_rest() {
    let count = histories(HISTORIES);
    let first = variable("KUTTER_SIMULATION_FIRST").unwrap_or(0);
    if let Some((seed, failure)) = first_failure(first..first + count, &plan) {
        let story = told(History::new(seed), &plan);
        panic!("{story}\nKUTTER_SIMULATION_SEED={seed}: {failure}");
    }
}

#[test]
fn one_history() {
    let Some(seed) = variable("KUTTER_SIMULATION_SEED") else { return };
    let history = History::new(seed);
    if let Some(failure) = verdict(&history, &plan) {
        panic!("{}\nKUTTER_SIMULATION_SEED={seed}: {failure}", told(history, &plan));
    }
}

#[test]
fn equal_seeds_give_equal_histories() {
    for seed in 0..20 {
        let (one, _) = History::new(seed).run(&plan, true);
        let (other, _) = History::new(seed).run(&plan, true);
        assert_eq!(one.timeline().entries, other.timeline().entries);
        assert!(one.timeline().entries.len() > 3);
    }
}
