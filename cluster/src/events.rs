//! Kubernetes Events: what a person sees with `kubectl describe`.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Reporter};
use tracing::warn;

/// Writes Events in the name of one component.
#[derive(Clone)]
pub struct Recorder(kube::runtime::events::Recorder);

/// Whether an Event tells of the usual course or of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// `Normal`.
    Normal,
    /// `Warning`.
    Warning,
}

/// A reference to a cluster-wide object, for an Event about it.
pub fn about(api_version: &str, kind: &str, name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

impl Recorder {
    /// A recorder whose Events name `component`; `instance` is usually the Pod.
    pub fn new(client: Client, component: &str, instance: Option<String>) -> Self {
        let reporter = Reporter { controller: component.to_owned(), instance };
        Self(kube::runtime::events::Recorder::new(client, reporter))
    }

    /// Records an Event about `object`. `action` and `reason` are words in CamelCase. An Event that
    /// can't be written is logged: it must not stop what it tells of.
    pub async fn record(
        &self,
        object: &ObjectReference,
        severity: Severity,
        action: &str,
        reason: &str,
        note: String,
    ) {
        let event = Event {
            type_: match severity {
                Severity::Normal => EventType::Normal,
                Severity::Warning => EventType::Warning,
            },
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.0.publish(&event, object).await {
            warn!(reason, error = crate::client::message(&error), "an Event was not written");
        }
    }
}
