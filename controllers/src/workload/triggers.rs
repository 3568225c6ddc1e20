//! From changes of objects to the keys of what has to be reconciled.

use std::time::Duration;

pub(crate) use cluster::triggers::forward;
use cluster::watched::Key;

use super::store::{Change, Kept};

/// The object that changed, at once, unless it is gone.
pub(crate) fn changed<T: Kept>(change: &Change<T>) -> Option<(Key, Duration)> {
    change.new.as_ref().map(|new| (new.key(), Duration::ZERO))
}
