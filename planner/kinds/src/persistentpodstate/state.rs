//! A PersistentPodState as admission knows it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::kinds::Time;
use api::kinds::persistentpodstate::{PersistentPodState, PodState, PreferredTopologyTerm};
use jiff::Timestamp;

use super::workloads::ListedKinds;
use crate::workload::listed::Listed;
use crate::workload::namespaced::Entry;
use crate::workload::target::Workload;

/// The PersistentPodStates, the oldest of a namespace first, and the kinds whose Pods they may remember.
pub type States = Listed<State, ListedKinds>;

/// A PersistentPodState. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct State(Arc<Inner>);

#[derive(Debug, PartialEq)]
struct Inner {
    name: String,
    created: Option<Timestamp>,
    is_deleted: bool,
    target: Workload<'static>,
    required: Vec<String>,
    preferred: Vec<PreferredTopologyTerm>,
    records: BTreeMap<String, PodState>,
}

impl State {
    /// Reads a PersistentPodState in v1beta1.
    ///
    /// # Errors
    /// The text is no such object.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        let PersistentPodState { metadata, spec, status } = serde_json::from_str(text)?;
        Ok(Self(Arc::new(Inner {
            created: metadata.creation_timestamp.as_ref().and_then(Time::timestamp),
            is_deleted: metadata.deletion_timestamp.is_some(),
            target: Workload::from(&spec.target_ref).into_owned(),
            required: spec.required_persistent_topology.map(|term| term.keys).unwrap_or_default(),
            preferred: spec.preferred_persistent_topology,
            records: status.pod_states,
            name: metadata.name,
        })))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The workload whose Pods it remembers.
    pub fn target(&self) -> &Workload<'static> {
        &self.0.target
    }

    /// Whether it steers Pods at all: it is not being deleted.
    pub(crate) fn is_active(&self) -> bool {
        !self.0.is_deleted
    }

    /// What is remembered of the Pod with this name.
    pub(crate) fn record(&self, pod: &str) -> Option<&PodState> {
        self.0.records.get(pod)
    }

    /// Keys of node labels that the next Pod must match.
    pub(crate) fn required(&self) -> &[String] {
        &self.0.required
    }

    /// Keys of node labels that the next Pod should match.
    pub(crate) fn preferred(&self) -> &[PreferredTopologyTerm] {
        &self.0.preferred
    }
}

impl Entry for State {
    fn name(&self) -> &str {
        self.name()
    }

    /// Of two for one workload the older one counts, and then the name.
    fn precedence(&self, other: &Self) -> Ordering {
        (self.0.created, self.name()).cmp(&(other.0.created, other.name()))
    }
}
