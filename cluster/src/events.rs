//! Kubernetes Events: what a person sees with `kubectl describe`.
//!
//! What is new is written at once. What happens again is counted, and the count is written at most once in
//! ten seconds for each Event. So the number of writes depends on how long something continues, not on how many
//! Pods it concerns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use crate::error::{ApiError, ErrorReason, Retry};
use crate::resource::{EVENTS, LONGEST_NAME};
use crate::write::{self, PatchKind};
use series::{AllSeries, Count, Step, Subject};

mod series;

/// Longest note that the API server takes, in bytes.
const NOTE: usize = 1024;
/// Where Events about objects without a namespace are.
const DEFAULT_NAMESPACE: &str = "default";

/// Writes Events in the name of one component.
///
/// An Event that was written before is counted up. With another note it is a new one, until there are too many
/// notes about one object, action and reason: work on many Pods names another Pod each time, and then the
/// latest Event is counted up.
#[derive(Clone)]
pub struct Recorder {
    writer: Arc<Writer>,
    /// Closed when the last recorder is dropped: then the counts are written without further delay.
    open: Arc<watch::Sender<()>>,
}

struct Writer {
    client: Client,
    component: String,
    instance: String,
    series: Mutex<AllSeries>,
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

/// Whether an Event reports normal work or a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// `Normal`.
    Normal,
    /// `Warning`.
    Warning,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
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

/// A reference to an object of a namespace.
pub fn about_in(namespace: &str, api_version: &str, kind: &str, name: &str, uid: &str) -> ObjectReference {
    ObjectReference { namespace: Some(namespace.to_owned()), ..about(api_version, kind, name, uid) }
}

impl Recorder {
    /// A recorder whose Events name `component`; `instance` is usually the Pod.
    pub fn new(client: Client, component: &str, instance: Option<String>) -> Self {
        let instance = instance.unwrap_or_else(|| component.to_owned());
        let writer = Writer { client, component: component.to_owned(), instance, series: Mutex::default() };
        Self { writer: Arc::new(writer), open: Arc::new(watch::Sender::new(())) }
    }

    /// Records an Event about `object`. `action` and `reason` are words in CamelCase. An Event that
    /// can't be written is logged: it must not stop what it reports.
    pub async fn record(
        &self,
        object: &ObjectReference,
        severity: Severity,
        action: &str,
        reason: &str,
        mut note: String,
    ) {
        let is_long = |text: &Option<String>| text.as_ref().is_some_and(|text| text.len() > LONGEST_NAME);
        if [&object.namespace, &object.name, &object.uid].into_iter().any(is_long) {
            // There is no such object to which an Event could belong.
            return;
        }
        note.truncate(note.floor_char_boundary(NOTE));
        let uid = object.uid.clone().unwrap_or_default();
        let subject: Subject = (uid, action.to_owned(), reason.to_owned());
        let namespace = object.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        let now = Timestamp::now();
        let of = object.name.as_deref().unwrap_or(&self.writer.component);
        let name = format!("{of}.{:x}", now.as_nanosecond());
        let step = self.writer.series().observe(&subject, &namespace, &name, &note, now);
        match step {
            Step::Later { begins } => {
                if begins {
                    tokio::spawn(count_up(self.writer.clone(), self.open.subscribe()));
                }
            }
            Step::CountUp(count) => self.writer.count_up(&count).await,
            Step::Create { before } => {
                if let Some(count) = before {
                    self.writer.count_up(&count).await;
                }
                let event = self.writer.event(object, severity, (action, reason), note, (name.clone(), now));
                self.writer.create(&subject, &namespace, &event, &name).await;
            }
        }
    }

    /// Records a warning about an object of a namespace and what it is related to. It is never counted up: `name` is always
    /// the same, so that it is written once, whichever replica leads.
    ///
    /// # Errors
    /// It may be recorded if it is tried again.
    pub async fn record_once(
        &self,
        name: String,
        (object, related): (&ObjectReference, ObjectReference),
        action: &str,
        (reason, note): (&str, String),
    ) -> Result<(), ApiError> {
        let named = (name, Timestamp::now());
        let event = self.writer.event(object, Severity::Warning, (action, reason), note, named);
        let event = Event { related: Some(related), ..event };
        match self.writer.write(object.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE), &event).await {
            // It was written before, or nobody will read it.
            Err(error) if error.is_conflict() || error.retry() == Retry::Never => Ok(()),
            written => written.map(drop),
        }
    }
}

impl Writer {
    fn event(
        &self,
        object: &ObjectReference,
        severity: Severity,
        (action, reason): (&str, &str),
        note: String,
        (name, now): (String, Timestamp),
    ) -> Event {
        Event {
            action: Some(action.to_owned()),
            event_time: Some(MicroTime(now)),
            metadata: ObjectMeta {
                name: Some(name),
                namespace: object.namespace.clone(),
                ..ObjectMeta::default()
            },
            note: Some(note),
            reason: Some(reason.to_owned()),
            regarding: Some(object.clone()),
            reporting_controller: Some(self.component.clone()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(severity.as_str().to_owned()),
            ..Event::default()
        }
    }

    async fn write(&self, namespace: &str, event: &Event) -> Result<String, ApiError> {
        let body = serde_json::to_string(event).map_err(kube::Error::SerdeError)?;
        write::create(&self.client, &EVENTS.namespaced(namespace), body).await
    }

    async fn create(&self, subject: &Subject, namespace: &str, event: &Event, name: &str) {
        if let Err(error) = self.write(namespace, event).await {
            let reason = &subject.2;
            // Nobody reads Events of a namespace that is being deleted.
            if error.retry() != Retry::Never {
                warn!(reason, %error, "an Event was not written");
            }
            // When it happens again, it is written anew.
            self.series().forget(subject, name);
        }
    }

    async fn count_up(&self, count: &Count) {
        let Count { subject, namespace, name, count, observed } = count;
        let series = json!({"series": {"count": count, "lastObservedTime": MicroTime(*observed)}});
        let path = EVENTS.namespaced(namespace).name(name);
        if let Err(error) = write::patch(&self.client, &path, PatchKind::Merge, series.to_string()).await {
            let reason = &subject.2;
            warn!(reason, %error, "an Event was not counted up");
            // API servers keep Events for a limited time: a new one takes its place.
            if error.reason() == ErrorReason::NotFound {
                self.series().forget(subject, name);
            }
        }
    }

    // Held for single operations only, never over an await.
    fn series(&self) -> MutexGuard<'_, AllSeries> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the counts when they are due, until there are none left. When all recorders are gone, it writes them
/// at once.
async fn count_up(writer: Arc<Writer>, mut open: watch::Receiver<()>) {
    let mut is_open = true;
    loop {
        let Some(due) = writer.series().next_due() else { return };
        if is_open {
            tokio::select! {
                () = sleep_until(due) => {}
                _ = open.changed() => is_open = false,
            }
        }
        let counts = writer.series().take_due(is_open.then(Instant::now));
        for count in &counts {
            writer.count_up(count).await;
        }
    }
}

#[cfg(test)]
mod tests;
