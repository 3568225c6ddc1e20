//! Requests that each want to take something from the status of one object, such as a unit of a budget.
//!
//! Every replica serves requests, and only the resourceVersion of the object is between them: each replica
//! decides all requests at hand together, writes once, and lets them pass when the write has succeeded. This
//! module says what a replica does next; `cluster::reservation` does it.
//!
//! ```text
//!   claims --> decide --> Answer              nothing has to be written
//!                |------> Write --written---> the answers hold
//!                |          '--- conflict, or no clear answer: forget the state, and decide again
//!                '------> Read --- the state that the API server shows: decide again
//! ```
//!
//! Invariants:
//! 1. A claim is answered on a state that the object had after the claim was made: the write to that state has
//!    succeeded, or it was read.
//! 2. So a claim is granted without a write, and refused, only on a state that was read after the claim was made. What
//!    the kind grants on any state needs neither.
//! 3. Whether a write without a clear answer was carried out shows in the state that is read next: a claim that
//!    it has is not taken twice.

use api::Raw;
use api::raw_object::RawObject;
use jiff::Timestamp;
use serde::Deserialize;

/// What is kept of an object whose status is claimed from: all but `metadata.managedFields`.
///
/// # Errors
/// The text is no object.
pub fn kept(object: &str) -> Result<Raw, serde_json::Error> {
    let mut kept = RawObject::parse(object)?;
    kept.edit_object("metadata", |metadata| drop(metadata.remove("managedFields")));
    Raw::parse(kept.to_string())
}

/// What is decided about claims on one state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved<A> {
    /// The merge patch of the status, which names the resourceVersion of the state; `None` where nothing changes.
    pub patch: Option<String>,
    /// An answer to each claim, in their order.
    pub answers: Vec<A>,
}

/// What can be reserved from the status of an object.
pub trait Reservable {
    /// What a request wants. It names itself, so that a state shows whether it has the claim already.
    type Claim;
    /// What becomes of it.
    type Answer;

    /// Decides claims on a state of the object, in their order. A claim that the state has already changes
    /// nothing, nor does one that is only tried out.
    fn reserve(&self, object: &str, claims: &[Self::Claim], now: Timestamp) -> Reserved<Self::Answer>;

    /// Whether a claim is not granted, so that it has to be decided on what the API server shows.
    fn is_refusal(answer: &Self::Answer) -> bool;

    /// Whether an answer that needs no write may be given on a state from before the claim.
    fn holds_on_any_state(_answer: &Self::Answer) -> bool {
        false
    }
}

/// What a replica knows of the state of one object.
#[derive(Clone, Debug, Default)]
pub struct ReservationState {
    known: Option<State>,
    /// The state was read after the claims were made.
    is_live: bool,
}

#[derive(Clone, Debug)]
struct State {
    object: Raw,
    version: u64,
}

/// What a replica does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<A> {
    /// Read the object from the API server.
    Read,
    /// Write this patch of the status; when that has succeeded, these are the answers.
    Write {
        /// A merge patch.
        patch: String,
        /// One for each claim.
        answers: Vec<A>,
    },
    /// Answer the claims.
    Answer(Vec<A>),
}

impl ReservationState {
    /// Claims are about to be decided that were made just now.
    pub fn open(&mut self) {
        self.is_live = false;
    }

    /// Takes in what a watch has shown, unless a newer state is known.
    pub fn watched(&mut self, object: &Raw) {
        let version = version(object.get());
        if self.known.as_ref().is_none_or(|known| known.version < version) {
            self.known = Some(State { object: object.clone(), version });
        }
    }

    /// Takes in what the API server has answered to a read.
    pub fn read(&mut self, object: Raw) {
        self.written(object);
        self.is_live = true;
    }

    /// Takes in what the API server has answered to a write.
    pub fn written(&mut self, object: Raw) {
        let version = version(object.get());
        self.known = Some(State { object, version });
    }

    /// There is no API server to read from: what is known holds. False where nothing is known.
    pub fn trust(&mut self) -> bool {
        self.is_live = true;
        self.known.is_some()
    }

    /// The state is not the one that the API server has, or it is not known whether it is.
    pub fn forget(&mut self) {
        self.known = None;
    }

    /// What to do about these claims.
    pub fn decide<R: Reservable>(&self, rules: &R, claims: &[R::Claim], now: Timestamp) -> Step<R::Answer> {
        let Some(known) = &self.known else { return Step::Read };
        let Reserved { patch, answers } = rules.reserve(known.object.get(), claims, now);
        match patch {
            Some(patch) if self.is_live || !answers.iter().any(R::is_refusal) => {
                Step::Write { patch, answers }
            }
            None if self.is_live || answers.iter().all(R::holds_on_any_state) => Step::Answer(answers),
            // No write would show that the state is an old one.
            Some(_) | None => Step::Read,
        }
    }
}

/// Kubernetes compares resource versions as numbers. One that is no number is older than any.
fn version(object: &str) -> u64 {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(rename = "resourceVersion")]
        resource_version: Box<str>,
    }
    let read = crate::json::from_str::<Object>(object);
    read.ok().and_then(|object| object.metadata.resource_version.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Grants as many claims as the object has left.
    struct Left;

    impl Reservable for Left {
        type Claim = ();
        type Answer = bool;

        fn reserve(&self, object: &str, claims: &[()], _: Timestamp) -> Reserved<bool> {
            let object: serde_json::Value = serde_json::from_str(object).unwrap();
            let left = object["left"].as_u64().unwrap() as usize;
            let taken = claims.len().min(left);
            let answers = (0..claims.len()).map(|claim| claim < left).collect();
            Reserved {
                patch: (taken > 0).then(|| format!("{} of {}", taken, version(&object.to_string()))),
                answers,
            }
        }

        fn is_refusal(granted: &bool) -> bool {
            !granted
        }
    }

    fn state(version: u64, left: u64) -> Raw {
        Raw::parse(format!(r#"{{"metadata":{{"resourceVersion":"{version}"}},"left":{left}}}"#)).unwrap()
    }

    fn decide(reservations: &ReservationState, claims: usize) -> Step<bool> {
        reservations.decide(&Left, &vec![(); claims], Timestamp::UNIX_EPOCH)
    }

    fn write(text: &str, granted: &[bool]) -> Step<bool> {
        Step::Write { patch: text.to_owned(), answers: granted.to_vec() }
    }

    #[test]
    fn claims_are_decided_on_the_newest_state() {
        let mut reservations = ReservationState::default();
        assert_eq!(decide(&reservations, 1), Step::Read);
        reservations.watched(&state(7, 2));
        reservations.watched(&state(6, 9));
        assert_eq!(decide(&reservations, 2), write("2 of 7", &[true, true]));
        reservations.written(state(8, 1));
        reservations.watched(&state(7, 2));
        reservations.open();
        assert_eq!(decide(&reservations, 1), write("1 of 8", &[true]));
        reservations.watched(&state(9, 3));
        assert_eq!(decide(&reservations, 1), write("1 of 9", &[true]));
    }

    #[test]
    fn nothing_is_answered_on_a_state_from_before_the_claim() {
        let mut reservations = ReservationState::default();
        reservations.watched(&state(7, 1));
        reservations.open();
        assert_eq!(decide(&reservations, 2), Step::Read);
        reservations.read(state(7, 1));
        assert_eq!(decide(&reservations, 2), write("1 of 7", &[true, false]));
        reservations.written(state(8, 0));
        reservations.open();
        assert_eq!(decide(&reservations, 1), Step::Read);
        reservations.read(state(8, 0));
        assert_eq!(decide(&reservations, 1), Step::Answer(vec![false]));
    }

    #[test]
    fn what_is_read_is_believed_even_if_it_is_older() {
        let mut reservations = ReservationState::default();
        reservations.written(state(70, 1));
        reservations.forget();
        assert_eq!(decide(&reservations, 1), Step::Read);
        reservations.read(state(7, 1));
        assert_eq!(decide(&reservations, 1), write("1 of 7", &[true]));
    }
}
