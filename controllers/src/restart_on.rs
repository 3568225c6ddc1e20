//! Controller `configuration-controller`: takes changed ConfigMaps and Secrets into the templates of the workloads that
//! restart on them (docs/behaviour/in-place-update.md#configuration-that-changes). It runs with feature gate
//! `RestartOnConfiguration`. What to write is decided by `kinds::workload::restart_on`.
//!
//! ```text
//!   CloneSets, StatefulSets, DaemonSets (metadata): those are kept that name objects --.
//!   ConfigMaps, Secrets (metadata), while a workload names one: nothing is kept --------+--items--> queue
//!   reconcile: GET each object --> hash --> GET the workload --> patch
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::kinds::{cloneset, daemonset, statefulset};
use cluster::client::metadata_only;
use cluster::event_sender::EventSender;
use cluster::resource::{CONFIG_MAPS, Resource, SECRETS};
use cluster::triggers::forward;
use cluster::watched::{Key, WatchedObject};
use cluster::write::{self, PatchKind};
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::workload::restart_on::{self, Restarting, Source, SourceKind};
use kube::Client;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::workload::builder::{Builder, Next, OUTDATED_RETRY, QueueSettings, Reconciler};
use crate::workload::store::follow::{Readable, Sink, follow_all};
use crate::workload::store::{Change, Identity, Kept, Store};
use crate::{Context, ReconcileError};

#[cfg(test)]
mod tests;

const SETTINGS: QueueSettings = QueueSettings { name: "configuration-controller", workers: 4 };
/// How long changes of objects are gathered: those that are applied together are one revision.
const GATHERED: Duration = Duration::from_secs(1);
/// The kinds of workloads that may name objects.
const KINDS: [Resource<'_>; 3] = [
    Resource::new(cloneset::API_VERSION, cloneset::PLURAL, cloneset::KIND),
    Resource::new(statefulset::API_VERSION, statefulset::PLURAL, statefulset::KIND),
    Resource::new(daemonset::API_VERSION, daemonset::PLURAL, daemonset::KIND),
];

/// A workload: its kind, namespace and name.
type Item = (Resource<'static>, Key);

/// What workloads are found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// They name an object of this kind.
    Kind(SourceKind),
    /// They name this object of this namespace.
    Object(Box<str>, Source),
}

impl Kept for Restarting {
    type Group = Group;

    fn identity(&self) -> Identity<'_> {
        let Self { namespace, name, uid, resource_version, .. } = self;
        Identity { namespace, name, uid, resource_version }
    }

    fn groups(&self) -> Vec<Group> {
        let groups = |source: &Source| {
            [Group::Kind(source.kind), Group::Object(self.namespace.clone(), source.clone())]
        };
        self.sources.iter().flat_map(groups).collect()
    }
}

impl Readable for Restarting {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        Self::read(json)
    }

    fn is_kept(&self) -> bool {
        !self.sources.is_empty()
    }
}

struct Controller {
    client: Client,
    clone_sets: Store<Restarting>,
    stateful_sets: Store<Restarting>,
    daemon_sets: Store<Restarting>,
    /// The kinds of objects that some workload names.
    named: watch::Sender<BTreeSet<SourceKind>>,
    event_sender: EventSender,
}

/// Leads the watch of a kind of objects to the workloads that name them.
struct Objects<'a> {
    kind: SourceKind,
    controller: &'a Controller,
    items: UnboundedSender<Item>,
}

impl Sink for Objects<'_> {
    fn list_begins(&self) {}

    fn see(&self, object: WatchedObject) {
        self.gone(&object);
    }

    fn gone(&self, object: &WatchedObject) {
        let (namespace, name) = object.key();
        let source = Source { kind: self.kind, name: name.into() };
        let group = Group::Object(namespace.into(), source);
        for kind in KINDS {
            for workload in self.controller.stored(kind).group(&group) {
                // The receiver ends with the controller.
                drop(self.items.send((kind, workload.key())));
            }
        }
    }

    fn list_ends(&self) {}
}

/// Restarts workloads on what they name. Never returns.
pub(crate) async fn run(context: Context) {
    let light = metadata_only(context.client.clone());
    let builder = Builder::new(&context, SETTINGS, "Restart", |event_sender| {
        Controller::new(context.client.clone(), event_sender)
    });
    let builder = KINDS.into_iter().fold(builder, |builder, kind| {
        builder.watches_by(
            light.clone(),
            (kind, "restarting-workloads"),
            move |all| all.stored(kind),
            move |all, change| all.of_workload(kind, change),
        )
    });
    let builder = SourceKind::ALL.into_iter().fold(builder, |builder, kind| {
        let light = light.clone();
        builder.beside(move |all, items| async move { all.follow(&light, kind, items).await })
    });
    builder.run().await;
}

impl Reconciler for Controller {
    type Key = Item;
    type Error = ReconcileError;

    async fn reconcile(&self, (kind, key): &Item) -> Result<Next, ReconcileError> {
        let Some(workload) = self.stored(*kind).get(key) else { return Ok(Next::Done) };
        let (mut digests, mut missing) = (BTreeMap::new(), Vec::new());
        for source in &workload.sources {
            let path = resource(source.kind).namespaced(&key.0).name(&source.name);
            match write::get(&self.client, &path).await? {
                Some(object) => {
                    let digest = restart_on::digest(source.kind, &object);
                    digests.insert(source, digest.map_err(ReconcileError::of_object("configuration"))?);
                }
                None => missing.push(source),
            }
        }
        if let Some(message) = restart_on::missing(&missing) {
            self.event_sender.record(workload.reference(kind), restart_on::not_found(message));
            return Ok(Next::Done);
        }
        let hash = restart_on::hash(&digests);
        if workload.applied.as_deref() == Some(&*hash) {
            return Ok(Next::Done);
        }
        let path = kind.namespaced(&key.0).name(&key.1);
        let Some(present) = write::get(&self.client, &path).await? else { return Ok(Next::Done) };
        let patch = restart_on::patch(&workload, &present, &hash);
        let Some(patch) = patch.map_err(ReconcileError::of_object(kind.kind))? else { return Ok(Next::Done) };
        let answer = write::patch(&self.client, &path, PatchKind::Merge, patch).await;
        let is_written = self.stored(*kind).take_in(kind.kind, answer)?;
        Ok(if is_written { Next::Done } else { Next::After(OUTDATED_RETRY) })
    }

    fn object(&self, (kind, key): &Item) -> Option<ObjectReference> {
        self.stored(*kind).get(key).map(|workload| workload.reference(kind))
    }
}

impl Controller {
    fn new(client: Client, event_sender: EventSender) -> Self {
        Self {
            client,
            clone_sets: Store::default(),
            stateful_sets: Store::default(),
            daemon_sets: Store::default(),
            named: watch::Sender::default(),
            event_sender,
        }
    }

    fn stored(&self, kind: Resource<'_>) -> &Store<Restarting> {
        match kind.kind {
            cloneset::KIND => &self.clone_sets,
            statefulset::KIND => &self.stateful_sets,
            _ => &self.daemon_sets,
        }
    }

    /// A workload that names other objects than before, or that has another hash.
    fn of_workload(
        &self,
        kind: Resource<'static>,
        Change { old, new }: &Change<Restarting>,
    ) -> Option<(Item, Duration)> {
        if old.as_ref().map(|old| old.said()) == new.as_ref().map(|new| new.said()) {
            return None;
        }
        let is_named = |named: &SourceKind| {
            KINDS.iter().any(|kind| !self.stored(*kind).group(&Group::Kind(*named)).is_empty())
        };
        let named = SourceKind::ALL.into_iter().filter(is_named).collect();
        self.named.send_if_modified(|known| std::mem::replace(known, named) != *known);
        new.as_ref().map(|new| ((kind, new.key()), Duration::ZERO))
    }

    /// Watches objects of a kind whenever some workload names one. Never returns.
    async fn follow(self: Arc<Self>, light: &Client, kind: SourceKind, items: UnboundedSender<Item>) {
        let (sender, changed) = unbounded_channel();
        let objects = Objects { kind, controller: &self, items: sender };
        let watched = async {
            let mut named = self.named.subscribe();
            // The sender lives as long as the controller.
            while named.wait_for(|named| named.contains(&kind)).await.is_ok() {
                tokio::select! {
                    () = follow_all(light, resource(kind), &objects) => {}
                    _ = named.wait_for(|named| !named.contains(&kind)) => {}
                }
            }
        };
        tokio::join!(watched, forward(changed, items, |item: &Item| [(item.clone(), GATHERED)]));
    }
}

fn resource(kind: SourceKind) -> Resource<'static> {
    match kind {
        SourceKind::ConfigMap => CONFIG_MAPS,
        SourceKind::Secret => SECRETS,
    }
}
