//! The owner reference that children of a workload carry.

use api::kinds::ObjectMeta;
use api::meta::OwnerReference;
use api::raw_object::{RawNode, RawObject};
use serde::Serialize;
use serde_json::{Value, json};

use super::object_version::ObjectVersion;

/// An owner reference that makes the owner the controller.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    uid: &'a str,
    controller: bool,
    block_owner_deletion: bool,
}

impl<'a> Owner<'a> {
    /// The reference to the object with this `metadata`.
    pub fn of(api_version: &'a str, kind: &'a str, metadata: &'a ObjectMeta) -> Self {
        Self::new(api_version, kind, &metadata.name, &metadata.uid)
    }

    /// The reference to the object with this name and UID.
    pub fn new(api_version: &'a str, kind: &'a str, name: &'a str, uid: &'a str) -> Self {
        Self { api_version, kind, name, uid, controller: true, block_owner_deletion: true }
    }

    /// The owner's name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The owner's UID.
    pub fn uid(&self) -> &'a str {
        self.uid
    }

    /// `metadata.ownerReferences` with this one alone.
    pub(crate) fn references<'n>(&self) -> RawNode<'n> {
        let mut owner = RawObject::default();
        owner.insert("apiVersion", RawNode::string(self.api_version));
        owner.insert("kind", RawNode::string(self.kind));
        owner.insert("name", RawNode::string(self.name));
        owner.insert("uid", RawNode::string(self.uid));
        owner.insert("controller", RawNode::boolean(self.controller));
        owner.insert("blockOwnerDeletion", RawNode::boolean(self.block_owner_deletion));
        RawNode::array(vec![owner.into()])
    }
}

/// The merge patch by which an object, which nobody manages, belongs to this owner too. It holds for this state of the object
/// only.
pub(crate) fn adoption(observed: &ObjectVersion, known: &[OwnerReference], owner: &impl Serialize) -> String {
    let owners: Vec<Value> = known.iter().map(|known| json!(known)).chain([json!(owner)]).collect();
    let metadata =
        json!({"ownerReferences": owners, "uid": observed.uid, "resourceVersion": observed.resource_version});
    json!({"metadata": metadata}).to_string()
}
