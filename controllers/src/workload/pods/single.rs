//! Single Pods that are kept as long as some object asks for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cluster::resource::PODS;
use cluster::watched::Key;
use cluster::write;
use kube::Client;
use pod::observed::ObservedPod;

use super::Pods;
use crate::ReconcileError;
use crate::workload::store::Kept;
use crate::workload::store::follow::readable;

/// The Pods.
#[derive(Default)]
pub(super) struct Singles(Mutex<Wanted>);

#[derive(Default)]
struct Wanted {
    /// The Pod that an object of some kind asks for, by the name of both.
    by: HashMap<(&'static str, Key), Box<str>>,
    /// How many ask for a Pod, by namespace and name.
    pods: HashMap<Box<str>, HashMap<Box<str>, usize>>,
}

impl Singles {
    pub(super) fn is_wanted(&self, namespace: &str, name: &str) -> bool {
        let wanted = self.lock();
        // Mostly none is, and then not even a hash is needed.
        !wanted.pods.is_empty() && wanted.pods.get(namespace).is_some_and(|pods| pods.contains_key(name))
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wanted {
    /// Gives the Pod that the object asked for before, if nobody asks for it any more.
    fn want(&mut self, kind: &'static str, object: &Key, name: &str) -> Option<Key> {
        let asker = (kind, object.clone());
        if self.by.get(&asker).is_some_and(|known| **known == *name) {
            return None;
        }
        let left = self.leave(kind, object);
        self.by.insert(asker, name.into());
        let pods = self.pods.entry(object.0.as_str().into()).or_default();
        *pods.entry(name.into()).or_default() += 1;
        left
    }

    /// Gives the Pod, if nobody asks for it any more.
    fn leave(&mut self, kind: &'static str, object: &Key) -> Option<Key> {
        let name = self.by.remove(&(kind, object.clone()))?;
        let pods = self.pods.get_mut(&*object.0)?;
        let count = pods.get_mut(&name)?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        pods.remove(&name);
        if pods.is_empty() {
            self.pods.remove(&*object.0);
        }
        Some((object.0.clone(), name.into()))
    }
}

impl Pods {
    /// The Pod `name`, if there is one; it is kept from now on, until this object of its namespace does not ask for it
    /// any more, or asks for another one. Where the watch has shown none with this UID, it is read.
    ///
    /// # Errors
    /// The API server can't be asked.
    pub(crate) async fn single(
        &self,
        client: &Client,
        (kind, object): (&'static str, &Key),
        (name, uid): (&str, &str),
    ) -> Result<Option<Arc<ObservedPod>>, ReconcileError> {
        let left = self.singles.lock().want(kind, object, name);
        self.let_go(left);
        let key = (object.0.clone(), name.to_owned());
        let known = || self.get(&key).filter(|pod| *pod.metadata.uid == *uid);
        if let Some(pod) = known() {
            return Ok(Some(pod));
        }
        let text = write::get(client, &PODS.namespaced(&key.0).name(name)).await?;
        let Some(text) = text else { return Ok(None) };
        let object = serde_json::from_str(&text).map_err(ReconcileError::of_object(PODS.kind))?;
        self.listed(&object);
        // One that the watch has not reported yet is kept when it does.
        Ok(known().or_else(|| readable(&object, ObservedPod::read).map(Arc::new)))
    }

    /// This object does not ask for its Pod any more.
    pub(crate) fn leave_single(&self, kind: &'static str, object: &Key) {
        let left = self.singles.lock().leave(kind, object);
        self.let_go(left);
    }

    fn let_go(&self, left: Option<Key>) {
        let Some(pod) = left.and_then(|key| self.get(&key)) else { return };
        if !self.is_needed(&pod) {
            self.kept.delete(&pod.key(), pod.resource_version());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::workload::store::follow::Sink;

    const UID: &str = "00000000-0000-0000-0000-000000000001";

    fn pod(version: u64) -> String {
        format!(
            r#"{{"metadata":{{"namespace":"shop","name":"web","uid":"{UID}","resourceVersion":"{version}"}},"status":{{"phase":"Running"}}}}"#
        )
    }

    fn key(name: &str) -> Key {
        ("shop".to_owned(), name.to_owned())
    }

    #[tokio::test]
    async fn a_pod_is_read_once_and_kept_while_somebody_asks_for_it() {
        let pods = Pods::new(false);
        pods.list_begins();
        pods.see(serde_json::from_str(&pod(10)).unwrap());
        pods.list_ends();
        assert!(pods.get(&key("web")).is_none());
        let (client, requests) = fake::api_server(|_| (200, pod(11)));
        for object in ["one", "two", "one"] {
            let found = pods.single(&client, ("Request", &key(object)), ("web", UID)).await.unwrap();
            assert_eq!(found.unwrap().resource_version(), "11");
        }
        assert_eq!(requests.lock().unwrap().len(), 1);
        pods.see(serde_json::from_str(&pod(12)).unwrap());
        assert_eq!(pods.get(&key("web")).unwrap().resource_version(), "12");
        pods.leave_single("Request", &key("one"));
        pods.leave_single("Request", &key("one"));
        assert!(pods.get(&key("web")).is_some());
        pods.leave_single("Request", &key("two"));
        assert!(pods.get(&key("web")).is_none());
        pods.see(serde_json::from_str(&pod(13)).unwrap());
        assert!(pods.get(&key("web")).is_none());
    }

    #[tokio::test]
    async fn a_pod_that_is_not_there_is_asked_for_again() {
        let pods = Pods::new(false);
        let (client, requests) = fake::api_server(|_| (404, fake::status(404)));
        for _ in 0..2 {
            assert!(pods.single(&client, ("Request", &key("one")), ("web", UID)).await.unwrap().is_none());
        }
        assert_eq!(requests.lock().unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_pod_with_another_uid_is_read_again() {
        let pods = Pods::new(false);
        pods.list_begins();
        pods.list_ends();
        let newer = pod(20).replace("000001", "000002");
        let answer = newer.clone();
        let (client, requests) = fake::api_server(move |_| (200, answer.clone()));
        let object = key("one");
        pods.singles.lock().want("Request", &object, "web");
        pods.see(serde_json::from_str(&pod(10)).unwrap());
        let uid = UID.replace("000001", "000002");
        let found = pods.single(&client, ("Request", &object), ("web", &uid)).await.unwrap();
        assert_eq!(found.unwrap().resource_version(), "20");
        let found = pods.single(&client, ("Request", &object), ("web", UID)).await.unwrap();
        assert_eq!((&*found.unwrap().metadata.uid, requests.lock().unwrap().len()), (UID, 1));
    }

    #[test]
    fn an_object_that_asks_for_another_pod_leaves_the_one_before() {
        let mut wanted = Wanted::default();
        assert_eq!(wanted.want("Request", &key("one"), "web"), None);
        assert_eq!(wanted.want("Request", &key("two"), "web"), None);
        assert_eq!(wanted.want("Request", &key("one"), "other"), None);
        assert_eq!(wanted.want("Request", &key("two"), "other"), Some(key("web")));
        assert_eq!(wanted.leave("Request", &key("one")), None);
        assert_eq!(wanted.leave("Request", &key("two")), Some(key("other")));
        assert!(wanted.by.is_empty() && wanted.pods.is_empty());
    }
}
