//! `/convert`: versions of our kinds (spec 00 §1.4). Needs no cache, so that a cold start cannot wait
//! for itself (decision 1).

use std::panic::catch_unwind;

use api::conversion::review;
use bytes::Bytes;
use http::StatusCode;
use tracing::error;

use crate::metrics::Metrics;

/// Above this many bytes a conversion leaves the threads that answer admission.
const INLINE: usize = 256 * 1024;

/// Status and body for a ConversionReview.
pub(crate) async fn convert(metrics: &Metrics, body: Bytes) -> (StatusCode, Vec<u8>) {
    let answer = if body.len() <= INLINE {
        catch_unwind(|| review::answer(&body)).ok()
    } else {
        tokio::task::spawn_blocking(move || review::answer(&body)).await.ok()
    };
    match answer {
        Some(answer) => {
            (StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), answer.body)
        }
        None => {
            metrics.panics.inc();
            error!("a conversion panicked; the review is refused");
            (StatusCode::INTERNAL_SERVER_ERROR, Vec::new())
        }
    }
}
