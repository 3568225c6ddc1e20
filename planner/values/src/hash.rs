//! OpenKruise's hashes: of SidecarSets (docs/behaviour/pod-mutation.md#sidecarset-hash) and of revision data
//! (docs/behaviour/revisions.md#hash-and-name), both spelt in an alphabet without vowels and look-alikes.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::canonical::{CanonicalError, Kind, Unknown, canonical_json, table};

const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The Go type of `spec.containers` and `spec.initContainers` of a SidecarSet.
pub const SIDECARS: Kind = Kind::List(&Kind::Struct(&table::SIDECAR_CONTAINER));

/// Replaces each character by the letter of the alphabet that its code point selects. Not reversible:
/// `0` and `f` both give `4`.
pub fn safe_encode(text: &str) -> String {
    text.chars()
        .filter_map(|character| ALPHABET.get(u32::from(character) as usize % ALPHABET.len()))
        .map(|letter| char::from(*letter))
        .collect()
}

/// The FNV-1 hash of 32 bits: multiply, then xor.
pub fn fnv1_32(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(0x811c_9dc5, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte))
}

/// The hash that Kubernetes' helper gives for a list of bytes: FNV-1a of 32 bits over Go's way to print the
/// list (docs/behaviour/in-place-update.md#deep-hash-and-hash-of-variables).
pub fn deep_hash(text: &str) -> u32 {
    let mut printed = "([]uint8)[".to_owned();
    for (index, byte) in text.bytes().enumerate() {
        if index > 0 {
            printed.push(' ');
        }
        printed.push_str(&byte.to_string());
    }
    printed.push(']');
    printed.bytes().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The two hashes of a SidecarSet: the values of the annotations `kruise.io/sidecarset-hash` and
/// `kruise.io/sidecarset-hash-without-image`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidecarSetHashes {
    /// Over the sidecars as they are.
    pub hash: String,
    /// Over the sidecars with empty images.
    pub hash_without_image: String,
}

/// Hashes the `spec` of a SidecarSet, which must be defaulted already.
///
/// # Errors
/// The path and the problem, where a sidecar does not decode into its Go type.
pub fn sidecarset_hashes(spec: &str) -> Result<SidecarSetHashes, CanonicalError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        #[serde(borrow)]
        containers: Option<&'a RawValue>,
        #[serde(borrow)]
        init_containers: Option<&'a RawValue>,
    }
    let spec: Spec<'_> = serde_json::from_str(spec)?;
    let containers = canonical_sidecars(spec.containers.map(RawValue::get), "containers")?;
    let init_containers = canonical_sidecars(spec.init_containers.map(RawValue::get), "initContainers")?;
    let without_image = hash_text(
        &without_images(&containers, "containers")?,
        &without_images(&init_containers, "initContainers")?,
    )?;
    Ok(SidecarSetHashes {
        hash: safe_sha256(&hash_text(&containers, &init_containers)?),
        hash_without_image: safe_sha256(&without_image),
    })
}

fn canonical_sidecars(json: Option<&str>, field: &str) -> Result<String, CanonicalError> {
    canonical_json(json.unwrap_or("null"), &SIDECARS, Unknown::Drop).map_err(|error| error.within(field))
}

/// The same sidecars with the member `image` taken out.
fn without_images(sidecars: &str, field: &str) -> Result<String, CanonicalError> {
    let mut list: Option<Vec<BTreeMap<String, &RawValue>>> = serde_json::from_str(sidecars)?;
    for sidecar in list.iter_mut().flatten() {
        sidecar.remove("image");
    }
    canonical_sidecars(Some(&serde_json::to_string(&list)?), field)
}

/// The text under the hash. Init containers count only if one of them is a native sidecar.
fn hash_text(containers: &str, init_containers: &str) -> Result<String, CanonicalError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct InitContainer<'a> {
        #[serde(borrow)]
        restart_policy: Option<&'a RawValue>,
    }
    let list: Option<Vec<InitContainer<'_>>> = serde_json::from_str(init_containers)?;
    let native = |sidecar: &InitContainer<'_>| {
        sidecar.restart_policy.is_some_and(|policy| policy.get() == "\"Always\"")
    };
    Ok(if list.iter().flatten().any(native) {
        format!(r#"{{"containers":{containers},"initContainers":{init_containers}}}"#)
    } else {
        format!(r#"{{"containers":{containers}}}"#)
    })
}

fn safe_sha256(text: &str) -> String {
    safe_encode(&hex_sha256(text))
}

/// The SHA-256 hash of a text in lower-case hexadecimal digits.
pub fn hex_sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
