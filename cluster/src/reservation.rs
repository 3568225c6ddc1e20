//! Takes units from the status of an object for many requests at once (see [`values::reservation`]).
//!
//! Each object that is claimed from has a task, so that of one replica one write is in progress at a time.
//! Requests that arrive meanwhile wait, and the next write is for all of them. The task ends some time after
//! its last claim; until then it knows what its last write has returned, which the watch may not show yet.
//!
//! In the ordinary case a claim costs one write and no read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Raw;
use jiff::Timestamp;
use kube::Client;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use values::backoff::doubled;
use values::reservation::{Reservable, ReservationState, Step};

use crate::resource::Path;
use crate::write::{self, PatchKind};
use crate::{ApiError, ErrorReason};

/// How long a task knows what its last write has returned.
const MEMORY: Duration = Duration::from_secs(10);
/// Longest time for an answer of the API server.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time for the answer to a write. What it records holds from when it was sent; later, what has become of it is
/// read, and written anew where it is old.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a state is read that others change all the time, or that the API server does not show.
const ATTEMPTS: u32 = 12;
/// The pause before it is read again, doubled each time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// Why a claim was not decided.
#[derive(Clone, Debug, Error)]
pub enum ReservationError {
    /// The API server refuses, can't be reached, or has had another state each time.
    #[error("{0}")]
    Api(Arc<ApiError>),
    /// An answer of the API server that is not JSON.
    #[error("the object is not understood: {0}")]
    Object(Arc<serde_json::Error>),
    /// The API server did not answer.
    #[error("no answer from the API server in time")]
    Silence,
    /// The time of the request ended first.
    #[error("the time of this request ended before the claim was decided")]
    Late,
    /// A defect of ours.
    #[error("a defect: the claim was lost")]
    Lost,
}

type Outcome<A> = Result<Option<A>, ReservationError>;

/// Claims from the statuses of objects of one kind.
pub struct Reservations<R: Reservable>(Arc<Shared<R>>);

struct Shared<R: Reservable> {
    /// `None` where objects come from files, and nothing is written.
    client: Option<Client>,
    rules: R,
    desks: Mutex<HashMap<Path, mpsc::UnboundedSender<Waiting<R>>>>,
}

/// A claim that waits for its answer.
struct Waiting<R: Reservable> {
    claim: R::Claim,
    watched: Option<Raw>,
    answer: oneshot::Sender<Outcome<R::Answer>>,
}

/// Claims that are decided together, and who waits for the answers.
struct Batch<R: Reservable> {
    claims: Vec<R::Claim>,
    waiting: Vec<oneshot::Sender<Outcome<R::Answer>>>,
}

impl<R: Reservable> Clone for Reservations<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R> Reservations<R>
where
    R: Reservable + Send + Sync + 'static,
    R::Claim: Send + Sync,
    R::Answer: Send,
{
    /// Claims by these rules. `client` is of the runtime on which claims are made; without one, nothing is written.
    pub fn new(client: Option<Client>, rules: R) -> Self {
        Self(Arc::new(Shared { client, rules, desks: Mutex::default() }))
    }

    /// Takes what `claim` wants from the status of the object at `path`, of which a watch has shown `watched`.
    /// `None` where there is no such object.
    ///
    /// # Errors
    /// The claim was not decided. What it wants may have been taken all the same, never more.
    pub async fn claim(
        &self,
        path: &Path,
        watched: Option<Raw>,
        claim: R::Claim,
        deadline: Instant,
    ) -> Outcome<R::Answer> {
        let (answer, answered) = oneshot::channel();
        self.0.hand_in(path, Waiting { claim, watched, answer });
        match timeout_at(deadline, answered).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(ReservationError::Lost),
            Err(_) => Err(ReservationError::Late),
        }
    }

    /// The objects that are claimed from, or were a moment ago.
    pub fn len(&self) -> usize {
        self.0.desks().len()
    }

    /// Whether nothing is claimed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<R> Shared<R>
where
    R: Reservable + Send + Sync + 'static,
    R::Claim: Send + Sync,
    R::Answer: Send,
{
    fn hand_in(self: &Arc<Self>, path: &Path, waiting: Waiting<R>) {
        let mut desks = self.desks();
        let waiting = match desks.get(path) {
            None => waiting,
            Some(state) => match state.send(waiting) {
                Ok(()) => return,
                // A task that panicked takes no claims any more.
                Err(refused) => refused.0,
            },
        };
        desks.insert(path.clone(), self.open(path, waiting));
    }

    /// Starts the task of an object with its first claim.
    fn open(self: &Arc<Self>, path: &Path, first: Waiting<R>) -> mpsc::UnboundedSender<Waiting<R>> {
        let (sender, claims) = mpsc::unbounded_channel();
        // The receiver is in our hands: it is open.
        drop(sender.send(first));
        tokio::spawn(self.clone().serve(path.clone(), claims));
        sender
    }

    /// Answers claims until none has come for a while.
    async fn serve(self: Arc<Self>, path: Path, mut claims: mpsc::UnboundedReceiver<Waiting<R>>) {
        let mut state = ReservationState::default();
        loop {
            match timeout(MEMORY, claims.recv()).await {
                Ok(Some(first)) => {
                    state.open();
                    let mut batch = Batch { claims: Vec::new(), waiting: Vec::new() };
                    batch.add(first, &mut state);
                    while let Ok(next) = claims.try_recv() {
                        batch.add(next, &mut state);
                    }
                    self.settle(&path, &mut state, batch).await;
                }
                Ok(None) => return,
                Err(_) => {
                    // Claims are handed in under this lock.
                    let mut desks = self.desks();
                    if claims.is_empty() {
                        desks.remove(&path);
                        return;
                    }
                }
            }
        }
    }

    /// Decides claims until all are answered.
    async fn settle(&self, path: &Path, state: &mut ReservationState, mut batch: Batch<R>) {
        let mut attempts = 0;
        loop {
            batch.leave_out_those_that_went_away();
            if batch.waiting.is_empty() {
                return;
            }
            let answered = match state.decide(&self.rules, &batch.claims, Timestamp::now()) {
                Step::Answer(answers) => return batch.answer(answers),
                Step::Write { patch, answers } => match &self.client {
                    None => return batch.answer(answers),
                    Some(client) => write(client, path, state, patch).await.map(|()| answers),
                },
                Step::Read => match self.read(path, state).await {
                    Ok(true) => continue,
                    Ok(false) => return batch.answer_all(&mut || Ok(None)),
                    Err(error) => Err(error),
                },
            };
            let error = match answered {
                Ok(answers) => return batch.answer(answers),
                Err(error) => error,
            };
            state.forget();
            attempts += 1;
            if attempts == ATTEMPTS || !is_worth_another_try(&error) {
                return batch.answer_all(&mut || Err(error.clone()));
            }
            sleep(doubled(PAUSES, attempts - 1)).await;
        }
    }

    /// Reads the object; false where there is none.
    async fn read(&self, path: &Path, state: &mut ReservationState) -> Result<bool, ReservationError> {
        let Some(client) = &self.client else { return Ok(state.trust()) };
        let answer = timeout(TIMEOUT, write::get(client, path)).await;
        match answer.map_err(|_| ReservationError::Silence)?? {
            Some(text) => state.read(parse(text)?),
            None => return Ok(false),
        }
        Ok(true)
    }

    // Held for single operations only, never over an await.
    fn desks(&self) -> MutexGuard<'_, HashMap<Path, mpsc::UnboundedSender<Waiting<R>>>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write(
    client: &Client,
    path: &Path,
    state: &mut ReservationState,
    patch: String,
) -> Result<(), ReservationError> {
    let status = path.subresource("status");
    let answer = timeout(WRITE_TIMEOUT, write::patch(client, &status, PatchKind::Merge, patch)).await;
    state.written(parse(answer.map_err(|_| ReservationError::Silence)??)?);
    Ok(())
}

fn parse(text: String) -> Result<Raw, ReservationError> {
    Raw::parse(text).map_err(|error| ReservationError::Object(Arc::new(error)))
}

/// Another state, no object any more, or no clear answer: the next read shows which of them it is.
fn is_worth_another_try(error: &ReservationError) -> bool {
    match error {
        ReservationError::Api(error) => {
            error.may_have_acted() || matches!(error.reason(), ErrorReason::Conflict | ErrorReason::NotFound)
        }
        ReservationError::Silence => true,
        ReservationError::Object(_) | ReservationError::Late | ReservationError::Lost => false,
    }
}

impl From<ApiError> for ReservationError {
    fn from(error: ApiError) -> Self {
        Self::Api(Arc::new(error))
    }
}

impl<R: Reservable> Batch<R> {
    fn add(&mut self, waiting: Waiting<R>, state: &mut ReservationState) {
        if let Some(watched) = &waiting.watched {
            state.watched(watched);
        }
        self.claims.push(waiting.claim);
        self.waiting.push(waiting.answer);
    }

    /// A request whose time has ended takes nothing.
    fn leave_out_those_that_went_away(&mut self) {
        if self.waiting.iter().any(oneshot::Sender::is_closed) {
            let claims = std::mem::take(&mut self.claims).into_iter();
            let all = claims.zip(std::mem::take(&mut self.waiting));
            (self.claims, self.waiting) = all.filter(|(_, answer)| !answer.is_closed()).unzip();
        }
    }

    fn answer(self, answers: Vec<R::Answer>) {
        let mut answers = answers.into_iter();
        self.answer_all(&mut || answers.next().map(Some).ok_or(ReservationError::Lost));
    }

    fn answer_all(self, outcome: &mut dyn FnMut() -> Outcome<R::Answer>) {
        for answer in self.waiting {
            // Who does not wait any more needs none.
            drop(answer.send(outcome()));
        }
    }
}

#[cfg(test)]
mod tests;
