//! CloneSet (docs/behaviour/api-and-registration.md#conversion-of-cloneset).

use super::metadata;
use crate::annotations::{
    IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS, IMAGE_PREDOWNLOAD_PARALLELISM,
    IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS,
};
use crate::labels::CLONESET_SCALING_EXCLUDE_PREPARING_DELETE;
use crate::raw_object::{RawNode, RawObject};

/// Fields of v1alpha1 `updateStrategy` that v1beta1 has below `rollingUpdate`.
pub(super) const ROLLING_FIELDS: [&str; 7] = [
    "partition",
    "maxUnavailable",
    "maxSurge",
    "paused",
    "priorityStrategy",
    "scatterStrategy",
    "inPlaceUpdateStrategy",
];
const POLICIES: [&str; 3] = ["ReCreate", "InPlaceIfPossible", "InPlaceOnly"];
const ON_DELETE: &str = "OnDelete";

const PARALLELISM: &str = "imagePreDownloadParallelism";
const TIMEOUT: &str = "imagePreDownloadTimeoutSeconds";
const MIN_READY: &str = "imagePreDownloadMinUpdatedReadyPods";
/// The v1beta1 fields of image pre-download and the v1alpha1 annotations that represent them.
const PRE_DOWNLOAD: [(&str, &str); 3] = [
    (PARALLELISM, IMAGE_PREDOWNLOAD_PARALLELISM),
    (TIMEOUT, IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS),
    (MIN_READY, IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS),
];

pub(super) fn to_beta(object: &mut RawObject<'_>) {
    let pre_download = pre_download_of_annotations(object);
    let label = metadata::label(object, CLONESET_SCALING_EXCLUDE_PREPARING_DELETE);
    if let Some(spec) = object.object_mut("spec") {
        update_strategy_to_beta(spec, pre_download);
        spec.edit_object("scaleStrategy", |scale| {
            scale.remove("excludePreparingDelete");
            let disabled = scale.remove("disablePVCReuse").is_some_and(|disable| disable.is_true());
            scale.insert("enablePVCReuse", RawNode::boolean(!disabled));
            if label.as_deref() == Some("true") {
                scale.insert("excludePreparingDelete", RawNode::boolean(true));
            }
        });
    }
}

pub(super) fn to_alpha(object: &mut RawObject<'_>) {
    let Some(spec) = object.object_mut("spec") else {
        return;
    };
    let pre_download = update_strategy_to_alpha(spec);
    let mut excluded = false;
    spec.edit_object("scaleStrategy", |scale| {
        excluded = scale.remove("excludePreparingDelete").is_some_and(|exclude| exclude.is_true());
        scale.remove("disablePVCReuse");
        if !scale.remove("enablePVCReuse").is_some_and(|enable| enable.is_true()) {
            scale.insert("disablePVCReuse", RawNode::boolean(true));
        }
    });
    spec.remove_empty_object("scaleStrategy");
    let excluded = excluded.then_some("true");
    metadata::mirror_label(object, CLONESET_SCALING_EXCLUDE_PREPARING_DELETE, excluded);
    for ((_, annotation), value) in PRE_DOWNLOAD.into_iter().zip(&pre_download) {
        metadata::mirror_annotation(object, annotation, value.as_deref());
    }
}

/// The values of the three pre-download fields that the annotations give.
fn pre_download_of_annotations<'a>(object: &mut RawObject<'_>) -> [Option<RawNode<'a>>; 3] {
    PRE_DOWNLOAD.map(|(field, annotation)| {
        let text = metadata::annotation(object, annotation).filter(|text| !text.is_empty())?;
        match text.parse::<i32>() {
            Ok(number) => Some(RawNode::integer(number.into())),
            Err(_) => (field == PARALLELISM).then(|| RawNode::string(&text)),
        }
    })
}

/// Turns the flat `updateStrategy` of `spec` into the nested one.
pub(super) fn update_strategy_to_beta<'a>(spec: &mut RawObject<'a>, pre_download: [Option<RawNode<'a>>; 3]) {
    spec.edit_object("updateStrategy", |strategy| {
        let moved = ROLLING_FIELDS.map(|field| strategy.remove(field));
        let kind = strategy.string("type").unwrap_or_default();
        if kind == ON_DELETE {
            return;
        }
        let policy = POLICIES.into_iter().find(|policy| *policy == kind).unwrap_or("ReCreate");
        let mut rolling = RawObject::default();
        rolling.insert("podUpdatePolicy", RawNode::string(policy));
        for (field, value) in ROLLING_FIELDS.into_iter().zip(moved) {
            if let Some(value) = value {
                rolling.insert(field, value);
            }
        }
        rolling.edit_object("inPlaceUpdateStrategy", |in_place| {
            for ((field, _), value) in PRE_DOWNLOAD.into_iter().zip(pre_download) {
                in_place.remove(field);
                if let Some(value) = value {
                    in_place.insert(field, value);
                }
            }
        });
        strategy.insert("type", RawNode::string("RollingUpdate"));
        strategy.insert("rollingUpdate", rolling.into());
    });
}

/// Turns the nested `updateStrategy` of `spec` into the flat one; returns the texts for the annotations.
fn update_strategy_to_alpha(spec: &mut RawObject<'_>) -> [Option<String>; 3] {
    let mut pre_download = [const { None }; 3];
    spec.edit_object("updateStrategy", |strategy| {
        let rolling = strategy.remove("rollingUpdate").and_then(RawNode::into_object);
        let policy = rolling.as_ref().and_then(|rolling| rolling.string("podUpdatePolicy"));
        let kind = if strategy.string("type").as_deref() == Some(ON_DELETE) {
            ON_DELETE
        } else {
            POLICIES.into_iter().find(|known| policy.as_deref() == Some(*known)).unwrap_or("ReCreate")
        };
        strategy.insert("type", RawNode::string(kind));
        let Some(mut rolling) = rolling else {
            return;
        };
        for field in ROLLING_FIELDS {
            if let Some(value) = rolling.remove(field) {
                strategy.insert(field, value);
            }
        }
        if let Some(in_place) = strategy.object_mut("inPlaceUpdateStrategy") {
            pre_download = PRE_DOWNLOAD.map(|(field, _)| {
                let value = in_place.remove(field).filter(|value| !value.is_literal("null"))?;
                Some(value.as_string().unwrap_or_else(|| value.to_string()))
            });
            let no_grace = in_place.get("gracePeriodSeconds").is_none_or(|grace| grace.is_literal("0"));
            if no_grace && in_place.keys().all(|key| key == "gracePeriodSeconds") {
                strategy.remove("inPlaceUpdateStrategy");
            }
        }
    });
    pre_download
}
