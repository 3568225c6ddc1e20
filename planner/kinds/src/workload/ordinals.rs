//! Which ordinals the Pods of a StatefulSet have (docs/behaviour/statefulset.md#slots).
//!
//! Reserved ordinals are kept as intervals: a range may have billions of them.

use api::kinds::shared::IntOrString;

#[cfg(test)]
mod tests;

/// `spec.reserveOrdinals`: ordinals that no Pod may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservedOrdinals {
    /// First and last ordinal of each interval: sorted, with free ordinals between them.
    intervals: Vec<(i64, i64)>,
}

impl ReservedOrdinals {
    /// Reads the entries: numbers, and ranges such as `3-5` with both ends. Where one can't be read, none is
    /// reserved.
    pub fn parse(entries: &[IntOrString]) -> Self {
        let ranges: Option<Vec<(i64, i64)>> = entries.iter().map(range).collect();
        let mut ranges = ranges.unwrap_or_default();
        ranges.sort_unstable();
        let mut intervals: Vec<(i64, i64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match intervals.last_mut() {
                Some((_, known)) if first <= known.saturating_add(1) => *known = (*known).max(last),
                _ => intervals.push((first, last)),
            }
        }
        Self { intervals }
    }

    /// No Pod may have this ordinal.
    pub fn contains(&self, ordinal: i32) -> bool {
        let ordinal = i64::from(ordinal);
        let at = self.intervals.partition_point(|(_, last)| *last < ordinal);
        self.intervals.get(at).is_some_and(|(first, _)| *first <= ordinal)
    }

    /// How many ordinals from `start` on and below `end` are not reserved.
    fn free(&self, start: i64, end: i64) -> i64 {
        let reserved = self.intervals.iter().map(|(first, last)| {
            let (first, last) = ((*first).max(start), (*last).min(end - 1));
            (last - first + 1).max(0)
        });
        (end - start - reserved.sum::<i64>()).max(0)
    }
}

/// First and last ordinal of an entry.
fn range(entry: &IntOrString) -> Option<(i64, i64)> {
    // No Pod has a larger ordinal.
    const LAST: i64 = i32::MAX as i64;
    read(entry).map(|(first, last)| (first.min(LAST + 1), last.min(LAST + 1)))
}

fn read(entry: &IntOrString) -> Option<(i64, i64)> {
    match entry {
        IntOrString::Int(ordinal) => Some((i64::from(*ordinal), i64::from(*ordinal))),
        IntOrString::String(text) => {
            let (first, last) = text.split_once('-')?;
            let number = |digits: &str| {
                let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                digits.parse::<i64>().ok().filter(|_| is_number)
            };
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some((first, last))
        }
    }
}

/// The ordinals of a StatefulSet: `replicas` of them from the first one on that are not reserved.
#[derive(Clone, Debug)]
pub struct Ordinals {
    start: i64,
    /// The ordinal behind the last one.
    end: i64,
    reserved: ReservedOrdinals,
}

impl Ordinals {
    /// So many ordinals from `start` on.
    pub fn new(start: i32, replicas: i64, reserved: ReservedOrdinals) -> Self {
        let start = i64::from(start);
        let mut end = start.saturating_add(replicas.max(0));
        for (first, last) in &reserved.intervals {
            // Each ordinal that is reserved before the end moves that up.
            if *last >= start && *first < end {
                end = end.saturating_add(last - (*first).max(start) + 1);
            }
        }
        Self { start, end: end.min(i64::from(i32::MAX) + 1), reserved }
    }

    /// A Pod has this ordinal.
    pub fn contains(&self, ordinal: i32) -> bool {
        (self.start..self.end).contains(&i64::from(ordinal)) && !self.reserved.contains(ordinal)
    }

    /// How many Pods have a smaller ordinal.
    pub fn rank(&self, ordinal: i32) -> i64 {
        self.reserved.free(self.start, i64::from(ordinal))
    }

    /// The ordinals, ascending.
    pub fn iter(&self) -> impl Iterator<Item = i32> + '_ {
        let mut next = self.start;
        let mut intervals = self.reserved.intervals.iter().peekable();
        std::iter::from_fn(move || {
            while let Some((first, last)) = intervals.peek() {
                if *last >= next {
                    if *first <= next {
                        next = last.saturating_add(1);
                    } else {
                        break;
                    }
                }
                intervals.next();
            }
            if next >= self.end {
                return None;
            }
            let ordinal = i32::try_from(next).ok()?;
            next += 1;
            Some(ordinal)
        })
    }
}
