//! Which Pods the API server asks about now: a watch of the one registration, of which only that is kept.

use admission::registration::ConfigurationKind;
use cluster::resource::MUTATING_WEBHOOKS;
use cluster::watched::{Key, WatchedObject};
use kinds::sidecarset::account::Scope;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use serde::Deserialize;

use crate::workload::store::follow::{Readable, follow};
use crate::workload::store::{self, Identity, Kept, Store};

const KIND: ConfigurationKind = ConfigurationKind::Mutating;

/// What our MutatingWebhookConfiguration says.
pub(super) struct Reviewed {
    uid: Box<str>,
    resource_version: Box<str>,
    /// `None` where no Pods are registered.
    pub(super) scope: Option<Scope>,
}

impl Kept for Reviewed {
    type Group = ();

    fn identity(&self) -> Identity<'_> {
        Identity {
            namespace: "",
            name: KIND.name(),
            uid: &self.uid,
            resource_version: &self.resource_version,
        }
    }
}

impl Readable for Reviewed {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            uid: Box<str>,
            resource_version: Box<str>,
        }
        let Object { metadata: Metadata { uid, resource_version } } = serde_json::from_str(json)?;
        Ok(Self { uid, resource_version, scope: Scope::of_configuration(json) })
    }
}

/// Where it is.
pub(super) fn key() -> Key {
    store::key(KIND.name())
}

/// Keeps it current. Never returns.
pub(super) async fn keep_current(client: &Client, reviewed: &Store<Reviewed>) {
    let kind = MUTATING_WEBHOOKS.api_resource();
    let by_name = Config::default().fields(&format!("metadata.name={}", KIND.name()));
    follow(Api::<WatchedObject>::all_with(client.clone(), &kind), by_name, reviewed).await;
}
