//! Kinds whose versions differ in names only: PersistentPodState
//! (docs/behaviour/api-and-registration.md#conversion-of-persistentpodstate-and-resourcedistribution) and
//! ResourceDistribution
//! (docs/behaviour/api-and-registration.md#conversion-of-persistentpodstate-and-resourcedistribution).

use crate::raw_object::{RawNode, RawObject};

pub(super) fn persistent_pod_state_to_beta(object: &mut RawObject<'_>) {
    rename_topology_keys(object, "nodeTopologyKeys", "keys");
}

pub(super) fn persistent_pod_state_to_alpha(object: &mut RawObject<'_>) {
    rename_topology_keys(object, "keys", "nodeTopologyKeys");
}

fn rename_topology_keys(object: &mut RawObject<'_>, from: &str, to: &str) {
    let Some(spec) = object.object_mut("spec") else {
        return;
    };
    if let Some(required) = spec.object_mut("requiredPersistentTopology") {
        required.rename(from, to);
    }
    for term in spec.array_mut("preferredPersistentTopology").into_iter().flatten() {
        if let Some(preference) = term.as_object_mut().and_then(|term| term.object_mut("preference")) {
            preference.rename(from, to);
        }
    }
}

pub(super) fn resource_distribution_to_beta(object: &mut RawObject<'_>) {
    rename_distribution(object, |alpha, beta, part| part.rename(alpha, beta));
}

pub(super) fn resource_distribution_to_alpha(object: &mut RawObject<'_>) {
    rename_distribution(object, |alpha, beta, part| part.rename(beta, alpha));
}

fn rename_distribution(object: &mut RawObject<'_>, rename: impl Fn(&str, &str, &mut RawObject<'_>)) {
    if let Some(targets) = object.object_mut("spec").and_then(|spec| spec.object_mut("targets")) {
        rename("namespaceLabelSelector", "namespaceSelector", targets);
    }
    let conditions = object.object_mut("status").and_then(|status| status.array_mut("conditions"));
    for condition in conditions.into_iter().flatten().filter_map(RawNode::as_object_mut) {
        rename("failedNamespace", "failedNamespaces", condition);
    }
}
