//! One field of a schedule: a set of small numbers.

use values::json_patch::string;

/// What the numbers of a field may be.
pub(super) struct Bounds {
    least: u8,
    most: u8,
    /// The names of the numbers, from the least one on.
    names: &'static [&'static str],
}

pub(super) const MINUTES: Bounds = Bounds { least: 0, most: 59, names: &[] };
pub(super) const HOURS: Bounds = Bounds { least: 0, most: 23, names: &[] };
pub(super) const DAYS: Bounds = Bounds { least: 1, most: 31, names: &[] };
pub(super) const MONTHS: Bounds = Bounds {
    least: 1,
    most: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
pub(super) const WEEKDAYS: Bounds =
    Bounds { least: 0, most: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// The numbers of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    /// A bit for each number.
    bits: u64,
    /// It has a plain star, so it restricts nothing.
    pub(super) is_star: bool,
}

impl Field {
    /// Reads a field: items with commas between them; empty ones count for nothing.
    pub(super) fn parse(text: &str, bounds: &Bounds) -> Result<Self, String> {
        let mut field = Self::default();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            field.add(item, bounds)?;
        }
        Ok(field)
    }

    /// Adds an item: `*`, `N` or `A-B`, each with `/S` or without.
    fn add(&mut self, item: &str, bounds: &Bounds) -> Result<(), String> {
        let mut parts = item.split('/');
        let range = parts.next().unwrap_or_default();
        let step = parts.next();
        let mut ends = range.split('-');
        let (first, last) = (ends.next().unwrap_or_default(), ends.next());
        let is_star = matches!(first, "*" | "?");
        // Whatever follows the hyphen of a star counts for nothing.
        let (start, mut end) = if is_star {
            (bounds.least.into(), bounds.most.into())
        } else {
            let start = bounds.number(first)?;
            match (last, ends.next()) {
                (None, _) => (start, start),
                (Some(last), None) => (start, bounds.number(last)?),
                (Some(_), Some(_)) => return Err(format!("too many hyphens: {item}")),
            }
        };
        let mut width = 1;
        if let Some(step) = step {
            if parts.next().is_some() {
                return Err(format!("too many slashes: {item}"));
            }
            width = number(step)?;
            if last.is_none() {
                end = bounds.most.into();
            }
        }
        let (least, most) = (u64::from(bounds.least), u64::from(bounds.most));
        if start < least {
            return Err(format!("beginning of range ({start}) below minimum ({least}): {item}"));
        }
        if end > most {
            return Err(format!("end of range ({end}) above maximum ({most}): {item}"));
        }
        if start > end {
            return Err(format!("beginning of range ({start}) beyond end of range ({end}): {item}"));
        }
        if width == 0 {
            return Err(format!("step of range should be a positive number: {item}"));
        }
        self.is_star |= is_star && width == 1;
        let numbers = (start..=end).filter(|number| (number - start).is_multiple_of(width));
        self.bits |= numbers.fold(0, |bits, number| bits | 1 << number);
        Ok(())
    }

    pub(super) fn is_empty(self) -> bool {
        self.bits == 0
    }

    pub(super) fn contains(self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.bits & 1 << number != 0)
    }

    /// The least number that is at least `number`.
    pub(super) fn at_least(self, number: i8) -> Option<i8> {
        (number..=59).find(|number| self.contains(*number))
    }

    /// The greatest number that is at most `number`.
    pub(super) fn at_most(self, number: i8) -> Option<i8> {
        (0..=number.min(59)).rev().find(|number| self.contains(*number))
    }
}

impl Bounds {
    /// A number, or its name in any case.
    fn number(&self, text: &str) -> Result<u64, String> {
        let named = self.names.iter().zip(u64::from(self.least)..);
        let mut named = named.filter(|(name, _)| name.eq_ignore_ascii_case(text));
        named.next().map_or_else(|| number(text), |(_, number)| Ok(number))
    }
}

/// A number as Go reads it, with the error that it has where it can't.
fn number(text: &str) -> Result<u64, String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    let problem = if is_number { "value out of range" } else { "invalid syntax" };
    let parsed: Option<i64> = if is_number { text.parse().ok() } else { None };
    let parsed = parsed.ok_or_else(|| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {problem}", string(text))
    })?;
    u64::try_from(parsed).map_err(|_| format!("negative number ({parsed}) not allowed: {text}"))
}
