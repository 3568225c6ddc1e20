//! The result of one probe: one run after another, until so many agree (docs/behaviour/node-agent.md#results).

use api::kinds::Time;
use api::kinds::nodepodprobe::ProbeState;
use jiff::Timestamp;

use super::Terms;
use crate::tasks::shortened;
use values::event::{Event, normal};

const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";
const UNKNOWN: &str = "Unknown";

/// The result of one probe in one container.
#[derive(Clone, Debug)]
pub(super) struct Record {
    container: String,
    state: String,
    message: String,
    /// Since when the state is this one.
    since: Time,
    /// When the probe said so last.
    probed: Time,
    /// What the last runs said, and how many of them in a row.
    row: Option<(bool, u32)>,
}

impl Record {
    /// That nothing is known of a container yet.
    pub(super) fn unknown(container: String, now: Timestamp) -> Self {
        Self {
            container,
            state: UNKNOWN.to_owned(),
            message: String::new(),
            since: now.into(),
            probed: now.into(),
            row: None,
        }
    }

    /// What the status says, if it is a result of this container: one that was found after the container started.
    pub(super) fn reported(reported: &ProbeState, container: &str, started: Timestamp) -> Option<Self> {
        let probed = reported.last_probe_time.clone()?;
        let is_of_container = started.as_second() < probed.timestamp()?.as_second();
        (is_of_container && !reported.state.is_empty()).then(|| Self {
            container: container.to_owned(),
            state: reported.state.clone(),
            message: reported.message.clone(),
            since: reported.last_transition_time.clone().unwrap_or_else(|| probed.clone()),
            probed,
            row: None,
        })
    }

    /// Whether it is about this container.
    pub(super) fn is_of(&self, container: &str) -> bool {
        self.container == container
    }

    /// Makes it a result of no container: the next run begins anew.
    pub(super) fn forget_container(&mut self) {
        self.container.clear();
    }

    /// As the status shows it.
    pub(super) fn state(&self, name: &str) -> ProbeState {
        ProbeState {
            last_probe_time: Some(self.probed.clone()),
            last_transition_time: Some(self.since.clone()),
            message: self.message.clone(),
            name: name.to_owned(),
            state: self.state.clone(),
        }
    }

    /// The container does not run.
    pub(super) fn stopped(&mut self, name: &str, now: Timestamp) -> Option<Event> {
        self.row = None;
        self.publish(FAILED, &format!("Container({name}) is Non-running"), now)
    }

    /// A run has ended. It counts when enough of them agree.
    pub(super) fn ended(
        &mut self,
        succeeded: bool,
        message: &str,
        terms: &Terms,
        now: Timestamp,
    ) -> Option<Event> {
        let before = self.row.filter(|(kind, _)| *kind == succeeded).map_or(0, |(_, count)| count);
        let count = before.saturating_add(1);
        self.row = Some((succeeded, count));
        let (state, needed) = if succeeded { (SUCCEEDED, terms.successes) } else { (FAILED, terms.failures) };
        if count < needed { None } else { self.publish(state, message, now) }
    }

    fn publish(&mut self, state: &str, message: &str, now: Timestamp) -> Option<Event> {
        self.probed = now.into();
        let message = shortened(message);
        if self.state == state && self.message == message {
            return None;
        }
        if self.state != state {
            self.since = now.into();
            state.clone_into(&mut self.state);
        }
        self.message.clone_from(&message);
        let reason = if state == SUCCEEDED { "KruiseProbeSucceeded" } else { "KruiseProbeFailed" };
        Some(normal(reason, message))
    }
}
