//! Waits until a container may end. It always ends: a hook that gets no answer continues after a short while.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::Duration;

use signal_hook::consts::SIGTERM;

use crate::arguments::Wait;
use crate::state::{Directory, State, now};

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits until the hook may continue. Whatever goes wrong, the user's own hook runs: so there is no error.
pub(crate) fn wait(wait: &Wait) {
    if wait.is_over {
        return;
    }
    // A program that takes this one's place has the usual action for the signal again.
    drop(signal_hook::flag::register(SIGTERM, Arc::new(AtomicBool::new(false))));
    let begun = now();
    let states = Directory::own();
    loop {
        let reported = states.as_ref().ok().and_then(|states| states.read(&wait.name));
        let until = until(reported, begun, wait.window);
        if until.is_none_or(|until| now() >= until) {
            return;
        }
        sleep(PAUSE);
    }
}

/// Until when a hook with this message waits; `None` if it continues at once.
fn until(reported: Option<State>, begun: Duration, window: Duration) -> Option<Duration> {
    match reported {
        Some(State::Release) => None,
        Some(State::Hold(until)) => Some(until),
        None => Some(begun + window),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_waits_as_it_was_told_or_for_its_window() {
        let [begun, window, later] = [100, 3, 125].map(Duration::from_secs);
        assert_eq!(until(None, begun, window), Some(begun + window));
        assert_eq!(until(Some(State::Hold(later)), begun, window), Some(later));
        assert_eq!(until(Some(State::Release), begun, window), None);
    }
}
