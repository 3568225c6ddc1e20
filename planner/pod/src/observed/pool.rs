//! Pods of one workload are alike: their containers, labels, owners and the words of their status are kept
//! once for all of them.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use api::meta::OwnerReference;

use super::{Container, ContainerStatus, ObservedPod, Pairs, PodCondition, ReadinessGate, Resources};

/// Below this many parts nothing is swept.
const SMALL: usize = 1024;

/// What the Pods of a cluster have in common. Parts that no Pod has any more are dropped from time to time:
/// never more is kept than twice what there was after the last sweep.
#[derive(Debug, Default)]
pub struct Pool {
    texts: Shelf<str>,
    pairs: Shelf<[(Arc<str>, Arc<str>)]>,
    owners: Shelf<[OwnerReference]>,
    containers: Shelf<[Container]>,
    gates: Shelf<[ReadinessGate]>,
    resources: Shelf<Resources>,
    /// How many parts there may be before the next sweep.
    limit: usize,
}

impl Pool {
    /// Replaces the parts of `pod` by equal ones that other Pods have.
    pub fn share(&mut self, pod: &mut ObservedPod) {
        self.text(&mut pod.metadata.namespace);
        self.owners.share(&mut pod.metadata.owner_references);
        self.pairs(&mut pod.metadata.labels);
        self.pairs(&mut pod.metadata.annotations);
        self.text(&mut pod.spec.node_name);
        self.text(&mut pod.spec.restart_policy);
        self.containers.share(&mut pod.spec.init_containers);
        self.containers.share(&mut pod.spec.containers);
        self.gates.share(&mut pod.spec.readiness_gates);
        self.text(&mut pod.status.phase);
        for PodCondition { kind, status, reason, message, .. } in &mut pod.status.conditions {
            for text in [kind, status, reason, message] {
                self.text(text);
            }
        }
        let statuses =
            pod.status.container_statuses.iter_mut().chain(&mut pod.status.init_container_statuses);
        for ContainerStatus { name, image, image_id, resources, .. } in statuses {
            for text in [name, image, image_id] {
                self.text(text);
            }
            if let Some(resources) = resources {
                self.resources.share(resources);
            }
        }
        if self.len() > self.limit {
            self.sweep();
        }
    }

    /// How many parts are kept.
    fn len(&self) -> usize {
        self.texts.0.len()
            + self.pairs.0.len()
            + self.owners.0.len()
            + self.containers.0.len()
            + self.gates.0.len()
            + self.resources.0.len()
    }

    fn text(&mut self, text: &mut Arc<str>) {
        self.texts.share(text);
    }

    /// Maps are often equal as a whole; where one is not, its keys and values mostly are.
    fn pairs(&mut self, pairs: &mut Pairs) {
        if !self.pairs.find(&mut pairs.0) {
            let texts = &mut self.texts;
            let shared = pairs.0.iter().cloned().map(|(mut key, mut value)| {
                texts.share(&mut key);
                texts.share(&mut value);
                (key, value)
            });
            pairs.0 = shared.collect();
            self.pairs.0.insert(pairs.0.clone());
        }
    }

    fn sweep(&mut self) {
        // Maps hold texts: they go first.
        self.pairs.sweep();
        self.owners.sweep();
        self.containers.sweep();
        self.gates.sweep();
        self.resources.sweep();
        self.texts.sweep();
        self.limit = (2 * self.len()).max(SMALL);
    }
}

/// Parts of one kind.
#[derive(Debug)]
struct Shelf<T: ?Sized>(HashSet<Arc<T>>);

impl<T: ?Sized> Default for Shelf<T> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<T: ?Sized + Eq + Hash> Shelf<T> {
    fn share(&mut self, part: &mut Arc<T>) {
        if !self.find(part) {
            self.0.insert(part.clone());
        }
    }

    /// Replaces `part` by an equal one, if there is any.
    fn find(&self, part: &mut Arc<T>) -> bool {
        let known = self.0.get(&**part);
        if let Some(known) = known {
            part.clone_from(known);
        }
        known.is_some()
    }

    /// Drops what nobody else has.
    fn sweep(&mut self) {
        self.0.retain(|part| Arc::strong_count(part) > 1);
        self.0.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, app: &str) -> ObservedPod {
        let json = serde_json::json!({
            "metadata": {"namespace": "shop", "name": name, "uid": name, "labels": {"app": app, "name": name},
                "annotations": {"team": app}, "ownerReferences": [{"apiVersion": "v1", "kind": "Job", "uid": app}]},
            "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": app}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "main", "image": app, "containerID": name}]},
        });
        ObservedPod::read(&json.to_string()).unwrap()
    }

    #[test]
    fn a_shared_pod_says_the_same() {
        let mut pool = Pool::default();
        for name in ["web-0", "web-1"] {
            let mut shared = pod(name, "web");
            pool.share(&mut shared);
            assert_eq!(shared, pod(name, "web"));
        }
    }

    #[test]
    fn equal_parts_are_kept_once() {
        let mut pool = Pool::default();
        let [mut first, mut second] = ["web-0", "web-1"].map(|name| pod(name, "web"));
        pool.share(&mut first);
        pool.share(&mut second);
        assert!(Arc::ptr_eq(&first.spec.containers, &second.spec.containers));
        assert!(Arc::ptr_eq(&first.metadata.annotations.0, &second.metadata.annotations.0));
        assert!(Arc::ptr_eq(&first.metadata.owner_references, &second.metadata.owner_references));
        assert!(!Arc::ptr_eq(&first.metadata.labels.0, &second.metadata.labels.0), "their names differ");
        assert!(Arc::ptr_eq(&first.metadata.labels.0[0].1, &second.metadata.labels.0[0].1));
        assert!(Arc::ptr_eq(
            &first.status.container_statuses[0].image,
            &second.status.container_statuses[0].image
        ));
    }

    #[test]
    fn what_no_pod_has_any_more_is_dropped() {
        let mut pool = Pool::default();
        let mut kept = pod("kept", "kept");
        pool.share(&mut kept);
        for number in 0..10 * SMALL {
            pool.share(&mut pod(&format!("web-{number}"), &format!("app-{number}")));
            assert!(pool.len() <= SMALL + 10, "{} parts", pool.len());
        }
        let mut again = pod("kept", "kept");
        pool.share(&mut again);
        assert!(Arc::ptr_eq(&kept.spec.containers, &again.spec.containers));
    }
}
