//! The objects of each kind as JSON, and their last changes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::request::{Kind, Selection};
use super::write::Refusal;

/// Namespace, empty for cluster-scoped objects, and name.
pub type Key = (String, String);

/// Changes of a kind that watches can still ask for.
const REMEMBERED: usize = 50_000;

/// All objects.
#[derive(Default)]
pub struct Store(Mutex<State>);

#[derive(Default)]
struct State {
    /// That of the last change.
    version: u64,
    tables: BTreeMap<Kind, Table>,
}

#[derive(Default)]
struct Table {
    objects: BTreeMap<Key, Bytes>,
    changes: VecDeque<Change>,
    /// That of the last change that is not remembered any more.
    forgotten: u64,
    changed: watch::Sender<()>,
}

/// A change of an object.
#[derive(Clone)]
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) key: Key,
    /// As watches call it.
    pub(super) what: &'static str,
    pub(super) object: Bytes,
}

/// What becomes of an object.
pub(super) enum Next {
    /// It is stored so.
    Stored(Value),
    /// It is gone, and was so at last.
    Gone(Value),
    /// It stays as it is; this is the answer.
    Same(Value),
}

/// A page of a list.
pub(super) struct Page {
    pub(super) objects: Vec<Bytes>,
    /// The last object, where more come behind it.
    pub(super) last: Option<Key>,
    /// That of the last change that the page can show.
    pub(super) version: u64,
}

impl Store {
    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with it")
    }

    /// An object.
    pub fn get(&self, kind: &Kind, key: &Key) -> Option<Bytes> {
        self.lock().tables.get(kind)?.objects.get(key).cloned()
    }

    /// Changes an object as the server itself, or a client that never conflicts.
    pub fn edit(&self, kind: &Kind, key: &Key, edit: impl FnOnce(&mut Value)) {
        let next = |object: Option<Value>| {
            let mut object = object.ok_or_else(|| Refusal::not_found(key))?;
            edit(&mut object);
            Ok(Next::Stored(object))
        };
        self.change(kind, key, next).expect("the object is there");
    }

    /// Puts what `next` makes of an object in its place, as one step; gives the object after it.
    pub(super) fn change(
        &self,
        kind: &Kind,
        key: &Key,
        next: impl FnOnce(Option<Value>) -> Result<Next, Refusal>,
    ) -> Result<Value, Refusal> {
        let mut state = self.lock();
        let version = state.version + 1;
        let table = state.tables.entry(kind.clone()).or_default();
        let known = table.objects.get(key);
        let what = if known.is_some() { "MODIFIED" } else { "ADDED" };
        let known = known.map(|json| serde_json::from_slice(json).expect("what is stored is an object"));
        let (mut object, what) = match next(known)? {
            Next::Same(object) => return Ok(object),
            Next::Stored(object) => (object, what),
            Next::Gone(object) => (object, "DELETED"),
        };
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let json = Bytes::from(object.to_string());
        if what == "DELETED" {
            table.objects.remove(key);
        } else {
            table.objects.insert(key.clone(), json.clone());
        }
        table.changes.push_back(Change { version, key: key.clone(), what, object: json });
        if table.changes.len() > REMEMBERED {
            table.forgotten = table.changes.pop_front().map_or(0, |change| change.version);
        }
        table.changed.send_replace(());
        state.version = version;
        Ok(object)
    }

    /// At most `limit` of the objects behind `after`. Later pages show what is there by then: the watch that begins where the
    /// list began goes over it once more.
    pub(super) fn page(&self, kind: &Kind, selection: &Selection, after: Option<Key>, limit: usize) -> Page {
        let state = self.lock();
        let mut page = Page { objects: Vec::new(), last: None, version: state.version };
        let Some(table) = state.tables.get(kind) else { return page };
        let namespace = (selection.namespace.clone(), String::new());
        let start = after.map_or(Bound::Included(namespace), Bound::Excluded);
        let mut last: Option<&Key> = None;
        let objects = table.objects.range((start, Bound::Unbounded));
        let objects =
            objects.take_while(|(key, _)| selection.namespace.is_empty() || key.0 == selection.namespace);
        for (key, json) in objects.filter(|(key, json)| selection.matches(key, json)) {
            if page.objects.len() == limit {
                page.last = last.cloned();
                break;
            }
            page.objects.push(json.clone());
            last = Some(key);
        }
        page
    }

    /// The changes of a kind after `version`, and the version up to which these are all. `None` where they are not
    /// remembered.
    pub(super) fn changes(&self, kind: &Kind, version: u64) -> Option<(Vec<Change>, u64)> {
        let state = self.lock();
        let Some(table) = state.tables.get(kind) else { return Some((Vec::new(), state.version)) };
        let first = table.changes.partition_point(|change| change.version <= version);
        let changes = table.changes.range(first..).cloned().collect();
        (version >= table.forgotten).then_some((changes, state.version))
    }

    /// Tells of each change of a kind.
    pub(super) fn changed(&self, kind: &Kind) -> watch::Receiver<()> {
        self.lock().tables.entry(kind.clone()).or_default().changed.subscribe()
    }

    /// Takes all objects away of which `is_meant`, as if they had never been.
    pub fn take(&self, is_meant: impl Fn(&Kind, &[u8]) -> bool) -> Vec<(Kind, Key, Bytes)> {
        let mut taken = Vec::new();
        for (kind, table) in &mut self.lock().tables {
            for (key, json) in table.objects.extract_if(.., |_, json| is_meant(kind, json)) {
                taken.push((kind.clone(), key, json));
            }
        }
        taken
    }

    /// Puts an object with its version where it was always.
    pub fn import(&self, kind: &Kind, key: Key, json: Bytes) {
        self.lock().tables.entry(kind.clone()).or_default().objects.insert(key, json);
    }

    /// The keys of all objects of a kind.
    pub fn keys(&self, kind: &Kind) -> Vec<Key> {
        self.lock().tables.get(kind).into_iter().flat_map(|table| table.objects.keys().cloned()).collect()
    }
}
