//! What the API server stores for a SidecarSet: defaults and hashes
//! (docs/behaviour/sidecarset.md#defaulting), as a patch of the object that was sent. Fields that no rule
//! knows stay in it; they do not take part in the hashes.

use api::sidecarset::KIND;
use api::{APPS_GROUP, annotations};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::workload::submitted::filled;
use pod::template::PullPolicy;
use pod::template::defaulting::{ContainerDefaults, default_container, default_volumes};
use pod::template::place::Place;
use values::hash::{SidecarSetHashes, sidecarset_hashes};
use values::json_patch::{self, Patch, Pointer};
use values::verdict::{Denial, refused};

const CONTAINER_DEFAULTS: ContainerDefaults = ContainerDefaults {
    pull_policy: PullPolicy::ByTag,
    startup_probes: false,
    host_ports: false,
    canonical_quantities: true,
};

/// The operations that complete `object`, a SidecarSet in v1alpha1 or v1beta1. `version` is the version
/// of the request.
///
/// # Errors
/// Code 400 for an object that is not a SidecarSet of a known version.
pub fn default(object: &str, version: &str) -> Result<Patch, Denial> {
    if !matches!(version, "v1alpha1" | "v1beta1") {
        return Err(refused(format!("unsupported version: {APPS_GROUP}/{version}")));
    }
    let (value, mut patch) = filled(object, None, KIND)?;
    let root = Place::new(&value, Pointer::root());
    if let Some(spec) = root.child_or_new("spec", &mut patch) {
        default_spec(&spec, &mut patch);
    }
    write_hashes(object, &root, &mut patch)?;
    Ok(patch)
}

fn default_spec(spec: &Place<'_>, patch: &mut Patch) {
    if let Some(strategy) = spec.child_or_new("updateStrategy", patch) {
        strategy.default_text("type", "RollingUpdate", patch);
        strategy.default_json("partition", "0", patch);
        strategy.default_json("maxUnavailable", "1", patch);
    }
    for (list, inject_policy) in
        [("initContainers", "AfterAppContainer"), ("containers", "BeforeAppContainer")]
    {
        for container in spec.list(list) {
            default_sidecar(&container, inject_policy, patch);
        }
    }
    default_volumes(spec, patch);
    spec.default_json("revisionHistoryLimit", "10", patch);
    for entry in spec.list("patchPodMetadata") {
        entry.default_text("patchPolicy", "Retain", patch);
    }
    if let Some(revision) = spec.child("injectionStrategy").and_then(|strategy| strategy.child("revision")) {
        revision.default_text("policy", "Always", patch);
    }
}

fn default_sidecar(container: &Place<'_>, inject_policy: &str, patch: &mut Patch) {
    container.default_text("podInjectPolicy", inject_policy, patch);
    if let Some(strategy) = container.child_or_new("upgradeStrategy", patch) {
        strategy.default_text("upgradeType", "ColdUpgrade", patch);
    }
    if let Some(policy) = container.child_or_new("shareVolumePolicy", patch) {
        policy.default_text("type", "disabled", patch);
    }
    for transfer in container.list("transferEnv") {
        let field = transfer.child("sourceContainerNameFrom").and_then(|source| source.child("fieldRef"));
        if let Some(field) = field {
            field.default_text("apiVersion", "v1", patch);
        }
    }
    if let Some(policy) = container.child("resourcesPolicy") {
        // As the schema's default does, and for an empty text as well.
        policy.default_text("targetContainersNameRegex", ".*", patch);
    }
    default_container(container, CONTAINER_DEFAULTS, patch);
}

/// Hashes the completed object and puts both hashes over whatever the annotations said.
fn write_hashes(object: &str, root: &Place<'_>, patch: &mut Patch) -> Result<(), Denial> {
    let hashes = hashes(&json_patch::apply(object, patch).map_err(refused)?)?;
    let Some(metadata) = root.child_or_new("metadata", patch) else {
        return Err(refused("metadata must be an object"));
    };
    let Some(existing) = metadata.child_or_new("annotations", patch) else {
        return Err(refused("metadata.annotations must be an object"));
    };
    for (key, hash) in [
        (annotations::SIDECARSET_HASH, &hashes.hash),
        (annotations::SIDECARSET_HASH_WITHOUT_IMAGE, &hashes.hash_without_image),
    ] {
        if existing.get(key).and_then(Value::as_str) != Some(hash) {
            patch.add(existing.pointer(key), json_patch::string(hash));
        }
    }
    Ok(())
}

/// The hashes of an object.
///
/// # Errors
/// Code 400, and the path of what has not the type of its field.
pub(super) fn hashes(object: &str) -> Result<SidecarSetHashes, Denial> {
    #[derive(Deserialize)]
    struct Spec<'a> {
        #[serde(borrow)]
        spec: &'a RawValue,
    }
    let Spec { spec } = serde_json::from_str(object).map_err(refused)?;
    sidecarset_hashes(spec.get()).map_err(|error| refused(error.within("spec")))
}

#[cfg(test)]
mod tests;
