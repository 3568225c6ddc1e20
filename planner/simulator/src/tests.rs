//! Histories: CloneSets made at random, and what happens to them at random, each from one seed.
//!
//! `KUTTER_SIMULATION_HISTORIES` sets how many are run, `KUTTER_SIMULATION_FIRST` the seed of the first. A
//! failure names its seed;
//! `KUTTER_SIMULATION_SEED=<seed> cargo test -p kutter-simulator --lib tests::one_history` prints
//! that one from beginning to end.

use std::ops::Range;

use api::kinds::cloneset::CloneSet;

use super::*;
use kinds::cloneset::plan;
use testing::histories::{first_failing, histories, variable};

mod broadcastjob;
mod broken;
mod budget;
mod cloneset;
mod daemonset;
mod history;
mod release;
mod scenarios;
mod statefulset;
mod united;

use history::History;

/// Histories that are run where nothing else is said.
const HISTORIES: u64 = 2_000;
/// The longest time that a CloneSet may take to settle.
const LIMIT: Milliseconds = 4 * 3_600_000;

/// Makes the history of a seed.
type Maker<W> = fn(u64) -> History<W>;

/// What goes wrong in a history; nothing where all is well.
fn verdict<W: Simulated>(history: &History<W>, planner: Planner<'_, W>) -> Option<String> {
    let (_, verdict) = history.run(planner, false);
    verdict
}

/// The first history that fails, by its seed.
fn first_failure<W: Simulated>(
    history: Maker<W>,
    seeds: Range<u64>,
    planner: Planner<'_, W>,
) -> Option<(u64, String)> {
    first_failing(seeds, |seed| verdict(&history(seed), planner))
}

/// The history without what it fails without, and printed from beginning to end.
fn reported<W: Simulated>(history: History<W>) -> String {
    let history = history.shortened(&W::plan);
    let (cluster, verdict) = history.run(&W::plan, true);
    let line = |entry: &timeline::Entry| {
        let counts = entry.counts;
        format!(
            "{:>9} {:<10} {} [old {} new {} available {}]\n",
            entry.time, entry.actor, entry.text, counts.old, counts.new, counts.available
        )
    };
    let listed: String = cluster.timeline().entries.iter().map(line).collect();
    let blockers = cluster.blockers().join("\n");
    format!("{history:#?}\n{listed}{blockers}\n{}", verdict.unwrap_or_default())
}

/// Runs histories of a kind, one where there are `share` of CloneSets.
fn all_come_to_rest<W: Simulated>(history: Maker<W>, share: u64) {
    let count = histories(HISTORIES) / share;
    let first = variable("KUTTER_SIMULATION_FIRST").unwrap_or(0);
    if let Some((seed, failure)) = first_failure(history, first..first + count, &W::plan) {
        panic!("{}\nKUTTER_SIMULATION_SEED={seed}: {failure}", reported(history(seed)));
    }
}

/// Tells the history that was asked for, if it fails.
fn one<W: Simulated>(history: Maker<W>) {
    let Some(seed) = variable("KUTTER_SIMULATION_SEED") else { return };
    if let Some(failure) = verdict(&history(seed), &W::plan) {
        panic!("{}\nKUTTER_SIMULATION_SEED={seed}: {failure}", reported(history(seed)));
    }
}

/// The real planner, asked about another workload.
fn plan_with<W: Simulated>(
    snapshot: &Snapshot<'_, W>,
    moment: Moment,
    change: impl FnOnce(&mut W::Spec),
) -> Plan<W::Status> {
    let mut workload = snapshot.workload.clone();
    change(&mut workload.object_mut().spec);
    W::plan(&Snapshot { workload: &workload, ..*snapshot }, moment)
}

/// One of these histories breaks one of these rules first.
fn noticed<W: Simulated>(history: Maker<W>, (seeds, rules): (Range<u64>, &[&str]), planner: Planner<'_, W>) {
    let (seed, failure) = first_failure(history, seeds, planner).expect("nobody notices");
    let known = rules.iter().any(|rule| failure.starts_with(&format!("{rule}:")));
    assert!(known, "history {seed} breaks another rule than {rules:?}: {failure}");
}

#[test]
fn no_history_breaks_a_rule_and_all_come_to_rest() {
    all_come_to_rest(cloneset::history, 1);
}

#[test]
fn one_history() {
    one(cloneset::history);
}

#[test]
fn equal_seeds_give_equal_histories() {
    for seed in 0..20 {
        let (one, _) = cloneset::history(seed).run(&plan, true);
        let (other, _) = cloneset::history(seed).run(&plan, true);
        assert_eq!(one.timeline().entries, other.timeline().entries);
        assert!(one.timeline().entries.len() > 3);
    }
}
