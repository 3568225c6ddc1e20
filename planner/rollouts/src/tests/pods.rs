//! Pods of a test, and who manages them.

use serde_json::{Value, json};
use values::hash::fnv1_32;

use super::world::{World, named};
use crate::object::Object as _;

/// From that many seconds on no Pod counts as available.
const NEVER_AVAILABLE: i64 = 1_000_000;

/// A short name of a template.
pub(super) fn hash_of(template: &Value) -> String {
    format!("{:08x}", fnv1_32(template.to_string().bytes()))
}

/// The image that the template of a workload names.
pub(super) fn image(template: &Value) -> &str {
    template.pointer("/spec/containers/0/image").and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn is_ready(pod: &Value) -> bool {
    pod.text("/status/conditions/0/status") == "True"
}

/// Pods that stay so for as long as a workload asks count as available.
pub(super) fn is_available(pod: &Value, min_ready_seconds: Option<i64>) -> bool {
    is_ready(pod) && min_ready_seconds.unwrap_or(0) < NEVER_AVAILABLE
}

impl World {
    pub(super) fn pods_of(&self, owner: &str) -> Vec<Value> {
        self.all("Pod").filter(|pod| pod.controller() == Some(owner)).cloned().collect()
    }

    /// The images of all Pods of the cluster, sorted.
    pub(super) fn images(&self) -> Vec<String> {
        let mut images: Vec<String> = self.all("Pod").map(|pod| image(pod).to_owned()).collect();
        images.sort_unstable();
        images
    }

    /// How many Pods run an image.
    pub(super) fn count(&self, wanted: &str) -> usize {
        self.images().iter().filter(|image| *image == wanted).count()
    }

    pub(super) fn create_pod(&mut self, owner: &Value, template: &Value, labels: &Value) {
        let number = self.version();
        let mut metadata = template["metadata"].clone();
        for (key, value) in labels.as_object().unwrap() {
            metadata["labels"][key] = value.clone();
        }
        let name = format!("{}-{number}", owner.name());
        metadata["name"] = name.into();
        metadata["ownerReferences"] = json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"],
            "name": owner.name(), "uid": owner.uid(), "controller": true}]);
        let is_ready = !self.broken.iter().any(|broken| broken == image(template));
        let status = if is_ready { "True" } else { "False" };
        self.create(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"],
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
        }));
    }

    pub(super) fn delete_pod(&mut self, pod: &Value) {
        self.delete(&named("v1", "Pod", pod.name()));
    }

    /// Every Pod that an image's failure kept from being ready gets ready.
    pub(super) fn mend(&mut self, wanted: &str) {
        self.broken.retain(|broken| broken != wanted);
        for pod in self.of_kind("Pod").into_iter().filter(|pod| image(pod) == wanted) {
            let status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
            self.update_status(&named("v1", "Pod", pod.name()), &status);
        }
    }
}
