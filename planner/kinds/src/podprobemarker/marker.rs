//! A PodProbeMarker as its controller needs it (docs/behaviour/probes.md#the-controller-of-podprobemarkers).

use api::finalizers::NODE_POD_PROBE_CLEANUP;
use api::kinds::podprobemarker::{MarkerPolicy, PodProbeMarker};
use serde_json::json;

use super::{FAILED, SUCCEEDED};
use crate::workload::metadata;
use pod::observed::ObservedPod;
use pod::selector::PodSelector;
use pod::write::PodWrite;
use values::selector::Labels;

/// A PodProbeMarker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The object.
    pub object: PodProbeMarker,
    selector: PodSelector,
}

impl Marker {
    /// Reads a PodProbeMarker. One whose selector can't be used is for no Pod.
    ///
    /// # Errors
    /// The text is none.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        let object: PodProbeMarker = serde_json::from_str(json)?;
        let selector = PodSelector::compile(Some(&object.spec.selector));
        Ok(Self { object, selector })
    }

    /// Whether it is not being deleted.
    pub fn is_active(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_none()
    }

    /// Whether it is for Pods with these labels.
    pub fn selects(&self, labels: &(impl Labels + ?Sized)) -> bool {
        self.selector.matches(labels).unwrap_or(false)
    }

    /// Whether its probes run in this Pod of its namespace, now.
    pub fn includes(&self, pod: &ObservedPod) -> bool {
        is_probed(pod) && self.selects(&pod.metadata.labels)
    }

    /// Namespace and name in one word.
    pub fn word(&self) -> String {
        format!("{}/{}", self.object.metadata.namespace, self.object.metadata.name)
    }

    /// The patch that puts the finalizer on the object, or takes it off; `None` where that is done.
    pub fn with_finalizer(&self, is_set: bool) -> Option<String> {
        let looked_at = &self.object.metadata;
        let is_there = looked_at.finalizers.iter().any(|known| known == NODE_POD_PROBE_CLEANUP);
        (is_there != is_set).then(|| {
            metadata::patch(looked_at, metadata::finalizers(looked_at, NODE_POD_PROBE_CLEANUP, is_set))
        })
    }

    /// The patch of a status that counts so many Pods; `None` where it says that already.
    pub fn with_status(&self, matched_pods: usize) -> Option<String> {
        let (metadata, status) = (&self.object.metadata, &self.object.status);
        let matched_pods = i64::try_from(matched_pods).unwrap_or(i64::MAX);
        let generation = metadata.generation.unwrap_or_default();
        if status.matched_pods == Some(matched_pods) && status.observed_generation == generation {
            return None;
        }
        let metadata = json!({"uid": metadata.uid, "resourceVersion": metadata.resource_version});
        let status = json!({"observedGeneration": generation, "matchedPods": matched_pods});
        Some(json!({"metadata": metadata, "status": status}).to_string())
    }

    /// What the conditions of a Pod on a node without an agent have to add to it. Its platform writes the conditions.
    /// Nothing is taken away.
    pub fn marks(&self, pod: &ObservedPod) -> PodWrite {
        let mut write = PodWrite::default();
        for probe in self.object.spec.probes.iter().filter(|probe| !probe.pod_condition_type.is_empty()) {
            let Some(condition) = pod.condition(&probe.pod_condition_type) else { continue };
            let state = match &*condition.status {
                "True" => SUCCEEDED,
                "False" => FAILED,
                _ => continue,
            };
            for policy in probe.marker_policy.iter().filter(|policy| policy.state == state) {
                mark(&mut write, policy);
            }
        }
        write.drop_what_holds(pod);
        write
    }
}

/// Whether probes can run in a Pod: it is on a node, its init containers are done, and it has not ended.
pub(super) fn is_probed(pod: &ObservedPod) -> bool {
    pod.is_active() && pod.is_initialized() && !pod.spec.node_name.is_empty()
}

/// Sets what a policy says. It wins over what is taken away.
pub(super) fn mark(write: &mut PodWrite, policy: &MarkerPolicy) {
    for (key, value) in &policy.labels {
        write.set_label(key, value);
    }
    for (key, value) in &policy.annotations {
        write.set_annotation(key, value);
    }
}
