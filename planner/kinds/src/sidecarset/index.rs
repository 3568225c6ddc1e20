//! SidecarSets as the Pod webhook looks for them: first by namespace, then by one label that a Pod must
//! have, so that a review costs what its few candidates cost, however many SidecarSets there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Raw;
use api::labels::NAMESPACE_NAME;
use api::meta::LabelSelector;
use api::sidecarset::{SidecarSet, Spec};
use foldhash::HashMap;

use serde_json::value::RawValue;

use super::contribution::Contribution;
use pod::selector::PodSelector;
use values::selector::{Requirement, Selector};

/// A SidecarSet, read and prepared once.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The object, without what no rule reads: of containers the text, which is in the contribution. Where
    /// its containers can't be read, these are missing.
    pub object: SidecarSet,
    /// What it adds to Pods, or why that can't be known.
    pub contribution: Result<Contribution, String>,
    pub(crate) pods: PodSelector,
    pub(crate) namespaces: NamespaceSelector,
    /// Namespaces that its selector names; empty for one that is cluster-wide
    /// (docs/behaviour/pod-mutation.md#matching-sidecarsets).
    scope: Vec<String>,
}

/// `spec.namespaceSelector`, compiled.
#[derive(Clone, Debug)]
pub(crate) enum NamespaceSelector {
    All,
    Matching(Selector),
    /// Not usable: matches no namespace.
    Broken,
}

impl Entry {
    /// Prepares a SidecarSet. `problem` says why its containers could not be read, if so.
    pub(crate) fn new(mut object: SidecarSet, problem: Option<String>) -> Self {
        let contribution = problem.map_or_else(|| Contribution::prepare(&object.spec), Err);
        shrink(&mut object.spec);
        Self {
            contribution,
            pods: PodSelector::compile(object.spec.selector.as_ref()),
            namespaces: NamespaceSelector::compile(object.spec.namespace_selector.as_ref()),
            scope: scope(object.spec.namespace_selector.as_ref()),
            object,
        }
    }

    /// The SidecarSet's name.
    pub fn name(&self) -> &str {
        self.object.name()
    }

    /// True where its namespace selector names namespaces.
    pub(crate) fn is_scoped(&self) -> bool {
        !self.scope.is_empty()
    }
}

impl NamespaceSelector {
    fn compile(selector: Option<&LabelSelector>) -> Self {
        match selector.map(Selector::compile) {
            None => Self::All,
            Some(Ok(selector)) => Self::Matching(selector),
            Some(Err(_)) => Self::Broken,
        }
    }
}

/// Drops the containers' texts and the room of lists that grew: thousands of SidecarSets are kept.
fn shrink(spec: &mut Spec) {
    let null = Raw::from(RawValue::NULL);
    for containers in [&mut spec.init_containers, &mut spec.containers] {
        containers.shrink_to_fit();
        containers.iter_mut().for_each(|container| container.raw = null.clone());
    }
    spec.volumes.shrink_to_fit();
}

/// The namespaces that a selector names, by the rule of docs/behaviour/pod-mutation.md#matching-sidecarsets.
pub(crate) fn scope(selector: Option<&LabelSelector>) -> Vec<String> {
    let Some(selector) = selector else { return Vec::new() };
    if let Some(name) = selector.match_labels.as_ref().and_then(|labels| labels.get(NAMESPACE_NAME)) {
        return vec![name.clone()];
    }
    let mut expressions = selector.match_expressions.iter().flatten();
    let names =
        expressions.find(|expression| expression.key == NAMESPACE_NAME && expression.operator == "In");
    let mut names = names.and_then(|expression| expression.values.clone()).unwrap_or_default();
    names.sort();
    names.dedup();
    names
}

/// All SidecarSets.
#[derive(Clone, Debug, Default)]
pub struct Index {
    entries: BTreeMap<Arc<str>, (Arc<Entry>, Position)>,
    scoped: HashMap<String, Bucket>,
    cluster: Bucket,
}

/// Where in a bucket an entry is.
#[derive(Clone, Debug)]
enum Position {
    /// Under one label.
    Label { key: Arc<str>, values: Vec<Box<str>> },
    /// Among those that no single label can find.
    Unlabelled,
    /// Nowhere, since it matches no Pod.
    Nowhere,
}

/// SidecarSets by the value of one label.
type ByValue = HashMap<Box<str>, Vec<Arc<Entry>>>;

/// The SidecarSets of a namespace, or the cluster-wide ones.
#[derive(Clone, Debug, Default)]
struct Bucket {
    /// By label key.
    labelled: HashMap<Arc<str>, ByValue>,
    unlabelled: Vec<Arc<Entry>>,
}

impl Index {
    /// Adds a SidecarSet, or puts it in the place of an earlier state.
    pub(crate) fn insert(&mut self, entry: Entry) {
        self.remove(entry.name());
        let entry = Arc::new(entry);
        let position = self.position(&entry);
        if !entry.is_scoped() {
            self.cluster.insert(&entry, &position);
        }
        for namespace in &entry.scope {
            self.scoped.entry(namespace.clone()).or_default().insert(&entry, &position);
        }
        self.entries.insert(entry.name().into(), (entry, position));
    }

    /// Forgets a SidecarSet.
    pub(crate) fn remove(&mut self, name: &str) {
        let Some((entry, position)) = self.entries.remove(name) else { return };
        if !entry.is_scoped() {
            self.cluster.remove(name, &position);
        }
        for namespace in &entry.scope {
            let Some(bucket) = self.scoped.get_mut(namespace) else { continue };
            bucket.remove(name, &position);
            if bucket.is_empty() {
                self.scoped.remove(namespace);
            }
        }
    }

    /// A SidecarSet by name.
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.entries.get(name).map(|(entry, _)| entry)
    }

    /// All SidecarSets by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values().map(|(entry, _)| entry)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The SidecarSets that may match a Pod; each must still be matched in full. Those that name the
    /// namespace come first, then the others, both sorted by name
    /// (docs/behaviour/pod-mutation.md#matching-sidecarsets).
    pub fn candidates<'a>(
        &'a self,
        namespace: &str,
        labels: &[(impl AsRef<str>, impl AsRef<str>)],
    ) -> Vec<&'a Entry> {
        let mut found = Vec::new();
        if let Some(bucket) = self.scoped.get(namespace) {
            bucket.collect(labels, &mut found);
        }
        let scoped = found.len();
        self.cluster.collect(labels, &mut found);
        let (scoped, cluster) = found.split_at_mut(scoped);
        scoped.sort_unstable_by(|left, right| left.name().cmp(right.name()));
        cluster.sort_unstable_by(|left, right| left.name().cmp(right.name()));
        // A label that is given twice would find the same twice.
        found.dedup_by(|left, right| left.name() == right.name());
        found
    }

    /// All SidecarSets in the order of [`Index::candidates`].
    pub(crate) fn all(&self) -> Vec<&Entry> {
        let (mut scoped, cluster): (Vec<_>, Vec<_>) =
            self.iter().map(Arc::as_ref).partition(|entry| entry.is_scoped());
        scoped.extend(cluster);
        scoped
    }

    /// Of the labels that a Pod must have, the one with the fewest SidecarSets under it.
    fn position(&self, entry: &Entry) -> Position {
        let Some(required) = entry.pods.required() else { return Position::Nowhere };
        let cluster = (!entry.is_scoped()).then_some(&self.cluster);
        let scoped = entry.scope.iter().filter_map(|namespace| self.scoped.get(namespace));
        let buckets: Vec<&Bucket> = cluster.into_iter().chain(scoped).collect();
        let crowd = |key: &Arc<str>, values: &[Box<str>]| -> usize {
            let lists = buckets.iter().filter_map(|bucket| bucket.labelled.get(key));
            lists.flat_map(|lists| values.iter().filter_map(|value| lists.get(value))).map(Vec::len).sum()
        };
        let choices = required.requirements().iter().filter_map(|requirement| match requirement {
            Requirement::In(key, values) => Some((crowd(key, values), key, values)),
            _ => None,
        });
        choices.min_by_key(|(crowd, _, _)| *crowd).map_or(Position::Unlabelled, |(_, key, values)| {
            let mut values = values.clone();
            values.sort();
            values.dedup();
            Position::Label { key: key.clone(), values }
        })
    }
}

impl Bucket {
    fn insert(&mut self, entry: &Arc<Entry>, position: &Position) {
        match position {
            Position::Label { key, values } => {
                let lists = self.labelled.entry(key.clone()).or_default();
                for value in values {
                    lists.entry(value.clone()).or_default().push(entry.clone());
                }
            }
            Position::Unlabelled => self.unlabelled.push(entry.clone()),
            Position::Nowhere => {}
        }
    }

    fn remove(&mut self, name: &str, position: &Position) {
        match position {
            Position::Label { key, values } => {
                let Some(lists) = self.labelled.get_mut(key) else { return };
                for value in values {
                    if let Some(list) = lists.get_mut(value) {
                        list.retain(|entry| entry.name() != name);
                    }
                }
                lists.retain(|_, list| !list.is_empty());
                if lists.is_empty() {
                    self.labelled.remove(key);
                }
            }
            Position::Unlabelled => self.unlabelled.retain(|entry| entry.name() != name),
            Position::Nowhere => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.labelled.is_empty() && self.unlabelled.is_empty()
    }

    fn collect<'a>(&'a self, labels: &[(impl AsRef<str>, impl AsRef<str>)], found: &mut Vec<&'a Entry>) {
        for (key, value) in labels {
            let list = self.labelled.get(key.as_ref()).and_then(|lists| lists.get(value.as_ref()));
            found.extend(list.into_iter().flatten().map(Arc::as_ref));
        }
        found.extend(self.unlabelled.iter().map(Arc::as_ref));
    }
}
