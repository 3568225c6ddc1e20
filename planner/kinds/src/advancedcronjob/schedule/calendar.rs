//! The minutes at which a schedule of five fields comes due.
//!
//! Between two changes of a zone's offset the clock on the wall runs like any other, so each such stretch is searched
//! by itself. Times that a change leaves out are never met, and those that come twice are met twice.

use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::field::Field;

/// How many years are searched.
const YEARS: i16 = 5;

/// Which minutes are meant, in which zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Calendar {
    pub(super) minutes: Field,
    pub(super) hours: Field,
    pub(super) days: Field,
    pub(super) months: Field,
    pub(super) weekdays: Field,
    pub(super) zone: TimeZone,
}

impl Calendar {
    /// The first match after `after`, up to the end of the fifth year after it.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let mut from = Timestamp::from_second(super::floor(after).checked_add(1)?).ok()?;
        let mut offset = self.zone.to_offset(from);
        let end = last_day(offset.to_datetime(from).year().checked_add(YEARS)?)?.at(23, 59, 0, 0);
        for change in self.zone.following(from) {
            // This stretch ends a second before the offset changes.
            let last = change.timestamp().checked_sub(SignedDuration::from_secs(1)).ok()?;
            if let Some(found) = self.first_match(offset.to_datetime(from), offset.to_datetime(last).min(end))
            {
                return offset.to_timestamp(found).ok();
            }
            (from, offset) = (change.timestamp(), change.offset());
            if offset.to_datetime(from) > end {
                return None;
            }
        }
        let found = self.first_match(offset.to_datetime(from), end)?;
        offset.to_timestamp(found).ok()
    }

    /// The last match after `since` that is no later than `until`, and no more than five years before it.
    pub(super) fn latest(&self, since: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let mut last = Timestamp::from_second(super::floor(until)).ok()?;
        let earliest = Date::new(self.zone.to_datetime(last).year().checked_sub(YEARS)?, 1, 1).ok()?;
        let is_late = |found: DateTime, offset: Offset| {
            let found = offset.to_timestamp(found).ok();
            found.filter(|found| *found > since)
        };
        let second = SignedDuration::from_secs(1);
        let earliest_in = |offset: Offset| earliest.at(0, 0, 0, 0).max(offset.to_datetime(since));
        // A change at this very second begins a stretch.
        for change in self.zone.preceding(last.checked_add(second).ok()?) {
            let (begin, offset) = (change.timestamp(), change.offset());
            let from = offset.to_datetime(begin).max(earliest_in(offset));
            if let Some(found) = self.last_match(from, offset.to_datetime(last)) {
                return is_late(found, offset);
            }
            if begin <= since || offset.to_datetime(begin).date() < earliest {
                return None;
            }
            last = begin.checked_sub(second).ok()?;
        }
        let offset = self.zone.to_offset(last);
        is_late(self.last_match(earliest_in(offset), offset.to_datetime(last))?, offset)
    }

    /// The first matching minute that begins in this stretch.
    fn first_match(&self, from: DateTime, last: DateTime) -> Option<DateTime> {
        if self.hours.is_empty() || self.minutes.is_empty() {
            return None;
        }
        let (mut date, mut time) = (from.date(), Some((from.hour(), from.minute())));
        if from.second() > 0 {
            time = minute_after(from.hour(), from.minute());
        }
        while date <= last.date() {
            if !self.months.contains(date.month()) {
                date = date.last_of_month();
            } else if let Some((hour, minute)) =
                time.filter(|_| self.has_day(date)).and_then(|time| self.from(time))
            {
                return Some(date.at(hour, minute, 0, 0)).filter(|found| *found <= last);
            }
            date = date.tomorrow().ok()?;
            time = Some((0, 0));
        }
        None
    }

    /// The last matching minute that begins in this stretch.
    fn last_match(&self, from: DateTime, last: DateTime) -> Option<DateTime> {
        if self.hours.is_empty() || self.minutes.is_empty() {
            return None;
        }
        let (mut date, mut time) = (last.date(), (last.hour(), last.minute()));
        while date >= from.date() {
            if !self.months.contains(date.month()) {
                date = date.first_of_month();
            } else if let Some((hour, minute)) =
                Some(time).filter(|_| self.has_day(date)).and_then(|time| self.up_to(time))
            {
                return Some(date.at(hour, minute, 0, 0)).filter(|found| *found >= from);
            }
            date = date.checked_sub(1.day()).ok()?;
            time = (23, 59);
        }
        None
    }

    /// Whether the clock on the wall shows a match.
    #[cfg(test)]
    pub(super) fn matches(&self, local: DateTime) -> bool {
        let time = (local.hour(), local.minute());
        local.second() == 0
            && self.months.contains(local.month())
            && self.has_day(local.date())
            && self.hours.contains(time.0)
            && self.minutes.contains(time.1)
    }

    /// Where a day field has a plain star, both must match; else one of them is enough.
    fn has_day(&self, date: Date) -> bool {
        let day = self.days.contains(date.day());
        let weekday = self.weekdays.contains(date.weekday().to_sunday_zero_offset());
        if self.days.is_star || self.weekdays.is_star { day && weekday } else { day || weekday }
    }

    /// The first matching minute of a day from this one on.
    fn from(&self, (hour, minute): (i8, i8)) -> Option<(i8, i8)> {
        let in_this_hour = || self.minutes.at_least(minute).map(|minute| (hour, minute));
        let in_a_later_one = || Some((self.hours.at_least(hour + 1)?, self.minutes.at_least(0)?));
        self.hours.contains(hour).then(in_this_hour).flatten().or_else(in_a_later_one)
    }

    /// The last matching minute of a day up to this one.
    fn up_to(&self, (hour, minute): (i8, i8)) -> Option<(i8, i8)> {
        let in_this_hour = || self.minutes.at_most(minute).map(|minute| (hour, minute));
        let in_an_earlier_one = || Some((self.hours.at_most(hour - 1)?, self.minutes.at_most(59)?));
        self.hours.contains(hour).then(in_this_hour).flatten().or_else(in_an_earlier_one)
    }
}

/// The minute after this one, on the same day.
fn minute_after(hour: i8, minute: i8) -> Option<(i8, i8)> {
    match (hour, minute) {
        (23, 59) => None,
        (hour, 59) => Some((hour + 1, 0)),
        (hour, minute) => Some((hour, minute + 1)),
    }
}

fn last_day(year: i16) -> Option<Date> {
    Date::new(year, 12, 31).ok()
}
