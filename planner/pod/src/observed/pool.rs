//! Pods of one workload are alike: their containers, labels, owners and the words of their status are kept
//! once for all of them. So are the maps of Nodes.

use std::collections::HashSet;
use std::hash::Hash;

use api::meta::OwnerReference;

use super::{
    ConditionText, Container, ContainerReport, ContainerStatus, ObservedPod, Pair, Pairs, Part, PodSpec,
    PodStatus, ReadinessGate,
};

/// Below this many parts nothing is swept.
const SMALL: usize = 1024;

/// What the Pods of a cluster have in common. Parts that no Pod has any more are dropped from time to time:
/// never more is kept than a quarter above what there was after the last sweep.
#[derive(Debug, Default)]
pub struct Pool {
    texts: Shelf<str>,
    pairs: Shelf<(Part<str>, Box<str>)>,
    maps: Shelf<[Pair]>,
    owners: Shelf<[OwnerReference]>,
    finalizers: Shelf<[Box<str>]>,
    containers: Shelf<[Container]>,
    gates: Shelf<[ReadinessGate]>,
    conditions: Shelf<ConditionText>,
    reports: Shelf<ContainerReport>,
    statuses: Shelf<[ContainerStatus]>,
    /// How many parts there may be before the next sweep.
    limit: usize,
}

impl Pool {
    /// Replaces the parts of `pod` by equal ones that other Pods have.
    pub fn share(&mut self, pod: &mut ObservedPod) {
        let ObservedPod { metadata, spec, status } = pod;
        self.texts.share(&mut metadata.namespace);
        self.owners.share(&mut metadata.owner_references);
        self.finalizers.share(&mut metadata.finalizers);
        self.map(&mut metadata.labels);
        self.map(&mut metadata.annotations);
        let PodSpec { node_name, restart_policy, assigned_node, .. } = spec;
        for text in [node_name, restart_policy, &mut status.phase].into_iter().chain(assigned_node) {
            self.texts.share(text);
        }
        for containers in [&mut spec.init_containers, &mut spec.containers, &mut spec.ephemeral_containers] {
            self.containers.share(containers);
        }
        self.gates.share(&mut spec.readiness_gates);
        for condition in &mut status.conditions {
            self.conditions.share(&mut condition.text);
        }
        let PodStatus { container_statuses, init_container_statuses, .. } = status;
        for status in container_statuses.iter_mut().chain(init_container_statuses) {
            self.reports.share(&mut status.report);
        }
        self.statuses.share(&mut status.ephemeral_container_statuses);
        self.sweep_if_due();
    }

    /// Replaces a map by an equal one, or else its pairs by those that other maps have.
    pub fn share_map(&mut self, map: &mut Pairs) {
        self.map(map);
        self.sweep_if_due();
    }

    /// How many parts are kept.
    fn len(&self) -> usize {
        self.texts.0.len()
            + self.pairs.0.len()
            + self.maps.0.len()
            + self.owners.0.len()
            + self.finalizers.0.len()
            + self.containers.0.len()
            + self.gates.0.len()
            + self.conditions.0.len()
            + self.reports.0.len()
            + self.statuses.0.len()
    }

    /// Maps are often equal as a whole; where one is not, its pairs mostly are.
    fn map(&mut self, map: &mut Pairs) {
        if !self.maps.find(&mut map.0) {
            for pair in map.0.iter_mut() {
                if !self.pairs.find(pair) {
                    self.texts.share(&mut pair.0);
                    self.pairs.0.insert(pair.clone());
                }
            }
            self.maps.0.insert(map.0.clone());
        }
    }

    fn sweep_if_due(&mut self) {
        if self.len() > self.limit {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        // Parts hold others: those go first.
        self.maps.sweep();
        self.pairs.sweep();
        self.owners.sweep();
        self.finalizers.sweep();
        self.containers.sweep();
        self.gates.sweep();
        self.statuses.sweep();
        self.conditions.sweep();
        self.reports.sweep();
        self.texts.sweep();
        self.limit = (self.len() + self.len() / 4).max(SMALL);
    }
}

/// Parts of one kind.
#[derive(Debug)]
struct Shelf<T: ?Sized>(HashSet<Part<T>>);

impl<T: ?Sized> Default for Shelf<T> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<T: ?Sized + Eq + Hash> Shelf<T> {
    fn share(&mut self, part: &mut Part<T>) {
        if !self.find(part) {
            self.0.insert(part.clone());
        }
    }

    /// Replaces `part` by an equal one, if there is any.
    fn find(&self, part: &mut Part<T>) -> bool {
        let known = self.0.get(&**part);
        if let Some(known) = known {
            part.clone_from(known);
        }
        known.is_some()
    }

    /// Drops what nobody else has.
    fn sweep(&mut self) {
        self.0.retain(|part| part.holders() > 1);
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
        assert!(first.spec.containers.is(&second.spec.containers));
        assert!(first.metadata.annotations.0.is(&second.metadata.annotations.0));
        assert!(first.metadata.owner_references.is(&second.metadata.owner_references));
        assert!(!first.metadata.labels.0.is(&second.metadata.labels.0), "their names differ");
        assert!(first.metadata.labels.0[0].is(&second.metadata.labels.0[0]));
        assert!(first.status.conditions[0].text.is(&second.status.conditions[0].text));
        assert!(first.status.container_statuses[0].report.is(&second.status.container_statuses[0].report));
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
        assert!(kept.spec.containers.is(&again.spec.containers));
    }
}
