//! Rewrites objects that are stored in an older version, so that a version can be dropped one day and
//! no list needs our conversion webhook (decision 1). A write that changes nothing stores an object in
//! the storage version; when all are rewritten, `status.storedVersions` says so.

use std::time::Duration;

use api::crds;
use cluster::client::message;
use cluster::list::{List, query};
use cluster::write::{self, PatchKind};
use kube::Client;
use serde::Deserialize;
use thiserror::Error;
use tracing::{debug, info, warn};

/// Pause between two looks at the CRDs.
const PERIOD: Duration = Duration::from_secs(600);
/// Pause after a look that found the cluster not ready for it.
const RETRY: Duration = Duration::from_secs(15);
/// Objects per page.
const PAGE: usize = 100;

#[derive(Debug, Error)]
enum MigrationError {
    #[error("{0}")]
    Cluster(String),
    #[error("the API server's answer is not understood: {0}")]
    Answer(#[from] serde_json::Error),
    #[error("{failed} objects could not be rewritten, the first: {first}")]
    Objects { failed: usize, first: String },
}

#[derive(Deserialize)]
struct Definition {
    #[serde(default)]
    status: DefinitionStatus,
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

/// Looks at all CRDs of ours now and then.
pub async fn run(client: Client) {
    loop {
        let mut pause = PERIOD;
        for definition in crds::ALL {
            if let Err(error) = migrate(&client, definition).await {
                warn!(kind = definition.kind, %error, "objects in an older version are not rewritten yet");
                pause = RETRY;
            }
        }
        tokio::time::sleep(pause).await;
    }
}

async fn migrate(client: &Client, definition: &crds::CustomResourceDefinition) -> Result<(), MigrationError> {
    let failed = |error: kube::Error| MigrationError::Cluster(message(&error));
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", definition.name());
    let Some(text) = write::get(client, &path).await.map_err(failed)? else { return Ok(()) };
    let stored = serde_json::from_str::<Definition>(&text)?.status.stored_versions;
    if stored.iter().all(|version| version == definition.storage_version) {
        return Ok(());
    }
    info!(kind = definition.kind, ?stored, "rewriting objects in the storage version");
    rewrite_all(client, definition).await?;
    let body = format!(r#"{{"status":{{"storedVersions":["{}"]}}}}"#, definition.storage_version);
    write::patch(client, &format!("{path}/status"), PatchKind::Merge, body).await.map_err(failed)?;
    Ok(())
}

async fn rewrite_all(
    client: &Client,
    definition: &crds::CustomResourceDefinition,
) -> Result<(), MigrationError> {
    let base = format!("/apis/{}/{}", definition.group, definition.storage_version);
    let plural = definition.plural;
    let mut token = None;
    let mut failed = 0;
    let mut first = String::new();
    loop {
        let page = format!("{base}/{plural}?{}", query(PAGE, token.as_deref()));
        let text =
            write::get(client, &page).await.map_err(|error| MigrationError::Cluster(message(&error)))?;
        let Some(text) = text else { return Ok(()) };
        let list: List<Item> = serde_json::from_str(&text)?;
        for Item { metadata } in &list.items {
            let object = if metadata.namespace.is_empty() {
                format!("{base}/{plural}/{}", metadata.name)
            } else {
                format!("{base}/namespaces/{}/{plural}/{}", metadata.namespace, metadata.name)
            };
            match write::patch(client, &object, PatchKind::Merge, "{}".to_owned()).await {
                Ok(_) => debug!(object, "rewritten"),
                Err(error) if cluster::client::is_not_found(&error) => {}
                Err(error) => {
                    failed += 1;
                    if first.is_empty() {
                        first = format!("{object}: {}", message(&error));
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
