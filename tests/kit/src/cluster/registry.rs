//! A registry that behaves as a test configures it: it is in front of the cluster's own, from which it takes what it
//! gives away.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client;
use hyper::server;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// How often a blob that crawls continues.
const STEP: Duration = Duration::from_millis(100);

/// What a node asks of a registry.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The node's name.
    pub node: String,
    /// The repository, such as `shop/web`.
    pub repository: String,
    /// What is asked for: a tag or a digest.
    pub reference: String,
    /// Whether the image is looked up by its name, with which every pull begins.
    pub is_lookup: bool,
    /// Whether it is a part of an image.
    pub is_blob: bool,
    /// The header `Authorization`, empty where there is none.
    pub credentials: String,
    /// How many times this node has asked for it before.
    pub before: usize,
}

/// How a registry takes it.
#[derive(Clone, Copy, Debug)]
pub enum Behaviour {
    /// It gives what is asked for.
    Gives,
    /// It gives so many bytes a second.
    Crawls(usize),
    /// The connection breaks in the middle.
    Breaks,
    /// It answers with an error code.
    Refuses(u16),
}

type Script = Box<dyn Fn(&Asked) -> Behaviour + Send + Sync>;

/// A registry on the machine that the nodes run on, for as long as it is held.
pub struct Registry {
    address: SocketAddr,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

struct Shared {
    /// The cluster's registry.
    upstream: SocketAddr,
    script: Script,
    asked: Mutex<Vec<Asked>>,
}

impl Registry {
    /// Serves at the address of `listener`, and has the nodes of these directories ask there for images whose names
    /// begin with it.
    pub(super) fn start(
        listener: std::net::TcpListener,
        upstream: SocketAddr,
        nodes: &[PathBuf],
        script: impl Fn(&Asked) -> Behaviour + Send + Sync + 'static,
    ) -> Self {
        listener.set_nonblocking(true).expect("a listener can be polled");
        let listener = TcpListener::from_std(listener).expect("a listener can be polled");
        let address = listener.local_addr().expect("a listener has an address");
        for node in nodes {
            let directory = node.join("registries").join(address.to_string());
            fs::create_dir_all(&directory).expect("the node's directory is writable");
            let text = format!("[host.\"http://{address}\"]\n  capabilities = [\"pull\", \"resolve\"]\n");
            fs::write(directory.join("hosts.toml"), text).expect("the node's directory is writable");
        }
        let shared = Arc::new(Shared { upstream, script: Box::new(script), asked: Mutex::default() });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, shared.clone()));
        Self { address, shared, _serving: serving }
    }

    /// The name of an image of the cluster here.
    pub fn image(&self, reference: &str) -> String {
        format!("{}/{reference}", self.address)
    }

    /// The address, as it begins the names of images.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// All that nodes have asked for, in its order.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// How many pulls of a repository have begun on a node.
    pub fn lookups(&self, node: &str, repository: &str) -> usize {
        let asked = self.shared.asked.lock().unwrap();
        let these = asked.iter().filter(|it| it.is_lookup && it.node == node && it.repository == repository);
        these.count()
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, peer) = listener.accept().await.expect("connections come");
        let shared = shared.clone();
        connections.spawn(async move {
            let answer = service_fn(move |request| answer(shared.clone(), peer.ip(), request));
            // Nodes may go away in the middle, and broken answers end in an error.
            drop(server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await);
        });
    }
}

type Content = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, io::Error>> + Send>>;
type Answer = Response<StreamBody<Content>>;

async fn answer(shared: Arc<Shared>, peer: IpAddr, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let Some(asked) = shared.note(peer, &request) else { return Ok(empty(200)) };
    let behaviour = (shared.script)(&asked);
    if let Behaviour::Refuses(code) = behaviour {
        return Ok(empty(code));
    }
    let (mut head, body) = match shared.pass_on(request).await {
        Ok(response) => response.into_parts(),
        Err(error) => panic!("the cluster's registry does not answer: {error}"),
    };
    head.headers.remove("connection");
    let length =
        head.headers.get("content-length").and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let content = body.into_data_stream().map(|data| data.map_err(io::Error::other));
    let content: Content = match behaviour {
        Behaviour::Crawls(rate) => Box::pin(content.flat_map(move |data| crawl(data, rate))),
        Behaviour::Breaks => Box::pin(broken(content, length.unwrap_or_default() / 2)),
        _ => Box::pin(content.map(|data| data.map(Frame::data))),
    };
    Ok(Response::from_parts(head, StreamBody::new(content)))
}

impl Shared {
    /// Notes what is asked for; `None` where that is only whether this is a registry.
    fn note(&self, peer: IpAddr, request: &Request<Incoming>) -> Option<Asked> {
        let path = request.uri().path().strip_prefix("/v2/")?;
        let is_blob = path.contains("/blobs/");
        let (repository, reference) =
            path.split_once("/manifests/").or_else(|| path.split_once("/blobs/"))?;
        let IpAddr::V4(address) = peer else { return None };
        let credentials = request.headers().get(AUTHORIZATION).and_then(|header| header.to_str().ok());
        let mut all = self.asked.lock().unwrap();
        let mut asked = Asked {
            node: super::network::node_name(address),
            repository: repository.to_owned(),
            reference: reference.to_owned(),
            is_lookup: !is_blob && request.method() == Method::HEAD,
            is_blob,
            credentials: credentials.unwrap_or_default().to_owned(),
            before: 0,
        };
        let same = |other: &&Asked| {
            let what = (&other.node, &other.repository, &other.reference, other.is_lookup);
            what == (&asked.node, &asked.repository, &asked.reference, asked.is_lookup)
        };
        asked.before = all.iter().filter(same).count();
        all.push(asked.clone());
        Some(asked)
    }

    async fn pass_on(&self, request: Request<Incoming>) -> hyper::Result<Response<Incoming>> {
        let stream = TcpStream::connect(self.upstream).await.expect("the cluster's registry listens");
        let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let (mut head, _) = request.into_parts();
        // The registry behind asks nobody who they are.
        head.headers.remove(AUTHORIZATION);
        sender.send_request(Request::from_parts(head, Empty::<Bytes>::new())).await
    }
}

/// An answer without content.
fn empty(code: u16) -> Answer {
    let mut headers = HeaderMap::new();
    if code == 401 {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"kit\""));
    }
    let content: Content = Box::pin(stream::empty());
    let mut response = Response::new(StreamBody::new(content));
    *response.status_mut() = code.try_into().expect("a code of HTTP");
    response.headers_mut().extend(headers);
    response
}

/// The data in small pieces, at so many bytes a second.
fn crawl(
    data: Result<Bytes, io::Error>,
    rate: usize,
) -> impl Stream<Item = Result<Frame<Bytes>, io::Error>> + Send {
    let steps = usize::try_from(Duration::from_secs(1).as_millis() / STEP.as_millis()).expect("few");
    let piece = (rate / steps).max(1);
    stream::try_unfold(data, move |rest| async move {
        let mut rest = rest?;
        if rest.is_empty() {
            return Ok(None);
        }
        tokio::time::sleep(STEP).await;
        let now = rest.split_to(piece.min(rest.len()));
        Ok(Some((Frame::data(now), Ok(rest))))
    })
}

/// The first `most` bytes of the data, and an error.
fn broken(
    content: impl Stream<Item = Result<Bytes, io::Error>> + Send,
    most: usize,
) -> impl Stream<Item = Result<Frame<Bytes>, io::Error>> + Send {
    let mut left = most;
    content.map(move |data| {
        let mut data = data?;
        if left == 0 {
            return Err(io::Error::other("the connection breaks"));
        }
        data.truncate(left);
        left -= data.len();
        Ok(Frame::data(data))
    })
}
