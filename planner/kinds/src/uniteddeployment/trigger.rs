//! Which changes start a reconcile (docs/behaviour/uniteddeployment.md#what-starts-a-reconcile).

use api::kinds::uniteddeployment::UnitedDeployment;
use api::labels::{RESERVED_POD, SUBSET_NAME, UNITED_REVISION};

use super::children::Child;
use pod::observed::ObservedPod;

/// Whether a UnitedDeployment that has changed is to be reconciled: it is new, is gone, or says something else.
pub fn of_united(old: Option<&UnitedDeployment>, new: Option<&UnitedDeployment>) -> bool {
    let said = |united: &UnitedDeployment| {
        let metadata = &united.metadata;
        (metadata.uid.clone(), metadata.generation, metadata.deletion_timestamp.is_some())
    };
    old.map(said) != new.map(said)
}

/// Whether a change of a workload is one that a plan reads.
pub fn of_child(old: Option<&Child>, new: Option<&Child>) -> bool {
    let said = |child: &Child| Child { resource_version: "".into(), ..child.clone() };
    old.map(said) != new.map(said)
}

/// Whether a Pod of some subset has changed in what a plan reads.
pub fn of_pod(old: Option<&ObservedPod>, new: Option<&ObservedPod>) -> bool {
    if ![old, new].into_iter().flatten().any(|pod| pod.label(SUBSET_NAME).is_some()) {
        return false;
    }
    let said = |pod: &ObservedPod| {
        let label = |key| pod.label(key).map(str::to_owned);
        let refused = pod.condition("PodScheduled").map(|scheduled| scheduled.reason.clone());
        (
            (pod.metadata.uid.clone(), pod.controller().map(|owner| owner.uid.clone())),
            label(SUBSET_NAME),
            label(UNITED_REVISION),
            label(RESERVED_POD),
            pod.metadata.deletion_timestamp.is_some(),
            pod.status.phase.clone(),
            pod.is_ready(),
            (refused, pod.spec.node_name.is_empty()),
        )
    };
    old.map(said) != new.map(said)
}

/// Whether a workload that nobody manages could serve a subset.
pub fn could_serve(child: &Child, united: &UnitedDeployment) -> bool {
    let mut subsets = united.spec.topology.subsets.iter();
    child.owner.is_none() && subsets.any(|subset| *subset.name == *child.subset)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::uniteddeployment::children::ChildKind;

    fn child(metadata: &Value) -> Child {
        let mut object = json!({"metadata": {"name": "web-a-x", "namespace": "shop", "uid": "c",
            "labels": {"apps.kruise.io/subset-name": "a"}}});
        object["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        Child::read(ChildKind::Deployment, &object.to_string()).unwrap().unwrap()
    }

    fn pod(owner: &str) -> ObservedPod {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true});
        let metadata = json!({"name": "p", "namespace": "shop", "uid": "p", "ownerReferences": [owner],
            "labels": {"apps.kruise.io/subset-name": "a"}});
        ObservedPod::read(&json!({"metadata": metadata, "spec": {"containers": []}}).to_string()).unwrap()
    }

    #[test]
    fn a_pod_concerns_its_own_workload_alone() {
        let own = pod("web-a-x-5d4f");
        assert!(child(&json!({})).runs(&own));
        assert!(!child(&json!({"name": "api-a-x"})).runs(&own));
        assert!(of_pod(None, Some(&own)) && !of_pod(Some(&own), Some(&own)));
        assert!(of_pod(Some(&own), Some(&pod("web-a-x-77f7"))), "another one manages it");
    }

    #[test]
    fn a_workload_that_nobody_manages_concerns_those_with_its_subset() {
        let united = |subset: &str| {
            let spec = json!({"topology": {"subsets": [{"name": subset}]}});
            serde_json::from_value::<UnitedDeployment>(json!({"spec": spec})).unwrap()
        };
        let orphan = child(&json!({}));
        assert!(could_serve(&orphan, &united("a")) && !could_serve(&orphan, &united("b")));
        let owner = json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment", "name": "web", "uid": "u", "controller": true}]);
        assert!(!could_serve(&child(&json!({"ownerReferences": owner})), &united("a")));
    }
}
