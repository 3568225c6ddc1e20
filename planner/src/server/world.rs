//! What is known of the cluster: plain indexed data that every decision reads.
//!
//! ```text
//!   watches -----------.
//!   a directory --------> World::apply / World::remove --> snapshot (clone) --> decisions
//!   test builders -----'
//! ```
//!
//! Invariants:
//! 1. A clone is cheap and never changes: parts are shared, and copied when they are written to.
//! 2. An object that can't be read never hides another. It becomes a value with its problem.
//! 3. The contents depend on the objects applied, not on their order.
//! 4. Only what some rule reads is kept.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use api::CONFIGURATION_CONFIG_MAP;
use api::annotations::{SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE, SIDECARSET_PODS};
use api::meta::LabelSelector;
use api::sidecarset::{Metadata, SidecarSet};
use serde::Deserialize;
use serde::de::Error as _;
use thiserror::Error;

use crate::kinds::podprobemarker::Marker;
use crate::kinds::podunavailablebudget::budget::Budget;
use crate::kinds::sidecarset::defaulting::default;
use crate::kinds::sidecarset::index::{Entry, Index};
use crate::pod::review::lens::Object;
use crate::text::json_patch;
use crate::text::selector::SelectorError;

pub(crate) mod namespaced;
pub mod revision;

use namespaced::Namespaced;
pub use revision::Revision;
use revision::Revisions;

/// Where kubectl keeps a second copy of an object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The kinds that the world is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// SidecarSets, in v1beta1.
    SidecarSet,
    /// Namespaces.
    Namespace,
    /// ControllerRevisions of SidecarSets, in the install namespace.
    ControllerRevision,
    /// The ConfigMap `kruise-configuration` of the install namespace.
    ConfigMap,
    /// PodUnavailableBudgets, in v1beta1.
    PodUnavailableBudget,
    /// PodProbeMarkers.
    PodProbeMarker,
}

impl fmt::Display for Watched {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::SidecarSet => "SidecarSet",
            Self::Namespace => "Namespace",
            Self::ControllerRevision => "ControllerRevision",
            Self::ConfigMap => "ConfigMap",
            Self::PodUnavailableBudget => "PodUnavailableBudget",
            Self::PodProbeMarker => "PodProbeMarker",
        })
    }
}

/// An object that can't be taken in.
#[derive(Debug, Error)]
#[error("{kind} {name:?} can't be read and is ignored: {source}")]
pub struct WorldError {
    /// The object's kind.
    pub kind: Watched,
    /// The object's name, empty where not even that can be read.
    pub name: String,
    /// The parser's error.
    pub source: serde_json::Error,
}

/// A Namespace: its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// `None` for a Namespace that does not exist; no selector matches it.
    labels: Option<BTreeMap<String, String>>,
}

impl Namespace {
    /// A Namespace with these labels.
    pub fn new(labels: BTreeMap<String, String>) -> Self {
        Self { labels: Some(labels) }
    }

    /// Stands for a Namespace that does not exist.
    pub fn missing() -> Self {
        Self::default()
    }

    /// Reads a Namespace object.
    ///
    /// # Errors
    /// Where `object` is not one.
    pub fn read(object: &str) -> Result<Self, WorldError> {
        let header = Header::read(Watched::Namespace, object)?;
        Ok(Self::new(header.metadata.labels.unwrap_or_default()))
    }

    /// The labels; `None` where the Namespace does not exist.
    pub fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.labels.as_ref()
    }
}

/// The cluster as far as it is known.
#[derive(Clone, Debug)]
pub struct World {
    install_namespace: Arc<str>,
    sidecar_sets: Arc<Index>,
    /// SidecarSets of which not even the selectors can be read, and why.
    unreadable: Arc<BTreeMap<String, String>>,
    namespaces: Arc<HashMap<String, Arc<Namespace>>>,
    revisions: Arc<Revisions>,
    configuration: Arc<BTreeMap<String, String>>,
    budgets: Arc<Namespaced<Budget>>,
    markers: Arc<Namespaced<Marker>>,
}

impl World {
    /// An empty world. `install_namespace` is the one that Kutter runs in (spec 00 §3.4).
    pub fn new(install_namespace: &str) -> Self {
        Self {
            install_namespace: install_namespace.into(),
            sidecar_sets: Arc::default(),
            unreadable: Arc::default(),
            namespaces: Arc::default(),
            revisions: Arc::default(),
            configuration: Arc::default(),
            budgets: Arc::default(),
            markers: Arc::default(),
        }
    }

    /// Takes in an object, new or changed. Objects that no rule reads are passed over.
    ///
    /// # Errors
    /// An object that can't be read. An earlier state of it is forgotten. A SidecarSet of which only the
    /// containers can't be read is taken in, and denies the Pods that it should be injected into.
    pub fn apply(&mut self, kind: Watched, object: &str) -> Result<(), WorldError> {
        let header = Header::read(kind, object)?;
        let (namespace, name) = (header.metadata.namespace.as_str(), header.metadata.name.as_str());
        let applied = match kind {
            Watched::SidecarSet => self.apply_sidecar_set(name, object),
            Watched::Namespace => {
                let labels = header.metadata.labels.clone().unwrap_or_default();
                Arc::make_mut(&mut self.namespaces).insert(name.to_owned(), Arc::new(Namespace::new(labels)));
                Ok(())
            }
            Watched::ControllerRevision if namespace == &*self.install_namespace => {
                let revisions = Arc::make_mut(&mut self.revisions);
                revisions.remove(name);
                Revision::read(object)
                    .map(|revision| revision.into_iter().for_each(|found| revisions.insert(found)))
            }
            Watched::ConfigMap if self.is_configuration(namespace, name) => {
                self.configuration = Arc::default();
                serde_json::from_str(object).map(|ConfigMap { data }| {
                    self.configuration = Arc::new(data.unwrap_or_default());
                })
            }
            Watched::ControllerRevision | Watched::ConfigMap => Ok(()),
            Watched::PodUnavailableBudget => {
                let budget = Budget::read(name, object);
                let problem = unusable(budget.as_ref().ok().and_then(Budget::problem));
                Namespaced::apply(&mut self.budgets, namespace, name, budget).and(problem)
            }
            Watched::PodProbeMarker => {
                let marker = Marker::read(name, object);
                let problem = unusable(marker.as_ref().ok().and_then(Marker::problem));
                Namespaced::apply(&mut self.markers, namespace, name, marker).and(problem)
            }
        };
        applied.map_err(|source| WorldError { kind, name: name.to_owned(), source })
    }

    /// Forgets an object. `namespace` is empty for kinds that have none.
    pub fn remove(&mut self, kind: Watched, namespace: &str, name: &str) {
        match kind {
            Watched::SidecarSet => {
                Arc::make_mut(&mut self.sidecar_sets).remove(name);
                Arc::make_mut(&mut self.unreadable).remove(name);
            }
            Watched::Namespace => drop(Arc::make_mut(&mut self.namespaces).remove(name)),
            Watched::ControllerRevision if namespace == &*self.install_namespace => {
                Arc::make_mut(&mut self.revisions).remove(name);
            }
            Watched::ConfigMap if self.is_configuration(namespace, name) => {
                self.configuration = Arc::default();
            }
            Watched::ControllerRevision | Watched::ConfigMap => {}
            Watched::PodUnavailableBudget => Arc::make_mut(&mut self.budgets).remove(namespace, name),
            Watched::PodProbeMarker => Arc::make_mut(&mut self.markers).remove(namespace, name),
        }
    }

    /// The namespace that Kutter runs in.
    pub fn install_namespace(&self) -> &str {
        &self.install_namespace
    }

    /// All SidecarSets that can be read.
    pub fn sidecar_sets(&self) -> &Index {
        &self.sidecar_sets
    }

    /// SidecarSets of which not even the selectors can be read: name and problem. They concern no Pod.
    pub fn unreadable_sidecar_sets(&self) -> impl Iterator<Item = (&str, &str)> {
        self.unreadable.iter().map(|(name, problem)| (name.as_str(), problem.as_str()))
    }

    /// A Namespace by name.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(name).map(Arc::as_ref)
    }

    /// All Namespaces that are known, in no particular order.
    pub fn namespaces(&self) -> impl Iterator<Item = (&str, &Namespace)> {
        self.namespaces.iter().map(|(name, namespace)| (name.as_str(), &**namespace))
    }

    /// How many objects of a kind are known.
    pub fn count(&self, kind: Watched) -> usize {
        match kind {
            Watched::SidecarSet => self.sidecar_sets.len() + self.unreadable.len(),
            Watched::Namespace => self.namespaces.len(),
            Watched::ControllerRevision => self.revisions.len(),
            Watched::ConfigMap => usize::from(!self.configuration.is_empty()),
            Watched::PodUnavailableBudget => self.budgets.len(),
            Watched::PodProbeMarker => self.markers.len(),
        }
    }

    /// A ControllerRevision of some SidecarSet by its name.
    pub fn revision(&self, name: &str) -> Option<&Revision> {
        self.revisions.get(name)
    }

    /// The ControllerRevisions of a SidecarSet, those of one custom version where one is given, from the
    /// oldest to the newest.
    pub fn revisions_of(&self, sidecar_set: &str, custom_version: Option<&str>) -> Vec<&Revision> {
        self.revisions.of(sidecar_set, custom_version)
    }

    /// A value of the ConfigMap `kruise-configuration`.
    pub fn configuration(&self, key: &str) -> Option<&str> {
        self.configuration.get(key).map(String::as_str)
    }

    /// The PodUnavailableBudgets of a namespace; the first that matches a Pod protects it.
    pub fn budgets(&self, namespace: &str) -> &[Budget] {
        self.budgets.of(namespace)
    }

    /// The PodProbeMarkers of a namespace by name.
    pub fn markers(&self, namespace: &str) -> &[Marker] {
        self.markers.of(namespace)
    }

    fn is_configuration(&self, namespace: &str, name: &str) -> bool {
        namespace == &*self.install_namespace && name == CONFIGURATION_CONFIG_MAP
    }

    fn apply_sidecar_set(&mut self, name: &str, object: &str) -> Result<(), serde_json::Error> {
        let index = Arc::make_mut(&mut self.sidecar_sets);
        let unreadable = Arc::make_mut(&mut self.unreadable);
        unreadable.remove(name);
        let (mut set, problem) = match serde_json::from_str::<SidecarSet>(object) {
            Ok(set) => (completed(set, object), None),
            Err(problem) => match serde_json::from_str::<Selectors>(object) {
                Ok(selectors) => (selectors.into_sidecar_set(), Some(problem.to_string())),
                Err(_) => {
                    index.remove(name);
                    unreadable.insert(name.to_owned(), problem.to_string());
                    return Err(problem);
                }
            },
        };
        // No rule of admission reads them, and they may be long.
        for annotation in [LAST_APPLIED, SIDECARSET_PODS] {
            set.metadata.annotations.remove(annotation);
        }
        index.insert(Entry::new(set, problem));
        Ok(())
    }
}

/// The set with its defaults and hashes, which it lacks where it was stored while no webhook of ours ran.
/// Hashes that it has are kept. Where its sidecars can't be hashed, it stays as it is.
fn completed(set: SidecarSet, object: &str) -> SidecarSet {
    if [SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE].iter().all(|key| set.annotation(key).is_some()) {
        return set;
    }
    let completed = default(object, "v1beta1").ok().and_then(|patch| json_patch::apply(object, &patch).ok());
    match completed.and_then(|completed| serde_json::from_str::<SidecarSet>(&completed).ok()) {
        Some(mut completed) => {
            completed.metadata.annotations.extend(set.metadata.annotations);
            completed
        }
        None => set,
    }
}

/// A selector that can't be used is told like an object that can't be read, but the object is kept.
fn unusable(problem: Option<&SelectorError>) -> Result<(), serde_json::Error> {
    let told = |problem| serde_json::Error::custom(format_args!("spec.selector: {problem}"));
    problem.map_or(Ok(()), |problem| Err(told(problem)))
}

/// What says which object it is.
#[derive(Deserialize)]
struct Header {
    metadata: HeaderMetadata,
}

#[derive(Deserialize)]
struct HeaderMetadata {
    name: String,
    #[serde(default)]
    namespace: String,
    labels: Option<BTreeMap<String, String>>,
}

impl Header {
    fn read(kind: Watched, object: &str) -> Result<Self, WorldError> {
        let Object(header) = serde_json::from_str::<Object<Self>>(object).map_err(|source| WorldError {
            kind,
            name: String::new(),
            source,
        })?;
        Ok(header)
    }
}

#[derive(Deserialize)]
struct ConfigMap {
    data: Option<BTreeMap<String, String>>,
}

/// The part of a SidecarSet that tells which Pods it concerns.
#[derive(Deserialize)]
struct Selectors {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: SelectorsSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SelectorsSpec {
    selector: Option<LabelSelector>,
    namespace_selector: Option<LabelSelector>,
    injection_strategy: Option<Pause>,
}

#[derive(Deserialize)]
struct Pause {
    #[serde(default)]
    paused: bool,
}

impl Selectors {
    fn into_sidecar_set(self) -> SidecarSet {
        let mut set = SidecarSet { metadata: self.metadata, ..SidecarSet::default() };
        set.spec.selector = self.spec.selector;
        set.spec.namespace_selector = self.spec.namespace_selector;
        set.spec.injection_strategy.paused =
            self.spec.injection_strategy.is_some_and(|strategy| strategy.paused);
        set
    }
}

#[cfg(test)]
mod tests;
