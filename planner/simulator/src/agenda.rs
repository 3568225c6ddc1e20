//! What happens when: events in the order of their times, and the time that they make pass.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// Milliseconds since the start of a simulation.
pub type Milliseconds = u64;

/// When every simulation starts: 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600;

/// The moment `time` after the start.
pub(super) fn timestamp(time: Milliseconds) -> Timestamp {
    let start = Timestamp::from_second(START).unwrap_or_default();
    let passed = SignedDuration::from_millis(i64::try_from(time).unwrap_or(i64::MAX));
    start.checked_add(passed).unwrap_or(Timestamp::MAX)
}

/// Events to come. Of events at the same time the one that was added first comes first.
#[derive(Clone, Debug)]
pub(super) struct Agenda<E> {
    now: Milliseconds,
    added: u64,
    events: BTreeMap<Reverse<(Milliseconds, u64)>, E>,
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self { now: 0, added: 0, events: BTreeMap::new() }
    }
}

impl<E> Agenda<E> {
    /// The time of the event that came last.
    pub(super) fn now(&self) -> Milliseconds {
        self.now
    }

    /// Lets `event` happen after `delay`.
    pub(super) fn add(&mut self, delay: Milliseconds, event: E) {
        self.added += 1;
        self.events.insert(Reverse((self.now.saturating_add(delay), self.added)), event);
    }

    /// The time of the next event.
    pub(super) fn next_time(&self) -> Option<Milliseconds> {
        self.events.last_key_value().map(|(Reverse((time, _)), _)| *time)
    }

    /// The next event that is `due`, with its time; those before it that are not due any more are dropped.
    pub(super) fn peek(&mut self, due: impl Fn(&E, Milliseconds) -> bool) -> Option<&E> {
        while self.events.last_key_value().is_some_and(|(Reverse((time, _)), event)| !due(event, *time)) {
            self.events.pop_last();
        }
        self.events.last_key_value().map(|(_, event)| event)
    }

    /// The next event; its time is now.
    pub(super) fn next(&mut self) -> Option<E> {
        let (Reverse((time, _)), event) = self.events.pop_last()?;
        self.now = time;
        Some(event)
    }

    /// Lets time pass until `time` if that is later and nothing happens before.
    pub(super) fn pass_until(&mut self, time: Milliseconds) {
        if self.next_time().is_none_or(|next| next >= time) {
            self.now = self.now.max(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_addition() {
        let mut agenda = Agenda::default();
        agenda.add(5, 'c');
        agenda.add(1, 'a');
        agenda.add(1, 'b');
        let mut came = Vec::new();
        while let Some(event) = agenda.next() {
            came.push((agenda.now(), event));
        }
        assert_eq!(came, [(1, 'a'), (1, 'b'), (5, 'c')]);
        agenda.add(1, 'd');
        agenda.add(2, 'e');
        assert_eq!(agenda.peek(|event, time| *event == 'e' && time == 7), Some(&'e'));
        assert_eq!((agenda.now(), agenda.next(), agenda.now()), (5, Some('e'), 7));
        agenda.pass_until(9);
        assert_eq!((agenda.now(), timestamp(9_500).to_string().as_str()), (9, "2026-01-01T00:00:09.5Z"));
    }
}
