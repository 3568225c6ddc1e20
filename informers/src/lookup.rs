//! Questions to the cluster that the index does not answer: bounded in time, and asked once for all
//! who ask at the same time.

mod lists;
mod owners;
mod protected;

use owners::Owners;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use admission::world::read_namespace;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use kinds::deletion_protection::CustomResources;
use kinds::workload::namespace::Namespace;
use kube::Client;
use pod::observed::ObservedPod;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::files::Objects;
use cluster::ApiError;
use cluster::client::METADATA_LIST;
use cluster::discovery::Discovery;
use cluster::list::{List, query};
use cluster::resource::{CLAIMS, NAMESPACES, PODS, Path, Resource};

/// Longest time for the Namespace object that the index lacks
/// (docs/behaviour/pod-mutation.md#what-a-review-waits-for).
const NAMESPACE_TIMEOUT: Duration = Duration::from_millis(300);
/// Longest time for the lists behind a `Cascading` namespace.
const LIST_TIMEOUT: Duration = Duration::from_secs(8);
/// Longest time for a Pod that is evicted, or that a CloneSet names for deletion.
const POD_TIMEOUT: Duration = Duration::from_secs(2);
/// Objects per page of a list.
const PAGE: usize = 500;

/// Why the cluster did not answer; the text is the API server's where it sent one.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct LookupError(String);

impl LookupError {
    /// An error with this text.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Answers from the API server, or from files where there is none.
#[derive(Clone)]
pub struct Lookup(Arc<Source>);

enum Source {
    Cluster(Box<Live>),
    Files(Objects),
}

struct Live {
    client: Client,
    discovery: Discovery,
    owners: std::sync::Mutex<Owners>,
    namespaces: Mutex<HashMap<String, SharedNamespace>>,
}

type SharedNamespace = Shared<BoxFuture<'static, Result<Option<Arc<Namespace>>, LookupError>>>;

/// What the counts read of an object.
#[derive(Deserialize)]
struct Item {
    metadata: ItemMetadata,
    #[serde(default)]
    status: ItemStatus,
}

#[derive(Deserialize)]
struct ItemMetadata {
    #[serde(rename = "deletionTimestamp")]
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
struct ItemStatus {
    #[serde(default)]
    phase: String,
}

impl Item {
    fn is_active(&self) -> bool {
        self.metadata.deletion_timestamp.is_none()
    }
}

impl Lookup {
    /// Asks the API server.
    pub fn cluster(client: Client) -> Self {
        Self(Arc::new(Source::Cluster(Box::new(Live {
            client,
            discovery: Discovery::default(),
            owners: std::sync::Mutex::default(),
            namespaces: Mutex::default(),
        }))))
    }

    /// Answers from objects read from files.
    pub fn files(objects: Objects) -> Self {
        Self(Arc::new(Source::Files(objects)))
    }

    /// The Namespace `name`; `None` where there is none. Everybody who asks for the same one at the same
    /// time shares one request.
    ///
    /// # Errors
    /// The API server did not answer in time, or refuses: whether the Namespace exists is not known.
    pub async fn namespace(&self, name: &str) -> Result<Option<Arc<Namespace>>, LookupError> {
        let Source::Cluster(live) = &*self.0 else { return Ok(None) };
        let request = {
            let mut namespaces = live.namespaces.lock().await;
            namespaces.retain(|_, request| request.peek().is_none());
            match namespaces.get(name) {
                Some(request) => request.clone(),
                None => {
                    // Driven by a task: a caller that goes away must not leave a request behind which
                    // nobody drives and whose old answer somebody gets later.
                    let get = tokio::spawn(get_namespace(live.client.clone(), name.to_owned()));
                    let request =
                        get.map(|answer| answer.unwrap_or_else(|error| Err(LookupError(error.to_string()))));
                    let request = request.boxed().shared();
                    drop(tokio::spawn(request.clone()));
                    namespaces.insert(name.to_owned(), request.clone());
                    request
                }
            }
        };
        request.await
    }

    /// How many Pods of `namespace` are neither finished nor being deleted
    /// (docs/behaviour/deletion-protection.md#cascading-for-namespaces).
    ///
    /// # Errors
    /// The list failed.
    pub async fn active_pods(&self, namespace: &str) -> Result<usize, LookupError> {
        let counts =
            |item: &Item| item.is_active() && !matches!(item.status.phase.as_str(), "Succeeded" | "Failed");
        match &*self.0 {
            Source::Cluster(live) => {
                let path = PODS.namespaced(namespace);
                live.count(&path, JSON, counts, LIST_TIMEOUT).await
            }
            Source::Files(objects) => Ok(objects.count("", "Pod", Some(namespace), counts_value(counts))),
        }
    }

    /// How many PersistentVolumeClaims of `namespace` are bound and not being deleted
    /// (docs/behaviour/deletion-protection.md#cascading-for-namespaces).
    ///
    /// # Errors
    /// The list failed.
    pub async fn bound_claims(&self, namespace: &str) -> Result<usize, LookupError> {
        let counts = |item: &Item| item.is_active() && item.status.phase == "Bound";
        match &*self.0 {
            Source::Cluster(live) => {
                let path = CLAIMS.namespaced(namespace);
                live.count(&path, JSON, counts, LIST_TIMEOUT).await
            }
            Source::Files(objects) => {
                Ok(objects.count("", "PersistentVolumeClaim", Some(namespace), counts_value(counts)))
            }
        }
    }

    /// How many objects of `definition` are not being deleted, in all namespaces. When `timeout`
    /// ends after some were found, their number is the answer: what matters is whether there are any.
    ///
    /// # Errors
    /// The list failed.
    pub async fn custom_resources(
        &self,
        definition: &CustomResources,
        timeout: Duration,
    ) -> Result<usize, LookupError> {
        match &*self.0 {
            Source::Cluster(live) => {
                let version = format!("{}/{}", definition.group, definition.version);
                let path = Resource::new(&version, &definition.plural, &definition.kind).all();
                live.count(&path, METADATA_LIST, Item::is_active, timeout).await
            }
            Source::Files(objects) => {
                Ok(objects.count(&definition.group, &definition.kind, None, counts_value(Item::is_active)))
            }
        }
    }
}

const JSON: &str = "application/json";

fn counts_value(counts: impl Fn(&Item) -> bool) -> impl Fn(&str) -> bool {
    move |object| serde_json::from_str::<Item>(object).is_ok_and(|item| counts(&item))
}

async fn get_namespace(client: Client, name: String) -> Result<Option<Arc<Namespace>>, LookupError> {
    let path = NAMESPACES.all().name(&name);
    let text = timeout(NAMESPACE_TIMEOUT, cluster::write::get(&client, &path))
        .await
        .map_err(|_| LookupError(format!("no answer from the API server within {NAMESPACE_TIMEOUT:?}")))?
        .map_err(|error| LookupError(error.to_string()))?;
    let Some(text) = text else { return Ok(None) };
    read_namespace(&text)
        .map(|namespace| Some(Arc::new(namespace)))
        .map_err(|error| LookupError(error.to_string()))
}

impl Live {
    async fn count(
        &self,
        path: &Path,
        accept: &'static str,
        counts: impl Fn(&Item) -> bool,
        timeout: Duration,
    ) -> Result<usize, LookupError> {
        let deadline = Instant::now() + timeout;
        let mut found = 0;
        let mut token = None;
        loop {
            let page = path.query(query(PAGE, token.as_deref()));
            let list = tokio::time::timeout_at(deadline, self.get::<List<Item>>(&page, accept)).await;
            let list = match list {
                Ok(answer) => answer?,
                Err(_) if found > 0 => return Ok(found),
                Err(_) => {
                    return Err(LookupError(format!("no answer from the API server within {timeout:?}")));
                }
            };
            found += list.items.iter().filter(|item| counts(item)).count();
            match list.next_page() {
                None => return Ok(found),
                Some(next) => token = Some(next.to_owned()),
            }
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, accept: &'static str) -> Result<T, LookupError> {
        let text = cluster::write::get_as(&self.client, path, accept).await;
        let text = text.map_err(|error| LookupError(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| LookupError(error.to_string()))
    }
}

impl Lookup {
    /// The Pod `name` of `namespace`; `None` where there is none.
    ///
    /// # Errors
    /// The API server did not answer in time, or refuses: whether the Pod exists is not known.
    pub async fn pod(&self, namespace: &str, name: &str) -> Result<Option<ObservedPod>, LookupError> {
        let text = match &*self.0 {
            Source::Cluster(live) => {
                let path = PODS.namespaced(namespace).name(name);
                timeout(POD_TIMEOUT, cluster::write::get(&live.client, &path))
                    .await
                    .map_err(|_| {
                        LookupError(format!("no answer from the API server within {POD_TIMEOUT:?}"))
                    })?
                    .map_err(|error| LookupError(error.to_string()))?
            }
            Source::Files(objects) => {
                let found = objects.iter().find(|object| {
                    object.kind == "Pod"
                        && object.group().is_empty()
                        && object.name == name
                        && object.namespace == namespace
                });
                found.map(|object| object.json.clone())
            }
        };
        let pod = text.map(|text| ObservedPod::read(&text)).transpose();
        pod.map_err(|error| LookupError(error.to_string()))
    }

    /// Whether the API server may have the Pod of this name and identity, if one is known. It may where it can't be
    /// asked in time, and where there is none.
    pub async fn may_exist(&self, namespace: &str, name: &str, uid: &str) -> bool {
        let Source::Cluster(_) = &*self.0 else { return true };
        match self.pod(namespace, name).await {
            Ok(found) => found.is_some_and(|pod| uid.is_empty() || &*pod.metadata.uid == uid),
            Err(_) => true,
        }
    }

    /// Tries out on the API server whether it would create `object` in `namespace`. Without an API server there
    /// is nobody to refuse it.
    ///
    /// # Errors
    /// It would not, or can't be asked.
    pub async fn try_creation(
        &self,
        resource: Resource<'_>,
        namespace: &str,
        object: String,
    ) -> Result<(), ApiError> {
        let Source::Cluster(live) = &*self.0 else { return Ok(()) };
        let path = resource.namespaced(namespace).query("dryRun=All");
        cluster::write::create(&live.client, &path, object).await.map(drop)
    }
}
