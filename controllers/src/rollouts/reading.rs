//! What one reconcile reads: what its plans ask for, and what its writes return.

use std::collections::{BTreeMap, BTreeSet};

use cluster::resource::PODS;
use rollouts::object::{Object as _, ObjectName, group};
use rollouts::view::{ListName, Unread, View};
use serde_json::Value;

use super::known::{Known, Read};
use super::lists::Reader;
use crate::ReconcileError;

/// The most that a plan reads.
const READS: usize = 40;
/// The group of what workloads consist of: ReplicaSets, second Deployments and ControllerRevisions change all the time.
const PARTS: &str = "apps";
/// What leads traffic, by group and kind. A release looks at it in each step: it is watched meanwhile.
const TRAFFIC: [(&str, &str); 3] =
    [("", "Service"), ("networking.k8s.io", "Ingress"), ("gateway.networking.k8s.io", "HTTPRoute")];

/// What one reconcile has read. What lists show that are kept current is read anew for each plan; what was fetched is only
/// fetched again after a conflict.
pub(super) struct Reading<'a> {
    pub(super) known: &'a Known,
    pub(super) reader: Reader,
    /// A release is running: the parts and the traffic that it reads are watched.
    pub(super) follows: bool,
    /// No list that is kept current is believed: an answer to a write did not come.
    pub(super) afresh: bool,
    pub(super) objects: BTreeMap<ObjectName, Option<Value>>,
    pub(super) lists: BTreeMap<ListName, Vec<Value>>,
    /// For each object that was written to, the version that the plan has seen, and the one that it has now.
    pub(super) versions: BTreeMap<ObjectName, (String, String)>,
    /// The UIDs of workloads of our own group, all of whose Pods are kept.
    kept: BTreeSet<String>,
}

impl<'a> Reading<'a> {
    /// Nothing has been read yet.
    pub(super) fn new(known: &'a Known, reader: Reader, afresh: bool) -> Self {
        Self {
            known,
            reader,
            follows: false,
            afresh,
            objects: BTreeMap::new(),
            lists: BTreeMap::new(),
            versions: BTreeMap::new(),
            kept: BTreeSet::new(),
        }
    }

    /// Makes a plan, and reads what it asks for.
    ///
    /// # Errors
    /// Something can't be read, or the plan asks for more and more.
    pub(super) async fn plan<T>(
        &mut self,
        plan: impl Fn(&View) -> Result<T, Unread>,
    ) -> Result<T, ReconcileError> {
        self.versions.clear();
        let mut view = View::default();
        for (name, object) in &self.objects {
            view.has_object(name.clone(), object.clone());
        }
        for (name, objects) in &self.lists {
            view.has_list(name.clone(), objects.clone());
        }
        for _ in 0..READS {
            match plan(&view) {
                Ok(planned) => {
                    self.afresh = false;
                    return Ok(planned);
                }
                Err(unread) => self.read(&mut view, unread).await?,
            }
        }
        Err(ReconcileError::Action(format!("a plan asks for more than {READS} objects and lists")))
    }

    async fn read(&mut self, view: &mut View, unread: Unread) -> Result<(), ReconcileError> {
        match unread {
            Unread::Object(name) => {
                if self.follows && is_traffic(&name) {
                    // Until the list is there the object is fetched, and where it can't be listed.
                    let list = ListName::new(&name.api_version, &name.kind, &name.namespace, "");
                    self.known.follow(&list, &self.reader).await?;
                }
                let object = match self.known.object(&name, self.afresh).await? {
                    Read::Listed(object) => object,
                    Read::Fetched(object) => {
                        self.objects.insert(name.clone(), object.clone());
                        object
                    }
                };
                if let Some(object) = object.as_ref().filter(|_| name.group() == api::APPS_GROUP) {
                    self.kept.insert(object.uid().to_owned());
                }
                view.has_object(name, object);
            }
            Unread::List(name) => {
                let is_followed = self.follows && !self.afresh && group(&name.api_version) == PARTS;
                let objects = if is_followed {
                    self.known.followed(&name, &self.reader).await?
                } else {
                    let objects = self.known.list(&name).await?;
                    self.lists.insert(name.clone(), objects.clone());
                    objects
                };
                view.has_list(name, objects);
            }
            Unread::PodsOf { owner } => {
                // What changes while the Pods are read must not be missed.
                self.known.owners.read(&owner, &self.reader);
                let pods = &self.known.stores.pods;
                if self.kept.contains(&owner) {
                    pods.synced().await;
                } else {
                    let (controller, key) = &self.reader;
                    pods.want(controller, key);
                    pods.complete(&self.known.client, &key.0).await?;
                }
                let pods = pods.owned_by(&owner);
                view.has_pods(owner, pods);
            }
        }
        Ok(())
    }

    /// The version that an object has by now of which the plan has seen `seen`.
    pub(super) fn version<'s>(&'s self, name: &ObjectName, seen: &'s str) -> &'s str {
        self.versions.get(name).filter(|(before, _)| before == seen).map_or(seen, |(_, now)| now)
    }

    /// Takes in an object as a write of ours has returned it, which was planned on version `seen`.
    pub(super) fn written(
        &mut self,
        name: &ObjectName,
        seen: &str,
        text: &str,
    ) -> Result<(), ReconcileError> {
        let object = self.known.take_in(name, text)?;
        let version = object.resource_version().to_owned();
        self.versions.insert(name.clone(), (seen.to_owned(), version));
        self.changed(name, Some(object));
        Ok(())
    }

    /// Takes in that an object is gone.
    pub(super) async fn gone(&mut self, name: &ObjectName) -> Result<(), ReconcileError> {
        if name.kind == PODS.kind {
            let pods = &self.known.stores.pods;
            drop(pods.read(&self.known.client, &(name.namespace.clone(), name.name.clone())).await?);
        }
        self.known.lists.gone(name);
        self.changed(name, None);
        Ok(())
    }

    /// Reads an object which is not as the plan has seen it.
    pub(super) async fn refresh(&mut self, name: &ObjectName) -> Result<(), ReconcileError> {
        match self.known.object(name, true).await? {
            Read::Listed(object) | Read::Fetched(object) if object.is_some() => self.changed(name, object),
            _ => self.gone(name).await?,
        }
        Ok(())
    }

    /// What was fetched shows the change as well.
    fn changed(&mut self, name: &ObjectName, object: Option<Value>) {
        if let Some(known) = self.objects.get_mut(name) {
            *known = object;
        }
        self.lists.retain(|list, _| list.kind != name.kind);
    }
}

fn is_traffic(name: &ObjectName) -> bool {
    TRAFFIC.contains(&(name.group(), name.kind.as_str()))
}
