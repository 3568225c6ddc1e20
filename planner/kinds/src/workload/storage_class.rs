//! StorageClasses: which volumes can grow, and which class is meant where a claim names none.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use pod::observed::PodMetadata;

/// Marks the class that is meant where a claim names none.
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// A StorageClass, as much of it as is read here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageClass {
    /// Its name.
    pub name: Box<str>,
    /// Volumes can grow. Kubernetes lets them grow only where the class says so.
    pub allows_expansion: bool,
    /// It is meant where a claim names no class.
    pub is_default: bool,
    /// When it was created.
    pub created: Option<Timestamp>,
}

impl StorageClass {
    /// Reads a StorageClass from its JSON text.
    ///
    /// # Errors
    /// A text that is no StorageClass.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Stored {
            metadata: PodMetadata,
            allow_volume_expansion: Option<bool>,
        }
        let Stored { metadata, allow_volume_expansion } = serde_json::from_str(json)?;
        Ok(Self {
            is_default: metadata.annotations.get(IS_DEFAULT) == Some("true"),
            allows_expansion: allow_volume_expansion == Some(true),
            created: metadata.created(),
            name: metadata.name,
        })
    }
}

/// The StorageClasses of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageClasses(BTreeMap<Box<str>, StorageClass>);

impl StorageClasses {
    /// Takes in a class, in place of the one that had its name.
    pub fn apply(&mut self, class: StorageClass) {
        self.0.insert(class.name.clone(), class);
    }

    /// The class is gone.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The class of this name.
    pub fn named(&self, name: &str) -> Option<&StorageClass> {
        self.0.get(name)
    }

    /// The class that is meant where a claim names none: the newest of those that are marked so.
    pub fn default_class(&self) -> Option<&StorageClass> {
        self.0.values().filter(|class| class.is_default).max_by_key(|class| class.created)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, created: &str, is_default: &str, expansion: &str) -> StorageClass {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","creationTimestamp":"{created}","annotations":{{"{IS_DEFAULT}":"{is_default}"}}}},"provisioner":"x"{expansion}}}"#
        );
        StorageClass::read(&json).unwrap()
    }

    #[test]
    fn the_newest_default_class_is_meant_and_only_a_clear_yes_lets_volumes_grow() {
        let mut classes = StorageClasses::default();
        assert_eq!(classes.default_class(), None);
        classes.apply(class("old", "2026-01-01T00:00:00Z", "true", r#","allowVolumeExpansion":true"#));
        classes.apply(class("new", "2026-02-01T00:00:00Z", "true", r#","allowVolumeExpansion":false"#));
        classes.apply(class("newest", "2026-03-01T00:00:00Z", "false", ""));
        assert_eq!(classes.default_class().map(|class| &*class.name), Some("new"));
        let expands = |name: &str| classes.named(name).map(|class| class.allows_expansion);
        assert_eq!(
            (expands("old"), expands("new"), expands("newest"), expands("none")),
            (Some(true), Some(false), Some(false), None)
        );
        classes.remove("new");
        assert_eq!(classes.default_class().map(|class| &*class.name), Some("old"));
    }
}
