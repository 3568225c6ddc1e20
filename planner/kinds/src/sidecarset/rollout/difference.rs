//! What keeps Pods from being updated in place: the fields beyond images in which their sidecars differ
//! from the present ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::record;
use super::set::RolloutSet;
use crate::sidecarset::revision::{data_of_spec, restored_spec};
use crate::workload::revision::StoredRevision;
use pod::observed::ObservedPod;

/// The differences between the present sidecars and those of older revisions, found once for each.
pub(super) struct Differences<'a> {
    set: &'a RolloutSet,
    revisions: &'a [StoredRevision],
    present: Option<Sidecars>,
    found: BTreeMap<String, Option<Arc<str>>>,
}

/// Sidecars by name, and of each its fields as canonical JSON.
type Sidecars = BTreeMap<String, BTreeMap<String, String>>;

impl<'a> Differences<'a> {
    pub(super) fn new(set: &'a RolloutSet, revisions: &'a [StoredRevision]) -> Self {
        Self { set, revisions, present: None, found: BTreeMap::new() }
    }

    /// What differs for a Pod; `None` where the revision that it was given is not known any more.
    pub(super) fn of(&mut self, pod: &ObservedPod) -> Option<Arc<str>> {
        let given = record::given(pod, &self.set.name, self.revisions)?;
        if let Some(found) = self.found.get(given.name()) {
            return found.clone();
        }
        let difference = self.between(given);
        self.found.insert(given.name().to_owned(), difference.clone());
        difference
    }

    /// What differs between a revision and the present sidecars.
    fn between(&mut self, given: &StoredRevision) -> Option<Arc<str>> {
        let older = sidecars(restored_spec(given.data.get()).ok()?.get())?;
        if self.present.is_none() {
            self.present = sidecars(self.set.recorded.spec.get());
        }
        difference(&older, self.present.as_ref()?)
    }
}

/// The containers of a spec, and its native sidecars, in canonical form.
fn sidecars(spec: &str) -> Option<Sidecars> {
    #[derive(Deserialize)]
    struct Data<'a> {
        #[serde(borrow)]
        spec: Containers<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Containers<'a> {
        #[serde(borrow)]
        containers: Option<Vec<BTreeMap<String, &'a RawValue>>>,
        #[serde(borrow)]
        init_containers: Option<Vec<BTreeMap<String, &'a RawValue>>>,
    }
    let revision = data_of_spec(spec).ok()?;
    let Data { spec } = serde_json::from_str(revision.data()).ok()?;
    let init = spec.init_containers.unwrap_or_default();
    let always = |container: &BTreeMap<String, &RawValue>| {
        container.get("restartPolicy").is_some_and(|policy| policy.get() == "\"Always\"")
    };
    // Without a native sidecar, init containers are no part of the hash.
    let init = if init.iter().any(always) { init } else { Vec::new() };
    let all = spec.containers.unwrap_or_default().into_iter().chain(init);
    let named = all.filter_map(|container| {
        let name = serde_json::from_str(container.get("name")?.get()).ok()?;
        let fields = container.into_iter().map(|(key, value)| (key, value.get().to_owned()));
        Some((name, fields.collect()))
    });
    Some(named.collect())
}

/// Says which containers and fields differ; `None` where none does but the order.
fn difference(older: &Sidecars, present: &Sidecars) -> Option<Arc<str>> {
    let names: BTreeSet<&String> = older.keys().chain(present.keys()).collect();
    let changes: Vec<String> = names
        .into_iter()
        .filter_map(|name| match (older.get(name), present.get(name)) {
            (Some(_), None) => Some(format!("container {name} is gone")),
            (None, _) => Some(format!("container {name} is new")),
            (Some(older), Some(present)) => {
                let keys: BTreeSet<&String> = older.keys().chain(present.keys()).collect();
                let differ = |key: &&String| *key != "image" && older.get(*key) != present.get(*key);
                let fields: Vec<&str> = keys.into_iter().filter(differ).map(String::as_str).collect();
                (!fields.is_empty()).then(|| format!("container {name}: {}", fields.join(", ")))
            }
        })
        .collect();
    (!changes.is_empty()).then(|| changes.join("; ").into())
}
