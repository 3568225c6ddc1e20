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
//!    Each kind owns the part that its rules read, such as the [`Inventory`] of SidecarSets.
//! 2. An object that can't be read never hides another. It becomes a value with its problem.
//! 3. The contents depend on the objects applied, not on their order.
//! 4. Only what some rule reads is kept.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use api::kinds::rollout::Rollout;
use api::{CONFIGURATION_CONFIG_MAP, Raw};
use serde::Deserialize;
use serde::de::Error as _;
use thiserror::Error;

use kinds::persistentpodstate::state::{State, States};
use kinds::persistentpodstate::workloads::{ListedKinds, WHITE_LIST as KINDS_OF_POD_STATES};
use kinds::podprobemarker::injection::Marker;
use kinds::podunavailablebudget::budget::Budget;
use kinds::sidecarset::index::Index;
use kinds::sidecarset::inventory::Inventory;
use kinds::sidecarset::recorded::RecordedRevision;
use kinds::workload::namespace::Namespace;
use kinds::workload::namespaced::{Entry as _, Namespaced};
use kinds::workload::storage_class::{StorageClass, StorageClasses};
use kinds::workloadspread::custom::{CustomWorkloads, WHITE_LIST};
use kinds::workloadspread::spread::Spread;
use kinds::workloadspread::spreads::Spreads;
use kinds::workloadspread::version::VersionedKinds;
use pod::review::lens::Object;
use values::selector::SelectorError;

mod rollout;

use rollout::KnownRollout;

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
    /// WorkloadSpreads, in v1beta1.
    WorkloadSpread,
    /// PersistentPodStates, in v1beta1.
    PersistentPodState,
    /// StorageClasses.
    StorageClass,
    /// Rollouts, in v1beta1.
    Rollout,
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
            Self::WorkloadSpread => "WorkloadSpread",
            Self::PersistentPodState => "PersistentPodState",
            Self::StorageClass => "StorageClass",
            Self::Rollout => "Rollout",
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

/// The cluster as far as it is known.
#[derive(Clone, Debug)]
pub struct World {
    inventory: Inventory,
    budgets: Arc<Namespaced<Budget>>,
    markers: Arc<Namespaced<Marker>>,
    spreads: Spreads,
    pod_states: States,
    storage_classes: Arc<StorageClasses>,
    rollouts: Arc<Namespaced<KnownRollout>>,
}

impl World {
    /// An empty world. `install_namespace` is the namespace that Kutter runs in.
    pub fn new(install_namespace: &str) -> Self {
        Self {
            inventory: Inventory::new(install_namespace),
            budgets: Arc::default(),
            markers: Arc::default(),
            spreads: Spreads::default(),
            pod_states: States::default(),
            storage_classes: Arc::default(),
            rollouts: Arc::default(),
        }
    }

    /// A world in which Pods of these kinds have versions.
    #[must_use]
    pub fn versioning(mut self, kinds: VersionedKinds) -> Self {
        self.spreads.versioned = Arc::new(kinds);
        self
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
            Watched::SidecarSet => self.inventory.apply_sidecar_set(name, object),
            Watched::Namespace => {
                let labels = header.metadata.labels.clone().unwrap_or_default();
                self.inventory.apply_namespace(name, Namespace::new(labels));
                Ok(())
            }
            Watched::ControllerRevision if namespace == self.install_namespace() => {
                self.inventory.apply_revision(name, object)
            }
            Watched::ConfigMap if self.is_configuration(namespace, name) => {
                let read = serde_json::from_str(object).map(|ConfigMap { data }| data.unwrap_or_default());
                let (data, problem) =
                    read.map_or_else(|error| (BTreeMap::new(), Err(error)), |data| (data, Ok(())));
                self.configure(data);
                problem
            }
            Watched::ControllerRevision | Watched::ConfigMap => Ok(()),
            Watched::PodUnavailableBudget => {
                let budget = Budget::read(object);
                let problem = unusable(budget.as_ref().ok().and_then(Budget::problem));
                Namespaced::apply(&mut self.budgets, namespace, name, budget).and(problem)
            }
            Watched::PodProbeMarker => {
                let marker = Marker::read(name, object);
                let problem = unusable(marker.as_ref().ok().and_then(Marker::problem));
                Namespaced::apply(&mut self.markers, namespace, name, marker).and(problem)
            }
            Watched::WorkloadSpread => {
                let objects = &mut self.spreads.listed.objects;
                let read = Namespaced::apply(objects, namespace, name, Spread::read(object));
                let problem = self.spreads.get(namespace, name).and_then(Spread::problem);
                let problem = problem.map_or(Ok(()), |problem| {
                    Err(serde_json::Error::custom(format_args!("spec.targetFilter.selector: {problem}")))
                });
                read.and(problem)
            }
            Watched::PersistentPodState => {
                Namespaced::apply(&mut self.pod_states.objects, namespace, name, State::read(object))
            }
            Watched::StorageClass => StorageClass::read(object).map(|class| {
                Arc::make_mut(&mut self.storage_classes).apply(class);
            }),
            Watched::Rollout => {
                Namespaced::apply(&mut self.rollouts, namespace, name, KnownRollout::read(object))
            }
        };
        applied.map_err(|source| WorldError { kind, name: name.to_owned(), source })
    }

    /// Forgets an object. `namespace` is empty for kinds that have none.
    pub fn remove(&mut self, kind: Watched, namespace: &str, name: &str) {
        match kind {
            Watched::SidecarSet => self.inventory.remove_sidecar_set(name),
            Watched::Namespace => self.inventory.remove_namespace(name),
            Watched::ControllerRevision if namespace == self.install_namespace() => {
                self.inventory.remove_revision(name);
            }
            Watched::ConfigMap if self.is_configuration(namespace, name) => {
                self.configure(BTreeMap::new());
            }
            Watched::ControllerRevision | Watched::ConfigMap => {}
            Watched::PodUnavailableBudget => Arc::make_mut(&mut self.budgets).remove(namespace, name),
            Watched::PodProbeMarker => Arc::make_mut(&mut self.markers).remove(namespace, name),
            Watched::WorkloadSpread => {
                Arc::make_mut(&mut self.spreads.listed.objects).remove(namespace, name);
            }
            Watched::PersistentPodState => {
                Arc::make_mut(&mut self.pod_states.objects).remove(namespace, name);
            }
            Watched::StorageClass => Arc::make_mut(&mut self.storage_classes).remove(name),
            Watched::Rollout => Arc::make_mut(&mut self.rollouts).remove(namespace, name),
        }
    }

    /// What SidecarSets need of the cluster.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The namespace that Kutter runs in.
    pub fn install_namespace(&self) -> &str {
        self.inventory.install_namespace()
    }

    /// All SidecarSets that can be read.
    pub fn sidecar_sets(&self) -> &Index {
        self.inventory.sidecar_sets()
    }

    /// SidecarSets of which not even the selectors can be read: name and problem. They concern no Pod.
    pub fn unreadable_sidecar_sets(&self) -> impl Iterator<Item = (&str, &str)> {
        self.inventory.unreadable().iter().map(|(name, problem)| (name.as_str(), problem.as_str()))
    }

    /// A Namespace by name.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.inventory.namespace(name)
    }

    /// How many objects of a kind are known.
    pub fn count(&self, kind: Watched) -> usize {
        match kind {
            Watched::SidecarSet => self.sidecar_sets().len() + self.inventory.unreadable().len(),
            Watched::Namespace => self.inventory.namespaces().len(),
            Watched::ControllerRevision => self.inventory.revisions().len(),
            Watched::ConfigMap => usize::from(!self.inventory.configuration().is_empty()),
            Watched::PodUnavailableBudget => self.budgets.len(),
            Watched::PodProbeMarker => self.markers.len(),
            Watched::WorkloadSpread => self.spreads.listed.objects.len(),
            Watched::PersistentPodState => self.pod_states.objects.len(),
            Watched::StorageClass => self.storage_classes.len(),
            Watched::Rollout => self.rollouts.len(),
        }
    }

    /// A ControllerRevision of some SidecarSet by its name.
    pub fn revision(&self, name: &str) -> Option<&RecordedRevision> {
        self.inventory.revisions().get(name)
    }

    /// The ControllerRevisions of a SidecarSet, those of one custom version where one is given, from the
    /// oldest to the newest.
    pub fn revisions_of(&self, sidecar_set: &str, custom_version: Option<&str>) -> Vec<&RecordedRevision> {
        self.inventory.revisions().of(sidecar_set, custom_version)
    }

    /// A value of the ConfigMap `kruise-configuration`.
    pub fn configuration(&self, key: &str) -> Option<&str> {
        self.inventory.configuration().get(key).map(String::as_str)
    }

    /// The PodUnavailableBudgets of a namespace as they are stored.
    pub fn budgets_in(&self, namespace: &str) -> Vec<Raw> {
        self.budgets.of(namespace).iter().map(|budget| budget.object.clone()).collect()
    }

    /// The PodUnavailableBudgets; the first of its namespace that matches a Pod protects it.
    pub(crate) fn budgets(&self) -> &Namespaced<Budget> {
        &self.budgets
    }

    /// Namespaces and names of all budgets.
    pub fn budget_names(&self) -> Vec<(String, String)> {
        let names =
            self.budgets.iter().map(|(namespace, budget)| (namespace.to_owned(), budget.name().to_owned()));
        names.collect()
    }

    /// The PodProbeMarkers, those of a namespace by name.
    pub(crate) fn markers(&self) -> &Namespaced<Marker> {
        &self.markers
    }

    /// What the rules of WorkloadSpreads need of the cluster.
    pub fn spreads(&self) -> &Spreads {
        &self.spreads
    }

    /// The StorageClasses: none while claims are not resized.
    pub fn storage_classes(&self) -> &StorageClasses {
        &self.storage_classes
    }

    /// What the rules of PersistentPodStates need of the cluster.
    pub fn pod_states(&self) -> &States {
        &self.pod_states
    }

    /// The Rollouts of a namespace by name.
    pub fn rollouts_in(&self, namespace: &str) -> Vec<Arc<Rollout>> {
        self.rollouts.of(namespace).iter().map(KnownRollout::share).collect()
    }

    fn configure(&mut self, data: BTreeMap<String, String>) {
        self.spreads.listed.set_list(data.get(WHITE_LIST).map(|list| CustomWorkloads::parse(list)));
        self.pod_states.set_list(data.get(KINDS_OF_POD_STATES).map(|list| ListedKinds::parse(list)));
        self.inventory.configure(data);
    }

    fn is_configuration(&self, namespace: &str, name: &str) -> bool {
        namespace == self.install_namespace() && name == CONFIGURATION_CONFIG_MAP
    }
}

/// A selector that can't be used is reported like an object that can't be read, but the object is kept.
fn unusable(problem: Option<&SelectorError>) -> Result<(), serde_json::Error> {
    let reported = |problem| serde_json::Error::custom(format_args!("spec.selector: {problem}"));
    problem.map_or(Ok(()), |problem| Err(reported(problem)))
}

/// Reads a Namespace object.
///
/// # Errors
/// Where `object` is not one.
pub fn read_namespace(object: &str) -> Result<Namespace, WorldError> {
    let header = Header::read(Watched::Namespace, object)?;
    Ok(Namespace::new(header.metadata.labels.unwrap_or_default()))
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

#[cfg(test)]
mod tests;
