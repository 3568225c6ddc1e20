//! Review bytes in, review bytes out: what the HTTP server, `kutter review` and the fuzz tests call.

use ::pod::review::Pod;
use admission::endpoint::Endpoint;
use admission::pod_review::explanation::Explanation;
use api::SELF_CHECK_UID;
use cluster::panics::{Panicked, contained, contained_at_once};
use serde_json::value::RawValue;
use tracing::{debug, error, info};
use values::verdict::Verdict;

use crate::admission::Admission;
use crate::deadline::Deadline;
use crate::kinds::{self, pod};
use crate::review::{Reply, Request, Review, Unreadable};

impl Admission {
    /// What every object that might concern a Pod of `namespace` is to it at its creation, and why.
    pub async fn explain(&self, pod: &str, namespace: &str, deadline: Deadline) -> Vec<Explanation> {
        pod::explain(self, pod, namespace, deadline).await
    }

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
            && endpoint.is_served(&self.gates)
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
                debug!(webhook = endpoint.path(), reason = unreadable.denial.message, "unreadable review");
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
        // Another replica asks whether it may register the path, which this one does not serve.
        let uid = if uid == SELF_CHECK_UID && !endpoint.is_served(&self.gates) { "" } else { uid };
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
        if !endpoint.is_served(&self.gates) {
            // It is called by API servers that have yet to see its entry go.
            return Verdict::allow();
        }
        kinds::decide(self, endpoint, request, deadline).await
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

    fn note_panic(&self, endpoint: Endpoint, uid: &str, panicked: &Panicked) -> Verdict {
        self.metrics.panics.inc();
        let webhook = endpoint.path();
        error!(webhook, uid, panicked.message, panicked.place, "a review panicked and is refused");
        Verdict::deny(500, format!("panic: {} [recovered]", panicked.message))
    }
}

fn report<O>(endpoint: Endpoint, request: &Request<'_, O>, verdict: &Verdict) {
    let (webhook, uid, operation) = (endpoint.path(), &*request.uid, &*request.operation);
    match verdict {
        Verdict::Allow { edits, .. } => {
            debug!(webhook, uid, operation, edits = edits.operations().len(), "allowed");
        }
        // Refused deletes have a log of their own.
        Verdict::Deny(denial) if matches!(endpoint, Endpoint::Protect(_)) => {
            debug!(webhook, uid, operation, code = denial.code, reason = denial.message, "refused");
        }
        Verdict::Refuse(denial, _) => {
            debug!(webhook, uid, operation, code = denial.code, reason = denial.message, "refused");
        }
        Verdict::Deny(denial) => info!(
            webhook,
            uid,
            operation,
            kind = &*request.kind.kind,
            namespace = &*request.namespace,
            user = &*request.user_info.username,
            code = denial.code,
            reason = denial.message,
            "refused"
        ),
    }
}
