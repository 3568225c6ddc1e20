//! How the API server serves kinds that nobody knew beforehand, and their objects.
//!
//! Kinds are identified by group and kind: the version that somebody names is tried first, and where it does not serve
//! the kind another one of the group does.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use kube::error::DiscoveryError;
use tokio::time::Instant;
use values::served::Served;
use values::short::shortened;

use crate::ApiError;
use crate::resource::{self, LONGEST_NAME, Path, Resource};
use crate::write;

/// How long an answer is believed.
const MEMORY: Duration = Duration::from_secs(300);
/// How long it is believed that a kind is not served: it may be installed at any time.
const ABSENCE: Duration = Duration::from_secs(30);
/// So many kinds are remembered, and those that are not served among them: objects may name what they like.
const REMEMBERED: usize = 1000;

/// What is known of kinds.
#[derive(Debug, Default)]
pub struct Discovery(Mutex<Known>);

/// By group and version, and kind; `None` for what is not served.
type Known = HashMap<(String, String), (Instant, Option<Served>)>;

impl Discovery {
    /// How the API server serves a kind.
    ///
    /// # Errors
    /// The API server does not serve it, did not answer, or refuses.
    pub async fn served(&self, client: &Client, api_version: &str, kind: &str) -> Result<Served, ApiError> {
        let [api_version, kind] = [api_version, kind].map(|name| shortened(name, LONGEST_NAME + 1));
        let key = (api_version.to_owned(), kind.to_owned());
        let age = |served: &Option<Served>| if served.is_some() { MEMORY } else { ABSENCE };
        // Held for single operations only, never over an await.
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let remembered = known().get(&key).filter(|(since, served)| since.elapsed() < age(served)).cloned();
        let served = match remembered {
            Some((_, served)) => served,
            None => {
                let served = find(client, api_version, kind).await?;
                let mut all = known();
                all.retain(|_, (since, served)| since.elapsed() < age(served));
                if all.len() < REMEMBERED {
                    all.insert(key, (Instant::now(), served.clone()));
                }
                served
            }
        };
        served.ok_or_else(|| {
            let missing = DiscoveryError::MissingKind(format!("{kind} of {api_version}"));
            ApiError::new(format!("GET /apis for {kind}"), kube::Error::Discovery(missing))
        })
    }

    /// An object of any kind; `None` where there is no such object.
    ///
    /// # Errors
    /// The API server does not serve the kind, did not answer, or refuses.
    pub async fn get(
        &self,
        client: &Client,
        namespace: &str,
        (api_version, kind, name): (&str, &str, &str),
    ) -> Result<Option<String>, ApiError> {
        let served = self.served(client, api_version, kind).await?;
        write::get(client, &path(&served, kind, namespace, name)).await
    }

    /// The `scale` of an object of any kind; `None` where there is none.
    ///
    /// # Errors
    /// As those of [`Self::get`].
    pub async fn scale(
        &self,
        client: &Client,
        namespace: &str,
        (api_version, kind, name): (&str, &str, &str),
    ) -> Result<Option<String>, ApiError> {
        let served = self.served(client, api_version, kind).await?;
        if !served.has_scale {
            return Ok(None);
        }
        write::get(client, &path(&served, kind, namespace, name).subresource("scale")).await
    }
}

/// The path of an object of this kind.
pub fn path(served: &Served, kind: &str, namespace: &str, name: &str) -> Path {
    let namespace = if served.namespaced { namespace } else { "" };
    Resource::new(&served.api_version, &served.plural, kind).namespaced(namespace).name(name)
}

/// A kind in the version that is named, or else in the preferred version of its group, or in any.
async fn find(client: &Client, api_version: &str, kind: &str) -> Result<Option<Served>, ApiError> {
    if let Some(served) = find_in(client, api_version, kind).await? {
        return Ok(Some(served));
    }
    let Some((group, _)) = api_version.split_once('/') else { return Ok(None) };
    let group = write::get(client, &resource::group(group)).await?;
    let versions = group.and_then(|group| Served::versions(&group).ok()).unwrap_or_default();
    for version in versions.iter().filter(|version| *version != api_version) {
        if let Some(served) = find_in(client, version, kind).await? {
            return Ok(Some(served));
        }
    }
    Ok(None)
}

async fn find_in(client: &Client, api_version: &str, kind: &str) -> Result<Option<Served>, ApiError> {
    let list = write::get(client, &resource::version(api_version)).await?;
    Ok(list.and_then(|list| Served::find(&list, api_version, kind).ok().flatten()))
}

#[cfg(test)]
mod tests {
    use kit::double::{api_server, status};
    use serde_json::{Value, json};

    use super::*;
    use crate::{ErrorReason, Retry};

    /// An API server that serves rollouts with a scale in version `v2` of a group with two versions.
    fn cluster() -> (Client, kit::double::Requests) {
        let version = |name: &str| json!({"groupVersion": format!("example.com/{name}"), "version": name});
        let group = json!({"versions": [version("v1"), version("v2")], "preferredVersion": version("v1")});
        let list = |resources: Value| (200, json!({"resources": resources}).to_string());
        api_server(move |request| match request.path {
            "/apis/example.com" => (200, group.to_string()),
            "/apis/example.com/v1" => list(json!([{"name": "plans", "kind": "Plan", "namespaced": false}])),
            "/apis/example.com/v2" => list(json!([
                {"name": "rollouts", "kind": "Rollout", "namespaced": true},
                {"name": "rollouts/scale", "kind": "Scale", "namespaced": true},
            ])),
            "/apis/example.com/v2/namespaces/shop/rollouts/web" => (200, "{}".to_owned()),
            "/apis/example.com/v2/namespaces/shop/rollouts/web/scale" => (200, "[]".to_owned()),
            _ => (404, status(404)),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn the_version_that_is_named_does_not_matter() {
        let (client, requests) = cluster();
        for version in ["v1", "v2", "v9"] {
            let discovery = Discovery::default();
            let version = format!("example.com/{version}");
            let web = (version.as_str(), "Rollout", "web");
            assert_eq!(
                discovery.get(&client, "shop", web).await.unwrap().as_deref(),
                Some("{}"),
                "{version}"
            );
            assert_eq!(
                discovery.scale(&client, "shop", web).await.unwrap().as_deref(),
                Some("[]"),
                "{version}"
            );
            requests.lock().unwrap().clear();
            let other = (version.as_str(), "Rollout", "other");
            assert_eq!(discovery.get(&client, "shop", other).await.unwrap(), None);
            assert_eq!(requests.lock().unwrap().len(), 1, "how a kind is served is remembered");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn names_of_others_lead_nowhere_else_and_fill_no_memory() {
        let (client, requests) = cluster();
        let discovery = Discovery::default();
        let web = |name| ("example.com/v2", "Rollout", name);
        discovery.get(&client, "shop", web("web")).await.unwrap();
        requests.lock().unwrap().clear();
        for name in ["../plans/x", "web/scale", "..", ""] {
            assert_eq!(discovery.get(&client, "shop", web(name)).await.unwrap(), None, "{name}");
        }
        for api_version in ["../api/v1/secrets", "..", "", "/v1", "example.com/", "example.com/v2/namespaces"]
        {
            // Of a group with a name its other versions are looked for.
            let asked = usize::from(api_version.starts_with("example"));
            let error = discovery.get(&client, "shop", (api_version, "Gone", "web")).await.unwrap_err();
            assert_eq!(error.reason(), ErrorReason::Refused, "{api_version}");
            let mut requests = requests.lock().unwrap();
            assert!(requests.len() <= 3 * asked, "{requests:?}");
            assert!(
                requests.iter().all(|request| request.starts_with("GET /apis/example.com")),
                "{requests:?}"
            );
            requests.clear();
        }
        let long = "a".repeat(50_000);
        for number in 0..2 * REMEMBERED {
            let kind = format!("{number}{long}");
            let error = discovery.served(&client, "example.com/v1", &kind).await.unwrap_err();
            assert!(error.to_string().len() < 1000);
        }
        let known = discovery.0.lock().unwrap();
        assert!(known.len() <= REMEMBERED && known.keys().all(|(_, kind)| kind.len() <= LONGEST_NAME + 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_not_served_is_no_object_that_is_not_there() {
        let (client, requests) = cluster();
        let discovery = Discovery::default();
        for (api_version, kind) in [("example.com/v1", "Gone"), ("gone.io/v1", "Rollout"), ("v1", "Gone")] {
            for _ in 0..2 {
                let error = discovery.get(&client, "shop", (api_version, kind, "web")).await.unwrap_err();
                assert_eq!((error.reason(), error.retry()), (ErrorReason::Refused, Retry::Later));
                assert!(error.to_string().contains(&format!("{kind} of {api_version}")), "{error}");
            }
        }
        assert_eq!(requests.lock().unwrap().len(), 6, "that is remembered too");
        tokio::time::sleep(ABSENCE).await;
        assert!(discovery.served(&client, "v1", "Gone").await.is_err());
        assert_eq!(requests.lock().unwrap().len(), 7, "it may be installed at any time");
        let plan = discovery.scale(&client, "shop", ("example.com/v1", "Plan", "web")).await;
        assert_eq!(plan.unwrap(), None, "a kind without a scale");
    }
}
