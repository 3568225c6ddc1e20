//! Events about objects: written one after another, beside the work that they report.

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;
use values::event::Event;

use crate::events::{Recorder, Severity};

/// Events that may wait to be written. More are dropped: they report what the objects show too.
const WAITING: usize = 4096;

/// Where a controller leaves its Events.
#[derive(Clone)]
pub struct EventSender {
    action: &'static str,
    events: mpsc::Sender<PendingEvent>,
}

/// An Event that waits to be written.
pub struct PendingEvent {
    action: &'static str,
    object: ObjectReference,
    /// What it says.
    pub event: Event,
}

/// Events of what `action` names, and where they come out.
pub fn event_sender(action: &'static str) -> (EventSender, mpsc::Receiver<PendingEvent>) {
    let (events, reported) = mpsc::channel(WAITING);
    (EventSender { action, events }, reported)
}

impl EventSender {
    /// Has an Event about `object` written; where too many wait, it is dropped.
    pub fn record(&self, object: ObjectReference, event: Event) {
        drop(self.events.try_send(PendingEvent { action: self.action, object, event }));
    }

    /// Says that `controller` panicked at `object`.
    pub fn record_panic(&self, object: ObjectReference, controller: &str, panic: &str) {
        let message = format!(
            "A defect of {controller}: {panic}. This object is tried again after pauses that grow; others are \
             not concerned. Please report it"
        );
        let event = Event { warning: true, reason: "ReconcilePanicked", message };
        drop(self.events.try_send(PendingEvent { action: "Reconcile", object, event }));
    }
}

/// Writes the Events until nobody leaves any more.
pub async fn write(recorder: &Recorder, events: &mut mpsc::Receiver<PendingEvent>) {
    while let Some(reported) = events.recv().await {
        reported.write(recorder).await;
    }
}

impl PendingEvent {
    /// Writes it.
    pub async fn write(self, recorder: &Recorder) {
        let Self { action, object, event } = self;
        let severity = if event.warning { Severity::Warning } else { Severity::Normal };
        recorder.record(&object, severity, action, event.reason, event.message).await;
    }
}
