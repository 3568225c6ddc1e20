//! Kubernetes Events: what a person sees with `kubectl describe`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder as Series, Reporter};
use tracing::warn;

/// Longest note that the API server takes, in bytes.
const NOTE: usize = 1024;
/// Of how many Events it is remembered that they were written; a further one of them is counted up.
const REMEMBERED: usize = 1000;

/// Writes Events in the name of one component. One that was written a short while ago is counted up; with
/// another note it is a new one.
#[derive(Clone)]
pub struct Recorder {
    client: Client,
    reporter: Reporter,
    latest: Arc<Mutex<HashMap<Subject, Latest>>>,
}

/// What an Event is about: the object's UID, the action and the reason.
type Subject = (String, String, String);

struct Latest {
    note: String,
    series: Series,
}

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
        Self { client, reporter, latest: Arc::default() }
    }

    /// Counts up Events of this subject and note. A series of kube would keep the first note for good.
    fn series(&self, subject: Subject, note: &str) -> Series {
        // Held for this operation only, never over an await.
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(latest) = latest.get(&subject).filter(|latest| latest.note == note) {
            return latest.series.clone();
        }
        if latest.len() >= REMEMBERED {
            latest.clear();
        }
        let series = Series::new(self.client.clone(), self.reporter.clone());
        latest.insert(subject, Latest { note: note.to_owned(), series: series.clone() });
        series
    }

    /// Records an Event about `object`. `action` and `reason` are words in CamelCase. An Event that
    /// can't be written is logged: it must not stop what it tells of.
    pub async fn record(
        &self,
        object: &ObjectReference,
        severity: Severity,
        action: &str,
        reason: &str,
        mut note: String,
    ) {
        note.truncate(note.floor_char_boundary(NOTE));
        let subject = (object.uid.clone().unwrap_or_default(), action.to_owned(), reason.to_owned());
        let series = self.series(subject, &note);
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
        if let Err(error) = series.publish(&event, object).await {
            warn!(reason, error = crate::client::message(&error), "an Event was not written");
        }
    }
}
