//! The program behind a workload's lifecycle hooks: it lets each Pod that waits for it continue after a while,
//! and takes finalizers off Pods that are being deleted.

use std::collections::BTreeMap;

use api::kinds::shared::{Lifecycle, LifecycleHook};
use api::labels::LIFECYCLE_STATE;

use super::Cluster;
use super::kind::Simulated;
use super::kubelet::Duty;
use super::timeline::Actor;
use pod::observed::ObservedPod;
use pod::write::PodWrite;

impl<W: Simulated> Cluster<'_, W> {
    /// Tells the program of a Pod that may wait for it.
    pub(super) fn call_hooks(&mut self, pod: &ObservedPod) {
        let hooks = self.server.workload.lifecycle();
        let Some(pause) = self.settings.hook else { return };
        if !answer(pod, hooks).is_empty() && self.answering.insert(pod.metadata.uid.clone()) {
            self.add_duty(pod, Duty::Answer, 100, pause);
        }
    }

    /// The program acts.
    pub(super) fn answer_hook(&mut self, pod: &ObservedPod) {
        let write = answer(pod, self.server.workload.lifecycle());
        self.change(Actor::User, pod, |pod| write.apply(pod));
    }
}

/// What the Pod waits for: labels and finalizers of its hook to go, or to come back.
pub fn answer(pod: &ObservedPod, hooks: &Lifecycle) -> PodWrite {
    let mut write = PodWrite::default();
    if pod.metadata.deletion_timestamp.is_some() {
        write.removed_finalizers = pod.metadata.finalizers.iter().map(ToString::to_string).collect();
        return write;
    }
    let labels = |hook: &LifecycleHook, present: bool| -> BTreeMap<String, Option<String>> {
        let differ =
            hook.labels_handler.iter().filter(|(key, value)| (pod.label(key) == Some(value)) != present);
        differ.map(|(key, value)| (key.clone(), present.then(|| value.clone()))).collect()
    };
    let finalizers = |hook: &LifecycleHook, present: bool| -> Vec<String> {
        let has = |name: &&String| pod.metadata.finalizers.iter().any(|known| **known == ***name);
        hook.finalizers_handler.iter().filter(|name| has(name) != present).cloned().collect()
    };
    let (hook, present) = match pod.label(LIFECYCLE_STATE) {
        Some("PreparingDelete") => (&hooks.pre_delete, false),
        Some("PreparingUpdate") => (&hooks.in_place_update, false),
        Some("Updated") => (&hooks.in_place_update, true),
        Some("PreparingNormal") => (&hooks.pre_normal, true),
        _ => return write,
    };
    if let Some(hook) = hook {
        write.labels = labels(hook, present);
        if present {
            write.finalizers = finalizers(hook, present);
        } else {
            write.removed_finalizers = finalizers(hook, present);
        }
    }
    write
}
