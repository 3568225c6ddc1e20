//! A way to the API server on which faults can be laid.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::api_server::ApiServer;
use crate::double;

/// One of so many writes fails, while writes do.
const FAILING: usize = 10;

/// Passes requests on to an API server, as its administrator.
pub struct Proxy {
    /// Where it listens, for a kubeconfig.
    pub url: String,
    faults: Arc<Faults>,
    _task: JoinSet<()>,
}

/// What goes wrong.
#[derive(Default)]
struct Faults {
    /// How often all connections were cut.
    cuts: watch::Sender<usize>,
    is_away: AtomicBool,
    fails_writes: AtomicBool,
    writes: AtomicUsize,
}

/// How a write fails.
#[derive(Clone, Copy)]
enum Failure {
    Conflict,
    Internal,
    /// It is carried out, and not answered.
    Silent,
}

impl Proxy {
    /// Begins to pass on what is asked.
    ///
    /// # Panics
    /// There is no free port.
    pub async fn start(server: &ApiServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (faults, client) = (Arc::new(Faults::default()), server.client());
        let mut task = JoinSet::new();
        task.spawn(serve(listener, client, Arc::clone(&faults)));
        Self { url, faults, _task: task }
    }

    /// Cuts all connections: watches end, and requests are not answered.
    pub fn cut(&self) {
        self.faults.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Whether connections end at once, as those to a server that is gone.
    pub fn set_away(&self, is_away: bool) {
        self.faults.is_away.store(is_away, Ordering::Relaxed);
        self.cut();
    }

    /// Whether every tenth write fails, by turns with 409, with 500, and without an answer after it was carried out.
    pub fn fail_writes(&self, fails: bool) {
        self.faults.fails_writes.store(fails, Ordering::Relaxed);
    }
}

async fn serve(listener: TcpListener, client: Client, faults: Arc<Faults>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("connections come");
        if !faults.is_away.load(Ordering::Relaxed) {
            connections.spawn(connection(stream, client.clone(), Arc::clone(&faults)));
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Serves a connection until it is cut.
async fn connection(stream: TcpStream, client: Client, faults: Arc<Faults>) {
    let mut cuts = faults.cuts.subscribe();
    let answer = service_fn(|request| pass_on(client.clone(), Arc::clone(&faults), request));
    tokio::select! {
        // Who asks may go away in the middle.
        _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer) => {}
        _ = cuts.changed() => {}
    }
}

impl Faults {
    /// How this request fails, if it does. Leases are renewed: without a leader nothing would be tried.
    fn failure(&self, request: &Request<Incoming>) -> Option<Failure> {
        let is_write = request.method() != Method::GET && !request.uri().path().contains("/leases");
        if !is_write || !self.fails_writes.load(Ordering::Relaxed) {
            return None;
        }
        let write = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        let failures = [Failure::Silent, Failure::Conflict, Failure::Internal];
        write.is_multiple_of(FAILING).then(|| failures[write / FAILING % failures.len()])
    }
}

/// An error ends the connection without an answer.
async fn pass_on(
    client: Client,
    faults: Arc<Faults>,
    request: Request<Incoming>,
) -> io::Result<Response<Body>> {
    let refused = |code: StatusCode, text: String| {
        let response = Response::builder().status(code).header("content-type", "application/json");
        response.body(Body::from(text.into_bytes())).map_err(io::Error::other)
    };
    let failure = faults.failure(&request);
    match failure {
        Some(Failure::Conflict) => return refused(StatusCode::CONFLICT, double::conflict("Conflict").1),
        Some(Failure::Internal) => return refused(StatusCode::INTERNAL_SERVER_ERROR, double::status(500)),
        Some(Failure::Silent) | None => {}
    }
    let (mut head, body) = request.into_parts();
    head.headers.remove("host");
    let content: Bytes = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let response = client.send(Request::from_parts(head, Body::from(content.to_vec()))).await;
    match failure {
        Some(_) => Err(io::ErrorKind::ConnectionAborted.into()),
        None => response.map_err(io::Error::other),
    }
}
