//! Namespaces all of whose Pods are kept, as long as some object there asks for them.
//!
//! What is wanted when the list of all Pods begins comes with it. What is wanted later is listed by itself, and from
//! then on the watch keeps it current.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::list::{List, query};
use cluster::resource::PODS;
use cluster::watched::{Key, WatchedObject};
use cluster::write;
use kinds::sidecarset::account::Uid;
use kube::Client;
use pod::observed::ObservedPod;
use tokio::time::timeout;

use super::{Group, Pods};
use crate::ReconcileError;
use crate::workload::store::Kept;
use crate::workload::store::follow::readable;

/// Longest time for the first list of all Pods.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Pods per page of a list.
const PAGE: usize = 100;

/// The namespaces.
#[derive(Default)]
pub(super) struct Namespaces {
    wanted: Mutex<HashMap<Box<str>, Wanted>>,
    /// One namespace is listed at a time.
    listing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Wanted {
    /// Kind and name of the objects that ask for it.
    by: HashSet<(&'static str, String)>,
    /// It was wanted when the list in progress began.
    is_listed: bool,
    is_complete: bool,
}

impl Namespaces {
    pub(super) fn is_wanted(&self, namespace: &str) -> bool {
        let wanted = self.lock();
        // In most clusters none is, and then not even a hash is needed.
        !wanted.is_empty() && wanted.contains_key(namespace)
    }

    pub(super) fn list_begins(&self) {
        self.lock().values_mut().for_each(|wanted| wanted.is_listed = true);
    }

    pub(super) fn list_ends(&self) {
        self.lock().values_mut().for_each(|wanted| wanted.is_complete |= wanted.is_listed);
    }

    fn is_complete(&self, namespace: &str) -> bool {
        self.lock().get(namespace).is_some_and(|wanted| wanted.is_complete)
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Wanted>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pods {
    /// Keeps all Pods of the namespace of this object, until it does not ask for them any more.
    pub(crate) fn want(&self, kind: &'static str, (namespace, name): &Key) {
        let mut wanted = self.namespaces.lock();
        wanted.entry(namespace.as_str().into()).or_default().by.insert((kind, name.clone()));
    }

    /// This object does not ask for Pods any more.
    pub(crate) fn leave(&self, kind: &'static str, (namespace, name): &Key) {
        let mut all = self.namespaces.lock();
        let Some(wanted) = all.get_mut(&**namespace) else { return };
        wanted.by.remove(&(kind, name.clone()));
        if !wanted.by.is_empty() {
            return;
        }
        all.remove(&**namespace);
        drop(all);
        for pod in self.of_namespace(namespace) {
            if !self.is_needed(&pod) {
                self.kept.delete(&pod.key(), pod.resource_version());
            }
        }
    }

    /// The kept Pods of a namespace, in no particular order.
    pub(crate) fn of_namespace(&self, namespace: &str) -> Vec<std::sync::Arc<ObservedPod>> {
        self.kept.group(&Group::Namespace(namespace.into()))
    }

    /// Waits until all Pods of a wanted namespace are kept.
    ///
    /// # Errors
    /// They can't be listed.
    pub(crate) async fn complete(&self, client: &Client, namespace: &str) -> Result<(), ReconcileError> {
        if self.namespaces.is_complete(namespace) {
            return Ok(());
        }
        let listed = timeout(TIMEOUT, self.synced()).await;
        listed.map_err(|_| ReconcileError::NotListed(PODS.kind))?;
        let _one_at_a_time = self.namespaces.listing.lock().await;
        if self.namespaces.is_complete(namespace) {
            return Ok(());
        }
        let path = PODS.namespaced(namespace);
        let mut token = None;
        loop {
            let page = write::get(client, &path.query(query(PAGE, token.as_deref()))).await?;
            let page: List<WatchedObject> = serde_json::from_str(&page.unwrap_or_default())
                .map_err(ReconcileError::of_object("list of Pods"))?;
            page.items.iter().for_each(|pod| self.listed(pod));
            match page.next_page() {
                None => break,
                Some(next) => token = Some(next.to_owned()),
            }
        }
        if let Some(wanted) = self.namespaces.lock().get_mut(namespace) {
            wanted.is_complete = true;
        }
        Ok(())
    }

    /// Takes in a Pod of a list that is not the watch's own, if the watch has not told that it is gone. One that
    /// it has not reported yet comes with the watch.
    pub(super) fn listed(&self, object: &WatchedObject) {
        let Some(mut pod) = readable(object, ObservedPod::read) else { return };
        self.slim(&mut pod);
        let ledger = self.ledger();
        if ledger.get(Uid::of(object.uid())).is_some() {
            self.kept.found(pod);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::workload::store::follow::Sink;

    fn pod(name: &str, version: u64) -> String {
        format!(
            r#"{{"metadata":{{"namespace":"shop","name":"{name}","uid":"00000000-0000-0000-0000-00000000000{}","resourceVersion":"{version}"}},"status":{{"phase":"Running"}}}}"#,
            name.len()
        )
    }

    fn watched(name: &str, version: u64) -> WatchedObject {
        serde_json::from_str(&pod(name, version)).unwrap()
    }

    fn names(pods: &Pods) -> Vec<String> {
        let mut names: Vec<_> = pods
            .of_namespace("shop")
            .iter()
            .map(|pod| format!("{}-{}", pod.name(), pod.resource_version()))
            .collect();
        names.sort();
        names
    }

    fn key(name: &str) -> Key {
        ("shop".to_owned(), name.to_owned())
    }

    /// Pods that the watch has listed, before somebody wanted them.
    fn listed() -> Pods {
        let pods = Pods::new(false);
        pods.list_begins();
        for name in ["a", "bb", "ccc"] {
            pods.see(watched(name, 10));
        }
        pods.list_ends();
        pods
    }

    #[tokio::test]
    async fn pods_are_kept_while_somebody_wants_them() {
        let pods = listed();
        pods.see(watched("bb", 12));
        pods.gone(&watched("ccc", 13));
        assert!(names(&pods).is_empty());
        let all = ["a", "bb", "ccc", "dddd"].map(|name| pod(name, 11)).join(",");
        let (client, requests) =
            fake::api_server(move |_| (200, format!(r#"{{"metadata":{{}},"items":[{all}]}}"#)));
        pods.want("Budget", &key("web"));
        pods.want("Spread", &key("web"));
        pods.see(watched("bb", 14));
        for _ in 0..2 {
            pods.complete(&client, "shop").await.unwrap();
        }
        assert_eq!(requests.lock().unwrap().len(), 1);
        assert_eq!(names(&pods), ["a-11", "bb-14"], "what is gone does not come back");
        pods.see(watched("dddd", 15));
        assert_eq!(names(&pods), ["a-11", "bb-14", "dddd-15"]);
        pods.leave("Budget", &key("web"));
        pods.leave("Budget", &key("other"));
        assert_eq!(names(&pods).len(), 3);
        pods.leave("Spread", &key("web"));
        assert!(names(&pods).is_empty());
    }

    #[tokio::test]
    async fn what_is_wanted_before_the_list_comes_with_it() {
        let pods = Pods::new(false);
        pods.want("Budget", &key("web"));
        pods.list_begins();
        pods.see(watched("a", 10));
        pods.list_ends();
        let (client, requests) = fake::api_server(|_| (500, fake::status(500)));
        pods.complete(&client, "shop").await.unwrap();
        assert!(requests.lock().unwrap().is_empty());
        assert_eq!(names(&pods), ["a-10"]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_complete_before_the_first_list() {
        let pods = Pods::new(false);
        let (client, _) = fake::api_server(|_| (200, r#"{"metadata":{},"items":[]}"#.to_owned()));
        pods.want("Budget", &key("web"));
        assert!(pods.complete(&client, "shop").await.is_err());
    }
}
