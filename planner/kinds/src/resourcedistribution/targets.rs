//! The namespaces of a ResourceDistribution (docs/behaviour/resourcedistribution.md#target-namespaces).

use std::collections::{BTreeMap, BTreeSet};

use api::kinds::resourcedistribution::{self, NamespaceList};
use api::kinds::{Object, ObjectMeta};
use serde::de::IgnoredAny;

use values::selector::{Selector, SelectorError};

/// Namespaces that never get a copy.
pub const SYSTEM_NAMESPACES: [&str; 2] = ["kube-public", "kube-system"];

/// A Namespace as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetNamespace {
    /// The name.
    pub name: String,
    /// The identity.
    pub uid: String,
    /// The version of this state.
    pub resource_version: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// Its deletion was asked for: nothing can be created in it any more, and what is in it is deleted.
    pub terminating: bool,
}

impl TargetNamespace {
    /// Reads a Namespace.
    ///
    /// # Errors
    /// The text is none.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        let object: Object<Option<IgnoredAny>, Option<IgnoredAny>> = serde_json::from_str(json)?;
        let ObjectMeta { name, uid, resource_version, labels, deletion_timestamp, .. } = object.metadata;
        Ok(Self { name, uid, resource_version, labels, terminating: deletion_timestamp.is_some() })
    }
}

/// What a namespace is to a ResourceDistribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It gets a copy.
    Target,
    /// It is listed, but does not exist, or not for long.
    Missing,
    /// It gets no copy, and loses the one that it has.
    Elsewhere,
    /// Nothing is done about it: it does not exist, or what is in it is deleted with it.
    LeftAlone,
}

impl Place {
    /// Whether it counts in `status.desired`.
    pub fn is_target(self) -> bool {
        matches!(self, Self::Target | Self::Missing)
    }
}

/// `spec.targets`, compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    all: bool,
    included: BTreeSet<Box<str>>,
    /// `None` without requirements: it selects nothing then.
    selector: Option<Selector>,
    excluded: BTreeSet<Box<str>>,
}

impl Targets {
    /// Compiles `spec.targets`.
    ///
    /// # Errors
    /// The selector can't be used.
    pub fn compile(targets: &resourcedistribution::Targets) -> Result<Self, SelectorError> {
        let names = |list: &NamespaceList| list.list.iter().map(|entry| entry.name.as_str().into()).collect();
        let selector = targets.namespace_selector.as_ref().map(Selector::compile).transpose()?;
        Ok(Self {
            all: targets.all_namespaces,
            included: names(&targets.included_namespaces),
            selector: selector.filter(|selector| !selector.is_empty()),
            excluded: names(&targets.excluded_namespaces),
        })
    }

    /// The namespaces that are listed by name. Beside `allNamespaces` the list says nothing.
    pub fn listed(&self) -> impl Iterator<Item = &str> {
        self.included.iter().filter(|_| !self.all).map(|name| &**name)
    }

    /// What the namespace `name` is, given its state; `None` where it does not exist.
    pub fn place(&self, name: &str, namespace: Option<&TargetNamespace>) -> Place {
        let listed = !self.all && self.included.contains(name);
        let selected = |namespace: &TargetNamespace| {
            self.all || self.selector.as_ref().is_some_and(|selector| selector.matches(&namespace.labels))
        };
        let refused = SYSTEM_NAMESPACES.contains(&name) || self.excluded.contains(name);
        match namespace.filter(|namespace| !namespace.terminating) {
            None if listed && !refused => Place::Missing,
            None => Place::LeftAlone,
            Some(namespace) if !refused && (listed || selected(namespace)) => Place::Target,
            Some(_) => Place::Elsewhere,
        }
    }

    /// Whether a change of the namespace `name` makes it a target, or no target any more.
    pub fn concerns(&self, name: &str, old: Option<&TargetNamespace>, new: Option<&TargetNamespace>) -> bool {
        let (old, new) = (self.place(name, old), self.place(name, new));
        old != new && (old.is_target() || new.is_target())
    }
}

#[cfg(test)]
mod tests;
