//! Objects of namespaced kinds: few in each namespace, read for each Pod of it.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

/// What is kept of an object.
pub trait Entry: Clone + PartialEq {
    /// The object's name.
    fn name(&self) -> &str;

    /// Which of two objects of a namespace comes first.
    fn precedence(&self, other: &Self) -> Ordering;
}

/// Objects by namespace, those of a namespace in their order of precedence.
#[derive(Clone, Debug)]
pub struct Namespaced<T>(HashMap<Box<str>, Arc<Vec<T>>>);

impl<T> Default for Namespaced<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Namespaced<T> {
    /// The objects of a namespace.
    pub fn of(&self, namespace: &str) -> &[T] {
        // Most clusters have none at all, and then not even a hash is needed.
        if self.0.is_empty() {
            return &[];
        }
        self.0.get(namespace).map_or(&[], |entries| entries.as_slice())
    }

    /// All objects, by namespace.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().flat_map(|(namespace, entries)| entries.iter().map(move |entry| (&**namespace, entry)))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.values().map(|entries| entries.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Entry> Namespaced<T> {
    /// Takes in an object, new or changed; one that can't be read is forgotten. Where nothing changes that
    /// is kept, as with most changes of a status, nothing is copied.
    pub fn apply<E>(
        shared: &mut Arc<Self>,
        namespace: &str,
        name: &str,
        read: Result<T, E>,
    ) -> Result<(), E> {
        if read.as_ref().is_ok_and(|entry| shared.of(namespace).contains(entry)) {
            return Ok(());
        }
        let objects = Arc::make_mut(shared);
        objects.remove(namespace, name);
        let entry = read?;
        let entries = Arc::make_mut(objects.0.entry(namespace.into()).or_default());
        let place = entries.partition_point(|known| known.precedence(&entry) == Ordering::Less);
        entries.insert(place, entry);
        Ok(())
    }

    /// Forgets an object.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        let Some(entries) = self.0.get_mut(namespace) else { return };
        if let Some(position) = entries.iter().position(|entry| entry.name() == name) {
            Arc::make_mut(entries).remove(position);
        }
        if entries.is_empty() {
            self.0.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Object(&'static str, u8);

    impl Entry for Object {
        fn name(&self) -> &str {
            self.0
        }

        fn precedence(&self, other: &Self) -> Ordering {
            self.1.cmp(&other.1)
        }
    }

    #[test]
    fn objects_are_kept_in_order_and_copied_only_when_they_change() {
        let mut objects = Arc::default();
        let mut apply = |object: Result<Object, ()>| {
            let name = object.as_ref().map_or("a", |object| object.0);
            let _ = Namespaced::apply(&mut objects, "shop", name, object);
            objects.clone()
        };
        apply(Ok(Object("a", 2)));
        let both = apply(Ok(Object("b", 1)));
        assert_eq!(both.of("shop"), [Object("b", 1), Object("a", 2)]);
        assert!(Arc::ptr_eq(&both, &apply(Ok(Object("a", 2)))));
        assert_eq!(apply(Ok(Object("b", 3))).of("shop"), [Object("a", 2), Object("b", 3)]);
        assert_eq!(apply(Err(())).of("shop"), [Object("b", 3)]);
        assert_eq!(both.of("shop").len(), 2);
        assert!(both.of("other").is_empty());
        objects = both;
        for name in ["a", "a", "b"] {
            Arc::make_mut(&mut objects).remove("shop", name);
        }
        assert!(objects.of("shop").is_empty());
    }
}
