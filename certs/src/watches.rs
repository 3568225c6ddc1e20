//! What wakes the publisher: the Secret, the configurations, the ConfigMap of users, and the definitions
//! of our kinds. Only metadata is watched, so that neither keys nor schemas lie in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use admission::registration::ConfigurationKind;
use cluster::Resource;
use cluster::client::metadata_only;
use cluster::follow::{Sink, follow, follow_all};
use cluster::resource::{CONFIG_MAPS, DEFINITIONS, SECRETS};
use cluster::store::{Identity, Store};
use cluster::watched::{Key, WatchedObject};
use futures::future::join_all;
use kube::runtime::watcher::{Config, Error};
use kube::{Api, Client};
use tokio::sync::mpsc::UnboundedSender;
use values::segment::without_segments;

use crate::objects::{is_of_group, resource};
use crate::settings::{CertificateSettings, Mode};

/// An object and its resourceVersion.
type Version = (Key, String);

/// The definitions of ours that exist.
pub(crate) struct Definitions {
    versions: Store<Version>,
    /// The last failure to watch them.
    trouble: Mutex<Option<String>>,
    wake: Wake,
}

/// Wakes the publisher.
pub(crate) struct Wake(pub(crate) UnboundedSender<()>);

/// Runs all watches. Never returns.
pub(crate) async fn watch_all(client: &Client, settings: &CertificateSettings, definitions: &Definitions) {
    let client = metadata_only(client.clone());
    let namespace = &settings.registration.namespace;
    let here = |kind: Resource<'_>| Api::namespaced_with(client.clone(), namespace, &kind.api_resource());
    let everywhere = |kind| Api::all_with(client.clone(), &resource(kind).api_resource());
    let mut named: Vec<(Api<WatchedObject>, &str)> = vec![(here(CONFIG_MAPS), api::CONFIGURATION_CONFIG_MAP)];
    let published = ConfigurationKind::ALL.into_iter().filter(|kind| kind.is_published(&settings.gates));
    named.extend(published.map(|kind| (everywhere(kind), kind.name())));
    if settings.mode != Mode::Files {
        named.push((here(SECRETS), &settings.secret));
    }
    let wake = &definitions.wake;
    let named = named.into_iter().map(async |(api, name)| {
        let versions = versions();
        let observed = versions.sifted(|object| Some(version(object)));
        let config = Config::default().fields(&format!("metadata.name={name}"));
        tokio::join!(follow(api, config, &observed), wake.at_changes(&versions));
    });
    tokio::join!(
        follow_all(&client, DEFINITIONS, definitions),
        wake.at_changes(&definitions.versions),
        join_all(named),
    );
}

fn versions() -> Store<Version> {
    Store::new(|((namespace, name), resource_version): &Version| Identity {
        namespace,
        name,
        uid: "",
        resource_version,
    })
}

fn version(object: &WatchedObject) -> Version {
    (object.key(), Identity::from(object).resource_version.to_owned())
}

impl Wake {
    fn wake(&self) {
        // The receiver ends with the watches.
        self.0.send(()).unwrap_or_default();
    }

    /// Wakes it once these are listed, and at each change. Never returns.
    async fn at_changes(&self, versions: &Store<Version>) {
        let mut changes = versions.subscribe();
        versions.synced().await;
        self.wake();
        while changes.recv().await.is_some() {
            self.wake();
        }
    }
}

impl Definitions {
    pub(crate) fn new(wake: Wake) -> Self {
        Self { versions: versions(), trouble: Mutex::default(), wake }
    }

    /// Name and resourceVersion of each definition; why they are not known, for as long as they are not.
    pub(crate) fn versions(&self) -> Result<BTreeMap<String, String>, String> {
        if self.versions.is_synced() {
            let versions = self.versions.all();
            let named = versions.iter().map(|version| (version.0.1.clone(), version.1.clone()));
            return Ok(named.collect());
        }
        Err(match &*self.trouble() {
            Some(trouble) => format!("CustomResourceDefinitions can't be watched: {trouble}"),
            None => "CustomResourceDefinitions are not listed yet".to_owned(),
        })
    }

    // Held for single operations only, never over an await.
    fn trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Definitions {
    fn list_begins(&self) {
        self.versions.list_begins();
    }

    fn see(&self, object: WatchedObject) {
        if is_ours(&object.key().1) {
            self.versions.apply(version(&object));
        }
    }

    fn gone(&self, object: &WatchedObject) {
        self.versions.delete(&object.key(), Identity::from(object).resource_version);
    }

    fn list_ends(&self) {
        self.versions.list_ends();
    }

    fn failed(&self, error: &Error) {
        *self.trouble() = Some(without_segments(&error.to_string()));
        // Nothing happens before they are known, so that somebody must say why.
        if !self.versions.is_synced() {
            self.wake.wake();
        }
    }
}

fn is_ours(definition: &str) -> bool {
    let mut groups = [api::APPS_GROUP, api::POLICY_GROUP, api::ROLLOUTS_GROUP].into_iter();
    groups.any(|group| is_of_group(definition, group))
}
