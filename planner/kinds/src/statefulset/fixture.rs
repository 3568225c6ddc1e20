//! The small cluster for tests of plans, with a StatefulSet in it.

use api::features::FeatureGates;
use serde_json::{Value, json};

use super::*;
use crate::workload::fleet::Planned;
use values::json_patch::Patch;

pub(super) use crate::workload::fleet::{image, merge, sized, template};

pub(super) type Fleet = crate::workload::fleet::Fleet<StatefulSet>;

impl Planned for StatefulSet {
    fn defaults(object: &str, before: Option<&str>, gates: &FeatureGates) -> Patch {
        defaulting::default(object, before, "v1beta1", gates).unwrap()
    }
}

/// Pods are managed all at once, with these settings.
pub(super) fn parallel(more: Value) -> Value {
    let mut spec = json!({"podManagementPolicy": "Parallel"});
    merge(&mut spec, more);
    spec
}

/// A template with the readiness gate of updates in place.
pub(super) fn in_place_template(image: &str) -> Value {
    let mut template = template(image);
    merge(&mut template, json!({"spec": {"readinessGates": [{"conditionType": "InPlaceUpdateReady"}]}}));
    template
}

/// Updates in place where possible, with these settings of the rolling update.
pub(super) fn in_place(more: Value) -> Value {
    let mut rolling = json!({"podUpdatePolicy": "InPlaceIfPossible"});
    merge(&mut rolling, more);
    parallel(json!({
        "template": in_place_template("nginx:1"),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
    }))
}

/// Claims `www` of this size.
pub(super) fn claims(size: &str) -> Value {
    json!({"volumeClaimTemplates": [{"metadata": {"name": "www"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": size}},
    }}]})
}

/// Gates beside the default ones.
pub(super) fn gates(list: &str) -> FeatureGates {
    FeatureGates::parse(list, "").unwrap()
}

impl Fleet {
    /// The ordinals of the Pods, ascending.
    pub(super) fn ordinals(&self) -> Vec<i32> {
        let ordinals = self.pods.iter().filter_map(|pod| identity::ordinal_of("web", &pod.metadata.name));
        let mut ordinals: Vec<i32> = ordinals.collect();
        ordinals.sort_unstable();
        ordinals
    }

    /// The ordinals of the Pods that run this image, ascending.
    pub(super) fn running_image(&self, image: &str) -> Vec<i32> {
        let running = |ordinal: &i32| {
            let name = format!("web-{ordinal}");
            let mut pods = self.pods.iter();
            pods.any(|pod| *pod.metadata.name == *name && self::image(pod) == image)
        };
        self.ordinals().into_iter().filter(running).collect()
    }

    /// Its position in the list of Pods.
    pub(super) fn at(&self, name: &str) -> usize {
        self.pods.iter().position(|pod| &*pod.metadata.name == name).unwrap()
    }

    /// Pods with this name as they were created.
    pub(super) fn uid(&self, name: &str) -> String {
        self.pods[self.at(name)].metadata.uid.to_string()
    }

    pub(super) fn labelled(&mut self, name: &str, key: &str, value: Option<&str>) {
        let labels = &mut self.pod_mut(name).metadata.labels;
        let others = labels.iter().filter(|(known, _)| *known != key);
        *labels = others.chain(value.map(|value| (key, value))).collect();
    }

    pub(super) fn set_status(&self) -> Status {
        self.set().status
    }
}
