//! Rewrites objects that are stored in another version than the one that their CRD names for storage, so that the
//! other version can be dropped and no list needs our conversion webhook
//! (docs/behaviour/api-and-registration.md#storage-version). A write that changes nothing stores an object in the
//! storage version; when all are rewritten, `status.storedVersions` says so. The live CRD decides, not the one that
//! is compiled in: before OpenKruise comes back, `v1alpha1` is the storage version.

use std::time::Duration;

use api::{ROLLOUTS_GROUP, crds};
use cluster::list::{List, query};
use cluster::resource::{DEFINITIONS, Resource};
use cluster::write::{self, PatchKind};
use cluster::{ApiError, ErrorReason};
use futures::future::join_all;
use kube::Client;
use serde::Deserialize;
use thiserror::Error;
use tracing::{debug, info, warn};

/// Pause between two checks of a CRD.
const PERIOD: Duration = Duration::from_secs(600);
/// Pause after the first attempt that failed; doubled with each further one, up to [`PERIOD`].
const RETRY: Duration = Duration::from_secs(15);
/// Objects per page.
const PAGE: usize = 100;

#[derive(Debug, Error)]
enum MigrationError {
    #[error("{request}: {0}", request = .0.request())]
    Api(#[from] ApiError),
    #[error("the API server's answer is not understood: {0}")]
    Answer(#[from] serde_json::Error),
    #[error("{failed} objects could not be rewritten, the first: {first}")]
    Objects { failed: usize, first: String },
    #[error("{0} is not served, though its CustomResourceDefinition exists")]
    NotServed(String),
}

#[derive(Deserialize)]
struct Definition {
    metadata: DefinitionMetadata,
    spec: DefinitionSpec,
    #[serde(default)]
    status: DefinitionStatus,
}

#[derive(Deserialize)]
struct DefinitionSpec {
    versions: Vec<DefinitionVersion>,
}

#[derive(Deserialize)]
struct DefinitionVersion {
    name: String,
    storage: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DefinitionMetadata {
    resource_version: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DefinitionStatus {
    stored_versions: Vec<String>,
}

#[derive(Deserialize)]
struct Item {
    metadata: ItemMetadata,
}

#[derive(Deserialize)]
struct ItemMetadata {
    name: String,
    #[serde(default)]
    namespace: String,
}

/// Looks at all CRDs of ours now and then; at those of Rollouts where their gate is on.
pub async fn run(client: Client, with_rollouts: bool) {
    let definitions = crds::every().filter(|definition| with_rollouts || definition.group != ROLLOUTS_GROUP);
    join_all(definitions.map(|definition| keep(&client, definition))).await;
}

/// Looks at one CRD now and then; the trouble of one kind is no matter of the others.
async fn keep(client: &Client, definition: &crds::CustomResourceDefinition) {
    let mut retry = RETRY;
    loop {
        // A list whose token expires midway (410) is begun anew like any other attempt that failed.
        let pause = match migrate(client, definition).await {
            Ok(()) => {
                retry = RETRY;
                PERIOD
            }
            Err(error) => {
                let pause = retry;
                retry = retry.saturating_mul(2).min(PERIOD);
                warn!(kind = definition.kind, %error, ?pause, "objects in an older version are not rewritten yet");
                pause
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn migrate(client: &Client, definition: &crds::CustomResourceDefinition) -> Result<(), MigrationError> {
    let path = DEFINITIONS.all().name(&definition.name());
    let Some(text) = write::get(client, &path).await? else { return Ok(()) };
    let Definition { metadata, spec, status } = serde_json::from_str(&text)?;
    // The API server accepts no CRD without a storage version.
    let Some(storage) = spec.versions.into_iter().find(|version| version.storage) else { return Ok(()) };
    let stored = status.stored_versions;
    if stored.iter().all(|version| *version == storage.name) {
        return Ok(());
    }
    info!(
        kind = definition.kind,
        ?stored,
        storage = storage.name,
        "rewriting objects in the storage version"
    );
    rewrite_all(client, definition, &storage.name).await?;
    // Refused if the CRD has changed since it was read: it might store another version by now.
    let body = format!(
        r#"{{"metadata":{{"resourceVersion":"{}"}},"status":{{"storedVersions":["{}"]}}}}"#,
        metadata.resource_version, storage.name
    );
    write::patch(client, &path.subresource("status"), PatchKind::Merge, body).await?;
    Ok(())
}

async fn rewrite_all(
    client: &Client,
    definition: &crds::CustomResourceDefinition,
    storage: &str,
) -> Result<(), MigrationError> {
    let version = format!("{}/{storage}", definition.group);
    let resource = Resource::new(&version, definition.plural, definition.kind);
    let mut token = None;
    let mut failed = 0;
    let mut first = String::new();
    loop {
        let page = resource.all().query(query(PAGE, token.as_deref()));
        let Some(text) = write::get(client, &page).await? else {
            return Err(MigrationError::NotServed(page.to_string()));
        };
        let list: List<Item> = serde_json::from_str(&text)?;
        for Item { metadata } in &list.items {
            let object = resource.namespaced(&metadata.namespace).name(&metadata.name);
            match write::patch(client, &object, PatchKind::Merge, "{}".to_owned()).await {
                Ok(_) => debug!(%object, "rewritten"),
                Err(error) if error.reason() == ErrorReason::NotFound => {}
                Err(error) => {
                    failed += 1;
                    if first.is_empty() {
                        first = format!("{object}: {error}");
                    }
                }
            }
        }
        match list.next_page() {
            Some(next) => token = Some(next.to_owned()),
            None if failed == 0 => return Ok(()),
            None => return Err(MigrationError::Objects { failed, first }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    /// It stores another version than the definition that is compiled in.
    const DEFINITION: &str = r#"{"metadata":{"resourceVersion":"42"},"spec":{"versions":[{"name":"v1alpha1","storage":true},{"name":"v1beta1","storage":false}]},"status":{"storedVersions":["v1beta1","v1alpha1"]}}"#;
    const LIST: &str = r#"{"metadata":{},"items":[{"metadata":{"name":"a","namespace":"n"}}]}"#;

    fn definition() -> &'static crds::CustomResourceDefinition {
        crds::find("apps.kruise.io", "CloneSet").unwrap()
    }

    /// An API server with one object, which answers a rewrite and a list as configured.
    fn server(list: (u16, String), rewrite: u16) -> (Client, fake::Requests) {
        fake::api_server(move |request| match request {
            fake::Request { path, .. } if path.contains("customresourcedefinitions") => {
                (200, DEFINITION.to_owned())
            }
            fake::Request { method: "GET", .. } => list.clone(),
            _ => (rewrite, fake::status(rewrite)),
        })
    }

    fn count(requests: &fake::Requests, start: &str) -> usize {
        requests.lock().unwrap().iter().filter(|request| request.starts_with(start)).count()
    }

    #[tokio::test]
    async fn objects_are_stored_as_the_live_definition_says_and_only_that_definition_is_changed() {
        assert_eq!(definition().storage_version, "v1beta1");
        let (client, requests) = server((200, LIST.to_owned()), 200);
        migrate(&client, definition()).await.unwrap();
        assert_eq!(count(&requests, "PATCH /apis/apps.kruise.io/v1alpha1/namespaces/n/clonesets/a"), 1);
        let requests = requests.lock().unwrap();
        assert_eq!(
            requests.last().unwrap(),
            r#"PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/clonesets.apps.kruise.io/status {"metadata":{"resourceVersion":"42"},"status":{"storedVersions":["v1alpha1"]}}"#
        );
    }

    #[tokio::test]
    async fn a_list_that_is_not_served_or_expires_leaves_the_stored_versions() {
        for code in [404, 410] {
            let (client, requests) = server((code, fake::status(code)), 200);
            migrate(&client, definition()).await.unwrap_err();
            assert_eq!(count(&requests, "PATCH"), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_is_refused_is_tried_less_and_less_often() {
        let (client, requests) = server((200, LIST.to_owned()), 422);
        let hour = tokio::time::timeout(Duration::from_secs(3600), keep(&client, definition())).await;
        assert!(hour.is_err(), "it never ends");
        // After 0, 15, 45, 105, 225, 465 and 945 seconds, and then every ten minutes.
        assert_eq!(count(&requests, "PATCH"), 11);
    }
}
