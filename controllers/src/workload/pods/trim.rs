//! What is left of a Pod in memory. A leader keeps thousands of them: each byte here is felt.

use std::mem::take;

use pod::observed::{ObservedPod, PodCondition, Resources};

/// A second copy of the object, which kubectl leaves.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Conditions that no rule reads as such: how a Pod came to run.
const UNREAD: [&str; 2] = ["PodReadyToStartContainers", "Initialized"];
/// The condition that is read only of Pods that find no node.
const SCHEDULED: &str = "PodScheduled";

/// Drops what no rule reads.
pub(super) fn trim(pod: &mut ObservedPod) {
    let annotations = &mut pod.metadata.annotations;
    if annotations.get(LAST_APPLIED).is_some() {
        *annotations = annotations.iter().filter(|(key, _)| *key != LAST_APPLIED).collect();
    }
    pod.take_times_out();
    pod.status.initialized = pod.is_initialized();
    let conditions = take(&mut pod.status.conditions).into_iter();
    let is_read = |condition: &PodCondition| {
        let is_scheduled = &*condition.kind == SCHEDULED && &*condition.status == "True";
        !is_scheduled && !UNREAD.contains(&&*condition.kind)
    };
    pod.status.conditions = conditions.filter(is_read).collect();
    // Resources are changed in place only by the workloads that manage a Pod.
    let managed = pod.metadata.owner_references.iter().any(|owner| owner.group() == api::APPS_GROUP);
    if !managed {
        for containers in [&mut pod.spec.containers, &mut pod.spec.init_containers] {
            for container in containers.iter_mut() {
                container.resources = Resources::default();
                container.resize_policy = Box::default();
            }
        }
        for status in pod.status.container_statuses.iter_mut().chain(&mut pod.status.init_container_statuses)
        {
            status.resources = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_rule_reads_is_dropped() {
        let read = |owner: &str| {
            let mut pod = ObservedPod::read(&format!(
                r#"{{"metadata":{{"annotations":{{"{LAST_APPLIED}":"{{}}","a":"1"}},"ownerReferences":[{{"apiVersion":"{owner}/v1"}}]}},
                "spec":{{"containers":[{{"name":"main","resources":{{"limits":{{"cpu":"1"}}}}}}]}},
                "status":{{"conditions":[{{"type":"Initialized","status":"True"}},{{"type":"Ready"}}]}}}}"#
            ))
            .unwrap();
            trim(&mut pod);
            pod
        };
        let plain = read("apps");
        assert_eq!(plain.metadata.annotations.iter().collect::<Vec<_>>(), [("a", "1")]);
        assert!(plain.condition("Initialized").is_none() && plain.condition("Ready").is_some());
        assert!(plain.is_initialized());
        assert!(plain.spec.containers[0].resources.limits.is_empty());
        assert_eq!(read("apps.kruise.io").spec.containers[0].resources.limits.get("cpu"), Some("1"));
    }
}
