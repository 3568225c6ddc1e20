//! The annotations that injection leaves on a Pod: those of `patchPodMetadata`
//! (docs/behaviour/pod-mutation.md#patched-annotations), and the record of what was injected
//! (docs/behaviour/pod-mutation.md#hot-upgrade-pair and
//! docs/behaviour/pod-mutation.md#the-record-on-the-pod).

use std::collections::{BTreeMap, BTreeSet};

use api::annotations::{
    SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE, SIDECARSET_INJECTED_LIST, SIDECARSET_VERSION_ALT_PREFIX,
    SIDECARSET_VERSION_PREFIX, SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::contribution::PatchPolicy;
use super::matching::Chosen;
use pod::review::Draft;
use pod::review::lens::Object;
use values::json_patch::{string, write_string};
use values::merge_patch::merge_patch;
use values::verdict::Denial;

/// Sets the annotations that the SidecarSets want on the Pod, in their order.
pub(crate) fn patch_annotations(draft: &mut Draft<'_>, chosen: &[Chosen<'_>]) -> Result<(), Denial> {
    for choice in chosen {
        for patch in &choice.contribution.patches {
            for (key, value) in &patch.annotations {
                let patched = patched(patch.policy, draft.annotation(key), value).map_err(|problem| {
                    let name = choice.entry.name();
                    Denial::failed(format!(
                        "SidecarSet {name} merges JSON into annotation {key} of the Pod, which is not possible: {problem}"
                    ))
                })?;
                let Some(value) = patched else { continue };
                draft.set_annotation(key.as_str(), value);
            }
        }
    }
    Ok(())
}

/// The value that an annotation gets where it has `current`; `None` where it stays as it is.
///
/// # Errors
/// Why JSON can't be merged.
pub(crate) fn patched(
    policy: PatchPolicy,
    current: Option<&str>,
    value: &str,
) -> Result<Option<String>, String> {
    match (policy, current) {
        (PatchPolicy::Retain, Some(_)) => Ok(None),
        (PatchPolicy::Retain, None) | (PatchPolicy::Overwrite, _) => Ok(Some(value.to_owned())),
        (PatchPolicy::MergePatchJson, None | Some("")) => Ok(Some(value.to_owned())),
        // Set by an earlier review of this Pod: merging it into itself would only respell it.
        (PatchPolicy::MergePatchJson, Some(current)) if current == value && is_json(value) => Ok(None),
        (PatchPolicy::MergePatchJson, Some(current)) => merge_patch(current, value).map(Some),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// What one SidecarSet put into the Pod.
#[derive(Debug)]
pub(crate) struct Record<'w> {
    pub(crate) choice: Chosen<'w>,
    /// Names of native sidecars and containers, as in the SidecarSet, sorted.
    pub(crate) sidecars: Vec<&'w str>,
}

/// Notes on the Pod what was injected. `hot` holds the names of the sidecars that are pairs of twins.
pub(crate) fn record(
    draft: &mut Draft<'_>,
    time: &str,
    records: &[Record<'_>],
    hot: &[&str],
) -> Result<(), Denial> {
    if records.is_empty() {
        return Ok(());
    }
    for key in [SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE] {
        let value = hashes(draft, key, time, records)?;
        draft.set_annotation(key, value);
    }
    let present = draft.annotation(SIDECARSET_INJECTED_LIST).unwrap_or_default();
    let present = present.split(',').filter(|name| !name.is_empty());
    let names: BTreeSet<&str> =
        present.chain(records.iter().map(|record| record.choice.entry.name())).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(",");
    draft.set_annotation(SIDECARSET_INJECTED_LIST, names);
    record_twins(draft, hot);
    Ok(())
}

/// The annotations of hot upgrade: `C-1` works, `C-2` waits.
fn record_twins(draft: &mut Draft<'_>, hot: &[&str]) {
    if hot.is_empty() {
        return;
    }
    let present = draft.annotation(SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER).unwrap_or_default();
    let mut working: BTreeMap<String, String> = serde_json::from_str(present).unwrap_or_default();
    for name in hot {
        working.insert((*name).to_owned(), format!("{name}-1"));
        for (twin, version, version_of_other) in [(1, "1", "0"), (2, "0", "1")] {
            draft.set_annotation(format!("{SIDECARSET_VERSION_PREFIX}{name}-{twin}"), version);
            draft.set_annotation(format!("{SIDECARSET_VERSION_ALT_PREFIX}{name}-{twin}"), version_of_other);
        }
    }
    let members = working.iter().map(|(key, value)| (key.as_str(), string(value)));
    draft.set_annotation(SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER, object(members));
}

/// An entry of the hash annotations, as far as it is compared.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Entry {
    update_timestamp: Option<String>,
    hash: Option<String>,
    #[serde(rename = "sidecarSetName")]
    sidecar_set: Option<String>,
    sidecar_list: Option<Vec<String>>,
    controller_revision: Option<String>,
}

/// The new value of a hash annotation: the Pod's entries, those of `records` renewed.
fn hashes(draft: &Draft<'_>, key: &str, time: &str, records: &[Record<'_>]) -> Result<String, Denial> {
    let present = draft.annotation(key).unwrap_or_default();
    let mut entries = read_entries(present).map_err(|error| {
        let (namespace, name) = (&draft.namespace, &draft.name);
        Denial::failed(format!(
            "pod({namespace}/{name}) invalid annotations[{key}] value {present}, unmarshal failed: {error}"
        ))
    })?;
    for record in records {
        let name = record.choice.entry.name();
        let (hash, revision) = if key == SIDECARSET_HASH {
            (record.choice.hash, record.choice.revision)
        } else {
            (record.choice.hash_without_image, "")
        };
        let known = entries.get(name).and_then(|entry| serde_json::from_str::<Entry>(entry).ok());
        let unchanged = known.is_some_and(|known| {
            known.update_timestamp.is_some()
                && known.hash.as_deref() == Some(hash)
                && known.sidecar_set.as_deref() == Some(name)
                && known.sidecar_list.is_some_and(|list| list == record.sidecars)
                && known.controller_revision.unwrap_or_default() == revision
        });
        // A second review of the same Pod keeps the time of the first.
        if !unchanged {
            entries.insert(name.to_owned(), entry(time, hash, name, &record.sidecars, revision));
        }
    }
    Ok(object(entries.iter().map(|(name, entry)| (name.as_str(), entry.as_str()))))
}

/// Reads a hash annotation: a map of entries, or of plain hashes as old versions wrote it.
fn read_entries(text: &str) -> Result<BTreeMap<String, String>, serde_json::Error> {
    if text.is_empty() {
        return Ok(BTreeMap::new());
    }
    let raw: Option<BTreeMap<String, &RawValue>> = serde_json::from_str(text)?;
    let raw = raw.unwrap_or_default();
    if raw.values().all(|entry| serde_json::from_str::<Option<Object<Entry>>>(entry.get()).is_ok()) {
        return Ok(raw.into_iter().map(|(name, entry)| (name, entry.get().to_owned())).collect());
    }
    let plain: BTreeMap<String, String> = serde_json::from_str(text)?;
    Ok(plain.iter().map(|(name, hash)| (name.clone(), old_entry(hash, name))).collect())
}

pub(crate) fn entry(time: &str, hash: &str, name: &str, sidecars: &[&str], revision: &str) -> String {
    let mut entry = String::with_capacity(256);
    for (key, value) in
        [("{\"updateTimestamp\":", time), (",\"hash\":", hash), (",\"sidecarSetName\":", name)]
    {
        entry.push_str(key);
        write_string(&mut entry, value);
    }
    entry.push_str(",\"sidecarList\":[");
    for (position, sidecar) in sidecars.iter().enumerate() {
        if position > 0 {
            entry.push(',');
        }
        write_string(&mut entry, sidecar);
    }
    entry.push(']');
    if !revision.is_empty() {
        entry.push_str(",\"controllerRevision\":");
        write_string(&mut entry, revision);
    }
    entry.push('}');
    entry
}

/// An entry of the old form in the new one; what it does not contain is null.
fn old_entry(hash: &str, name: &str) -> String {
    format!(
        r#"{{"updateTimestamp":null,"hash":{},"sidecarSetName":{},"sidecarList":null}}"#,
        string(hash),
        string(name)
    )
}

/// A JSON object of members whose values are JSON text.
pub(crate) fn object<'m, V: AsRef<str>>(members: impl Iterator<Item = (&'m str, V)>) -> String {
    let mut text = String::with_capacity(512);
    text.push('{');
    for (key, value) in members {
        if text.len() > 1 {
            text.push(',');
        }
        write_string(&mut text, key);
        text.push(':');
        text.push_str(value.as_ref());
    }
    text.push('}');
    text
}
