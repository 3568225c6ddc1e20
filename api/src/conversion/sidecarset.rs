//! SidecarSet (docs/behaviour/api-and-registration.md#conversion-of-sidecarset and
//! docs/behaviour/sidecarset.md#versions-and-conversion).

use super::metadata;
use crate::labels::SIDECARSET_CUSTOM_VERSION;
use crate::raw_object::{RawNode, RawObject};

/// The label that the API server puts on every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

pub(super) fn to_beta(object: &mut RawObject<'_>) {
    let version = metadata::label(object, SIDECARSET_CUSTOM_VERSION);
    let Some(spec) = object.object_mut("spec") else {
        return;
    };
    let namespace = spec.remove("namespace").and_then(|namespace| namespace.as_string());
    if let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) {
        let name = RawObject::from_entries(vec![(NAMESPACE_NAME.to_owned(), RawNode::string(&namespace))]);
        let selector = RawObject::from_entries(vec![("matchLabels".to_owned(), name.into())]);
        spec.insert("namespaceSelector", selector.into());
    }
    spec.remove("customVersion");
    if let Some(version) = version.filter(|version| !version.is_empty()) {
        spec.insert("customVersion", RawNode::string(&version));
    }
    metadata::mirror_label(object, SIDECARSET_CUSTOM_VERSION, None);
}

pub(super) fn to_alpha(object: &mut RawObject<'_>) {
    let Some(spec) = object.object_mut("spec") else {
        return;
    };
    spec.remove("namespace");
    let version = spec.remove("customVersion").and_then(|version| version.as_string());
    let version = version.filter(|version| !version.is_empty());
    metadata::mirror_label(object, SIDECARSET_CUSTOM_VERSION, version.as_deref());
}
