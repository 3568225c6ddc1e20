//! Namespaces: their labels, which selectors of namespaces ask for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A Namespace: its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    labels: BTreeMap<String, String>,
}

impl Namespace {
    /// A Namespace with these labels.
    pub fn new(labels: BTreeMap<String, String>) -> Self {
        Self { labels }
    }

    /// The labels.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }
}

/// Namespaces by name.
#[derive(Clone, Debug, Default)]
pub struct Namespaces(HashMap<String, Arc<Namespace>>);

impl Namespaces {
    /// Takes in a Namespace, new or changed.
    pub(crate) fn insert(&mut self, name: &str, namespace: Namespace) {
        self.0.insert(name.to_owned(), Arc::new(namespace));
    }

    /// Forgets a Namespace.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// A Namespace by name.
    pub(crate) fn get(&self, name: &str) -> Option<&Namespace> {
        self.0.get(name).map(Arc::as_ref)
    }

    /// All of them, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Namespace)> {
        self.0.iter().map(|(name, namespace)| (name.as_str(), &**namespace))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
