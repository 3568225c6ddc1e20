//! The small cluster for tests of plans, with a CloneSet in it.

use api::features::FeatureGates;

use super::*;
use crate::workload::fleet::Planned;
use values::json_patch::Patch;

pub(super) use crate::workload::fleet::{NOW, image, merge, sized, template};

pub(super) type Fleet = crate::workload::fleet::Fleet<CloneSet>;

impl Planned for CloneSet {
    fn defaults(object: &str, before: Option<&str>, gates: &FeatureGates) -> Patch {
        defaulting::default(object, before, "v1beta1", gates).unwrap()
    }
}

impl Fleet {
    pub(super) fn available(&self) -> usize {
        let pods: Vec<&std::sync::Arc<ObservedPod>> =
            self.pods.iter().filter(|pod| pod.is_active()).collect();
        let members = members::members(&pods, &self.set(), "", self.now).into_iter();
        members.filter(|member| member.is_available).count()
    }
}
