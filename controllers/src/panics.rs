//! Panics of reconciles (users' pain 9): defects of ours that one object brings out. It alone waits then, its
//! Event and a counter tell of it, and all others go on.

use std::sync::Arc;

use cluster::events::{Recorder, Severity};
use cluster::panics::{Panicked, contained, contained_at_once};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tracing::error;

use crate::ReconcileError;
use crate::metrics::Metrics;

/// Contains the panics of one controller.
pub(crate) struct Containment {
    controller: &'static str,
    metrics: Arc<Metrics>,
    recorder: Recorder,
}

impl Containment {
    pub(crate) fn new(controller: &'static str, metrics: Arc<Metrics>, client: Client) -> Self {
        Self { recorder: Recorder::new(client, controller, None), metrics, controller }
    }

    /// Does some work for `object`, which is looked up only if it panics.
    pub(crate) async fn contain<T>(
        &self,
        object: impl FnOnce() -> Option<ObjectReference>,
        work: impl Future<Output = Result<T, ReconcileError>>,
    ) -> Result<T, ReconcileError> {
        // What the work left half done is in caches, whose locks do not mind, or is written anew.
        let Panicked { message, .. } = match contained(work).await {
            Ok(result) => return result,
            Err(panicked) => panicked,
        };
        self.metrics.panicked(self.controller);
        if let Some(object) = object() {
            tell(&self.recorder, &object, self.controller, &message).await;
        }
        Err(ReconcileError::Panicked(message))
    }
}

/// Tells that `controller` panicked at `object`.
pub(crate) async fn tell(recorder: &Recorder, object: &ObjectReference, controller: &str, panic: &str) {
    let note = format!(
        "A defect of {controller}: {panic}. This object is tried again after pauses that grow; others are not \
         concerned. Please report it"
    );
    recorder.record(object, Severity::Warning, "Reconcile", "ReconcilePanicked", note).await;
}

/// Does a piece of work about a change; where it panics, the change is passed over.
pub(crate) fn passing_over<T>(work: impl FnOnce() -> T) -> Option<T> {
    let outcome = contained_at_once(work);
    outcome.inspect_err(|panicked| error!(panic = panicked.message, "a change is passed over")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::queue::{self, Next};
    use std::sync::Mutex;
    use std::time::Duration;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_counted_and_told_on_its_object_while_the_others_go_on() {
        let (client, requests) = fake::api_server(|request| match request.method {
            "POST" => (201, request.body.to_owned()),
            _ => (200, request.body.to_owned()),
        });
        let registry = prometheus::Registry::new();
        let metrics = Arc::new(Metrics::register(&registry, "test").unwrap());
        let containment = Arc::new(Containment::new("test-controller", metrics.clone(), client));
        let (sender, keys) = mpsc::unbounded_channel();
        for key in 0..10 {
            sender.send(key).unwrap();
        }
        let done = Arc::new(Mutex::new(Vec::new()));
        let reconciled = done.clone();
        // One worker: a poisoned object must not keep it.
        let settings = queue::Settings { name: "test-controller", workers: 1 };
        let work = queue::run(settings, &metrics, keys, move |key: u32| {
            let (containment, reconciled) = (containment.clone(), reconciled.clone());
            async move {
                let object = || Some(cluster::events::about("v1", "Thing", &format!("thing-{key}"), "u"));
                let reconcile = async {
                    assert_ne!(key, 3, "poisoned");
                    reconciled.lock().unwrap().push(key);
                    Ok(Next::Done)
                };
                containment.contain(object, reconcile).await
            }
        });
        drop(timeout(Duration::from_secs(1), work).await);
        assert_eq!(*done.lock().unwrap(), [0, 1, 2, 4, 5, 6, 7, 8, 9]);

        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let name = r#"kutter_reconcile_panics_total{controller="test-controller"} "#;
        let panics: u32 = text.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap();
        assert!((5..12).contains(&panics), "{panics}, with growing pauses");

        let requests = requests.lock().unwrap();
        let events: Vec<_> = requests.iter().filter(|request| request.starts_with("POST ")).collect();
        assert_eq!(events.len(), 1, "further ones are counted up: {events:#?}");
        for part in ["/events?", "thing-3", "ReconcilePanicked", "Warning", "poisoned"] {
            assert!(events[0].contains(part), "{part} in {}", events[0]);
        }
    }
}
