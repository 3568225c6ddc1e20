//! What is to be done about one object.

use std::time::Duration;

use values::event::Event;

use crate::write::Write;

/// What is to be done about one object, whose status has type `S`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<S> {
    /// What to write, in this order, before the status.
    pub writes: Vec<Write>,
    /// The status as it is to be once all writes have succeeded.
    pub status: S,
    /// What is reported about the object once its status is written.
    pub events: Vec<Event>,
    /// When to look again; `None` where a change of an object will tell.
    pub again: Option<Duration>,
}

impl<S> Plan<S> {
    /// Nothing to write but this status, where it differs.
    pub fn only(status: S) -> Self {
        Self { writes: Vec::new(), status, events: Vec::new(), again: None }
    }
}
