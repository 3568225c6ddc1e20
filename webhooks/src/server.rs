//! The server: accepts connections, speaks TLS, HTTP/2 and HTTP/1.1, and stops without losing a call.
//!
//! ```text
//!   Serving --drain(wait, limit)--> Draining --wait--> Stopping --in flight done, or limit--> stopped
//!                                   accepts still;     accepts no more
//!                                   every answer asks
//!                                   to close
//! ```

use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;
use tracing::{debug, info, warn};

use crate::metrics::{Metrics, REFUSED};
use crate::pending_answers::PendingAnswers;

mod batch;
mod connection;
mod connection_slots;

use connection::{Http, HttpVersion, Phase};
use connection_slots::{ConnectionSlot, ConnectionSlots};

/// The reason of a handshake that failed because the caller's certificate does not count.
const CLIENT: &str = "client";
const BACKLOG: i32 = 1024;
/// Bytes taken from a connection at once. TLS by itself would read in pieces of 4 KiB.
const READ_BUFFER: usize = 32 * 1024;
/// Pause after an accept that failed, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What connections may cost at most.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Open connections; for one more the longest idle are closed, and if none is idle it waits. Over
    /// HTTP/1.1 an API server opens one for each call that is in progress.
    pub connections: usize,
    /// Open connections from one address; more are closed at once, and its longest idle one with them.
    pub per_peer: usize,
    /// A connection is left alone for this long after it was opened or had a call, even where places run out.
    pub settled: Duration,
    /// Time for a TLS handshake.
    pub handshake: Duration,
    /// Time for the first request over HTTP/2. A caller opens a connection because it has one.
    pub first: Duration,
    /// Time for the head of a request over HTTP/1.1, idle time before it included. Longer than callers
    /// keep idle connections (an API server: 90 s): one that sends while we close loses its call.
    pub head: Duration,
    /// Time for one call over HTTP/2, until the caller has taken its answer. Longer than any review may take.
    pub call: Duration,
    /// Time for a caller to take anything of what is sent to it.
    pub write: Duration,
    /// Concurrent requests per HTTP/2 connection.
    pub streams: u32,
    /// An HTTP/2 connection that is silent for this long is asked whether it is alive.
    pub idle: Duration,
    /// Time for the answer to that question.
    pub ping: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 2048,
            per_peer: 1024,
            settled: Duration::from_secs(1),
            handshake: Duration::from_secs(10),
            first: Duration::from_secs(30),
            head: Duration::from_secs(120),
            call: Duration::from_secs(60),
            write: Duration::from_secs(30),
            streams: 128,
            idle: Duration::from_secs(30),
            ping: Duration::from_secs(15),
        }
    }
}

/// What a server answers with.
pub trait Serve: Clone + Send + Sync + 'static {
    /// The body of its answers; the default one is empty.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Default + Send + 'static;

    /// What answers the calls of `peer`, which has shown a certificate or has not, over a connection whose answers are
    /// `untaken` until they are written: by default it is the same for all.
    fn for_connection(&self, peer: IpAddr, is_certified: bool, pending_answers: &PendingAnswers) -> Self {
        let _ = (peer, is_certified, pending_answers);
        self.clone()
    }

    /// Answers a request.
    fn serve(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send + 'static + use<Self>;
}

impl Serve for Router {
    type Body = axum::body::Body;

    fn serve(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send + 'static + use<> {
        let answer = self.clone().oneshot(request);
        async { answer.await.unwrap_or_else(|never| match never {}) }
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    phase: watch::Sender<Phase>,
    accepting: JoinHandle<()>,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Every call was answered.
    Complete,
    /// The limit came first; connections were cut.
    Cut,
}

/// Binds `port` for IPv6 and IPv4 alike (docs/behaviour/server.md#ports-and-endpoints), or for IPv4 alone
/// where the host has no IPv6. Port 0 takes a free one. Must be called on a runtime.
///
/// # Errors
/// The port is taken, or may not be bound.
pub fn bind(port: u16) -> io::Result<TcpListener> {
    bind_to(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).or_else(|error| {
        if error.kind() == io::ErrorKind::AddrInUse {
            return Err(error);
        }
        bind_to(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
    })
}

fn bind_to(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // A restarted process takes its port over from connections that are still closing.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

impl Server {
    /// Serves `service` over TLS with the certificate that `certificates` gives for each new connection:
    /// replacing it there closes nothing.
    ///
    /// # Errors
    /// The cryptography supports no version of TLS, or the listener is broken.
    pub fn start(
        listener: TcpListener,
        certificates: Arc<dyn ResolvesServerCert>,
        service: impl Serve,
        limits: ConnectionLimits,
        metrics: &Metrics,
    ) -> io::Result<Self> {
        Self::start_for(
            WebPkiClientVerifier::no_client_auth(),
            listener,
            certificates,
            service,
            limits,
            metrics,
        )
    }

    /// [`start`](Self::start) for callers who may show a certificate: what is none of these `clients` gets no
    /// connection, and the service learns who has shown one.
    ///
    /// # Errors
    /// As there.
    pub fn start_for(
        clients: Arc<dyn ClientCertVerifier>,
        listener: TcpListener,
        certificates: Arc<dyn ResolvesServerCert>,
        service: impl Serve,
        limits: ConnectionLimits,
        metrics: &Metrics,
    ) -> io::Result<Self> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(certificates);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // API servers resume none, and a session would outlive the authority of its certificate.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Self::run(listener, Some(TlsAcceptor::from(Arc::new(config))), service, limits, metrics)
    }

    /// Serves `service` over plain HTTP/1.1: probes and metrics.
    ///
    /// # Errors
    /// The listener is broken.
    pub fn start_plain(
        listener: TcpListener,
        service: impl Serve,
        limits: ConnectionLimits,
        metrics: &Metrics,
    ) -> io::Result<Self> {
        Self::run(listener, None, service, limits, metrics)
    }

    fn run(
        listener: TcpListener,
        tls: Option<TlsAcceptor>,
        service: impl Serve,
        limits: ConnectionLimits,
        metrics: &Metrics,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let phase = watch::Sender::new(Phase::Serving);
        let acceptor = Acceptor {
            tls,
            http: Http::new(service, &limits, metrics),
            slots: ConnectionSlots::new(&limits, metrics),
            limits,
            metrics: metrics.clone(),
            phase: phase.subscribe(),
        };
        let accepting = tokio::spawn(Arc::new(acceptor).accept_all(listener));
        Ok(Self { address, phase, accepting })
    }

    /// Where it listens.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until it serves no more, which without [`Self::drain`] is a defect of ours.
    pub async fn ended(&mut self) {
        drop((&mut self.accepting).await);
    }

    /// Stops gracefully; the caller has turned unready before. For the time `wait` it continues accepting,
    /// since callers learn late that it is leaving, and asks every caller to close: GOAWAY over HTTP/2,
    /// `connection: close` over HTTP/1.1. Then it takes no more connections, and what is in flight has
    /// the time `limit`.
    pub async fn drain(self, wait: Duration, limit: Duration) -> Drained {
        let Self { phase, mut accepting, .. } = self;
        phase.send_replace(Phase::Draining);
        info!(?wait, ?limit, "draining");
        sleep(wait).await;
        phase.send_replace(Phase::Stopping);
        if timeout(limit, &mut accepting).await.is_ok() {
            return Drained::Complete;
        }
        warn!("calls were still in flight when the time for draining ended");
        // Ends the connections too: they belong to this task.
        accepting.abort();
        Drained::Cut
    }
}

struct Acceptor<S> {
    tls: Option<TlsAcceptor>,
    http: Http<S>,
    slots: Arc<ConnectionSlots>,
    limits: ConnectionLimits,
    metrics: Metrics,
    phase: watch::Receiver<Phase>,
}

impl<S: Serve> Acceptor<S> {
    async fn accept_all(self: Arc<Self>, listener: TcpListener) {
        let mut connections = JoinSet::new();
        let mut phase = self.phase.clone();
        {
            // Kept while connections end: what it has accepted may be waiting for a place.
            let mut accepting = pin!(self.accept(&listener));
            loop {
                tokio::select! {
                    biased;
                    _ = phase.wait_for(|phase| *phase == Phase::Stopping) => break,
                    Some(_) = connections.join_next() => {}
                    accepted = accepting.as_mut() => {
                        accepting.set(self.accept(&listener));
                        if let Some((stream, slot)) = accepted {
                            connections.spawn(self.clone().serve(stream, slot));
                        }
                    }
                }
            }
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }

    /// `None` where accepting failed or the peer has enough; the next call tries again.
    async fn accept(&self, listener: &TcpListener) -> Option<(TcpStream, ConnectionSlot)> {
        match listener.accept().await {
            Ok((stream, peer)) => Some((stream, self.slots.take(peer.ip()).await?)),
            Err(error) => {
                warn!(%error, "can't accept a connection");
                sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream, slot: ConnectionSlot) {
        // Without it small answers wait for acknowledgements.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "can't switch off delays");
        }
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.limits.write));
        let (stream, state) = (Box::pin(stream), slot.state());
        let Some(tls) = &self.tls else {
            return self.http.serve(stream, HttpVersion::One, false, self.phase.clone(), state).await;
        };
        let stream = BufReader::with_capacity(READ_BUFFER, stream);
        let handshake = timeout(self.limits.handshake, tls.accept(stream));
        let shaken = tokio::select! {
            biased;
            shaken = handshake => shaken,
            () = state.evicted() => return self.count_handshake_failure("displaced", "its place is needed"),
        };
        match shaken {
            Ok(Ok(stream)) => {
                let session = stream.get_ref().1;
                let version = HttpVersion::negotiated(session.alpn_protocol());
                let is_certified = session.peer_certificates().is_some();
                self.http.serve(stream, version, is_certified, self.phase.clone(), state).await;
            }
            Ok(Err(error)) => self.count_handshake_failure(handshake_failure(&error), &error.to_string()),
            Err(_) => self.count_handshake_failure("timeout", "no end within the time for it"),
        }
    }

    fn count_handshake_failure(&self, reason: &str, error: &str) {
        self.metrics.handshake_failures.with_label_values(&[reason]).inc();
        match reason {
            REFUSED => warn!(error, "a caller refused our certificate: its CA bundle may not fit"),
            CLIENT => warn!(error, "a caller showed a client certificate that does not count"),
            _ => debug!(reason, error, "a TLS handshake failed"),
        }
    }
}

/// Sorts failed handshakes: a certificate that one side refuses is a matter for the operator, a caller that only looks
/// whether the port is open is not.
fn handshake_failure(error: &io::Error) -> &'static str {
    let tls = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::AlertReceived(_)) => REFUSED,
        Some(rustls::Error::InvalidCertificate(_)) => CLIENT,
        Some(_) => "protocol",
        None => "closed",
    }
}
