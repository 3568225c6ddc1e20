//! Object metrics: what the objects of users say of themselves, under the names of OpenKruise's state-metrics exporter
//! (docs/metrics.md#objects). They are made from the stores of the controllers when somebody asks, so that they cost
//! nothing in between, and only for the kinds that are named.
//!
//! ```text
//!   stores of the leader --(table of a kind: object -> samples)--> text of /metrics/objects
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

pub(crate) use self::samples::Table;

pub(crate) mod advancedcronjob;
pub(crate) mod broadcastjob;
pub(crate) mod cloneset;
pub(crate) mod containerrecreaterequest;
pub(crate) mod daemonset;
pub(crate) mod imagepulljob;
pub(crate) mod persistentpodstate;
pub(crate) mod podunavailablebudget;
pub(crate) mod resourcedistribution;
mod samples;
pub(crate) mod sidecarset;
pub(crate) mod statefulset;
#[cfg(test)]
mod tests;
pub(crate) mod uniteddeployment;
pub(crate) mod workloadspread;

/// The kinds whose objects can be shown.
const KINDS: [&str; 13] = [
    advancedcronjob::TABLE.kind,
    broadcastjob::TABLE.kind,
    cloneset::TABLE.kind,
    containerrecreaterequest::TABLE.kind,
    daemonset::TABLE.kind,
    imagepulljob::TABLE.kind,
    persistentpodstate::TABLE.kind,
    podunavailablebudget::TABLE.kind,
    resourcedistribution::TABLE.kind,
    sidecarset::TABLE.kind,
    statefulset::TABLE.kind,
    uniteddeployment::TABLE.kind,
    workloadspread::TABLE.kind,
];

/// The kinds whose objects are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownKinds(BTreeSet<&'static str>);

/// A kind that can't be shown.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("there are no metrics of objects of kind {name:?}; there are of {known}", known = KINDS.join(", "))]
pub struct UnknownKind {
    name: String,
}

impl ShownKinds {
    /// Reads kinds in small letters with commas between them.
    ///
    /// # Errors
    /// One of them can't be shown.
    pub fn parse(list: &str) -> Result<Self, UnknownKind> {
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        let known = |name: &str| {
            let kind = KINDS.into_iter().find(|kind| *kind == name);
            kind.ok_or_else(|| UnknownKind { name: name.to_owned() })
        };
        names.map(known).collect::<Result<_, _>>().map(Self)
    }
}

/// The text for the objects of a kind; `None` where their store is gone.
type Source = Box<dyn Fn() -> Option<prometheus::Result<String>> + Send + Sync>;

/// The stores whose objects are shown.
#[derive(Default)]
pub(crate) struct ObjectMetrics {
    kinds: ShownKinds,
    /// By kind: controllers that start again take the place of those before.
    sources: Mutex<BTreeMap<&'static str, Source>>,
}

impl ObjectMetrics {
    /// Those of these kinds.
    pub(crate) fn of(kinds: ShownKinds) -> Self {
        Self { kinds, sources: Mutex::default() }
    }

    /// Shows the objects that a part of the process holds, as long as that exists, if their kind is one of those that are
    /// shown. `all` gives them as they are kept, and `object` what of that the table is about.
    pub(crate) fn show<P: Send + Sync + 'static, T: Send + Sync + 'static, O: 'static>(
        &self,
        table: &'static Table<O>,
        part: &Arc<P>,
        all: impl Fn(&P) -> Vec<Arc<T>> + Send + Sync + 'static,
        object: fn(&T) -> &O,
    ) {
        if !self.kinds.0.contains(table.kind) {
            return;
        }
        let part = Arc::downgrade(part);
        let source = move || {
            let part = part.upgrade()?;
            let kept = all(&part);
            let objects: Vec<&O> = kept.iter().map(|kept| object(kept)).collect();
            Some(table.text(&objects))
        };
        self.lock().insert(table.kind, Box::new(source));
    }

    /// All of them, in Prometheus' text format.
    pub(crate) fn text(&self) -> prometheus::Result<String> {
        // Who asks at the same time waits: several texts at once would only take more memory.
        self.lock().values().filter_map(|source| source()).collect()
    }

    // Held in no await.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Source>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ObjectMetrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ObjectMetrics").field(&self.kinds).finish()
    }
}
