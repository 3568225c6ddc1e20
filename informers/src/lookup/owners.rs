//! Objects of any kind, and who manages them.

use std::collections::HashMap;
use std::fmt;
use std::sync::PoisonError;
use std::time::Duration;

use api::kinds::ObjectMeta;
use api::meta::OwnerReference;
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use super::{Lookup, LookupError, Source};

/// Longest time for an object.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long it is believed who manages an object of a certain UID.
const MEMORY: Duration = Duration::from_secs(60);
/// Of so many objects.
const REMEMBERED: usize = 10_000;

/// Who manages an object: by namespace and reference.
pub(super) type Owners = HashMap<(String, OwnerReference), (Instant, Option<OwnerReference>)>;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: ObjectMeta,
}

impl Lookup {
    /// An object of `namespace` by API version, kind and name; `None` where there is none. Of the version only the group
    /// matters.
    ///
    /// # Errors
    /// The API server does not serve the kind, did not answer in time, or refuses: whether the object exists is not
    /// known.
    pub async fn object(
        &self,
        namespace: &str,
        (api_version, kind, name): (&str, &str, &str),
    ) -> Result<Option<String>, LookupError> {
        match &*self.0 {
            Source::Cluster(live) => {
                in_time(live.discovery.get(&live.client, namespace, (api_version, kind, name))).await
            }
            Source::Files(objects) => {
                let (group, _) = api::group_and_version(api_version);
                let found = objects.iter().find(|object| {
                    object.kind == kind
                        && object.group() == group
                        && object.name == name
                        && (object.namespace == namespace || object.namespace.is_empty())
                });
                Ok(found.map(|object| object.json.clone()))
            }
        }
    }

    /// The `scale` of an object; `None` where there is none, and in files.
    ///
    /// # Errors
    /// As those of [`Self::object`].
    pub async fn scale(
        &self,
        namespace: &str,
        reference: (&str, &str, &str),
    ) -> Result<Option<String>, LookupError> {
        let Source::Cluster(live) = &*self.0 else { return Ok(None) };
        in_time(live.discovery.scale(&live.client, namespace, reference)).await
    }

    /// Who manages the object of a reference; the outer `None` where there is no such object.
    ///
    /// # Errors
    /// As those of [`Self::object`].
    pub async fn owner(
        &self,
        namespace: &str,
        object: &OwnerReference,
    ) -> Result<Option<Option<OwnerReference>>, LookupError> {
        let key = (namespace.to_owned(), object.clone());
        if let Source::Cluster(live) = &*self.0 {
            // Held for single operations only, never over an await.
            let known = live.owners.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((since, owner)) = known.get(&key)
                && since.elapsed() < MEMORY
            {
                return Ok(Some(owner.clone()));
            }
        }
        let reference = (object.api_version.as_str(), object.kind.as_str(), object.name.as_str());
        let Some(text) = self.object(namespace, reference).await? else { return Ok(None) };
        let read: Object = serde_json::from_str(&text).map_err(|error| LookupError(error.to_string()))?;
        if !object.uid.is_empty() && !read.metadata.uid.is_empty() && object.uid != read.metadata.uid {
            return Ok(None);
        }
        let owner = read.metadata.controller().cloned();
        if let Source::Cluster(live) = &*self.0 {
            let mut known = live.owners.lock().unwrap_or_else(PoisonError::into_inner);
            known.retain(|_, (since, _)| since.elapsed() < MEMORY);
            if known.len() < REMEMBERED {
                known.insert(key, (Instant::now(), owner.clone()));
            }
        }
        Ok(Some(owner))
    }
}

/// What the API server answers, if it does so in time.
pub(super) async fn in_time<T, E: fmt::Display>(
    asking: impl Future<Output = Result<T, E>>,
) -> Result<T, LookupError> {
    timeout(TIMEOUT, asking)
        .await
        .map_err(|_| LookupError(format!("no answer from the API server within {TIMEOUT:?}")))?
        .map_err(|error| LookupError(error.to_string()))
}
