//! A container runtime without containers: it answers the calls of the CRI at a socket, as a test tells it to.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::{BufMut, Bytes, BytesMut};
use cri::messages::{
    Image, ImageFsInfoResponse, ListImagesResponse, PullImageRequest, PullImageResponse, VersionResponse,
};
use futures::stream;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixListener;
use tokio::task::{JoinHandle, JoinSet};

/// How a pull goes.
#[derive(Clone, Debug)]
pub enum Pull {
    /// The image comes.
    Comes,
    /// The registry or the runtime says this.
    Fails(String),
    /// Nothing happens until the caller gives up.
    Hangs,
}

type Script = Arc<dyn Fn(&PullImageRequest) -> Pull + Send + Sync>;

/// A runtime at a socket.
pub struct FakeRuntime {
    socket: PathBuf,
    state: Arc<Mutex<State>>,
    serving: Option<JoinHandle<()>>,
}

struct State {
    script: Script,
    images: Vec<Image>,
    pulls: Vec<PullImageRequest>,
    open: usize,
    most_open: usize,
}

/// A pull that goes on, until it is answered or cancelled.
struct Open(Arc<Mutex<State>>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().unwrap().open -= 1;
    }
}

impl FakeRuntime {
    /// A runtime at `containerd.sock` of this directory, whose pulls go as `script` says.
    pub fn start(
        directory: &Path,
        script: impl Fn(&PullImageRequest) -> Pull + Send + Sync + 'static,
    ) -> Self {
        let state =
            State { script: Arc::new(script), images: Vec::new(), pulls: Vec::new(), open: 0, most_open: 0 };
        let socket = directory.join("containerd.sock");
        let mut runtime = Self { socket, state: Arc::new(Mutex::new(state)), serving: None };
        runtime.listen();
        runtime
    }

    /// Listens, if it does not: the runtime has started again.
    pub fn listen(&mut self) {
        let listener = UnixListener::bind(&self.socket).unwrap();
        let state = self.state.clone();
        self.serving = Some(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let state = state.clone();
                connections.spawn(async move {
                    let answer = service_fn(move |request| answer(state.clone(), request));
                    let server = http2::Builder::new(TokioExecutor::new());
                    // Callers may go away in the middle.
                    drop(server.serve_connection(TokioIo::new(stream), answer).await);
                });
            }
        }));
    }

    /// Breaks all connections and takes the socket away: the runtime is down.
    pub async fn go_away(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
            drop(serving.await);
        }
        std::fs::remove_file(&self.socket).unwrap();
    }

    /// From now on pulls go as `script` says.
    pub fn behave(&self, script: impl Fn(&PullImageRequest) -> Pull + Send + Sync + 'static) {
        self.state.lock().unwrap().script = Arc::new(script);
    }

    /// Puts an image on the node.
    pub fn add_image(&self, tag: &str, id: &str) {
        self.state.lock().unwrap().images.push(image(tag, id));
    }

    /// All pulls that were asked for.
    pub fn pulls(&self) -> Vec<PullImageRequest> {
        self.state.lock().unwrap().pulls.clone()
    }

    /// The number of pulls that go on.
    pub fn open(&self) -> usize {
        self.state.lock().unwrap().open
    }

    /// The most pulls that went on at a time.
    pub fn most_open(&self) -> usize {
        self.state.lock().unwrap().most_open
    }
}

fn image(name: &str, id: &str) -> Image {
    let name = if name.contains('/') { name.to_owned() } else { format!("docker.io/library/{name}") };
    let (tags, digests) = if name.contains('@') { (vec![], vec![name]) } else { (vec![name], vec![]) };
    Image { id: id.to_owned(), repo_tags: tags, repo_digests: digests }
}

type Body = StreamBody<stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

async fn answer(state: Arc<Mutex<State>>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let Ok(body) = request.into_body().collect().await else { return Ok(refused("cancelled")) };
    // A message follows a flag of compression and its length.
    let message = body.to_bytes().split_off(5);
    Ok(match path.as_str() {
        "/runtime.v1.ImageService/ImageFsInfo" => answered(&ImageFsInfoResponse {}),
        "/runtime.v1.ImageService/ListImages" => {
            answered(&ListImagesResponse { images: state.lock().unwrap().images.clone() })
        }
        "/runtime.v1.ImageService/PullImage" => pull(state, PullImageRequest::decode(message).unwrap()).await,
        "/runtime.v1.RuntimeService/Version" => answered(&VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: "containerd".to_owned(),
            runtime_version: "v2.0.0".to_owned(),
            runtime_api_version: "v1".to_owned(),
        }),
        other => refused(&format!("unknown method {other}")),
    })
}

async fn pull(state: Arc<Mutex<State>>, request: PullImageRequest) -> Response<Body> {
    let (script, _open) = {
        let mut known = state.lock().unwrap();
        known.pulls.push(request.clone());
        known.open += 1;
        known.most_open = known.most_open.max(known.open);
        (known.script.clone(), Open(state.clone()))
    };
    // Others get their turn between the beginning and the end of a pull.
    tokio::task::yield_now().await;
    match script(&request) {
        Pull::Comes => {
            let name = request.image.unwrap_or_default().image;
            let id = "sha256:1d";
            state.lock().unwrap().images.push(image(&name, id));
            answered(&PullImageResponse { image_ref: id.to_owned() })
        }
        Pull::Fails(message) => refused(&message),
        Pull::Hangs => std::future::pending().await,
    }
}

fn answered(message: &impl Message) -> Response<Body> {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.encoded_len()).unwrap());
    message.encode(&mut bytes).unwrap();
    response(vec![Frame::data(bytes.freeze())], "0", "")
}

/// An error of the kind that containerd makes of what a registry says.
fn refused(message: &str) -> Response<Body> {
    response(Vec::new(), "2", message)
}

fn response(mut frames: Vec<Frame<Bytes>>, code: &'static str, message: &str) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(code));
    trailers.insert("grpc-message", message.parse().unwrap());
    frames.push(Frame::trailers(trailers));
    let frames: Vec<_> = frames.into_iter().map(Ok).collect();
    let body = StreamBody::new(stream::iter(frames));
    Response::builder().header("content-type", "application/grpc").body(body).unwrap()
}
