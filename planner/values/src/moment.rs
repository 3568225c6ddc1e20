//! Time and chance of one decision, handed in by the caller, so that a decision can be repeated.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// When a decision is taken, and the randomness that it may use.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time of the decision.
    pub now: Timestamp,
    /// Where its random numbers start.
    pub seed: u64,
}

impl Moment {
    /// The time as Kubernetes writes it: RFC 3339, UTC, whole seconds.
    pub fn rfc3339(&self) -> String {
        rfc3339(self.now)
    }

    /// The random numbers of this decision, always the same for the same seed.
    pub fn random(&self) -> Random {
        Random(self.seed)
    }
}

/// A time as Kubernetes writes it: RFC 3339, UTC, whole seconds.
pub fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// How long it is until `end`; `None` where it has passed.
pub fn until(end: Timestamp, now: Timestamp) -> Option<Duration> {
    (now < end).then(|| end.duration_since(now).unsigned_abs())
}

/// How long it is until just after `time`: what must be longer ago than a number of seconds is so only then.
pub fn just_after(time: Timestamp, now: Timestamp) -> Duration {
    const AFTER: SignedDuration = SignedDuration::from_millis(10);
    let delay = time.duration_since(now).max(SignedDuration::ZERO).saturating_add(AFTER);
    Duration::try_from(delay).unwrap_or_default()
}

/// A small deterministic generator (SplitMix64); not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number in `[0, 1)`.
    pub fn next_fraction(&mut self) -> f64 {
        // 53 bits are what a double can hold exactly.
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A UUID of version 4.
    pub fn uuid(&mut self) -> String {
        let (high, low) = (self.next_u64() & !0xf000 | 0x4000, self.next_u64() >> 2 | 1 << 63);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// `length` characters that Kubernetes uses for generated names.
    pub fn name_suffix(&mut self, length: usize) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..length)
            .map(|_| {
                let position = self.next_u64() % ALPHABET.len() as u64;
                char::from(ALPHABET.get(position as usize).copied().unwrap_or(b'b'))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers() {
        let moment = Moment { now: Timestamp::UNIX_EPOCH, seed: 7 };
        assert_eq!(moment.random().next_u64(), moment.random().next_u64());
        assert_eq!(moment.rfc3339(), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn uuids_say_that_they_are_random() {
        let mut random = Moment { now: Timestamp::UNIX_EPOCH, seed: 3 }.random();
        for _ in 0..100 {
            let uuid = random.uuid();
            let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
            assert!(uuid.get(14..15) == Some("4") && "89ab".contains(&uuid[19..20]), "{uuid}");
        }
    }

    #[test]
    fn fractions_stay_below_one_and_suffixes_are_dns_safe() {
        let mut random = Moment { now: Timestamp::UNIX_EPOCH, seed: 1 }.random();
        for _ in 0..1_000 {
            assert!((0.0..1.0).contains(&random.next_fraction()));
        }
        let suffix = random.name_suffix(5);
        assert!(
            suffix.len() == 5
                && suffix.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit())
        );
    }
}
