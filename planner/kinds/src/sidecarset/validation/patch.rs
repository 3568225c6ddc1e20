//! `patchPodMetadata` and the allow-list that administrators keep (docs/behaviour/sidecarset.md#spec-rules
//! and docs/behaviour/sidecarset.md#annotation-allow-list).

use std::collections::HashSet;

use api::features::Feature;
use api::meta::LabelSelector;
use api::sidecarset::SidecarSet;
use regex::Regex;
use serde::Deserialize;

use super::{Context, Validation};
use pod::template::metadata::validate_annotations;
use values::field::{FieldError, FieldPath};
use values::selector::Selector;

#[derive(Deserialize)]
struct AllowList {
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    selector: Option<LabelSelector>,
    #[serde(default)]
    allowed_annotation_key_exprs: Vec<String>,
}

pub(super) fn validate(
    new: &SidecarSet,
    old: Option<&SidecarSet>,
    context: &Context<'_>,
    validation: &mut Validation,
) {
    let entries = &new.spec.patch_pod_metadata;
    if entries.is_empty() {
        return;
    }
    let path = FieldPath::new("spec.patchPodMetadata");
    if let Err(message) = check_allowed(new, context) {
        validation.errors.push(FieldError::required(path.clone(), message));
    }
    let mut seen = HashSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let mut require =
            |message: String| validation.errors.push(FieldError::required(path.clone(), message));
        if entry.annotations.is_empty() {
            require("no annotations defined for SidecarSet".to_owned());
        }
        if entry.patch_policy.is_empty() {
            require("no patchPolicy defined for patchPodMetadata".to_owned());
        }
        for key in entry.annotations.keys() {
            if !seen.insert(key) {
                require(format!("patch annotation[{key}] already exist"));
            }
        }
        if !matches!(entry.patch_policy.as_str(), "" | "Retain" | "Overwrite" | "MergePatchJson") {
            let supported = &["Retain", "Overwrite", "MergePatchJson"];
            let path = path.index(index).child("patchPolicy");
            validation.refuse_new(old, FieldError::not_supported(path, &entry.patch_policy, supported));
        }
    }
    let annotations = entries.iter().flat_map(|entry| &entry.annotations);
    let annotations = annotations.map(|(key, value)| (key.as_str(), value.as_str()));
    validate_annotations(
        annotations,
        &FieldPath::new("patchPodMetadata.annotations"),
        &mut validation.errors,
    );
}

fn check_allowed(new: &SidecarSet, context: &Context<'_>) -> Result<(), String> {
    let free = context.gates.enabled(Feature::SidecarSetPatchPodMetadataDefaultsAllowed);
    let list = match context.allow_list {
        Some(list) => list,
        None if free => return Ok(()),
        None => return Err("SidecarSet patch metadata whitelist not found".to_owned()),
    };
    let list: AllowList = serde_json::from_str(list)
        .map_err(|error| format!("SidecarSet patch metadata whitelist is not valid JSON: {error}"))?;
    let mut allowed = Vec::new();
    for rule in &list.rules {
        if !applies(rule, new)? {
            continue;
        }
        for pattern in &rule.allowed_annotation_key_exprs {
            let regex = Regex::new(pattern);
            allowed
                .push(regex.map_err(|_| {
                    format!("SidecarSet patch metadata whitelist has a bad regex: {pattern}")
                })?);
        }
    }
    if allowed.is_empty() {
        let message = "sidecarSet patch metadata annotation is not allowed";
        return if free { Ok(()) } else { Err(message.to_owned()) };
    }
    let mut keys = new.spec.patch_pod_metadata.iter().flat_map(|entry| entry.annotations.keys());
    match keys.find(|key| !allowed.iter().any(|regex| regex.is_match(key))) {
        Some(key) => Err(format!("sidecarSet patch metadata annotation({key}) is not allowed")),
        None => Ok(()),
    }
}

fn applies(rule: &Rule, set: &SidecarSet) -> Result<bool, String> {
    let Some(selector) = &rule.selector else { return Ok(true) };
    let selector = Selector::compile(selector)
        .map_err(|error| format!("SidecarSet patch metadata whitelist has a bad selector: {error}"))?;
    Ok(selector.matches(&set.metadata.labels))
}
