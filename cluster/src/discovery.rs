//! How the API server serves kinds that nobody knew beforehand, and their objects.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use planner::workload::found::Served;
use tokio::time::Instant;

use crate::ApiError;
use crate::resource::Resource;

/// How long an answer is believed.
const MEMORY: Duration = Duration::from_secs(300);
/// How long it is believed that a kind is not served: it may be installed at any time.
const ABSENCE: Duration = Duration::from_secs(30);

/// What is known of kinds.
#[derive(Debug, Default)]
pub struct Discovery(Mutex<Known>);

/// By group and version, and kind; `None` for what is not served.
type Known = HashMap<(String, String), (Instant, Option<Served>)>;

impl Discovery {
    /// How the API server serves a kind; `None` where it does not.
    ///
    /// # Errors
    /// The API server did not answer, or refuses.
    pub async fn served(
        &self,
        client: &Client,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Served>, ApiError> {
        let key = (api_version.to_owned(), kind.to_owned());
        let age = |served: &Option<Served>| if served.is_some() { MEMORY } else { ABSENCE };
        // Held for single operations only, never over an await.
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, served)) = known().get(&key)
            && since.elapsed() < age(served)
        {
            return Ok(served.clone());
        }
        let prefix = if api_version.contains('/') { "apis" } else { "api" };
        let list = crate::write::get(client, &format!("/{prefix}/{api_version}")).await?;
        let served = list.and_then(|list| Served::find(&list, kind).ok().flatten());
        let mut all = known();
        all.retain(|_, (since, served)| since.elapsed() < age(served));
        all.insert(key, (Instant::now(), served.clone()));
        Ok(served)
    }

    /// An object of any kind; `None` where there is no such object, or no such kind.
    ///
    /// # Errors
    /// The API server did not answer, or refuses.
    pub async fn get(
        &self,
        client: &Client,
        namespace: &str,
        (api_version, kind, name): (&str, &str, &str),
    ) -> Result<Option<String>, ApiError> {
        let Some(served) = self.served(client, api_version, kind).await? else { return Ok(None) };
        let namespace = if served.namespaced { namespace } else { "" };
        let path = Resource::new(api_version, &served.plural, kind).namespaced(namespace).name(name);
        crate::write::get(client, &path).await
    }
}
