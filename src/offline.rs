//! The cluster as files describe it.

use std::collections::BTreeSet;

use admission::world::{Watched, World};
use informers::files::{Object, Objects};
use kinds::sidecarset::defaulting;
use tracing::warn;
use values::json_patch;

/// A world of `objects`. SidecarSets first pass conversion and defaulting, as on their way into a cluster
/// (docs/review.md). Namespaces that are only named exist with the label that Kubernetes sets.
pub(crate) fn world(objects: &Objects, default_namespace: &str, install_namespace: &str) -> World {
    let mut world = World::new(install_namespace);
    let named: BTreeSet<&str> = objects
        .iter()
        .map(|object| object.namespace.as_str())
        .chain([default_namespace])
        .filter(|namespace| !namespace.is_empty())
        .collect();
    for namespace in named {
        let name = json_patch::string(namespace);
        let object = format!(
            r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":{name},"labels":{{"{}":{name}}}}}}}"#,
            api::labels::NAMESPACE_NAME
        );
        if let Err(error) = world.apply(Watched::Namespace, &object) {
            warn!(namespace, %error, "a namespace is not usable");
        }
    }
    objects.fill(&mut world, default_namespace, stored);
    world
}

/// A SidecarSet as the API server would store it; one that can't be stored is left out.
fn stored(object: &Object) -> Option<String> {
    match store(object) {
        Ok(stored) => Some(stored),
        Err(error) => {
            warn!(source = object.source, name = object.name, "a SidecarSet is left out: {error:#}");
            None
        }
    }
}

fn store(object: &Object) -> anyhow::Result<String> {
    let version = object.api_version.rsplit('/').next().unwrap_or_default();
    let defaults =
        defaulting::default(&object.json, version).map_err(|denial| anyhow::anyhow!(denial.message))?;
    let defaulted = json_patch::apply(&object.json, &defaults)?;
    if version == "v1beta1" {
        return Ok(defaulted);
    }
    let storage = format!("{}/v1beta1", api::APPS_GROUP);
    Ok(api::conversion::convert(&defaulted, &storage)?.get().to_owned())
}
