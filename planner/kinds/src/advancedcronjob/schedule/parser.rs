//! The cron language: five fields, or a word for them, behind an optional zone.

use jiff::tz::TimeZone;

use super::field::{DAYS, Field, HOURS, MINUTES, MONTHS, WEEKDAYS};
use super::{Calendar, Schedule, zone};
use values::json_patch::string;

/// What precedes a duration.
const EVERY: &str = "@every ";

/// Reads a schedule, which is evaluated in `default` where it names no zone.
pub(super) fn parse(text: &str, default: &TimeZone, process: &TimeZone) -> Result<Schedule, String> {
    if text.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let (zone, text) = match text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
        None => (default.clone(), text),
        Some(rest) => {
            let behind =
                || format!("invalid cron schedule: there is nothing behind the zone of {}", string(text));
            let (name, rest) = rest.split_once(' ').ok_or_else(behind)?;
            (named(name, process)?, rest.trim())
        }
    };
    if text.starts_with('@') {
        return word(text, &zone);
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [minutes, hours, days, months, weekdays] = fields[..] else {
        let (count, shown) = (fields.len(), fields.join(" "));
        return Err(format!("expected exactly 5 fields, found {count}: [{shown}]"));
    };
    Ok(calendar(Calendar {
        minutes: Field::parse(minutes, &MINUTES)?,
        hours: Field::parse(hours, &HOURS)?,
        days: Field::parse(days, &DAYS)?,
        months: Field::parse(months, &MONTHS)?,
        weekdays: Field::parse(weekdays, &WEEKDAYS)?,
        zone,
    }))
}

fn calendar(calendar: Calendar) -> Schedule {
    Schedule::Calendar(Box::new(calendar))
}

/// The zone that a schedule names itself.
fn named(name: &str, process: &TimeZone) -> Result<TimeZone, String> {
    if name == "Local" {
        return Ok(process.clone());
    }
    zone(name).map_err(|error| format!("provided bad location {name}: {error}"))
}

/// Reads a word for a schedule.
fn word(text: &str, zone: &TimeZone) -> Result<Schedule, String> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let duration =
                text.strip_prefix(EVERY).ok_or_else(|| format!("unrecognized descriptor: {text}"))?;
            return every(duration).ok_or_else(|| {
                let problem = format!("time: invalid duration {}", string(duration));
                format!("failed to parse duration {text}: {problem}")
            });
        }
    };
    parse(fields, zone, zone)
}

/// A constant delay, in whole seconds, of one second at least.
fn every(duration: &str) -> Option<Schedule> {
    let delay = match duration.strip_prefix('-') {
        // What is negative is as short as what is nothing.
        Some(duration) => api::duration::parse(duration).map(|_| 1)?,
        None => api::duration::parse(duration.strip_prefix('+').unwrap_or(duration))?.as_secs().max(1),
    };
    i64::try_from(delay).ok().map(Schedule::Every)
}
