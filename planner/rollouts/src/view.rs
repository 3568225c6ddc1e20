//! What was read of the cluster for one plan. A plan asks for what it needs; what has not been read yet ends it with
//! [`Unread`], and it is made again once that was read. So nothing is read that no plan needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use pod::observed::ObservedPod;
use serde_json::Value;

use crate::object::ObjectName;

/// What a plan needs and has not been read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unread {
    /// An object.
    Object(ObjectName),
    /// The objects of a kind that have labels.
    List(ListName),
    /// The Pods that an object manages.
    PodsOf {
        /// The UID of that object.
        owner: String,
    },
}

/// The objects of a kind in a namespace that have labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListName {
    /// Group and version.
    pub api_version: String,
    /// The kind of each object.
    pub kind: String,
    /// The namespace.
    pub namespace: String,
    /// A label selector as requests have it, such as `app=web,tier in (a,b)`; empty for all objects.
    pub selector: String,
}

impl ListName {
    /// The objects of a kind that have labels.
    pub fn new(api_version: &str, kind: &str, namespace: &str, selector: &str) -> Self {
        let [api_version, kind, namespace, selector] =
            [api_version, kind, namespace, selector].map(str::to_owned);
        Self { api_version, kind, namespace, selector }
    }
}

/// What was read of the cluster.
#[derive(Clone, Debug, Default)]
pub struct View {
    objects: BTreeMap<ObjectName, Option<Value>>,
    lists: BTreeMap<ListName, Vec<Value>>,
    pods: BTreeMap<String, Vec<Arc<ObservedPod>>>,
}

impl View {
    /// An object; `None` where the API server has none of this name.
    ///
    /// # Errors
    /// It has not been read.
    pub fn object(&self, name: &ObjectName) -> Result<Option<&Value>, Unread> {
        self.objects.get(name).map(Option::as_ref).ok_or_else(|| Unread::Object(name.clone()))
    }

    /// The objects of a list.
    ///
    /// # Errors
    /// They have not been read.
    pub fn list(&self, name: &ListName) -> Result<&[Value], Unread> {
        self.lists.get(name).map(Vec::as_slice).ok_or_else(|| Unread::List(name.clone()))
    }

    /// The Pods that the object of this UID manages.
    ///
    /// # Errors
    /// They have not been read.
    pub fn pods_of(&self, owner: &str) -> Result<&[Arc<ObservedPod>], Unread> {
        self.pods.get(owner).map(Vec::as_slice).ok_or_else(|| Unread::PodsOf { owner: owner.to_owned() })
    }

    /// Takes in an object as it is; `None` where the API server has none.
    pub fn has_object(&mut self, name: ObjectName, object: Option<Value>) {
        self.objects.insert(name, object);
    }

    /// Takes in the objects of a list.
    pub fn has_list(&mut self, name: ListName, objects: Vec<Value>) {
        self.lists.insert(name, objects);
    }

    /// Takes in the Pods of an object.
    pub fn has_pods(&mut self, owner: String, pods: Vec<Arc<ObservedPod>>) {
        self.pods.insert(owner, pods);
    }
}
