//! Events about Pods whose disruption is refused.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cluster::events::{Allowance, Recorder, Severity, about_in};
use pod::observed::ObservedPod;

/// Events of refusals: so many at once, and one more in each such time.
const EVENTS: (u32, Duration) = (20, Duration::from_secs(1));

/// Reports refused disruptions by Events about the Pods.
pub struct Refusals {
    recorder: Recorder,
    allowance: Mutex<Allowance>,
}

impl Refusals {
    /// Tells by this recorder.
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder, allowance: Mutex::new(Allowance::new(EVENTS.0, EVENTS.1)) }
    }

    /// Records an Event without waiting for it.
    pub(crate) fn record(&self, namespace: &str, pod: &ObservedPod) {
        // Held for a single operation only.
        if !self.allowance.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return;
        }
        let about = about_in(namespace, "v1", "Pod", &pod.metadata.name, &pod.metadata.uid);
        let recorder = self.recorder.clone();
        tokio::spawn(async move {
            let note = "openkruise pub prevents pod deletion".to_owned();
            recorder.record(&about, Severity::Warning, "Prevent", "PubPreventPodDeletion", note).await;
        });
    }
}
