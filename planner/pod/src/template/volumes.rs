//! Volumes: their names, and whether they have a source.

use std::collections::HashSet;

use super::names;
use super::node::{Node, invalid};
use values::field::FieldError;

/// The sources of volumes.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// True where a volume has a source, known or of a newer Kubernetes.
pub(super) fn has_source(volume: &Node<'_>) -> bool {
    SOURCES.iter().any(|source| volume.has(source)) || has_unknown_source(volume)
}

fn has_unknown_source(volume: &Node<'_>) -> bool {
    let members = volume.value().as_object().into_iter().flatten();
    members
        .into_iter()
        .any(|(name, value)| name != "name" && value.is_object() && !SOURCES.contains(&name.as_str()))
}

/// Checks the names of the volumes and returns them.
pub(super) fn validate_volumes<'a>(spec: &Node<'a>, errors: &mut Vec<FieldError>) -> HashSet<&'a str> {
    let mut volumes = HashSet::new();
    for volume in spec.list("volumes") {
        let name = volume.text("name");
        if name.is_empty() {
            errors.push(FieldError::required(volume.at("name"), ""));
            continue;
        }
        invalid(&volume.at("name"), name, names::dns_label(name), errors);
        if !volumes.insert(name) {
            errors.push(FieldError::duplicate(volume.at("name"), name));
        }
    }
    volumes
}
