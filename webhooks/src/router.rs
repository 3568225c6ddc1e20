//! One route per path, and the limits around each call.
//!
//! The limits are steps of one handler rather than layers: their answers have to be reviews (spec 00
//! §4.2), which a layer that knows nothing of reviews cannot give, and a handler boxes nothing.

use std::sync::Arc;
use std::time::Instant;

use api::features::FeatureGates;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use hyper::body::Body as _;
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::debug;

use crate::admission::Admission;
use crate::body::{BodyError, Room, collect};
use crate::convert::convert;
use crate::deadline::Deadline;
use crate::endpoint::Endpoint;
use crate::metrics::PathMetrics;
use crate::review::Reply;

/// Where versions are converted.
pub const CONVERT_PATH: &str = "/convert";

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What calls may cost at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one AdmissionReview (spec 00 §4.2).
    pub review_bytes: usize,
    /// Bytes of one ConversionReview, which holds a whole list.
    pub conversion_bytes: usize,
    /// Calls being answered, their bodies read before; more are turned away with status 503, to which the
    /// API server applies the registration's failure policy. A caller that is slow to send its body takes
    /// none of these places.
    pub calls: usize,
    /// Requests above 256 KiB held in memory at the same time, for reviews and for conversions each. One
    /// above 4 MiB is held besides.
    pub large_requests: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { review_bytes: 7 << 20, conversion_bytes: 64 << 20, calls: 1024, large_requests: 4 }
    }
}

struct Shared {
    admission: Arc<Admission>,
    limits: Limits,
    calls: Semaphore,
    reviews: Room,
    conversions: Room,
}

/// More calls came than are answered at the same time.
struct Overloaded;

/// The routes of the admission server. Paths that the gates switch off are not served (404).
pub fn router(admission: Arc<Admission>, limits: Limits) -> Router {
    let gates: FeatureGates = admission.gates.clone();
    let shared = Arc::new(Shared {
        calls: Semaphore::new(limits.calls),
        reviews: Room::new(limits.large_requests),
        conversions: Room::new(limits.large_requests),
        admission,
        limits,
    });
    let mut router = Router::new()
        .route("/healthz", any(async || StatusCode::OK))
        .route(CONVERT_PATH, route(&shared, CONVERT_PATH, Route::Convert));
    for endpoint in Endpoint::ALL.iter().copied().filter(|endpoint| endpoint.is_served(&gates)) {
        for path in std::iter::once(endpoint.path()).chain(endpoint.legacy_path()) {
            router = router.route(path, route(&shared, endpoint.path(), Route::Admit(endpoint)));
        }
    }
    router
}

#[derive(Clone, Copy)]
enum Route {
    Admit(Endpoint),
    Convert,
}

fn route(shared: &Arc<Shared>, path: &'static str, route: Route) -> axum::routing::MethodRouter {
    let metrics = Arc::new(shared.admission.metrics.path(path));
    let shared = shared.clone();
    any(move |request: Request| {
        let (shared, metrics) = (shared.clone(), metrics.clone());
        async move { shared.answer(route, &metrics, request).await }
    })
}

impl Shared {
    async fn answer(&self, route: Route, metrics: &PathMetrics, request: Request) -> Response {
        let started = Instant::now();
        let in_flight = metrics.enter();
        let answer = match route {
            Route::Admit(endpoint) => self.admit(endpoint, request).await,
            Route::Convert => Box::pin(self.convert(request)).await,
        };
        let response = answer.unwrap_or_else(|Overloaded| {
            self.admission.metrics.overloads.inc();
            plain(StatusCode::SERVICE_UNAVAILABLE, "too many calls in flight")
        });
        drop(in_flight);
        metrics.finish(response.status().as_u16(), started.elapsed());
        response
    }

    /// A place for a call whose body is there.
    fn enter(&self) -> Result<SemaphorePermit<'_>, Overloaded> {
        self.calls.try_acquire().map_err(|_| Overloaded)
    }

    async fn admit(&self, endpoint: Endpoint, request: Request) -> Result<Response, Overloaded> {
        let deadline = Deadline::from_query(request.uri().query());
        let (parts, body) = request.into_parts();
        let reply = match refused_by_header(&parts.headers, &body) {
            Some(reply) => reply,
            None => match collect(body, self.limits.review_bytes, &self.reviews, deadline).await {
                Ok(collected) => {
                    let _place = self.enter()?;
                    let reply = self.admission.admit(endpoint, &collected.bytes, deadline).await;
                    return Ok(json(StatusCode::OK, reply.body));
                }
                Err(error) => Reply::anonymous(review_code(&error), error.to_string()),
            },
        };
        self.admission.metrics.count_review(endpoint.path(), reply.code);
        debug!(webhook = endpoint.path(), code = reply.code, "a call that is no review");
        Ok(json(StatusCode::OK, reply.body))
    }

    async fn convert(&self, request: Request) -> Result<Response, Overloaded> {
        let deadline = Deadline::from_query(request.uri().query());
        let limit = self.limits.conversion_bytes;
        Ok(match collect(request.into_body(), limit, &self.conversions, deadline).await {
            Ok(collected) => {
                let _place = self.enter()?;
                let (status, body) = convert(&self.admission.metrics, collected.bytes.clone()).await;
                json(status, body)
            }
            Err(error) => {
                let status = match error {
                    BodyError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
                    BodyError::Broken(_) => StatusCode::BAD_REQUEST,
                    BodyError::Slow(_) | BodyError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
                };
                plain(status, error.to_string())
            }
        })
    }
}

/// What can be refused before the body is read (spec 00 §4.2), an empty body first.
fn refused_by_header(headers: &HeaderMap, body: &Body) -> Option<Reply> {
    if body.is_end_stream() {
        return Some(Reply::anonymous(400, "request body is empty"));
    }
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let media_type = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    if media_type.trim_ascii().eq_ignore_ascii_case(b"application/json") {
        return None;
    }
    let found = String::from_utf8_lossy(content_type);
    Some(Reply::anonymous(400, format!("contentType={found}, expected application/json")))
}

fn review_code(error: &BodyError) -> u16 {
    match error {
        BodyError::TooLarge(_) => 413,
        BodyError::Broken(_) => 400,
        BodyError::Slow(_) => 504,
        BodyError::Stopping => 503,
    }
}

fn json(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

fn plain(status: StatusCode, message: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(message.into()));
    *response.status_mut() = status;
    response
}
