//! Which Events were written, and how often each has happened since. It has no I/O: it says what to write.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::Allowance;

/// An Event is written at most once in this time.
pub(super) const PAUSE: Duration = Duration::from_secs(10);
/// An Event that did not happen for so long is over: when it happens again, it is another one.
pub(super) const OVER: Duration = Duration::from_secs(360);
/// So many Events of one subject may differ in their notes at once. `kubectl` users know this number from
/// Kubernetes' own controllers, which combine similar Events after ten.
pub(super) const BURST: u32 = 10;
/// After each such time one more may.
pub(super) const REFILL: Duration = Duration::from_secs(60);
/// Of so many subjects it is remembered that an Event was written.
pub(super) const REMEMBERED: usize = 1000;

/// What an Event is about: the object's UID, the action and the reason.
pub(super) type Subject = (String, String, String);

/// The latest Event of each subject.
#[derive(Debug, Default)]
pub(super) struct AllSeries {
    series: HashMap<Subject, Series>,
    /// A task runs that writes the counts when they are due.
    is_counting: bool,
}

#[derive(Debug)]
struct Series {
    namespace: String,
    name: String,
    note: String,
    /// How often it has happened, and how often the Event says.
    count: i32,
    written: i32,
    observed: Timestamp,
    last: Instant,
    /// Not written before this time.
    due: Instant,
    /// Of notes that differ.
    notes: Allowance,
}

/// How often an Event has happened, to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) subject: Subject,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) count: i32,
    pub(super) observed: Timestamp,
}

/// What is to be written now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The Event is new. The one before it may have happened more often than it says: that is written first.
    Create { before: Option<Count> },
    /// The Event happened again.
    CountUp(Count),
    /// Nothing: the count is written later. `begins` says that a task has to be started for that.
    Later { begins: bool },
}

impl AllSeries {
    /// Takes note that something happened. If the Event is new, it gets this name.
    pub(super) fn observe(
        &mut self,
        subject: &Subject,
        namespace: &str,
        name: &str,
        note: &str,
        observed: Timestamp,
    ) -> Step {
        let now = Instant::now();
        let Some(known) = self.series.get_mut(subject) else {
            self.make_room(now);
            let mut notes = Allowance::new(BURST, REFILL);
            notes.take();
            let series = Series {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                note: note.to_owned(),
                count: 1,
                written: 1,
                observed,
                last: now,
                due: now + PAUSE,
                notes,
            };
            self.series.insert(subject.clone(), series);
            return Step::Create { before: None };
        };
        let is_over = known.last + OVER <= now;
        let is_other = known.note != note && known.notes.take();
        if is_over || is_other {
            let before = (known.count > known.written).then(|| known.count(subject));
            (known.name, known.note) = (name.to_owned(), note.to_owned());
            (known.count, known.written) = (1, 1);
            (known.observed, known.last, known.due) = (observed, now, now + PAUSE);
            return Step::Create { before };
        }
        known.count = known.count.saturating_add(1);
        (known.observed, known.last) = (observed, now);
        if known.due <= now {
            return Step::CountUp(known.write(subject, now));
        }
        Step::Later { begins: !std::mem::replace(&mut self.is_counting, true) }
    }

    /// When the next count is due; `None` where all are written, which ends the task that writes them.
    pub(super) fn next_due(&mut self) -> Option<Instant> {
        let open = self.series.values().filter(|series| series.count > series.written);
        let due = open.map(|series| series.due).min();
        self.is_counting = due.is_some();
        due
    }

    /// The counts that are due at this time, or all of them. They count as written.
    pub(super) fn take_due(&mut self, now: Option<Instant>) -> Vec<Count> {
        let open = self.series.iter_mut().filter(|(_, series)| series.count > series.written);
        let due = open.filter(|(_, series)| now.is_none_or(|now| series.due <= now));
        due.map(|(subject, series)| series.write(subject, Instant::now())).collect()
    }

    /// The Event of this name is not there: when it happens again, it is new.
    pub(super) fn forget(&mut self, subject: &Subject, name: &str) {
        if self.series.get(subject).is_some_and(|series| series.name == name) {
            self.series.remove(subject);
        }
    }

    /// Forgets what is over. If nothing is, the Event is dropped that did not happen for longest, and first one
    /// whose count is written.
    fn make_room(&mut self, now: Instant) {
        if self.series.len() < REMEMBERED {
            return;
        }
        self.series.retain(|_, series| series.last + OVER > now || series.count > series.written);
        if self.series.len() < REMEMBERED {
            return;
        }
        let oldest =
            self.series.iter().min_by_key(|(_, series)| (series.count > series.written, series.last));
        if let Some(oldest) = oldest.map(|(subject, _)| subject.clone()) {
            self.series.remove(&oldest);
        }
    }
}

impl Series {
    fn count(&self, subject: &Subject) -> Count {
        Count {
            subject: subject.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            count: self.count,
            observed: self.observed,
        }
    }

    fn write(&mut self, subject: &Subject, now: Instant) -> Count {
        (self.written, self.due) = (self.count, now + PAUSE);
        self.count(subject)
    }
}
