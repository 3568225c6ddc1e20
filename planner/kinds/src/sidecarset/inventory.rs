//! What the rules of SidecarSets read of the cluster: the SidecarSets, the Namespaces, the revisions of
//! SidecarSets and the configuration of injection. Admission and accounts read the same.
//!
//! A clone is cheap and never changes: parts are shared, and copied when they are written to.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::annotations::{LAST_APPLIED, SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE, SIDECARSET_PODS};
use api::meta::LabelSelector;
use api::sidecarset::{Metadata, SidecarSet};
use serde::Deserialize;

use super::defaulting::default;
use super::index::{Entry, Index, NamespaceSelector};
use super::recorded::{RecordedRevision, RecordedRevisions};
use crate::workload::namespace::{Namespace, Namespaces};
use values::json_patch;

/// What is known of the cluster for SidecarSets.
#[derive(Clone, Debug)]
pub struct Inventory {
    install_namespace: Arc<str>,
    sidecar_sets: Arc<Index>,
    /// SidecarSets of which not even the selectors can be read, and why.
    unreadable: Arc<BTreeMap<String, String>>,
    namespaces: Arc<Namespaces>,
    revisions: Arc<RecordedRevisions>,
    configuration: Arc<BTreeMap<String, String>>,
}

impl Inventory {
    /// An empty inventory. `install_namespace` is the namespace that Kutter runs in, which holds the
    /// revisions.
    pub fn new(install_namespace: &str) -> Self {
        Self {
            install_namespace: install_namespace.into(),
            sidecar_sets: Arc::default(),
            unreadable: Arc::default(),
            namespaces: Arc::default(),
            revisions: Arc::default(),
            configuration: Arc::default(),
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
    pub fn unreadable(&self) -> &BTreeMap<String, String> {
        &self.unreadable
    }

    /// A Namespace by name.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(name)
    }

    /// Whether labels of this Namespace may decide, and it is not known.
    pub fn lacks_namespace(&self, name: &str) -> bool {
        let is_asked_for = |entry: &Arc<Entry>| matches!(entry.namespaces, NamespaceSelector::Matching(_));
        self.namespace(name).is_none() && self.sidecar_sets.iter().any(is_asked_for)
    }

    /// All Namespaces that are known.
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// The ControllerRevisions of SidecarSets.
    pub fn revisions(&self) -> &RecordedRevisions {
        &self.revisions
    }

    /// The ConfigMap `kruise-configuration`.
    pub fn configuration(&self) -> &BTreeMap<String, String> {
        &self.configuration
    }

    /// Takes in a SidecarSet, new or changed. One of which only the containers can't be read denies the Pods
    /// that it should be injected into.
    ///
    /// # Errors
    /// A SidecarSet of which not even the selectors can be read. An earlier state of it is forgotten.
    pub fn apply_sidecar_set(&mut self, name: &str, object: &str) -> Result<(), serde_json::Error> {
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

    /// Forgets a SidecarSet.
    pub fn remove_sidecar_set(&mut self, name: &str) {
        Arc::make_mut(&mut self.sidecar_sets).remove(name);
        Arc::make_mut(&mut self.unreadable).remove(name);
    }

    /// Takes in a Namespace, new or changed.
    pub fn apply_namespace(&mut self, name: &str, namespace: Namespace) {
        Arc::make_mut(&mut self.namespaces).insert(name, namespace);
    }

    /// Forgets a Namespace.
    pub fn remove_namespace(&mut self, name: &str) {
        Arc::make_mut(&mut self.namespaces).remove(name);
    }

    /// Takes in a ControllerRevision of the install namespace, new or changed. Those that belong to no
    /// SidecarSet are passed over.
    ///
    /// # Errors
    /// A ControllerRevision that can't be read. An earlier state of it is forgotten.
    pub fn apply_revision(&mut self, name: &str, object: &str) -> Result<(), serde_json::Error> {
        let revisions = Arc::make_mut(&mut self.revisions);
        revisions.remove(name);
        RecordedRevision::read(object)
            .map(|revision| revision.into_iter().for_each(|found| revisions.insert(found)))
    }

    /// Forgets a ControllerRevision.
    pub fn remove_revision(&mut self, name: &str) {
        Arc::make_mut(&mut self.revisions).remove(name);
    }

    /// Takes in the data of the ConfigMap `kruise-configuration`; it is empty where there is none.
    pub fn configure(&mut self, data: BTreeMap<String, String>) {
        self.configuration = Arc::new(data);
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

/// The part of a SidecarSet that says which Pods it concerns.
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
