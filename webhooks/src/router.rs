//! One route per path, and the limits around each call.
//!
//! Routes and limits are plain code rather than a router with layers: the limits' answers have to be reviews
//! (docs/behaviour/server.md#http-of-reviews), which a layer that knows nothing of reviews cannot give, and
//! what looks a path up in a table boxes and copies nothing.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::debug;

use crate::admission::Admission;
use crate::body::{BodyError, BodyMemory, Room, collect};
use crate::convert::convert;
use crate::deadline::Deadline;
use crate::endpoint::Endpoint;
use crate::leftover;
use crate::metrics::PathMetrics;
use crate::pull_secrets::PullSecrets;
use crate::review::Reply;
use crate::server::Serve;

/// Where versions are converted.
pub const CONVERT_PATH: &str = "/convert";
/// Where callers ask whether the server answers at all.
const HEALTH_PATH: &str = "/healthz";

/// When a caller that was turned away may come again.
const RETRY_SECONDS: u16 = 1;
const TOO_MANY_BODIES: Overloaded = Overloaded("too many requests are being received");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What calls may cost at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one AdmissionReview (docs/behaviour/server.md#http-of-reviews).
    pub review_bytes: usize,
    /// Bytes of one ConversionReview, which holds a whole list.
    pub conversion_bytes: usize,
    /// Calls being answered, their bodies read before; more are turned away with status 503. The API server
    /// tries again after a second, and applies the registration's failure policy when its time is over. A
    /// caller that is slow to send its body takes none of these places.
    pub calls: usize,
    /// Memory for requests up to 256 KiB that are not there at once, reviews and conversions together. As
    /// much again is left to those that wait for it; more, and those that waited in vain, are turned away
    /// like calls.
    pub unfinished_bytes: usize,
    /// What one peer may have of it, or wait for.
    pub unfinished_bytes_per_peer: usize,
    /// Requests above 256 KiB held in memory at the same time, for reviews and for conversions each. One
    /// above 4 MiB is held besides.
    pub large_requests: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            review_bytes: 7 << 20,
            conversion_bytes: 64 << 20,
            calls: 1024,
            unfinished_bytes: 32 << 20,
            unfinished_bytes_per_peer: 16 << 20,
            large_requests: 4,
        }
    }
}

/// The paths of the admission server and what their calls share. Cheap to clone.
#[derive(Clone)]
pub struct Router {
    shared: Arc<Shared>,
    /// What agents of nodes ask for, where they are answered.
    pull_secrets: Option<Arc<PullSecrets>>,
    /// Who calls.
    peer: IpAddr,
}

struct Shared {
    routes: Vec<Route>,
    admission: Arc<Admission>,
    limits: Limits,
    calls: Semaphore,
    reviews: Room,
    conversions: Room,
}

/// More calls came than can be received or answered at the same time.
struct Overloaded(&'static str);

struct Route {
    path: &'static str,
    target: Target,
    metrics: PathMetrics,
}

#[derive(Clone, Copy)]
enum Target {
    Admit(Endpoint),
    Convert,
}

/// The routes of the admission server. Paths that the gates switch off are not served (404).
pub fn router(admission: Arc<Admission>, limits: Limits) -> Router {
    let mut routes = Vec::new();
    for endpoint in Endpoint::ALL.iter().copied().filter(|endpoint| endpoint.is_served(&admission.gates)) {
        for path in std::iter::once(endpoint.path()).chain(endpoint.legacy_path()) {
            let metrics = admission.metrics.path(endpoint.path());
            routes.push(Route { path, target: Target::Admit(endpoint), metrics });
        }
    }
    let metrics = admission.metrics.path(CONVERT_PATH);
    routes.push(Route { path: CONVERT_PATH, target: Target::Convert, metrics });
    let memory = BodyMemory::new(limits.unfinished_bytes, limits.unfinished_bytes_per_peer);
    let shared = Arc::new(Shared {
        routes,
        calls: Semaphore::new(limits.calls),
        reviews: Room::new(memory.clone(), limits.large_requests),
        conversions: Room::new(memory, limits.large_requests),
        admission,
        limits,
    });
    Router { shared, pull_secrets: None, peer: Ipv6Addr::UNSPECIFIED.into() }
}

impl fmt::Debug for Router {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.shared.routes.iter().map(|route| route.path)).finish()
    }
}

impl Router {
    /// Answers agents of nodes too.
    #[must_use]
    pub fn with_pull_secrets(self, pull_secrets: PullSecrets) -> Self {
        Self { pull_secrets: Some(Arc::new(pull_secrets)), ..self }
    }

    /// Answers a call, whatever its method.
    pub async fn answer<B>(self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + Send + 'static,
    {
        let (head, mut body) = request.into_parts();
        let path = head.uri.path();
        // The table is short, and Pods come first in it.
        let mut response = match self.shared.routes.iter().find(|route| route.path == path) {
            Some(route) => self.shared.answer(route, self.peer, &head, &mut body).await,
            None if path == HEALTH_PATH => plain(StatusCode::OK, ""),
            None => {
                let answer = match &self.pull_secrets {
                    Some(secrets) => Box::pin(secrets.answer(&head)).await,
                    None => None,
                };
                answer.map_or_else(
                    || plain(StatusCode::NOT_FOUND, ""),
                    |(status, body)| json(status, body.into_bytes()),
                )
            }
        };
        if !body.is_end_stream()
            && let Some(connection) = Box::pin(leftover::discard(body, &head)).await
        {
            response.headers_mut().insert(CONNECTION, connection);
        }
        response
    }
}

impl Serve for Router {
    type Body = Full<Bytes>;

    fn for_peer(&self, peer: IpAddr) -> Self {
        Self { peer, ..self.clone() }
    }

    fn serve(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send + use<> {
        // In a box: whoever serves moves it around.
        Box::pin(self.clone().answer(request))
    }
}

impl Shared {
    async fn answer<B>(
        &self,
        route: &Route,
        peer: IpAddr,
        head: &Parts,
        body: &mut B,
    ) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
    {
        let started = Instant::now();
        let in_flight = route.metrics.enter();
        let answer = match route.target {
            Target::Admit(endpoint) => self.admit(endpoint, peer, head, body).await,
            Target::Convert => Box::pin(self.convert(peer, head, body)).await,
        };
        let response = answer.unwrap_or_else(|Overloaded(reason)| {
            self.admission.metrics.overloads.inc();
            overloaded(reason)
        });
        drop(in_flight);
        route.metrics.finish(response.status().as_u16(), started.elapsed());
        response
    }

    /// A place for a call whose body is there.
    fn enter(&self) -> Result<SemaphorePermit<'_>, Overloaded> {
        self.calls.try_acquire().map_err(|_| Overloaded("too many calls in flight"))
    }

    async fn admit<B>(
        &self,
        endpoint: Endpoint,
        peer: IpAddr,
        head: &Parts,
        body: &mut B,
    ) -> Result<Response<Full<Bytes>>, Overloaded>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
    {
        let deadline = Deadline::from_query(head.uri.query());
        let reply = match refused_by_header(&head.headers, body) {
            Some(reply) => reply,
            None => match collect(body, self.limits.review_bytes, &self.reviews, peer, deadline).await {
                Ok(collected) => {
                    let _place = self.enter()?;
                    let reply = self.admission.admit(endpoint, &collected.bytes, deadline).await;
                    return Ok(json(StatusCode::OK, reply.body));
                }
                Err(BodyError::NoMemory) => return Err(TOO_MANY_BODIES),
                Err(error) => Reply::anonymous(review_code(&error), error.to_string()),
            },
        };
        self.admission.metrics.count_review(endpoint.path(), reply.code);
        debug!(webhook = endpoint.path(), code = reply.code, "a call that is no review");
        Ok(json(StatusCode::OK, reply.body))
    }

    async fn convert<B>(
        &self,
        peer: IpAddr,
        head: &Parts,
        body: &mut B,
    ) -> Result<Response<Full<Bytes>>, Overloaded>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
    {
        let deadline = Deadline::from_query(head.uri.query());
        let limit = self.limits.conversion_bytes;
        Ok(match collect(body, limit, &self.conversions, peer, deadline).await {
            Ok(collected) => {
                let _place = self.enter()?;
                let (status, body) = convert(&self.admission.metrics, collected.bytes.clone()).await;
                json(status, body)
            }
            Err(BodyError::NoMemory) => return Err(TOO_MANY_BODIES),
            Err(error) => {
                let status = match error {
                    BodyError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
                    BodyError::Broken(_) => StatusCode::BAD_REQUEST,
                    BodyError::Slow(_) | BodyError::NoMemory | BodyError::Stopping => {
                        StatusCode::SERVICE_UNAVAILABLE
                    }
                };
                plain(status, error.to_string())
            }
        })
    }
}

/// What can be refused before the body is read (docs/behaviour/server.md#http-of-reviews), an empty body
/// first.
fn refused_by_header(headers: &HeaderMap, body: &impl Body) -> Option<Reply> {
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
        BodyError::NoMemory | BodyError::Stopping => 503,
    }
}

/// A `Status` as Kubernetes answers an overload. The header makes the API server try again in its time.
fn overloaded(reason: &str) -> Response<Full<Bytes>> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("{reason}, try again later"), "reason": "ServiceUnavailable",
        "details": {"retryAfterSeconds": RETRY_SECONDS}, "code": 503,
    });
    let mut response = json(StatusCode::SERVICE_UNAVAILABLE, status.to_string().into_bytes());
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
    response
}

fn json(status: StatusCode, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = plain(status, body);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

fn plain(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
}
