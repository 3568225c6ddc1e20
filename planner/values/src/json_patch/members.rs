//! The difference of two objects, by whole members of `metadata` and `spec`.

use api::raw_object::RawObject;

use super::{Patch, Pointer};

/// The members of `metadata` and `spec` that differ, each as a whole: what turns `before` into `after`.
pub fn edits(before: &str, after: &str) -> Result<Patch, serde_json::Error> {
    let mut patch = Patch::default();
    let (mut before, mut after) = (RawObject::parse(before)?, RawObject::parse(after)?);
    for part in ["metadata", "spec"] {
        let path = Pointer::root().key(part);
        let Some(after) = after.object_mut(part) else { continue };
        let Some(before) = before.object_mut(part) else {
            patch.add(path, after.to_string());
            continue;
        };
        for gone in before.keys().filter(|key| after.get(key).is_none()) {
            patch.remove(path.key(gone));
        }
        for (key, value) in after.iter_mut() {
            let value = value.to_string();
            if before.get(key).is_none_or(|before| before.to_string() != value) {
                patch.add(path.key(key), value);
            }
        }
    }
    Ok(patch)
}
