//! What is known of the cluster, and how more is read of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admission::endpoint::ConfigurationKind;
use api::kinds::rollout::WorkloadRef;
use api::labels::ROLLOUT_WORKLOAD_TYPE;
use cluster::list::{ListError, list_all};
use cluster::resource::{CONFIG_MAPS, MUTATING_WEBHOOKS, PODS, Resource, encoded};
use cluster::write;
use kube::Client;
use rollouts::object::{Object as _, ObjectName};
use rollouts::view::ListName;
use rollouts::workload::version_of;
use rollouts::{deployment, settings};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use super::held::{self, Held};
use super::kinds::{Kinds, OWN_KINDS};
use super::lists::{Lists, Reader};
use super::owners::Owners;
use crate::metrics::Metrics;
use crate::workload::store::Store;
use crate::workload::stores::Stores;
use crate::{Context, ReconcileError};

/// Longest time for the first answer to a list that somebody waits for.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long what was read of objects is believed that are not of releases, and that seldom change.
const MEMORY: Duration = Duration::from_secs(10);

/// What plans are made with, beside what they read.
pub(super) struct Settings {
    pub(super) rollout: settings::Settings,
    pub(super) deployment: deployment::Settings,
}

/// What is known of the cluster.
pub(super) struct Known {
    pub(super) client: Client,
    pub(super) settings: Settings,
    pub(super) lists: Lists,
    pub(super) owners: Owners,
    pub(super) stores: Arc<Stores>,
    pub(super) kinds: Kinds,
    pub(super) metrics: Arc<Metrics>,
    remembered: Mutex<HashMap<ObjectName, (Instant, Option<Value>)>>,
}

/// An object that was read; `None` where there is none.
pub(super) enum Read {
    /// From a list that is kept current.
    Listed(Option<Value>),
    /// From the API server.
    Fetched(Option<Value>),
}

impl Known {
    /// Nothing is known yet.
    pub(super) fn new(context: &Context, stores: Arc<Stores>) -> Self {
        let crate::Settings { gates, install_namespace, .. } = &*context.settings;
        let rollout = settings::Settings { gates: gates.clone(), namespace: install_namespace.clone() };
        let webhook_configuration = ConfigurationKind::MutatingRollouts.name().to_owned();
        Self {
            client: context.client.clone(),
            settings: Settings { rollout, deployment: deployment::Settings { webhook_configuration } },
            lists: Lists::default(),
            owners: Owners::default(),
            stores,
            kinds: Kinds::default(),
            metrics: context.metrics.clone(),
            remembered: Mutex::default(),
        }
    }

    /// Keeps the objects of our own kinds current from now on.
    pub(super) fn follow_own_kinds(&self) {
        for kind in OWN_KINDS {
            if let Some(served) = Kinds::known(kind.api_version, kind.kind) {
                self.lists.follow(&self.client, all_of(&kind), &served);
            }
        }
    }

    /// Keeps workloads of this kind current from now on, those of Rollouts. Says whether changes of this one are reported.
    ///
    /// # Errors
    /// The API server did not answer.
    pub(super) async fn follow_workload(
        &self,
        reference: &WorkloadRef,
        namespace: &str,
    ) -> Result<bool, ReconcileError> {
        let (api_version, WorkloadRef { kind, name, .. }) = (version_of(reference), reference);
        let list = workloads_of(api_version, kind);
        if let Some(stored) = self.lists.stored(&list) {
            return Ok(stored.get(&(namespace.to_owned(), name.clone())).is_some());
        }
        if let Some(served) = self.kinds.served(&self.client, api_version, kind).await? {
            self.lists.follow(&self.client, list, &served);
        }
        Ok(false)
    }

    /// The objects of one of our own kinds.
    pub(super) fn own(&self, kind: &Resource<'_>) -> Option<Arc<Store<Held>>> {
        self.lists.stored(&all_of(kind))
    }

    /// Reads an object: from a list that is kept current, unless it is to be read `afresh`.
    ///
    /// # Errors
    /// The API server refuses, can't be reached, or answers with something else.
    pub(super) async fn object(&self, name: &ObjectName, afresh: bool) -> Result<Read, ReconcileError> {
        if !afresh && let Some(found) = self.lists.find(name) {
            return Ok(Read::Listed(found.map(|held| held.value())));
        }
        let seldom_changes = [CONFIG_MAPS.kind, MUTATING_WEBHOOKS.kind].contains(&name.kind.as_str());
        let remembered = self.remembered().get(name).filter(|(since, _)| since.elapsed() < MEMORY).cloned();
        if let Some((_, object)) = remembered.filter(|_| !afresh) {
            return Ok(Read::Fetched(object));
        }
        let text = match self.kinds.path(&self.client, name).await? {
            Some(path) => write::get(&self.client, &path).await?,
            None => None,
        };
        let object = text.map(|text| self.take_in(name, &text)).transpose()?;
        if object.is_none() {
            self.lists.gone(name);
        }
        if seldom_changes {
            let mut all = self.remembered();
            all.retain(|_, (since, _)| since.elapsed() < MEMORY);
            all.insert(name.clone(), (Instant::now(), object.clone()));
        }
        Ok(Read::Fetched(object))
    }

    /// The store of a list, which is kept current from now on until the reader leaves; `None` where the kind is not served.
    ///
    /// # Errors
    /// The API server did not say how the kind is served.
    pub(super) async fn follow(
        &self,
        name: &ListName,
        reader: &Reader,
    ) -> Result<Option<Arc<Store<Held>>>, ReconcileError> {
        let served = self.kinds.served(&self.client, &name.api_version, &name.kind).await?;
        Ok(served.map(|served| self.lists.read(&self.client, name, &served, reader)))
    }

    /// The objects of a list, from a watch that goes on until the reader leaves.
    ///
    /// # Errors
    /// They can't be listed.
    pub(super) async fn followed(
        &self,
        name: &ListName,
        reader: &Reader,
    ) -> Result<Vec<Value>, ReconcileError> {
        let Some(stored) = self.follow(name, reader).await? else { return Ok(Vec::new()) };
        let listed = timeout(TIMEOUT, stored.synced()).await;
        listed.map_err(|_| ReconcileError::Action(format!("{} can't be listed", name.kind)))?;
        Ok(stored.all().iter().map(|held| held.value()).collect())
    }

    /// Reads a list.
    ///
    /// # Errors
    /// The API server refuses, can't be reached, or answers with something else.
    pub(super) async fn list(&self, name: &ListName) -> Result<Vec<Value>, ReconcileError> {
        let ListName { api_version, kind, namespace, selector } = name;
        let collection = ObjectName::new(api_version, kind, namespace, "");
        let Some(path) = self.kinds.path(&self.client, &collection).await? else { return Ok(Vec::new()) };
        let path = match selector.as_str() {
            "" => path,
            selector => path.query(format_args!("labelSelector={}", encoded(selector))),
        };
        let mut texts: Vec<Box<RawValue>> = Vec::new();
        list_all(&self.client, &path, |object| texts.push(object)).await.map_err(unlisted)?;
        let objects = texts.iter().map(|text| {
            let object =
                held::read((api_version, kind), text.get()).map_err(ReconcileError::of_object("object"))?;
            self.lists.take_in(&ObjectName::new(api_version, kind, namespace, object.name()), &object);
            Ok(object)
        });
        objects.collect()
    }

    /// Takes in an object as a request of ours has returned it.
    ///
    /// # Errors
    /// The text is no object.
    pub(super) fn take_in(&self, name: &ObjectName, text: &str) -> Result<Value, ReconcileError> {
        let kind = (name.api_version.as_str(), name.kind.as_str());
        let object = held::read(kind, text).map_err(ReconcileError::of_object("object"))?;
        if name.kind == PODS.kind && name.group().is_empty() {
            self.stores.pods.written(text)?;
        }
        self.lists.take_in(name, &object);
        Ok(object)
    }

    // Held for single operations only, never over an await.
    fn remembered(&self) -> MutexGuard<'_, HashMap<ObjectName, (Instant, Option<Value>)>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All objects of a kind.
pub(super) fn all_of(kind: &Resource<'_>) -> ListName {
    ListName::new(kind.api_version, kind.kind, "", "")
}

/// The workloads of this kind that a Rollout has taken into its care.
fn workloads_of(api_version: &str, kind: &str) -> ListName {
    ListName::new(api_version, kind, "", ROLLOUT_WORKLOAD_TYPE)
}

fn unlisted(error: ListError) -> ReconcileError {
    match error {
        ListError::Unread { source, .. } => source.into(),
        ListError::NotUnderstood { source, .. } => ReconcileError::of_object("list")(source),
    }
}
