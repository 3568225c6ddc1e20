//! What the rules of WorkloadSpreads need of the cluster.

use std::sync::Arc;

use super::custom::CustomWorkloads;
use super::spread::Spread;
use super::version::VersionedKinds;
use crate::workload::namespaced::Namespaced;
use crate::workload::target::Workload;

/// The WorkloadSpreads and the workloads that they may divide. A clone is cheap and never changes.
#[derive(Clone, Debug)]
pub struct Spreads {
    objects: Arc<Namespaced<Spread>>,
    custom: Arc<Result<CustomWorkloads, String>>,
    versioned: Arc<VersionedKinds>,
}

impl Default for Spreads {
    fn default() -> Self {
        Self {
            objects: Arc::default(),
            custom: Arc::new(Ok(CustomWorkloads::default())),
            versioned: Arc::default(),
        }
    }
}

impl Spreads {
    /// Takes in a WorkloadSpread, new or changed.
    ///
    /// # Errors
    /// An object that can't be read: an earlier state of it is forgotten.
    pub fn apply(&mut self, namespace: &str, name: &str, object: &str) -> Result<(), serde_json::Error> {
        Namespaced::apply(&mut self.objects, namespace, name, Spread::read(object))
    }

    /// Forgets a WorkloadSpread.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        Arc::make_mut(&mut self.objects).remove(namespace, name);
    }

    /// Takes in the list of custom workloads, where there is one.
    pub fn list_custom(&mut self, list: Option<&str>) {
        self.custom = Arc::new(list.map_or_else(|| Ok(CustomWorkloads::default()), CustomWorkloads::parse));
    }

    /// Takes in which kinds have Pods with versions.
    pub fn set_versioned(&mut self, kinds: VersionedKinds) {
        self.versioned = Arc::new(kinds);
    }

    /// The WorkloadSpreads of a namespace by name.
    pub fn of(&self, namespace: &str) -> &[Spread] {
        self.objects.of(namespace)
    }

    /// The WorkloadSpread of this name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Spread> {
        self.of(namespace).iter().find(|spread| spread.name() == name)
    }

    /// The WorkloadSpread that divides the Pods of this workload.
    pub fn dividing(&self, namespace: &str, target: &Workload<'_>) -> Option<&Spread> {
        self.of(namespace).iter().find(|spread| spread.is_active() && spread.target() == target)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The workloads of other kinds, or what is wrong with their list.
    pub fn custom(&self) -> Result<&CustomWorkloads, &str> {
        (*self.custom).as_ref().map_err(String::as_str)
    }

    /// The kinds whose Pods have versions.
    pub fn versioned(&self) -> &VersionedKinds {
        &self.versioned
    }
}
