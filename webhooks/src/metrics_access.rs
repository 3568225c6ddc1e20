//! Asks the API server who may read metrics (docs/behaviour/server.md#protected-metrics).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use admission::metrics_access::{access_review, is_allowed, token_review};
use cluster::ApiError;
use cluster::resource::{SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS};
use cluster::write::create;
use http::{HeaderMap, StatusCode};
use kube::Client;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::warn;
use values::hash::hex_sha256;

use crate::tokens::bearer;

/// How long it counts that the API server allows a caller.
const ALLOWED: Duration = Duration::from_secs(60);
/// How long it counts that the API server refuses one.
const REFUSED: Duration = Duration::from_secs(10);
/// So many tokens are remembered.
const TOKENS: usize = 256;
/// So many callers are asked about at a time.
const AT_A_TIME: usize = 4;
/// How long a caller waits at most, for its turn and for its answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Who may read metrics.
pub struct MetricsAccess {
    client: Client,
    turns: Semaphore,
    /// Until when which answer counts, by the hash of a token.
    answers: Mutex<HashMap<String, (Instant, StatusCode)>>,
}

impl fmt::Debug for MetricsAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MetricsAccess").finish_non_exhaustive()
    }
}

impl MetricsAccess {
    /// Asks by this client.
    pub fn new(client: Client) -> Self {
        Self { client, turns: Semaphore::new(AT_A_TIME), answers: Mutex::default() }
    }

    /// OK where the caller with these headers may read metrics; else what it gets instead.
    pub(crate) async fn check(&self, headers: &HeaderMap) -> StatusCode {
        let Some(token) = bearer(headers) else { return StatusCode::UNAUTHORIZED };
        let hash = hex_sha256(token);
        if let Some(answer) = self.remembered(&hash) {
            return answer;
        }
        match timeout(TIMEOUT, self.ask(token)).await {
            Ok(Ok(answer)) => {
                self.remember(hash, answer);
                answer
            }
            Ok(Err(error)) => {
                warn!(request = error.request(), %error, "whether a caller may read metrics is not known");
                StatusCode::SERVICE_UNAVAILABLE
            }
            Err(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    async fn ask(&self, token: &str) -> Result<StatusCode, ApiError> {
        // The semaphore is never closed.
        let _turn = self.turns.acquire().await;
        let review = create(&self.client, &TOKEN_REVIEWS.all(), token_review(token)).await?;
        let Some(question) = access_review(&review) else { return Ok(StatusCode::UNAUTHORIZED) };
        let review = create(&self.client, &SUBJECT_ACCESS_REVIEWS.all(), question).await?;
        Ok(if is_allowed(&review) { StatusCode::OK } else { StatusCode::FORBIDDEN })
    }

    fn remembered(&self, hash: &str) -> Option<StatusCode> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, answer) = answers.get(hash)?;
        (*until > Instant::now()).then_some(*answer)
    }

    fn remember(&self, hash: String, answer: StatusCode) {
        let now = Instant::now();
        let is_allowed = answer == StatusCode::OK;
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= TOKENS {
            answers.retain(|_, (until, _)| *until > now);
        }
        // A client that shows one bad token after another fills no memory, and takes no slot of those who may read.
        if answers.len() >= TOKENS && is_allowed {
            answers.retain(|_, (_, answer)| *answer == StatusCode::OK);
        }
        if answers.len() < TOKENS {
            answers.insert(hash, (now + if is_allowed { ALLOWED } else { REFUSED }, answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::AUTHORIZATION;
    use kit::double;

    use super::*;
    use crate::tokens::LONGEST;

    fn with_token(token: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        headers
    }

    /// Knows the tokens `may` and `may-not`, and is out of order for `broken`.
    fn api_server() -> (MetricsAccess, double::Requests) {
        let (client, requests) = double::api_server(|request| {
            let answer = |status: &str| (201, format!(r#"{{"status": {status}}}"#));
            if request.path.ends_with("/subjectaccessreviews") {
                return answer(&format!(r#"{{"allowed": {}}}"#, request.body.contains(r#""user":"may""#)));
            }
            let known = ["may-not", "may"].into_iter().find(|name| request.body.contains(name));
            match known {
                _ if request.body.contains("broken") => (500, double::status(500)),
                Some(name) => {
                    answer(&format!(r#"{{"authenticated": true, "user": {{"username": "{name}"}}}}"#))
                }
                None => answer(r#"{"authenticated": false}"#),
            }
        });
        (MetricsAccess::new(client), requests)
    }

    #[tokio::test(start_paused = true)]
    async fn the_api_server_decides_and_is_asked_once_a_minute() {
        let (access, requests) = api_server();
        let count = || requests.lock().unwrap().len();
        assert_eq!(access.check(&HeaderMap::new()).await, StatusCode::UNAUTHORIZED);
        assert_eq!(access.check(&with_token(&"x".repeat(LONGEST + 1))).await, StatusCode::UNAUTHORIZED);
        assert_eq!(count(), 0);
        for (token, answer, calls) in [
            ("may", StatusCode::OK, 2),
            ("may-not", StatusCode::FORBIDDEN, 2),
            ("stranger", StatusCode::UNAUTHORIZED, 1),
        ] {
            let before = count();
            for _ in 0..2 {
                assert_eq!(access.check(&with_token(token)).await, answer, "{token}");
            }
            assert_eq!(count(), before + calls, "{token}");
        }
        assert_eq!(access.check(&with_token("broken")).await, StatusCode::SERVICE_UNAVAILABLE);
        for (later, token, calls) in [
            (REFUSED, "may", 0),
            (Duration::ZERO, "may-not", 2),
            (Duration::ZERO, "stranger", 1),
            (ALLOWED, "may", 2),
        ] {
            let before = count();
            tokio::time::advance(later).await;
            access.check(&with_token(token)).await;
            assert_eq!(count(), before + calls, "{token}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_fill_no_memory_and_take_no_place() {
        let (access, requests) = api_server();
        for number in 0..TOKENS + 10 {
            access.check(&with_token(&format!("stranger-{number}"))).await;
        }
        assert_eq!(access.answers.lock().unwrap().len(), TOKENS);
        access.check(&with_token("may")).await;
        let before = requests.lock().unwrap().len();
        assert_eq!(access.check(&with_token("may")).await, StatusCode::OK);
        assert_eq!(requests.lock().unwrap().len(), before);
    }
}
