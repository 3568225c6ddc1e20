//! One connection: HTTP/2 or HTTP/1.1 as agreed in the TLS handshake, and its part in a drain.

use std::convert::Infallible;
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cluster::panics::contained;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::IntCounter;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, watch};
use tracing::{debug, error};

use super::batch::{Calls, Held, drive};
use super::connection_slots::ConnectionState;
use super::{ConnectionLimits, Serve};
use crate::metrics::Metrics;
use crate::pending_answers::PendingAnswers;

/// Buffer of an HTTP/1.1 connection, heads and parts of bodies.
const BUFFER: usize = 64 * 1024;
/// Bytes that a caller may send ahead on one HTTP/2 stream. A connection's window is that of all its
/// streams, so that streams which wait for room cannot keep the others from being read.
const STREAM_WINDOW: u32 = 64 * 1024;
/// The largest window that HTTP/2 knows.
const LARGEST_WINDOW: u32 = (1 << 31) - 1;
const HEADERS: u32 = 16 * 1024;
/// A connection stays open for so long after GOAWAY: a call that was sent before the peer read it arrives, and is
/// answered.
const GOAWAY_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// Why a connection ended before its time.
type Broken = Box<dyn Error + Send + Sync>;

/// How far a server is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Serving,
    Draining,
    Stopping,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpVersion {
    One,
    Two,
}

impl HttpVersion {
    /// A caller that names no protocol speaks HTTP/1.1.
    pub(super) fn negotiated(alpn: Option<&[u8]>) -> Self {
        if alpn == Some(b"h2") { Self::Two } else { Self::One }
    }
}

/// The protocol, configured once for all connections.
pub(super) struct Http<S> {
    service: S,
    one: http1::Builder,
    limits: ConnectionLimits,
    panics: IntCounter,
}

/// What the calls of one connection share.
struct Answering<S> {
    service: S,
    state: Arc<ConnectionState>,
    panics: IntCounter,
}

impl<S: Serve> Answering<S> {
    /// Answers a call; one that panics too.
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<S::Body> {
        let _call = self.state.enter();
        let answer = contained(async { self.service.serve(request).await }).await;
        answer.unwrap_or_else(|panicked| {
            self.panics.inc();
            error!(panicked.message, panicked.place, "a call panicked; it is answered with status 500");
            let mut response = Response::new(S::Body::default());
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        })
    }
}

impl<S: Serve> Http<S> {
    pub(super) fn new(service: S, limits: &ConnectionLimits, metrics: &Metrics) -> Self {
        let mut one = http1::Builder::new();
        one.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(BUFFER);
        Self { service, one, limits: *limits, panics: metrics.panics.clone() }
    }

    fn two(&self, calls: Calls) -> http2::Builder<Calls> {
        let ConnectionLimits { streams, idle, ping, .. } = self.limits;
        let mut two = http2::Builder::new(calls);
        two.timer(TokioTimer::new())
            .keep_alive_interval(idle)
            .keep_alive_timeout(ping)
            .max_concurrent_streams(streams)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(streams.saturating_mul(STREAM_WINDOW).min(LARGEST_WINDOW))
            .max_header_list_size(HEADERS);
        two
    }

    /// Serves the connection of `occupant` to its end.
    pub(super) async fn serve<I>(
        &self,
        stream: I,
        version: HttpVersion,
        is_certified: bool,
        phase: watch::Receiver<Phase>,
        state: &Arc<ConnectionState>,
    ) where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let pending_answers = PendingAnswers::default();
        let answering = Arc::new(Answering {
            service: self.service.for_connection(state.peer(), is_certified, &pending_answers),
            state: state.clone(),
            panics: self.panics.clone(),
        });
        let serving = async {
            match version {
                HttpVersion::One => self.serve_one(TokioIo::new(stream), answering, phase).await,
                HttpVersion::Two => self.serve_two(Held::new(stream), answering, phase).await,
            }
        };
        tokio::select! {
            result = serving => {
                if let Err(error) = result {
                    debug!(%error, "a connection ended with an error");
                }
            }
            // What it holds is free when it is dropped.
            () = pending_answers.overdue() => {
                debug!(peer = %state.peer(), "a connection is closed: an answer was not taken in its time");
            }
        }
    }

    /// HTTP/1.1 is left by a header on the next answer. Closing an idle connection at once would race
    /// with a request on its way, so that waits for the stop.
    async fn serve_one<I>(
        &self,
        io: I,
        answering: Arc<Answering<S>>,
        mut phase: watch::Receiver<Phase>,
    ) -> Result<(), Broken>
    where
        I: Read + Write + Unpin + Send + 'static,
    {
        let state = answering.state.clone();
        let leaving = phase.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = answering.clone().answer(request);
            let leaving = leaving.clone();
            async move {
                let mut response = answer.await;
                if *leaving.borrow() != Phase::Serving {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(response)
            }
        });
        let mut connection = pin!(self.one.serve_connection(io, service));
        tokio::select! {
            result = connection.as_mut() => return Ok(result?),
            () = state.evicted() => {
                connection.as_mut().graceful_shutdown();
                return tokio::select! {
                    end = connection => Ok(end?),
                    () = state.quiet(GOAWAY_GRACE_PERIOD, self.limits.call) => Ok(()),
                };
            }
            () = reached(&mut phase, Phase::Stopping) => connection.as_mut().graceful_shutdown(),
        }
        Ok(connection.await?)
    }

    /// HTTP/2 is left by GOAWAY, which loses nothing: requests that cross it are still answered. A caller
    /// that connects while we drain gets its first request through before it gets that message.
    async fn serve_two<I>(
        &self,
        stream: Held<I>,
        answering: Arc<Answering<S>>,
        mut phase: watch::Receiver<Phase>,
    ) -> Result<(), Broken>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let state = answering.state.clone();
        let came_late = *phase.borrow() != Phase::Serving;
        let first = Arc::new(Notify::new());
        let notify = came_late.then(|| first.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            if let Some(first) = &notify {
                first.notify_one();
            }
            let answer = answering.clone().answer(request);
            async { Ok::<_, Infallible>(answer.await) }
        });
        let calls = Calls::new(self.limits.call);
        let two = self.two(calls.clone());
        let mut connection = pin!(two.serve_connection(TokioIo::new(stream.clone()), service));
        let leave = if came_late { Phase::Stopping } else { Phase::Draining };
        let hurried = tokio::select! {
            result = drive(connection.as_mut(), &calls, &stream) => return Ok(result??),
            () = reached(&mut phase, leave) => false,
            () = first.notified() => false,
            () = state.evicted() => true,
            () = state.unused(self.limits.first) => true,
        };
        connection.as_mut().graceful_shutdown();
        let rest = drive(connection, &calls, &stream);
        if !hurried {
            return Ok(rest.await??);
        }
        tokio::select! {
            end = rest => Ok(end??),
            () = state.quiet(GOAWAY_GRACE_PERIOD, self.limits.call) => Ok(()),
        }
    }
}

/// Waits for `wanted` or a later phase. A server that is gone counts as stopping.
async fn reached(phase: &mut watch::Receiver<Phase>, wanted: Phase) {
    drop(phase.wait_for(|phase| *phase >= wanted).await);
}
