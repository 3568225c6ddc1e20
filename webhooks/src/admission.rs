//! Review bytes in, review bytes out: what the HTTP server, `kutter review` and the fuzz tests call.

use std::fmt;
use std::sync::Arc;

use api::SELF_CHECK_UID;
use api::features::FeatureGates;
use cluster::index::CacheState;
use cluster::panics::{Panicked, contained, contained_at_once};
use cluster::{Index, Lookup};
use planner::kinds::deletion_protection::Kind;
use planner::pod::review::Pod;
use planner::server::world::Watched;
use planner::text::moment::Moment;
use planner::text::verdict::Verdict;
use serde_json::value::RawValue;
use tracing::{debug, error, info};

use crate::deadline::Deadline;
use crate::endpoint::Endpoint;
use crate::metrics::Metrics;
use crate::protection_log::ProtectionLog;
use crate::review::{Reply, Request, Review, Unreadable};
use crate::{cloneset, pod, protection, sidecarset};

/// What the operator settled for admission.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether templates may hold privileged containers (`--allow-privileged`).
    pub allow_privileged: bool,
    /// Whether metrics carry user names; without them the number of time series stays small (spec 50,
    /// sharp edge 6).
    pub user_names_in_metrics: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { allow_privileged: true, user_names_in_metrics: true }
    }
}

/// Time and randomness of a decision, asked once per review.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// Everything that admission knows and uses, shared by all requests.
pub struct Admission {
    /// The feature gates of the process.
    pub gates: FeatureGates,
    /// The cluster as last seen.
    pub index: Arc<Index>,
    /// What the index does not hold.
    pub lookup: Lookup,
    /// What the operator settled.
    pub settings: Settings,
    /// Where it counts.
    pub metrics: Metrics,
    /// Where refused deletes are written down.
    pub protection_log: ProtectionLog,
    /// Time and randomness.
    pub clock: Clock,
}

impl fmt::Debug for Admission {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Admission").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Admission {
    /// Answers an AdmissionReview sent to `endpoint`.
    ///
    /// # Guarantees
    /// Any bytes get an answer; a review whose uid can be read is answered with that uid; a panic, be it in
    /// a rule, in reading the review or in writing the answer, refuses this review with code 500 and harms
    /// no other.
    pub async fn admit(&self, endpoint: Endpoint, review: &[u8], deadline: Deadline) -> Reply {
        match contained(self.read_and_answer(endpoint, review, deadline)).await {
            Ok(reply) => reply,
            Err(panicked) => self.answer_panic(endpoint, review, &panicked),
        }
    }

    async fn read_and_answer(&self, endpoint: Endpoint, review: &[u8], deadline: Deadline) -> Reply {
        if endpoint == Endpoint::MutatePod
            && let Ok(mut review) = Review::<Pod<'_>>::parse(review)
            && let Some(pod) = review.request.object.take()
        {
            return self.answer(endpoint, &review, pod::mutate(self, &review.request, pod, deadline)).await;
        }
        match Review::<&RawValue>::parse(review) {
            Ok(review) => {
                // In a box, so that the common answer to Pods stays a small future.
                let decision = Box::pin(self.decide(endpoint, &review.request, deadline));
                self.answer(endpoint, &review, decision).await
            }
            Err(unreadable) => {
                debug!(webhook = endpoint.path(), message = unreadable.denial.message, "unreadable review");
                self.metrics.count_review(endpoint.path(), unreadable.denial.code);
                unreadable.into()
            }
        }
    }

    /// Awaits the decision, counts it and writes the answer.
    async fn answer<O>(
        &self,
        endpoint: Endpoint,
        review: &Review<'_, O>,
        decision: impl Future<Output = Verdict>,
    ) -> Reply {
        let verdict = decision.await;
        report(endpoint, &review.request, &verdict);
        let uid = &*review.request.uid;
        let reply = Reply::new(Some(review.version), uid, &verdict);
        if uid != SELF_CHECK_UID {
            self.metrics.count_review(endpoint.path(), reply.code);
        }
        reply
    }

    /// What the rules behind `endpoint` say to an AdmissionReview, without the form of an answer.
    pub async fn verdict(&self, endpoint: Endpoint, review: &[u8], deadline: Deadline) -> Verdict {
        match Review::<&RawValue>::parse(review) {
            Ok(review) => {
                let verdict = contained(self.decide(endpoint, &review.request, deadline)).await;
                verdict.unwrap_or_else(|panicked| self.note_panic(endpoint, &review.request.uid, &panicked))
            }
            Err(unreadable) => unreadable.denial.into(),
        }
    }

    async fn decide(&self, endpoint: Endpoint, request: &Request<'_>, deadline: Deadline) -> Verdict {
        match endpoint {
            Endpoint::MutatePod => match Pod::read(request.object.map_or("null", RawValue::get)) {
                Ok(pod) => pod::mutate(self, request, pod, deadline).await,
                Err(denial) => denial.into(),
            },
            Endpoint::MutateSidecarSet => sidecarset::mutate(request),
            Endpoint::ValidateSidecarSet => sidecarset::validate(self, request),
            Endpoint::MutateCloneSet => cloneset::mutate(self, request),
            Endpoint::Protect(Kind::CloneSet) if cloneset::is_write(request) => {
                cloneset::validate(self, request, deadline).await
            }
            Endpoint::Protect(kind) => protection::validate(self, kind, request, deadline).await,
        }
    }

    /// The answer to a review that panicked, with its uid if that can still be read.
    fn answer_panic(&self, endpoint: Endpoint, review: &[u8], panicked: &Panicked) -> Reply {
        // Reading may be what panicked.
        let (version, uid) = contained_at_once(|| Unreadable::sender(review)).unwrap_or_default();
        let verdict = self.note_panic(endpoint, &uid, panicked);
        let reply = Reply::new(version, &uid, &verdict);
        if uid != SELF_CHECK_UID {
            self.metrics.count_review(endpoint.path(), reply.code);
        }
        reply
    }

    fn note_panic(&self, endpoint: Endpoint, uid: &str, Panicked { message, place }: &Panicked) -> Verdict {
        self.metrics.panics.inc();
        error!(webhook = endpoint.path(), uid, message, place, "a review panicked and is refused");
        Verdict::deny(500, format!("panic: {message} [recovered]"))
    }
}

/// Refuses what cannot be decided before the objects of `kind` are known.
pub(crate) fn not_loaded(kind: Watched, state: &CacheState) -> Verdict {
    let reason = match state {
        CacheState::Failing(message) => message,
        CacheState::AwaitingConversion(_) => "their conversion is not reachable yet",
        CacheState::Absent => "there was no such kind when it was last looked for",
        CacheState::Pending | CacheState::Synced => "the first list is under way",
    };
    Verdict::deny(503, format!("{kind} objects are not loaded: {reason}; try again"))
}

fn report<O>(endpoint: Endpoint, request: &Request<'_, O>, verdict: &Verdict) {
    let (webhook, uid, operation) = (endpoint.path(), &*request.uid, &*request.operation);
    match verdict {
        Verdict::Allow { edits, .. } => {
            debug!(webhook, uid, operation, edits = edits.operations().len(), "allowed");
        }
        // Refused deletes have a log of their own.
        Verdict::Deny(denial) if matches!(endpoint, Endpoint::Protect(_)) => {
            debug!(webhook, uid, operation, code = denial.code, message = denial.message, "refused");
        }
        Verdict::Deny(denial) => info!(
            webhook,
            uid,
            operation,
            kind = &*request.kind.kind,
            namespace = &*request.namespace,
            user = &*request.user_info.username,
            code = denial.code,
            message = denial.message,
            "refused"
        ),
    }
}
