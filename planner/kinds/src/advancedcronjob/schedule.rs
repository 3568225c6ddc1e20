//! When a schedule comes due (docs/behaviour/advancedcronjob.md#the-language-of-schedules).
//!
//! ```text
//!   text --parse--> Schedule = Every(delay) | Calendar(which minutes, zone)
//!     parser, field   the cron language and its errors        zone   names of time zones
//!     calendar        the matching minutes before and after a moment
//! ```
//!
//! A tick is a moment at which the schedule comes due, a whole second. How much work a question is does not depend on
//! how many ticks lie between: a schedule of each minute that was not evaluated for a year is as cheap as another one.

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use calendar::Calendar;
pub use zone::{ZoneError, zone};

mod calendar;
mod field;
mod parser;
#[cfg(test)]
mod tests;
mod zone;

/// When runs are due.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// So many seconds after each other.
    Every(i64),
    /// At the minutes of a calendar.
    Calendar(Box<Calendar>),
}

/// Why a schedule can't be used, in the words of the cron language.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScheduleError(String);

impl Schedule {
    /// Reads a schedule. It is evaluated in `zone` where it names none itself; `process` is the zone that it may call
    /// `Local`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, zone: &TimeZone, process: &TimeZone) -> Result<Self, ScheduleError> {
        parser::parse(text, zone, process).map_err(ScheduleError)
    }

    /// The first tick after `after`, and after `since`; ticks that follow each other at a distance are counted from
    /// `since`. `None` where there is none within five years.
    pub fn next(&self, since: Timestamp, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(delay) => {
                let passed = floor(after).saturating_sub(floor(since)).max(0);
                tick(since, *delay, passed.div_euclid(*delay).checked_add(1)?)
            }
            Self::Calendar(calendar) => calendar.next(after.max(since)),
        }
    }

    /// The last tick after `since` that is no later than `until`. What is more than five years before `until` does not
    /// count.
    pub fn latest(&self, since: Timestamp, until: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(delay) => {
                let passed = floor(until).saturating_sub(floor(since));
                let ticks = passed.div_euclid(*delay);
                (ticks > 0).then(|| tick(since, *delay, ticks))?
            }
            Self::Calendar(calendar) => calendar.latest(since, until),
        }
    }

    /// How many ticks there are after `after` and `since` and no later than `until`, counted up to `most`.
    pub fn count(&self, since: Timestamp, after: Timestamp, until: Timestamp, most: usize) -> usize {
        let after = Some(after.max(since));
        let ticks = std::iter::successors(after, |tick| self.next(since, *tick));
        ticks.skip(1).take_while(|tick| *tick <= until).take(most).count()
    }
}

/// The second in which a moment lies.
fn floor(moment: Timestamp) -> i64 {
    moment.as_second().saturating_sub(i64::from(moment.subsec_nanosecond() < 0))
}

fn tick(since: Timestamp, delay: i64, number: i64) -> Option<Timestamp> {
    Timestamp::from_second(floor(since).checked_add(delay.checked_mul(number)?)?).ok()
}
