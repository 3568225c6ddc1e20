//! `spec.resource` (docs/behaviour/resourcedistribution.md#the-copy): the copy to create in a namespace, and
//! the patch that makes an existing copy equal to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::annotations::{DISTRIBUTED_FROM, DISTRIBUTED_HASH, DISTRIBUTED_METADATA};
use api::kinds::resourcedistribution::{API_VERSION, KIND};
use api::raw::Raw;
use api::raw_object::{RawNode, RawObject};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use super::Distribution;
use crate::workload::owner::Owner;
use values::hash::hex_sha256;
use values::read::from_str;

mod content;
mod patch;

use content::Content;

/// The kinds that can be distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    /// Secrets.
    Secret,
    /// ConfigMaps.
    ConfigMap,
}

impl ResourceKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Secret, Self::ConfigMap];

    /// The kind as objects name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }

    /// The kind as paths name it.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
        }
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Why `spec.resource` can't be distributed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ResourceError {
    /// There is none.
    #[error("empty resource is not allowed")]
    Empty,
    /// It is no object.
    #[error("failed to deserialize resource, please check your spec.resource, err {0}")]
    Unreadable(String),
    /// It is of another kind.
    #[error("unknown or unsupported resource GroupKind, only support [Secret ConfigMap]")]
    Unsupported(String),
    /// It has no name.
    #[error("the name is required: it is that of every copy")]
    NoName,
}

/// What distinguishes one resource from others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Head {
    pub(super) api_version: String,
    pub(super) kind: String,
    metadata: HeadMetadata,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct HeadMetadata {
    name: String,
}

impl Head {
    pub(super) fn name(&self) -> &str {
        &self.metadata.name
    }
}

/// A Secret or ConfigMap to distribute.
#[derive(Clone, Debug)]
pub struct Resource {
    raw: Raw,
    /// Its kind.
    pub kind: ResourceKind,
    /// Its name, which is that of every copy.
    pub name: Box<str>,
    hash: Box<str>,
}

/// What a copy has of its ResourceDistribution, beside the content.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    #[serde(deserialize_with = "super::texts")]
    labels: Texts,
    #[serde(deserialize_with = "super::texts")]
    annotations: Texts,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<Raw>>,
}

/// Labels, annotations or data by key.
type Texts = BTreeMap<String, String>;

/// The value of annotation [`DISTRIBUTED_METADATA`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
struct Applied {
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    labels: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    annotations: BTreeSet<String>,
}

impl Resource {
    /// Reads `spec.resource`.
    ///
    /// # Errors
    /// It can't be distributed.
    pub fn read(raw: Option<&Raw>) -> Result<Self, ResourceError> {
        let raw = raw.filter(|raw| !raw.is_null()).ok_or(ResourceError::Empty)?;
        let head = Self::head(raw)?;
        let known = |kind: &ResourceKind| kind.name() == head.kind && !head.api_version.contains('/');
        let Some(kind) = ResourceKind::ALL.into_iter().find(known) else {
            return Err(ResourceError::Unsupported(format!("{}/{}", head.api_version, head.kind)));
        };
        if head.name().is_empty() {
            return Err(ResourceError::NoName);
        }
        let hash = hex_sha256(raw.get()).into();
        Ok(Self { raw: raw.clone(), kind, name: head.name().into(), hash })
    }

    /// Kind and name of `spec.resource`.
    pub(super) fn head(raw: &Raw) -> Result<Head, ResourceError> {
        // Read as an object first: a list can be read as a struct too. What is none is not shown, for it may be secret.
        RawObject::parse(raw.get())
            .map_err(|_| ResourceError::Unreadable("it must be an object".to_owned()))?;
        from_str(raw.get()).map_err(|error| ResourceError::Unreadable(error.to_string()))
    }

    /// The hash that its copies carry: that of the text of `spec.resource` as it came.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The resource as an object of this namespace.
    ///
    /// # Errors
    /// Its metadata can't be read.
    pub fn in_namespace(&self, namespace: &str) -> Result<String, serde_json::Error> {
        self.with_metadata(|metadata| metadata.insert("namespace", RawNode::string(namespace)))
    }

    /// The copy to create in this namespace.
    ///
    /// # Errors
    /// The metadata of the resource can't be read.
    pub fn copy(&self, distribution: &Distribution, namespace: &str) -> Result<String, serde_json::Error> {
        let (labels, annotations) = self.wanted_metadata(distribution)?;
        let owner = owner(distribution);
        self.with_metadata(|metadata| {
            metadata.insert("namespace", RawNode::string(namespace));
            for (member, texts) in [("labels", labels), ("annotations", annotations)] {
                let texts = texts.iter().map(|(key, text)| (key.clone(), RawNode::string(text))).collect();
                metadata.insert(member, RawObject::from_entries(texts).into());
            }
            metadata.remove_empty_object("labels");
            let references = metadata.remove("ownerReferences").and_then(RawNode::into_array);
            let mut references = references.unwrap_or_default();
            references.retain_mut(|reference| {
                let uid = reference.as_object_mut().and_then(|reference| reference.string("uid"));
                uid.as_deref() != Some(owner.uid())
            });
            references.extend(owner.references().into_array().unwrap_or_default());
            metadata.insert("ownerReferences", RawNode::array(references));
        })
    }

    fn with_metadata<'a>(
        &'a self,
        edit: impl FnOnce(&mut RawObject<'a>),
    ) -> Result<String, serde_json::Error> {
        let mut object = RawObject::parse(self.raw.get())?;
        object.edit_object("metadata", edit);
        Ok(RawNode::from(object).to_string())
    }

    /// Labels and annotations that a copy must have.
    fn wanted_metadata(&self, distribution: &Distribution) -> Result<(Texts, Texts), serde_json::Error> {
        let Metadata { labels, mut annotations, .. } = self.metadata()?;
        let keys = |texts: &Texts| texts.keys().cloned().collect();
        let applied = Applied { labels: keys(&labels), annotations: keys(&annotations) };
        if applied != Applied::default() {
            annotations.insert(DISTRIBUTED_METADATA.to_owned(), serde_json::to_string(&applied)?);
        }
        annotations.insert(DISTRIBUTED_HASH.to_owned(), self.hash.to_string());
        annotations.insert(DISTRIBUTED_FROM.to_owned(), distribution.name.clone());
        Ok((labels, annotations))
    }

    fn metadata(&self) -> Result<Metadata, serde_json::Error> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
        }
        serde_json::from_str(self.raw.get()).map(|Object { metadata }| metadata)
    }

    fn content(&self) -> Result<Content, serde_json::Error> {
        Content::read(self.kind, self.raw.get())
    }
}

/// What to set, and with null what to remove, so that `found` has what is wanted and nothing of `ours` beside
/// it. Texts stay as they are on their way through values.
fn changes<'a>(wanted: &Texts, found: &Texts, ours: impl Iterator<Item = &'a String>) -> Map<String, Value> {
    let set = wanted.iter().filter(|(key, text)| found.get(*key) != Some(text));
    let removed = ours.filter(|key| found.contains_key(*key) && !wanted.contains_key(*key));
    set.map(|(key, text)| (key.clone(), text.as_str().into()))
        .chain(removed.map(|key| (key.clone(), Value::Null)))
        .collect()
}

fn owner(distribution: &Distribution) -> Owner<'_> {
    Owner::new(API_VERSION, KIND, &distribution.name, &distribution.uid)
}

#[cfg(test)]
mod tests;
