//! How many histories the tests of plans run, and how they run them.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The number that environment variable `KUTTER_SIMULATION_HISTORIES` sets, or this default.
pub fn histories(default: u64) -> u64 {
    variable("KUTTER_SIMULATION_HISTORIES").unwrap_or(default)
}

/// Runs so many histories of a plan that is quick to judge, or a fiftieth of what the variable sets where that is more.
pub fn all_succeed(least: u64, failure: impl Fn(u64) -> Option<String> + Sync) {
    if let Some((seed, failure)) = first_failing(0..(histories(least) / 50).max(least), failure) {
        panic!("seed {seed}: {failure}");
    }
}

/// The number in this environment variable.
#[expect(clippy::disallowed_methods, reason = "who runs the tests chooses")]
pub fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Runs the histories of these seeds on all cores. Returns the seed and the failure of the first that fails.
pub fn first_failing(
    seeds: Range<u64>,
    failure: impl Fn(u64) -> Option<String> + Sync,
) -> Option<(u64, String)> {
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let found: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    if let Some(failure) = failure(seed) {
                        stop.store(true, Ordering::Relaxed);
                        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                        if found.as_ref().is_none_or(|(known, _)| seed < *known) {
                            *found = Some((seed, failure));
                        }
                    }
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}
