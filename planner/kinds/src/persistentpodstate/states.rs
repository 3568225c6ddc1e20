//! What the rules of PersistentPodStates need of the cluster.

use std::sync::Arc;

use super::state::State;
use super::workloads::ListedKinds;
use crate::workload::namespaced::Namespaced;

/// The PersistentPodStates and the kinds whose Pods they may remember. A clone is cheap and never changes.
#[derive(Clone, Debug)]
pub struct States {
    objects: Arc<Namespaced<State>>,
    listed: Arc<Result<ListedKinds, String>>,
}

impl Default for States {
    fn default() -> Self {
        Self { objects: Arc::default(), listed: Arc::new(Ok(ListedKinds::default())) }
    }
}

impl States {
    /// Takes in a PersistentPodState, new or changed.
    ///
    /// # Errors
    /// An object that can't be read: an earlier state of it is forgotten.
    pub fn apply(&mut self, namespace: &str, name: &str, object: &str) -> Result<(), serde_json::Error> {
        Namespaced::apply(&mut self.objects, namespace, name, State::read(object))
    }

    /// Forgets a PersistentPodState.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        Arc::make_mut(&mut self.objects).remove(namespace, name);
    }

    /// Takes in the list of kinds, where there is one.
    pub fn list_kinds(&mut self, list: Option<&str>) {
        self.listed = Arc::new(list.map_or_else(|| Ok(ListedKinds::default()), ListedKinds::parse));
    }

    /// The PersistentPodStates of a namespace, the oldest first.
    pub fn of(&self, namespace: &str) -> &[State] {
        self.objects.of(namespace)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The listed kinds, or what is wrong with their list.
    pub fn listed(&self) -> Result<&ListedKinds, &str> {
        (*self.listed).as_ref().map_err(String::as_str)
    }
}
