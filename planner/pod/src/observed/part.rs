//! What Pods have in common.

use std::borrow::Borrow;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A part of a Pod that others may have too, so that a [`Pool`](super::Pool) can keep it once for all of them. It is
/// used like what is in it; a change copies it where others have it. The pointer is thin: with the length of a text or
/// a list beside it, each Pod would need eight bytes more for each.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part<T: ?Sized> {
    shared: Arc<Box<T>>,
}

impl<T: ?Sized> Part<T> {
    /// True if both are one and the same, not only equal.
    #[cfg(test)]
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// How many have it.
    pub(super) fn holders(&self) -> usize {
        Arc::strong_count(&self.shared)
    }
}

impl<T: ?Sized> Clone for Part<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T: ?Sized> Default for Part<T>
where
    Box<T>: Default,
{
    fn default() -> Self {
        Box::default().into()
    }
}

impl<T: ?Sized> Deref for Part<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.shared
    }
}

impl<T: ?Sized> DerefMut for Part<T>
where
    Box<T>: Clone,
{
    fn deref_mut(&mut self) -> &mut T {
        Arc::<Box<T>>::make_mut(&mut self.shared)
    }
}

impl<T: ?Sized> Borrow<T> for Part<T> {
    fn borrow(&self) -> &T {
        self
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Part<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for Part<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T: ?Sized> From<Box<T>> for Part<T> {
    fn from(part: Box<T>) -> Self {
        Self { shared: Arc::new(part) }
    }
}

impl<T> From<T> for Part<T> {
    fn from(part: T) -> Self {
        Box::new(part).into()
    }
}

impl From<&str> for Part<str> {
    fn from(text: &str) -> Self {
        Box::<str>::from(text).into()
    }
}

impl From<String> for Part<str> {
    fn from(text: String) -> Self {
        text.into_boxed_str().into()
    }
}

impl<T> From<Vec<T>> for Part<[T]> {
    fn from(list: Vec<T>) -> Self {
        list.into_boxed_slice().into()
    }
}

impl<T, const N: usize> From<[T; N]> for Part<[T]> {
    fn from(list: [T; N]) -> Self {
        Vec::from(list).into()
    }
}

impl<T> FromIterator<T> for Part<[T]> {
    fn from_iter<I: IntoIterator<Item = T>>(list: I) -> Self {
        list.into_iter().collect::<Box<[T]>>().into()
    }
}

impl<T: ?Sized + Serialize> Serialize for Part<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: ?Sized> Deserialize<'de> for Part<T>
where
    Box<T>: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::deserialize(deserializer).map(Self::from)
    }
}
