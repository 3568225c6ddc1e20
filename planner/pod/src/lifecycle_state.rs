//! Where a Pod is in its life, as its label says. How it changes from one state to the next is in
//! [`lifecycle`](crate::lifecycle).

use api::annotations::LIFECYCLE_TIMESTAMP;
use api::labels::LIFECYCLE_STATE;
use jiff::Timestamp;

use crate::observed::ObservedPod;
use crate::write::PodWrite;
use values::moment::rfc3339;

/// Where a Pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is new; hook `preNormal` may hold it.
    PreparingNormal,
    /// It serves.
    Normal,
    /// It is chosen for an update in place; hook `inPlaceUpdate` holds it.
    PreparingUpdate,
    /// Its containers change.
    Updating,
    /// Its containers have changed; hook `inPlaceUpdate` has to come back.
    Updated,
    /// It is chosen for deletion; hook `preDelete` holds it.
    PreparingDelete,
    /// The label has a value that nobody of us writes.
    Unknown,
}

impl State {
    /// The label's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreparingNormal => "PreparingNormal",
            Self::Normal => "Normal",
            Self::PreparingUpdate => "PreparingUpdate",
            Self::Updating => "Updating",
            Self::Updated => "Updated",
            Self::PreparingDelete => "PreparingDelete",
            Self::Unknown => "",
        }
    }

    /// The state of the Pod; `None` where it has no label.
    pub fn of(pod: &ObservedPod) -> Option<Self> {
        const ALL: [State; 6] = [
            State::PreparingNormal,
            State::Normal,
            State::PreparingUpdate,
            State::Updating,
            State::Updated,
            State::PreparingDelete,
        ];
        let label = pod.label(LIFECYCLE_STATE).filter(|label| !label.is_empty())?;
        Some(ALL.into_iter().find(|state| state.as_str() == label).unwrap_or(Self::Unknown))
    }

    /// Writes that the Pod is in this state since `now`.
    pub(crate) fn record(self, write: &mut PodWrite, now: Timestamp) {
        write.set_label(LIFECYCLE_STATE, self.as_str());
        write.set_annotation(LIFECYCLE_TIMESTAMP, rfc3339(now));
    }
}
