//! `/convert`: versions of our kinds (docs/behaviour/api-and-registration.md#the-convert-endpoint). Needs no
//! cache, so that a cold start cannot wait for itself
//! (docs/behaviour/api-and-registration.md#version-conversion).

use api::conversion::review;
use bytes::Bytes;
use cluster::panics::{Panicked, contained_at_once};
use http::StatusCode;
use tracing::error;

use crate::metrics::Metrics;

/// Above this many bytes a conversion leaves the threads that answer admission.
const INLINE: usize = 256 * 1024;

/// Status and body for a ConversionReview.
pub(crate) async fn convert(metrics: &Metrics, body: Bytes) -> (StatusCode, Vec<u8>) {
    let inline = body.len() <= INLINE;
    let answering = move || contained_at_once(|| review::answer(&body));
    let answer = if inline {
        answering()
    } else {
        // A task that contains its panics ends early only with the process.
        tokio::task::spawn_blocking(answering).await.unwrap_or_else(|_| Err(Panicked::default()))
    };
    match answer {
        Ok(answer) => {
            (StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), answer.body)
        }
        Err(panicked) => {
            metrics.panics.inc();
            error!(panicked.message, panicked.place, "a conversion panicked; the review is refused");
            (StatusCode::INTERNAL_SERVER_ERROR, Vec::new())
        }
    }
}
