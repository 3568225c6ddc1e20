//! A PodUnavailableBudget under many requests: replicas of the server that take units by compare-and-swap, the
//! controller that counts, a workload that brings Pods back, and all that may go wrong between them. In no moment may
//! fewer Pods be available than the budget wants.
//!
//! Watches lag, answers get lost or come late, writes are carried out after the one who sent them has given up or does
//! not lead any more, replicas crash, clocks differ, Pods come back under their names, and requests that were admitted
//! come to nothing. Some budgets protect Pods that are not ready, too. What is left out can't be promised: see
//! docs/behaviour/podunavailablebudget.md#what-the-promise-holds-for.
//!
//! `KUTTER_SIMULATION_HISTORIES` sets twice the number of histories; a failure names its seed, and
//! `KUTTER_SIMULATION_SEED=<seed> cargo test -p kutter-simulator --lib tests::budget::one_history` prints it.

mod history;

use history::History;

use testing::histories::{first_failing, variable};

/// Histories that are run where nothing else is said.
const HISTORIES: u64 = 1_000;
/// Histories within which a defect must be noticed.
const ENOUGH: u64 = 10_000;

/// What is broken on purpose: the simulation must notice it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    /// Writes don't name the state that they were decided on.
    AnyVersion,
    /// Requests pass before the write.
    Unwritten,
    /// What is only tried takes a unit.
    TrialsTake,
    /// The controller drops entries as soon as it sees them.
    DropsAtOnce,
    /// The controller counts recorded Pods.
    CountsRecorded,
}

/// Why a history fails, if it does.
fn failure(seed: u64, defect: Option<Defect>) -> Option<String> {
    History::new(seed, defect, false).run().err()
}

/// A history from beginning to end.
fn reported(seed: u64) -> String {
    let mut history = History::new(seed, None, true);
    let outcome = history.run();
    let story = history.story.unwrap_or_default().join("\n");
    format!("{story}\nKUTTER_SIMULATION_SEED={seed}: {outcome:?}")
}

#[test]
fn never_are_more_pods_gone_than_allowed() {
    let count = variable("KUTTER_SIMULATION_HISTORIES").map_or(HISTORIES, |count| count / 2);
    let first = variable("KUTTER_SIMULATION_FIRST").unwrap_or(0);
    let failed = first_failing(first..first + count, |seed| failure(seed, None));
    assert!(failed.is_none(), "{}", failed.map(|(seed, _)| reported(seed)).unwrap_or_default());
}

#[test]
fn one_history() {
    let Some(seed) = variable("KUTTER_SIMULATION_SEED") else { return };
    assert!(failure(seed, None).is_none(), "{}", reported(seed));
}

#[test]
fn histories_are_reported_alike_and_do_something() {
    let (mut granted, mut unready) = (0, [0, 0]);
    for seed in 0..50 {
        assert_eq!(reported(seed), reported(seed));
        let mut history = History::new(seed, None, false);
        history.run().unwrap();
        granted += history.granted;
        unready = [0, 1].map(|answer| unready[answer] + history.unready[answer]);
    }
    assert!(granted > 150, "{granted} requests were granted");
    assert!(unready.iter().all(|count| *count > 10), "about Pods that were not ready: {unready:?}");
}

#[test]
fn each_defect_is_noticed() {
    let defects = [
        (Defect::AnyVersion, "Budget"),
        (Defect::Unwritten, "Budget"),
        (Defect::TrialsTake, "Trial"),
        (Defect::DropsAtOnce, "Budget"),
        (Defect::CountsRecorded, "Budget"),
    ];
    for (defect, rule) in defects {
        let breaks = |seed| failure(seed, Some(defect)).filter(|failure| failure.starts_with(rule));
        assert!(first_failing(0..ENOUGH, breaks).is_some(), "{defect:?} is not noticed");
    }
}
