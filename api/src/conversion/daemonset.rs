//! Advanced DaemonSet (docs/behaviour/api-and-registration.md#conversion-of-daemonset).

use super::metadata;
use crate::annotations::PROGRESSIVE_CREATE_POD;
use crate::raw_object::{RawNode, RawObject};

pub(super) fn to_beta(object: &mut RawObject<'_>) {
    let progressive = metadata::annotation(object, PROGRESSIVE_CREATE_POD);
    if let Some(spec) = object.object_mut("spec") {
        spec.remove("scaleStrategy");
        if progressive.as_deref() == Some("true") {
            spec.edit_object("scaleStrategy", |scale| {
                scale.insert("partitionedScaling", RawNode::boolean(true));
            });
        }
        let rolling =
            spec.object_mut("updateStrategy").and_then(|strategy| strategy.object_mut("rollingUpdate"));
        if let Some(rolling) = rolling
            && rolling.string("rollingUpdateType").as_deref() == Some("Surging")
        {
            rolling.insert("rollingUpdateType", RawNode::string("Standard"));
        }
    }
    if let Some(status) = object.object_mut("status") {
        status.rename("daemonSetHash", "updateRevision");
    }
}

pub(super) fn to_alpha(object: &mut RawObject<'_>) {
    let scale = object.object_mut("spec").and_then(|spec| spec.remove("scaleStrategy"));
    let partitioned = scale
        .and_then(RawNode::into_object)
        .is_some_and(|scale| scale.get("partitionedScaling").is_some_and(RawNode::is_true));
    metadata::mirror_annotation(object, PROGRESSIVE_CREATE_POD, partitioned.then_some("true"));
    if let Some(status) = object.object_mut("status") {
        status.rename("updateRevision", "daemonSetHash");
    }
}
