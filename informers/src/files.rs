//! Objects read from manifests: the cluster of `kutter review` and `kutter serve --objects`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use admission::world::{Watched, World};
use api::kinds::{persistentpodstate, podprobemarker, podunavailablebudget, rollout, workloadspread};
use api::raw_object::{RawNode, RawObject};
use kinds::sidecarset::defaulting;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;
use tracing::warn;
use values::json_patch;

/// Why manifests can't be read.
#[derive(Debug, Error)]
pub enum FilesError {
    /// A file or folder can't be read.
    #[error("{path}: {source}")]
    Read {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A document is neither YAML nor JSON.
    #[error("{path}, document {document}: {message}")]
    Syntax {
        /// In which file.
        path: String,
        /// Which document in it, counted from 1.
        document: usize,
        /// What the parser says.
        message: String,
    },
    /// A document is not a Kubernetes object.
    #[error(
        "{path}, document {document}: not a Kubernetes object: it needs apiVersion, kind and metadata.name"
    )]
    NotAnObject {
        /// In which file.
        path: String,
        /// Which document in it, counted from 1.
        document: usize,
    },
}

/// One object of a manifest.
#[derive(Clone, Debug)]
pub struct Object {
    /// Group and version, `apps/v1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty where the manifest has none.
    pub namespace: String,
    /// Name, or `generateName` where there is no name.
    pub name: String,
    /// The whole object as JSON.
    pub json: String,
    /// Where it was read.
    pub source: String,
}

impl Object {
    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        api::group_and_version(&self.api_version).0
    }

    /// The object's JSON, with `namespace` where it names none.
    pub fn in_namespace(&self, namespace: &str) -> Option<String> {
        if !self.namespace.is_empty() {
            return Some(self.json.clone());
        }
        let mut object = RawObject::parse(&self.json).ok()?;
        object.object_mut("metadata")?.insert("namespace", RawNode::string(namespace));
        Some(RawNode::from(object).to_string())
    }
}

/// Objects in the order in which they were read.
#[derive(Clone, Debug, Default)]
pub struct Objects(Vec<Object>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    api_version: String,
    kind: String,
    #[serde(default)]
    metadata: HeaderMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HeaderMetadata {
    name: String,
    generate_name: String,
    namespace: String,
}

#[derive(Deserialize)]
struct ListItems<'a> {
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

impl Objects {
    /// Reads files, folders (their `.yaml`, `.yml` and `.json` files, at every depth) and, for `-`,
    /// standard input. Lists are taken apart.
    ///
    /// # Errors
    /// The first file that can't be read or understood.
    pub fn read(paths: &[PathBuf]) -> Result<Self, FilesError> {
        let mut objects = Self::default();
        for path in paths {
            objects.read_path(path)?;
        }
        Ok(objects)
    }

    fn read_path(&mut self, path: &Path) -> Result<(), FilesError> {
        let name = path.display().to_string();
        let failed = |source| FilesError::Read { path: name.clone(), source };
        if name == "-" {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(failed)?;
            return self.parse("standard input", &text);
        }
        if fs::metadata(path).map_err(failed)?.is_dir() {
            let mut entries = fs::read_dir(path)
                .and_then(|entries| {
                    entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()
                })
                .map_err(failed)?;
            entries.sort();
            for entry in entries.iter().filter(|entry| entry.is_dir() || is_manifest(entry)) {
                self.read_path(entry)?;
            }
            return Ok(());
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        self.parse(&name, &text)
    }

    /// Adds the objects of `text`, which is JSON or YAML with any number of documents.
    ///
    /// # Errors
    /// A document is not an object; `source` is named in the error.
    pub fn parse(&mut self, source: &str, text: &str) -> Result<(), FilesError> {
        if text.trim_start().starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok() {
            return self.push(source, 1, text.trim());
        }
        let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| {
            FilesError::Syntax { path: source.to_owned(), document: 1, message: error.to_string() }
        })?;
        for (position, document) in documents.iter().enumerate().filter(|(_, document)| !document.is_null()) {
            self.push(source, position + 1, &document.to_string())?;
        }
        Ok(())
    }

    fn push(&mut self, source: &str, document: usize, json: &str) -> Result<(), FilesError> {
        let not_an_object = || FilesError::NotAnObject { path: source.to_owned(), document };
        let header: Header = serde_json::from_str(json).map_err(|_| not_an_object())?;
        if header.kind.ends_with("List") {
            let list: ListItems<'_> = serde_json::from_str(json).map_err(|_| not_an_object())?;
            return list.items.iter().try_for_each(|item| self.push(source, document, item.get()));
        }
        let metadata = header.metadata;
        let name = if metadata.name.is_empty() { metadata.generate_name } else { metadata.name };
        if name.is_empty() {
            return Err(not_an_object());
        }
        self.0.push(Object {
            api_version: header.api_version,
            kind: header.kind,
            namespace: metadata.namespace,
            name,
            json: json.to_owned(),
            source: source.to_owned(),
        });
        Ok(())
    }

    /// The objects in order.
    pub fn iter(&self) -> impl Iterator<Item = &Object> {
        self.0.iter()
    }

    /// Appends `others`.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// True where nothing was read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many objects of a kind (in `namespace`, if one is named) satisfy `counts`.
    pub fn count(
        &self,
        group: &str,
        kind: &str,
        namespace: Option<&str>,
        counts: impl Fn(&str) -> bool,
    ) -> usize {
        let here = |object: &&Object| namespace.is_none_or(|namespace| object.namespace == namespace);
        self.0
            .iter()
            .filter(|object| object.kind == kind && object.group() == group)
            .filter(here)
            .filter(|object| counts(&object.json))
            .count()
    }

    /// What admission reads of these objects. SidecarSets first pass conversion and defaulting, as on their way into a
    /// cluster (docs/review.md). Namespaces that are only named exist with the label that Kubernetes sets; objects that
    /// name none are in `default_namespace`.
    pub fn world(&self, default_namespace: &str, install_namespace: &str) -> World {
        let mut world = World::new(install_namespace);
        let namespaces = self.0.iter().map(|object| object.namespace.as_str()).chain([default_namespace]);
        let named: BTreeSet<&str> = namespaces.filter(|namespace| !namespace.is_empty()).collect();
        for namespace in named {
            let name = json_patch::string(namespace);
            let object = format!(
                r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":{name},"labels":{{"{}":{name}}}}}}}"#,
                api::labels::NAMESPACE_NAME
            );
            if let Err(error) = world.apply(Watched::Namespace, &object) {
                warn!(namespace, %error, "a namespace is not usable");
            }
        }
        self.fill(&mut world, default_namespace);
        world
    }

    fn fill(&self, world: &mut World, default_namespace: &str) {
        for object in &self.0 {
            let kind = match (object.group(), object.kind.as_str()) {
                (api::APPS_GROUP, "SidecarSet") => Watched::SidecarSet,
                ("", "Namespace") => Watched::Namespace,
                ("apps", "ControllerRevision") => Watched::ControllerRevision,
                ("", "ConfigMap") => Watched::ConfigMap,
                // What is read of these two is the same in all their versions.
                (api::POLICY_GROUP, podunavailablebudget::KIND) => Watched::PodUnavailableBudget,
                (api::APPS_GROUP, podprobemarker::KIND) => Watched::PodProbeMarker,
                (api::APPS_GROUP, workloadspread::KIND) => Watched::WorkloadSpread,
                (api::APPS_GROUP, persistentpodstate::KIND) => Watched::PersistentPodState,
                ("storage.k8s.io", "StorageClass") => Watched::StorageClass,
                (api::ROLLOUTS_GROUP, rollout::KIND) => Watched::Rollout,
                _ => continue,
            };
            let stored = match kind {
                Watched::SidecarSet => match sidecar_set(object) {
                    Ok(stored) => Some(stored),
                    Err(error) => {
                        warn!(
                            source = object.source,
                            name = object.name,
                            "a SidecarSet is left out: {error}"
                        );
                        None
                    }
                },
                Watched::WorkloadSpread | Watched::PersistentPodState | Watched::Rollout => {
                    object.in_namespace(default_namespace).and_then(|placed| stored(object, placed))
                }
                Watched::PodUnavailableBudget | Watched::PodProbeMarker => {
                    object.in_namespace(default_namespace)
                }
                Watched::Namespace
                | Watched::ControllerRevision
                | Watched::ConfigMap
                | Watched::StorageClass => Some(object.json.clone()),
            };
            let Some(stored) = stored else { continue };
            if let Err(error) = world.apply(kind, &stored) {
                warn!(source = object.source, name = object.name, %error, "an object is not usable");
            }
        }
    }
}

/// A SidecarSet as the API server would store it, or why it can't be stored.
fn sidecar_set(object: &Object) -> Result<String, String> {
    let (_, version) = api::group_and_version(&object.api_version);
    let defaults = defaulting::default(&object.json, version).map_err(|denial| denial.message)?;
    let defaulted = json_patch::apply(&object.json, &defaults).map_err(|error| error.to_string())?;
    if version == "v1beta1" {
        return Ok(defaulted);
    }
    let storage = format!("{}/v1beta1", api::APPS_GROUP);
    let converted = api::conversion::convert(&defaulted, &storage).map_err(|error| error.to_string())?;
    Ok(converted.get().to_owned())
}

/// An object in v1beta1, in which it is stored; one that can't be converted is left out.
fn stored(object: &Object, placed: String) -> Option<String> {
    let storage = format!("{}/v1beta1", object.group());
    if object.api_version == storage {
        return Some(placed);
    }
    let stored = api::conversion::convert(&placed, &storage);
    let stored = stored.inspect_err(|error| {
        warn!(source = object.source, name = object.name, %error, "an object is left out");
    });
    Some(stored.ok()?.get().to_owned())
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml" || extension == "json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Objects, FilesError> {
        let mut objects = Objects::default();
        objects.parse("test", text).map(|()| objects)
    }

    #[test]
    fn documents_and_lists_are_taken_apart() {
        let objects = parse(
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n# nothing\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: a}}\n- {apiVersion: v1, kind: Pod, metadata: {generateName: q-, namespace: b}}\n",
        )
        .unwrap();
        let names: Vec<&str> = objects.iter().map(|object| object.name.as_str()).collect();
        assert_eq!(names, ["a", "p", "q-"]);
        assert_eq!(objects.count("", "Pod", Some("a"), |_| true), 1);
        assert_eq!(objects.count("", "Pod", None, |_| true), 2);
    }

    #[test]
    fn json_keeps_its_bytes() {
        let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"x":1.50}"#;
        assert_eq!(parse(text).unwrap().iter().next().unwrap().json, text);
    }

    #[test]
    fn a_rollout_of_v1alpha1_is_known_as_it_is_stored() {
        let rollout = "apiVersion: rollouts.kruise.io/v1alpha1\nkind: Rollout\nmetadata: {name: web}\nspec: {objectRef: {workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}\n";
        let known = parse(rollout).unwrap().world("shop", "kruise-system").rollouts_in("shop");
        assert_eq!(known[0].spec.workload_ref.name, "web");
    }

    #[test]
    fn what_is_no_object_is_named() {
        let error = parse("apiVersion: v1\nkind: Pod\n").unwrap_err().to_string();
        assert!(error.starts_with("test, document 1: not a Kubernetes object"), "{error}");
        assert!(parse("{:").unwrap_err().to_string().starts_with("test, document 1:"));
    }
}
