//! What is remembered of the namespaces of ResourceDistributions. Losing it costs requests, no more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kinds::resourcedistribution::Distribution;
use kinds::resourcedistribution::copy::Copy;
use kinds::resourcedistribution::resource::Resource;
use tokio::time::Instant;

/// How long it is believed that an object of somebody else is there. A watch reports its deletion, unless it was
/// interrupted just then.
const BELIEVED: Duration = Duration::from_secs(300);

/// The memory of all ResourceDistributions, by name.
#[derive(Default)]
pub(super) struct Memory(Mutex<HashMap<Box<str>, OfDistribution>>);

#[derive(Default)]
struct OfDistribution {
    /// UID and hash of what the rest is about.
    about: (Box<str>, Box<str>),
    /// The copies that were found equal, by namespace: UID and version.
    equal: HashMap<Box<str>, (Box<str>, Box<str>)>,
    /// Namespaces where somebody else's object has the name, and when it was observed.
    foreign: HashMap<Box<str>, Instant>,
}

impl Memory {
    /// A pass begins: what is known of another state of the resource, or of other namespaces, is forgotten.
    pub(super) fn begin(
        &self,
        distribution: &Distribution,
        resource: &Resource,
        is_target: impl Fn(&str) -> bool,
    ) {
        let about = (distribution.uid.as_str().into(), resource.hash().into());
        self.of(&distribution.name, |known| {
            if known.about != about {
                *known = OfDistribution { about, ..OfDistribution::default() };
            }
            known.equal.retain(|namespace, _| is_target(namespace));
            known.foreign.retain(|namespace, since| is_target(namespace) && since.elapsed() < BELIEVED);
        });
    }

    /// A copy is equal in this state.
    pub(super) fn equal(&self, name: &str, copy: &Copy) {
        let state = (copy.uid.clone(), copy.resource_version.clone());
        self.of(name, |known| {
            known.foreign.remove(&copy.namespace);
            known.equal.insert(copy.namespace.clone(), state);
        });
    }

    /// Whether the copy was found equal in this state.
    pub(super) fn is_equal(&self, name: &str, copy: &Copy) -> bool {
        let memory = self.lock();
        let state = memory.get(name).and_then(|known| known.equal.get(&copy.namespace));
        state.is_some_and(|(uid, version)| (uid, version) == (&copy.uid, &copy.resource_version))
    }

    /// Somebody else's object has the name in this namespace.
    pub(super) fn foreign(&self, name: &str, namespace: &str) {
        self.of(name, |known| {
            known.foreign.insert(namespace.into(), Instant::now());
        });
    }

    /// Whether somebody else's object has the name in this namespace.
    pub(super) fn is_foreign(&self, name: &str, namespace: &str) -> bool {
        self.lock().get(name).is_some_and(|known| known.foreign.contains_key(namespace))
    }

    /// The object in this namespace is gone; true if it blocked a copy.
    pub(super) fn made_way(&self, name: &str, namespace: &str) -> bool {
        self.lock().get_mut(name).is_some_and(|known| known.foreign.remove(namespace).is_some())
    }

    /// After what time to check objects that conflict again, if there are any.
    pub(super) fn next_reconcile(&self, name: &str) -> Option<Duration> {
        self.lock().get(name).filter(|known| !known.foreign.is_empty()).map(|_| BELIEVED)
    }

    /// The ResourceDistribution is gone.
    pub(super) fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    fn of(&self, name: &str, work: impl FnOnce(&mut OfDistribution)) {
        work(self.lock().entry(name.into()).or_default());
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, OfDistribution>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
