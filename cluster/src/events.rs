//! Kubernetes Events: what a person sees with `kubectl describe`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder as Series, Reporter};
use tokio::time::Instant;
use tracing::warn;

/// Longest note that the API server takes, in bytes.
const NOTE: usize = 1024;
/// Of how many Events it is remembered that they were written; a further one of them is counted up.
const REMEMBERED: usize = 1000;
/// So many Events of one subject may differ in their notes at once.
const BURST: u32 = 25;
/// After each such time one more may.
const REFILL: Duration = Duration::from_secs(60);

/// Writes Events in the name of one component. One that was written a short while ago is counted up; with
/// another note it is a new one, until there are too many of one subject: what goes on to fail names another
/// object each time, and then the latest is counted up.
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
    /// Of notes that differ.
    notes: Allowance,
}

/// So many of something at once, and one more after each such time.
#[derive(Debug)]
pub struct Allowance {
    most: u32,
    refill: Duration,
    left: u32,
    since: Instant,
}

impl Allowance {
    /// All of it.
    pub fn new(most: u32, refill: Duration) -> Self {
        Self { most, refill, left: most, since: Instant::now() }
    }

    /// Takes one; false where there is none.
    pub fn take(&mut self) -> bool {
        while self.left < self.most && self.since.elapsed() >= self.refill {
            self.left += 1;
            self.since += self.refill;
        }
        if self.left == self.most {
            self.since = Instant::now();
        }
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
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
        let mut all = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || Series::new(self.client.clone(), self.reporter.clone());
        if let Some(latest) = all.get_mut(&subject) {
            if latest.note != note && latest.notes.take() {
                (latest.note, latest.series) = (note.to_owned(), fresh());
            }
            return latest.series.clone();
        }
        if all.len() >= REMEMBERED {
            all.clear();
        }
        let series = fresh();
        let mut notes = Allowance::new(BURST, REFILL);
        notes.take();
        all.insert(subject, Latest { note: note.to_owned(), series: series.clone(), notes });
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

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn events_that_differ_in_their_notes_are_few() {
        let methods = Arc::new(Mutex::new(Vec::new()));
        let seen = methods.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            seen.lock().unwrap().push(request.method().clone());
            async move {
                let body = request.into_body().collect_bytes().await.unwrap().to_vec();
                Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(body)))
            }
        });
        let recorder = Recorder::new(Client::new(service, "default"), "test", None);
        let object = about("v1", "Thing", "a", "u");
        let tell = async |number: usize| {
            let note = format!("failed to create pod-{number}");
            recorder.record(&object, Severity::Warning, "Reconcile", "FailedCreate", note).await;
        };
        let created =
            || methods.lock().unwrap().iter().filter(|method| **method == http::Method::POST).count();
        for number in 0..1000 {
            tell(number).await;
        }
        assert_eq!((created(), methods.lock().unwrap().len()), (BURST as usize, 1000));
        advance(REFILL).await;
        for number in 0..10 {
            tell(number).await;
        }
        assert_eq!(created(), BURST as usize + 1);
        recorder.record(&object, Severity::Warning, "Reconcile", "FailedDelete", String::new()).await;
        assert_eq!(created(), BURST as usize + 2, "another subject");
    }
}
