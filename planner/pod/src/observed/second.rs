//! Times as the API server tells them.

use std::fmt;
use std::num::NonZeroU32;

use jiff::Timestamp;

/// A time in whole seconds, in four bytes even where it may be missing. It reaches from 1970 to 2106; any other time
/// counts as the nearest of these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Second(NonZeroU32);

impl From<Timestamp> for Second {
    fn from(time: Timestamp) -> Self {
        let seconds = time.as_second().clamp(0, u32::MAX.into());
        // One more than the seconds since 1970, so that 0 can stand for no time.
        Self(NonZeroU32::MIN.saturating_add(u32::try_from(seconds).unwrap_or(u32::MAX)))
    }
}

impl From<Second> for Timestamp {
    fn from(second: Second) -> Self {
        // All these seconds are in the range of times.
        Self::from_second(i64::from(second.0.get()) - 1).unwrap_or_default()
    }
}

impl fmt::Debug for Second {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Timestamp::from(*self).fmt(formatter)
    }
}
