//! The cluster as files describe it.

use std::collections::BTreeSet;

use cluster::files::{Object, Objects};
use planner::json_patch;
use planner::world::{Watched, World};
use tracing::warn;

/// A world of `objects`. SidecarSets first pass conversion and defaulting, as on their way into a
/// cluster (decision 11). Namespaces that are only named exist with the label that Kubernetes sets.
pub fn world(objects: &Objects, default_namespace: &str, install_namespace: &str) -> World {
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
    objects.fill(&mut world, stored);
    world
}

/// A SidecarSet as the API server would store it; one that admission refuses would not be stored.
fn stored(object: &Object) -> Option<String> {
    match planner::sidecarset::defaulting::stored_form(&object.json) {
        Ok(stored) => Some(stored),
        Err(denial) => {
            warn!(source = object.source, name = object.name, reason = denial.message, "a SidecarSet is left out");
            None
        }
    }
}
