//! What decisions of Rollouts ask for, read from the API server.

use std::sync::Arc;

use anyhow::{Context, bail};
use api::ROLLOUTS_GROUP;
use api::conversion::convert;
use cluster::discovery::{self, Discovery};
use cluster::list::list_all;
use cluster::resource::{PODS, Path, Resource, encoded};
use cluster::{ErrorReason, write};
use kube::Client;
use pod::observed::ObservedPod;
use rollouts::object::{ObjectName, group};
use rollouts::view::{Unread, View};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::failures::refused;

/// The most that a decision reads.
const READS: usize = 40;

/// The objects of a namespace, each read when a decision asks for it.
pub(crate) struct Asked<'a> {
    client: &'a Client,
    namespace: &'a str,
    kinds: Discovery,
}

impl<'a> Asked<'a> {
    /// Nothing has been read yet.
    pub(crate) fn new(client: &'a Client, namespace: &'a str) -> Self {
        Self { client, namespace, kinds: Discovery::default() }
    }

    /// Decides something, and reads what that asks for.
    pub(crate) async fn decide<T>(&self, decide: impl Fn(&View) -> Result<T, Unread>) -> anyhow::Result<T> {
        let mut view = View::default();
        for _ in 0..READS {
            match decide(&view) {
                Ok(decided) => return Ok(decided),
                Err(unread) => self.read(&mut view, unread).await?,
            }
        }
        bail!("more than {READS} objects and lists would have to be read")
    }

    async fn read(&self, view: &mut View, unread: Unread) -> anyhow::Result<()> {
        match unread {
            Unread::Object(name) => {
                let found = self.find(&name).await?;
                view.has_object(name, found);
            }
            Unread::List(list) => {
                let name = ObjectName::new(&list.api_version, &list.kind, &list.namespace, "");
                let objects = self.list(&name, &list.selector).await?;
                view.has_list(list, objects);
            }
            Unread::PodsOf { owner } => {
                let mut pods = Vec::new();
                let is_own = |pod: &ObservedPod| pod.controller().is_some_and(|one| *one.uid == *owner);
                let take = |pod: ObservedPod| pods.extend(Some(pod).filter(is_own).map(Arc::new));
                list_all(self.client, &PODS.namespaced(self.namespace), take).await?;
                view.has_pods(owner, pods);
            }
        }
        Ok(())
    }

    /// An object; `None` where there is none of this name, or its kind is not installed.
    pub(crate) async fn find<T: DeserializeOwned>(&self, name: &ObjectName) -> anyhow::Result<Option<T>> {
        let Some(path) = self.path(name).await? else { return Ok(None) };
        let text = write::get(self.client, &path).await.map_err(|error| refused(&error))?;
        let object = text.map(|text| understood(&text, &name.api_version));
        object.transpose().with_context(|| format!("{} {} is not understood", name.kind, name.name))
    }

    /// The objects of a kind that have labels; `name` names none of them.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        name: &ObjectName,
        selector: &str,
    ) -> anyhow::Result<Vec<T>> {
        let Some(collection) = self.path(name).await? else { return Ok(Vec::new()) };
        let collection = if selector.is_empty() {
            collection
        } else {
            collection.query(format!("labelSelector={}", encoded(selector)))
        };
        let mut all: Vec<Value> = Vec::new();
        list_all(self.client, &collection, |object| all.push(object)).await?;
        let objects = all.into_iter().map(|mut object| {
            // Objects of a list don't say of what kind they are.
            if let Some(members) = object.as_object_mut() {
                members.entry("apiVersion").or_insert_with(|| name.api_version.as_str().into());
                members.entry("kind").or_insert_with(|| name.kind.as_str().into());
            }
            understood(&object.to_string(), &name.api_version)
        });
        objects.collect::<Result<_, _>>().with_context(|| format!("a {} is not understood", name.kind))
    }

    /// The path of an object, or of all where it has no name; `None` where its kind is not installed.
    async fn path(&self, name: &ObjectName) -> anyhow::Result<Option<Path>> {
        let ObjectName { api_version, kind, namespace, name } = name;
        match self.kinds.served(self.client, api_version, kind).await {
            Ok(served) if name.is_empty() => {
                Ok(Some(Resource::new(&served.api_version, &served.plural, kind).namespaced(namespace)))
            }
            Ok(served) => Ok(Some(discovery::path(&served, kind, namespace, name))),
            Err(error) if error.reason() == ErrorReason::Refused => Ok(None),
            Err(error) => Err(refused(&error)),
        }
    }
}

/// An object in the version that is asked for, where Rollouts have several.
fn understood<T: DeserializeOwned>(text: &str, api_version: &str) -> anyhow::Result<T> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Typed {
        api_version: String,
    }
    let typed: Typed = serde_json::from_str(text)?;
    if typed.api_version == api_version || group(api_version) != ROLLOUTS_GROUP {
        return Ok(serde_json::from_str(text)?);
    }
    Ok(serde_json::from_str(convert(text, api_version)?.get())?)
}

#[cfg(test)]
mod tests {
    use api::kinds::rollout::{API_VERSION, Rollout};
    use serde_json::json;

    use super::*;

    #[test]
    fn an_older_rollout_is_read_as_a_newer_one() {
        let reference = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let steps = json!([{"weight": 20}]);
        let older = json!({"apiVersion": "rollouts.kruise.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "web"},
            "spec": {"objectRef": {"workloadRef": reference}, "strategy": {"canary": {"steps": steps}}}});
        let rollout: Rollout = understood(&older.to_string(), API_VERSION).unwrap();
        assert_eq!(rollout.spec.workload_ref.name, "web");
        assert_eq!(rollout.spec.strategy.steps()[0].traffic.as_deref(), Some("20%"));
        let set = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"});
        let read: Value = understood(&set.to_string(), "apps.kruise.io/v1beta1").unwrap();
        assert_eq!(read, set, "it has a Rollout in whatever version");
        assert!(understood::<Value>("{}", API_VERSION).is_err());
    }
}
