//! The server over real connections: protocols, certificates, slow clients, drain.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::{any, get};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::{ClientConfig, RootCertStore, sign};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use webhooks::Metrics;
use webhooks::probes::{Checks, ObjectMetrics, health_router, metrics_router};
use webhooks::router::{Limits, router};
use webhooks::server::{ConnectionLimits, Drained, Serve, Server, bind};

use crate::support::{admission, create_pod, review};

/// Far more than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Longer than any test: a connection is not displaced.
const LONG: Duration = Duration::from_secs(600);
pub(crate) const H2: &[u8] = b"h2";
pub(crate) const HTTP1: &[u8] = b"http/1.1";

/// A certificate that can be replaced while connections are open.
#[derive(Debug)]
struct Swap(Mutex<Arc<sign::CertifiedKey>>);

impl ResolvesServerCert for Swap {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<sign::CertifiedKey>> {
        Some(self.0.lock().unwrap().clone())
    }
}

fn certificate() -> (CertificateDer<'static>, Arc<sign::CertifiedKey>) {
    let CertifiedKey::<KeyPair> { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let key = aws_lc_rs::sign::any_supported_type(&key).unwrap();
    (cert.der().clone(), Arc::new(sign::CertifiedKey::new(vec![cert.der().clone()], key)))
}

/// A server with its client's trust.
pub(crate) struct World {
    server: Server,
    pub(crate) metrics: Metrics,
    certificates: Arc<Swap>,
    trusted: Vec<CertificateDer<'static>>,
    address: SocketAddr,
}

impl World {
    pub(crate) fn start(service: impl Serve, limits: ConnectionLimits) -> Self {
        let (trusted, key) = certificate();
        let certificates = Arc::new(Swap(Mutex::new(key)));
        let metrics = Metrics::new().unwrap();
        let server =
            Server::start(bind(0).unwrap(), certificates.clone(), service, limits, &metrics).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.local_address().port()));
        Self { server, metrics, certificates, trusted: vec![trusted], address }
    }

    pub(crate) fn client(&self) -> Client {
        Client { trusted: self.trusted.clone(), address: self.address }
    }
}

#[derive(Clone)]
pub(crate) struct Client {
    trusted: Vec<CertificateDer<'static>>,
    pub(crate) address: SocketAddr,
}

impl Client {
    pub(crate) async fn tls(&self, protocol: &[u8]) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.trusted.iter().cloned());
        let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    pub(crate) async fn http2(&self) -> Http2 {
        self.http2_with_window(2 << 20).await
    }

    /// Takes so many bytes of an answer that nobody reads.
    pub(crate) async fn http2_with_window(&self, window: u32) -> Http2 {
        let stream = self.tls(H2).await.unwrap();
        let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        let http2 = http2.initial_stream_window_size(window);
        let (sender, connection) = http2.handshake(TokioIo::new(stream)).await.unwrap();
        Http2 { sender, certificate, ended: tokio::spawn(connection) }
    }

    pub(crate) async fn http1(&self) -> http1::SendRequest<Full<Bytes>> {
        let stream = self.tls(HTTP1).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }
}

pub(crate) struct Http2 {
    pub(crate) sender: http2::SendRequest<Full<Bytes>>,
    certificate: CertificateDer<'static>,
    ended: JoinHandle<hyper::Result<()>>,
}

impl Http2 {
    pub(crate) async fn get(&mut self, path: &str) -> StatusCode {
        patiently(self.sender.send_request(request(path))).await.unwrap().status()
    }

    /// Waits until the server has closed the connection.
    pub(crate) async fn closed(self) {
        drop(patiently(self.ended).await.unwrap());
    }
}

pub(crate) async fn patiently<T>(future: impl Future<Output = T>) -> T {
    timeout(TIMEOUT, future).await.expect("takes too long")
}

pub(crate) fn request(path: &str) -> Request<Full<Bytes>> {
    Request::get(format!("https://localhost{path}")).body(Full::default()).unwrap()
}

fn mutate_pod() -> Request<Full<Bytes>> {
    Request::post("https://localhost/mutate-pod?timeout=10s")
        .header("content-type", "application/json")
        .header("host", "localhost")
        .body(Full::from(review(&create_pod(2))))
        .unwrap()
}

async fn assert_allowed(response: Response<Incoming>) -> HeaderMap {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    parts.headers
}

pub(crate) fn served() -> impl Serve {
    router(Arc::new(admission("", "")), Limits::default())
}

/// Answers at once on `/quick`, and on `/slow` once the test asks for it; says when a slow call arrived.
pub(crate) fn slow_router() -> (Router, Arc<Notify>, Arc<Notify>) {
    let (arrived, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handles = (arrived.clone(), release.clone());
    let slow = move || {
        let (arrived, release) = handles.clone();
        async move {
            arrived.notify_one();
            release.notified().await;
        }
    };
    (Router::new().route("/quick", any(|| async {})).route("/slow", get(slow)), arrived, release)
}

#[tokio::test]
async fn both_protocols_answer_reviews_and_keep_the_connection() {
    let world = World::start(served(), ConnectionLimits::default());
    let mut two = world.client().http2().await;
    let mut one = world.client().http1().await;
    for _ in 0..3 {
        assert_allowed(patiently(two.sender.send_request(mutate_pod())).await.unwrap()).await;
        patiently(one.ready()).await.unwrap();
        let headers = assert_allowed(patiently(one.send_request(mutate_pod())).await.unwrap()).await;
        assert!(headers.get("connection").is_none());
    }
}

#[tokio::test]
async fn many_streams_share_a_connection() {
    let world = World::start(served(), ConnectionLimits::default());
    let two = world.client().http2().await;
    let calls = (0..200).map(|_| {
        let mut sender = two.sender.clone();
        async move { assert_allowed(patiently(sender.send_request(mutate_pod())).await.unwrap()).await }
    });
    futures::future::join_all(calls).await;
}

#[tokio::test]
async fn streams_that_wait_for_room_do_not_hold_up_their_connection() {
    let admission = Arc::new(admission("", ""));
    let metrics = admission.metrics.clone();
    let served = router(admission, Limits { large_requests: 0, ..Limits::default() });
    let world = World::start(served, ConnectionLimits::default());
    let two = world.client().http2().await;
    // More than a small body and the window of its stream.
    let large = Bytes::from(vec![b' '; 384 * 1024]);
    let waiting: Vec<_> = (0..40)
        .map(|_| {
            let mut request = mutate_pod().map(|_| Full::from(large.clone()));
            *request.uri_mut() = Uri::from_static("https://localhost/mutate-pod?timeout=30s");
            tokio::spawn(two.sender.clone().send_request(request))
        })
        .collect();
    counted(&metrics, "requests_in_flight{webhook=\"/mutate-pod\"} 40").await;
    for _ in 0..20 {
        let small = two.sender.clone().send_request(mutate_pod());
        assert_allowed(patiently(small).await.unwrap()).await;
        assert!(waiting.iter().all(|call| !call.is_finished()));
    }
}

#[tokio::test]
async fn one_peer_cannot_take_every_connection() {
    let limits = ConnectionLimits { per_peer: 1, settled: LONG, ..ConnectionLimits::default() };
    let world = World::start(served(), limits);
    let mut first = world.client().http2().await;
    assert!(patiently(world.client().tls(H2)).await.is_err());
    counted(&world.metrics, "kutter_connections_refused 1").await;
    assert_eq!(first.get("/healthz").await, StatusCode::OK);
}

#[tokio::test]
async fn a_new_certificate_closes_nothing() {
    let mut world = World::start(served(), ConnectionLimits::default());
    let mut before = world.client().http2().await;
    assert_eq!(before.get("/healthz").await, StatusCode::OK);
    let (trusted, key) = certificate();
    world.trusted.push(trusted.clone());
    *world.certificates.0.lock().unwrap() = key;
    assert_eq!(before.get("/healthz").await, StatusCode::OK);
    let mut after = world.client().http2().await;
    assert_eq!(after.certificate, trusted);
    assert_ne!(before.certificate, trusted);
    assert_eq!(after.get("/healthz").await, StatusCode::OK);
    assert_eq!(before.get("/healthz").await, StatusCode::OK);
}

#[tokio::test]
async fn both_address_families_are_served() {
    let world = World::start(served(), ConnectionLimits::default());
    let local = world.server.local_address();
    let mut client = world.client();
    assert_eq!(client.http2().await.get("/healthz").await, StatusCode::OK);
    if local.is_ipv6() {
        client.address = SocketAddr::from((Ipv6Addr::LOCALHOST, local.port()));
        assert_eq!(client.http2().await.get("/healthz").await, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_drain_loses_no_call() {
    let (router, arrived, release) = slow_router();
    let world = World::start(router, ConnectionLimits::default());
    let client = world.client();
    let mut idle = client.http2().await;
    assert_eq!(idle.get("/quick").await, StatusCode::OK);
    let mut busy = client.http2().await;
    let in_flight = busy.sender.send_request(request("/slow"));
    let in_flight = tokio::spawn(in_flight);
    patiently(arrived.notified()).await;
    let mut one = client.http1().await;

    let drain = tokio::spawn(world.server.drain(Duration::from_secs(3), TIMEOUT));
    // GOAWAY closes what is idle.
    idle.closed().await;
    // A client that connects now is served, and asked to leave.
    let mut late = client.http2().await;
    assert_eq!(late.get("/quick").await, StatusCode::OK);
    late.closed().await;
    let answer = patiently(one.send_request(request("/quick"))).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers().get("connection").unwrap(), "close");
    assert!(!drain.is_finished());
    // No more connections, but what is in flight ends well.
    patiently(async {
        while TcpStream::connect(client.address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(!drain.is_finished());
    release.notify_one();
    assert_eq!(patiently(in_flight).await.unwrap().unwrap().status(), StatusCode::OK);
    busy.closed().await;
    assert_eq!(patiently(drain).await.unwrap(), Drained::Complete);
}

#[tokio::test]
async fn a_drain_ends_at_its_limit() {
    let (router, arrived, _release) = slow_router();
    let world = World::start(router, ConnectionLimits::default());
    let mut busy = world.client().http2().await;
    let in_flight = tokio::spawn(busy.sender.send_request(request("/slow")));
    patiently(arrived.notified()).await;
    let drained = patiently(world.server.drain(Duration::ZERO, Duration::from_millis(50))).await;
    assert_eq!(drained, Drained::Cut);
    assert!(patiently(in_flight).await.unwrap().is_err());
    // A connection that was cut is open no more.
    counted(&world.metrics, "kutter_connections 0").await;
}

#[tokio::test]
async fn idle_http1_connections_end_with_the_drain() {
    let world = World::start(served(), ConnectionLimits::default());
    let mut one = world.client().http1().await;
    patiently(one.send_request(request("/healthz"))).await.unwrap();
    assert_eq!(patiently(world.server.drain(Duration::ZERO, TIMEOUT)).await, Drained::Complete);
}

/// Waits until the metrics hold `line`.
pub(crate) async fn counted(metrics: &Metrics, line: &str) {
    patiently(async {
        while !metrics.render().unwrap().contains(line) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn clients_that_stop_half_way_are_dropped() {
    let short = Duration::from_secs(2);
    let limits = ConnectionLimits { handshake: short, ..ConnectionLimits::default() };
    let world = World::start(served(), limits);
    let mut silent = TcpStream::connect(world.address).await.unwrap();
    assert_eq!(patiently(silent.read(&mut [0; 16])).await.unwrap(), 0);
    counted(&world.metrics, "kutter_tls_handshake_failures{reason=\"timeout\"} 1").await;
    counted(&world.metrics, "kutter_connections 0").await;
    let world = World::start(served(), ConnectionLimits { head: short, ..ConnectionLimits::default() });
    let mut half = world.client().tls(HTTP1).await.unwrap();
    half.write_all(b"POST /mutate-pod HTTP/1.1\r\nhost: loc").await.unwrap();
    // Whatever is said in farewell, the connection ends.
    drop(patiently(half.read_to_end(&mut Vec::new())).await);
    counted(&world.metrics, "kutter_connections 0").await;
}

#[tokio::test]
async fn refused_certificates_are_counted() {
    let world = World::start(served(), ConnectionLimits::default());
    let stranger = Client { trusted: vec![certificate().0], address: world.address };
    assert!(stranger.tls(H2).await.is_err());
    counted(&world.metrics, "kutter_tls_handshake_failures{reason=\"refused\"} 1").await;
    let mut noise = TcpStream::connect(world.address).await.unwrap();
    noise.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    counted(&world.metrics, "kutter_tls_handshake_failures{reason=\"protocol\"} 1").await;
}

#[tokio::test]
async fn connections_above_the_cap_wait_for_their_turn() {
    let limits = ConnectionLimits { connections: 1, settled: LONG, ..ConnectionLimits::default() };
    let world = World::start(served(), limits);
    let first = world.client().http2().await;
    let client = world.client();
    let mut second = tokio::spawn(async move { client.http2().await.get("/healthz").await });
    assert!(timeout(Duration::from_millis(100), &mut second).await.is_err());
    let Http2 { sender, ended, .. } = first;
    drop(sender);
    drop(patiently(ended).await);
    assert_eq!(patiently(second).await.unwrap(), StatusCode::OK);
}

#[tokio::test]
async fn probes_and_metrics_are_served_over_plain_http() {
    let metrics = Metrics::new().unwrap();
    let checks = Checks {
        liveness: Arc::new(|| Ok(())),
        readiness: Arc::new(|| Err("SidecarSets are not listed yet".to_owned())),
    };
    let objects: ObjectMetrics = Arc::new(|| Ok("kruise_cloneset_spec_replicas 1\n".to_owned()));
    let router = health_router(checks).merge(metrics_router(metrics.registry().clone(), Some(objects), None));
    let server =
        Server::start_plain(bind(0).unwrap(), router, ConnectionLimits::default(), &metrics).unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.local_address().port()));
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let cases = [
        ("/healthz", 200, "ok"),
        ("/healthz/ping", 200, "ok"),
        ("/readyz", 500, "[-]webhook-ready failed: SidecarSets are not listed yet\n"),
        ("/readyz/webhook-ready", 500, "[-]webhook-ready failed: SidecarSets are not listed yet\n"),
        ("/metrics/objects", 200, "kruise_cloneset_spec_replicas 1\n"),
    ];
    for (path, status, expected) in cases {
        patiently(sender.ready()).await.unwrap();
        let response: Response<Incoming> = patiently(sender.send_request(request(path))).await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), expected);
    }
    patiently(sender.ready()).await.unwrap();
    let response = patiently(sender.send_request(request("/metrics"))).await.unwrap();
    let text = response.into_body().collect().await.unwrap().to_bytes();
    assert!(std::str::from_utf8(&text).unwrap().contains("kutter_connections 1"));
}
