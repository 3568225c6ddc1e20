//! One route per path, and the limits around each call.
//!
//! Routes and limits are plain code rather than a router with layers: the limits' answers have to be reviews
//! (docs/behaviour/server.md#http-of-reviews), which a layer that knows nothing of reviews cannot give, and
//! what looks a path up in a table boxes and copies nothing.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use admission::callers::Callers;
use admission::endpoint::Endpoint;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tracing::debug;
use values::segment::{self, Segment};

use crate::admission::Admission;
use crate::body::{BodyError, BodyMemory, Collected, Held, Room, collect};
use crate::convert::convert;
use crate::deadline::Deadline;
use crate::leftover;
use crate::metrics::PathMetrics;
use crate::pending_answers::PendingAnswers;
use crate::pull_secrets::PullSecrets;
use crate::review::Reply;
use crate::server::Serve;

/// Where versions are converted.
pub const CONVERT_PATH: &str = "/convert";
/// Where callers ask whether the server answers at all.
const HEALTH_PATH: &str = "/healthz";

/// A call of which it is not known yet whether it comes from an API server waits this long: what another replica
/// registers is visible a moment later.
const UNKNOWN: Duration = Duration::from_secs(1);
/// So many of them wait at a time: anyone who reaches the port can make such calls.
const UNKNOWN_CALLS: usize = 64;
/// When a caller that was turned away may come again.
const RETRY_SECONDS: u16 = 1;
const TOO_MANY_BODIES: Overloaded = Overloaded("too many requests are being received");
const TOO_MANY_ANSWERS: Overloaded = Overloaded("too many answers are not taken");
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
    /// Memory for requests up to 256 KiB that are not there at once and for their answers, reviews and conversions
    /// together. As much again is left to those that wait for it; more, and those that waited in vain, are turned away
    /// like calls.
    pub unfinished_bytes: usize,
    /// What one peer may have of it, or wait for.
    pub unfinished_bytes_per_peer: usize,
    /// Requests above 256 KiB held in memory at the same time with their answers, for reviews and for conversions
    /// each. Two above 4 MiB, or whose length is not announced, are held besides, of two peers.
    pub large_requests: usize,
    /// How many of them may be of one peer.
    pub large_requests_per_peer: usize,
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
            large_requests_per_peer: 3,
        }
    }
}

/// The paths of the admission server and what their calls share. Cheap to clone.
#[derive(Clone)]
pub struct Router {
    shared: Arc<Shared>,
    /// What agents of nodes ask for, where they are answered.
    pull_secrets: Option<Arc<PullSecrets>>,
    /// Whom webhook paths answer.
    callers: watch::Receiver<Callers>,
    /// Whether reviews are answered only to callers who have shown a certificate.
    for_certified: bool,
    caller: Caller,
}

/// Who calls, and what of the answers to them is not written yet.
#[derive(Clone)]
struct Caller {
    peer: IpAddr,
    is_certified: bool,
    pending_answers: PendingAnswers,
}

struct Shared {
    routes: Vec<Route>,
    admission: Arc<Admission>,
    limits: Limits,
    calls: Semaphore,
    unknown: Semaphore,
    reviews: Room,
    conversions: Room,
}

/// More calls came than can be received or answered at the same time.
struct Overloaded(&'static str);

struct Route {
    path: &'static str,
    target: Target,
    metrics: PathMetrics,
    /// The gates leave it on.
    served: bool,
}

impl Route {
    /// The answer to a caller who lacks a certificate. By 401 a replica learns that it may register the path.
    fn without_certificate(&self) -> StatusCode {
        if self.served { StatusCode::UNAUTHORIZED } else { StatusCode::NOT_FOUND }
    }
}

#[derive(Clone, Copy)]
enum Target {
    Admit(Endpoint),
    Convert,
}

/// The routes of the admission server, which answer everybody. Paths that the gates switch off allow everything
/// for as long as API servers may call them, and are not served (404) otherwise.
pub fn router(admission: Arc<Admission>, limits: Limits) -> Router {
    let mut routes = Vec::new();
    for endpoint in Endpoint::all() {
        let served = endpoint.is_served(&admission.gates);
        for path in std::iter::once(endpoint.path()).chain(endpoint.legacy_path()) {
            let metrics = admission.metrics.path(endpoint.path());
            routes.push(Route { path, target: Target::Admit(endpoint), metrics, served });
        }
    }
    let metrics = admission.metrics.path(CONVERT_PATH);
    routes.push(Route { path: CONVERT_PATH, target: Target::Convert, metrics, served: true });
    let memory = BodyMemory::new(limits.unfinished_bytes, limits.unfinished_bytes_per_peer);
    let shared = Arc::new(Shared {
        routes,
        calls: Semaphore::new(limits.calls),
        unknown: Semaphore::new(UNKNOWN_CALLS),
        reviews: Room::new(memory.clone(), limits.large_requests, limits.large_requests_per_peer),
        conversions: Room::new(memory, limits.large_requests, limits.large_requests_per_peer),
        admission,
        limits,
    });
    let caller = Caller {
        peer: Ipv6Addr::UNSPECIFIED.into(),
        is_certified: false,
        pending_answers: PendingAnswers::default(),
    };
    let callers = watch::channel(Callers::everybody()).1;
    Router { shared, pull_secrets: None, callers, for_certified: false, caller }
}

impl fmt::Debug for Router {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let served = self.shared.routes.iter().filter(|route| route.served);
        formatter.debug_list().entries(served.map(|route| route.path)).finish()
    }
}

impl Router {
    /// Answers agents of nodes too.
    #[must_use]
    pub fn with_pull_secrets(self, pull_secrets: PullSecrets) -> Self {
        Self { pull_secrets: Some(Arc::new(pull_secrets)), ..self }
    }

    /// Answers nobody but these callers at the webhook paths.
    #[must_use]
    pub fn with_callers(self, callers: watch::Receiver<Callers>) -> Self {
        Self { callers, ..self }
    }

    /// Answers reviews only to callers who have shown a certificate. API servers convert without one, and a conversion
    /// holds nothing but what the caller has sent.
    #[must_use]
    pub fn for_certified(self) -> Self {
        Self { for_certified: true, ..self }
    }

    /// Whether the caller has to show a certificate first.
    fn lacks_certificate(&self, route: &Route) -> bool {
        self.for_certified && !self.caller.is_certified && matches!(route.target, Target::Admit(_))
    }

    /// The route of a call that is answered (docs/behaviour/server.md#callers).
    async fn route(&self, segment: Option<Segment>, path: &str, deadline: Deadline) -> Option<&Route> {
        // The table is short, and Pods come first in it.
        let route = self.shared.routes.iter().find(|route| route.path == path)?;
        let answers =
            |callers: &Callers| callers.admit(segment, path) && (route.served || callers.may_call(path));
        if answers(&self.callers.borrow()) {
            return Some(route);
        }
        let _place = self.shared.unknown.try_acquire().ok()?;
        let mut callers = self.callers.clone();
        let deadline = deadline.at_most(UNKNOWN);
        let known = Box::pin(deadline.within("waiting for a registration", callers.wait_for(answers))).await;
        known.is_ok_and(|known| known.is_ok()).then_some(route)
    }

    /// Answers a call, whatever its method.
    pub async fn answer<B>(self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + Send + 'static,
    {
        let (head, mut body) = request.into_parts();
        let (segment, path) = segment::split(head.uri.path());
        let deadline = Deadline::from_query(head.uri.query());
        let mut response = match self.route(segment, path, deadline).await {
            Some(route) if self.lacks_certificate(route) => plain(route.without_certificate(), ""),
            Some(route) => self.shared.answer(route, &self.caller, &head, &mut body, deadline).await,
            None if segment.is_some() => plain(StatusCode::NOT_FOUND, ""),
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

    fn for_connection(&self, peer: IpAddr, is_certified: bool, pending_answers: &PendingAnswers) -> Self {
        Self {
            caller: Caller { peer, is_certified, pending_answers: pending_answers.clone() },
            ..self.clone()
        }
    }

    fn serve(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send + use<> {
        // In a box: the server moves it around.
        Box::pin(self.clone().answer(request))
    }
}

impl Shared {
    async fn answer<B>(
        &self,
        route: &Route,
        caller: &Caller,
        head: &Parts,
        body: &mut B,
        deadline: Deadline,
    ) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
    {
        let started = Instant::now();
        let in_flight = route.metrics.enter();
        let answer = match route.target {
            Target::Admit(endpoint) => self.admit(endpoint, caller, head, body, deadline).await,
            Target::Convert => Box::pin(self.convert(caller, body, deadline)).await,
        };
        let response = answer.unwrap_or_else(|Overloaded(reason)| {
            self.admission.metrics.overloads.inc();
            overloaded(reason)
        });
        drop(in_flight);
        route.metrics.finish(response.status().as_u16(), started.elapsed());
        response
    }

    /// The answer to a question that holds `held`.
    fn reply(
        &self,
        caller: &Caller,
        status: StatusCode,
        body: Vec<u8>,
        held: Held,
    ) -> Result<Response<Full<Bytes>>, Overloaded> {
        let body = caller.pending_answers.keep(body, caller.peer, &self.reviews.memory, held);
        Ok(json(status, body.ok_or(TOO_MANY_ANSWERS)?))
    }

    /// A place for a call whose body is there.
    fn enter(&self) -> Result<SemaphorePermit<'_>, Overloaded> {
        self.calls.try_acquire().map_err(|_| Overloaded("too many calls in flight"))
    }

    async fn admit<B>(
        &self,
        endpoint: Endpoint,
        caller: &Caller,
        head: &Parts,
        body: &mut B,
        deadline: Deadline,
    ) -> Result<Response<Full<Bytes>>, Overloaded>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
    {
        let reply = match refused_by_header(&head.headers, body) {
            Some(reply) => reply,
            None => match collect(body, self.limits.review_bytes, &self.reviews, caller.peer, deadline).await
            {
                Ok(Collected { bytes, held }) => {
                    let _place = self.enter()?;
                    let reply = self.admission.admit(endpoint, &bytes, deadline).await;
                    return self.reply(caller, StatusCode::OK, reply.body, held);
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
        caller: &Caller,
        body: &mut B,
        deadline: Deadline,
    ) -> Result<Response<Full<Bytes>>, Overloaded>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
    {
        let limit = self.limits.conversion_bytes;
        Ok(match collect(body, limit, &self.conversions, caller.peer, deadline).await {
            Ok(Collected { bytes, held }) => {
                let _place = self.enter()?;
                let (status, body) = convert(&self.admission.metrics, bytes).await;
                self.reply(caller, status, body, held)?
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

fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = plain(status, body);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

fn plain(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
}
