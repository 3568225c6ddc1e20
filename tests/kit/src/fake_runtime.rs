//! A container runtime without containers: it answers the calls of the CRI at a socket, as a test configures it.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::{BufMut, Bytes, BytesMut};
use cri::messages::{
    Container, ContainerState, ContainerStatus, ContainerStatusRequest, ContainerStatusResponse,
    ExecSyncRequest, ExecSyncResponse, Image, ImageFsInfoResponse, ListContainersRequest,
    ListContainersResponse, ListImagesResponse, PodSandboxNetworkStatus, PodSandboxStatus,
    PodSandboxStatusResponse, PullImageRequest, PullImageResponse, StopContainerRequest,
    StopContainerResponse, VersionResponse,
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
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// How a pull behaves.
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
type Exec = Arc<dyn Fn(&ExecSyncRequest) -> ExecSyncResponse + Send + Sync>;

/// What was asked of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To run this command.
    Exec(String, Vec<String>),
    /// To stop, and to be killed after so many seconds.
    Stop(String, i64),
}

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
    containers: Vec<(Container, i64)>,
    exec: Exec,
    /// Containers whose end takes until the test lets them go.
    held: watch::Sender<Vec<String>>,
    /// Why no container can be stopped.
    unstoppable: Option<String>,
    asked: Vec<Asked>,
}

impl State {
    fn exit(&mut self, id: &str) {
        for (container, _) in self.containers.iter_mut().filter(|(container, _)| container.id == id) {
            container.state = ContainerState::Exited.into();
        }
    }
}

/// A pull that continues, until it is answered or cancelled.
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
        let state = State {
            script: Arc::new(script),
            images: Vec::new(),
            pulls: Vec::new(),
            open: 0,
            most_open: 0,
            containers: Vec::new(),
            exec: Arc::new(|_| ExecSyncResponse::default()),
            held: watch::Sender::default(),
            unstoppable: None,
            asked: Vec::new(),
        };
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

    /// Runs a container of a Pod: `number` counts the containers of this name. Its ID is made of both.
    pub fn run_container(&self, pod: [&str; 3], name: &str, number: u32, annotations: &[(&str, &str)]) {
        let keys = ["namespace", "name", "uid"].map(|key| format!("io.kubernetes.pod.{key}"));
        let labels = keys.into_iter().zip(pod.map(str::to_owned));
        let labels = labels.chain([("io.kubernetes.container.name".to_owned(), name.to_owned())]);
        let number_text = number.to_string();
        let counted = [("io.kubernetes.container.restartCount", number_text.as_str())];
        let annotations = annotations.iter().chain(&counted);
        let now = i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap();
        let container = Container {
            id: format!("{name}-{number}-of-{}", pod[2]),
            pod_sandbox_id: pod[2].to_owned(),
            state: ContainerState::Running.into(),
            created_at: now,
            labels: labels.collect(),
            annotations: annotations.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        };
        self.state.lock().unwrap().containers.push((container, now));
    }

    /// Lets a container exit on its own.
    pub fn exit_container(&self, id: &str) {
        self.state.lock().unwrap().exit(id);
    }

    /// From now on commands in containers end so.
    pub fn answer_commands(
        &self,
        exec: impl Fn(&ExecSyncRequest) -> ExecSyncResponse + Send + Sync + 'static,
    ) {
        self.state.lock().unwrap().exec = Arc::new(exec);
    }

    /// Lets the end of this container take until [`Self::let_go`].
    pub fn hold(&self, id: &str) {
        self.state.lock().unwrap().held.send_modify(|held| held.push(id.to_owned()));
    }

    /// Lets containers end that were held.
    pub fn let_go(&self) {
        self.state.lock().unwrap().held.send_modify(Vec::clear);
    }

    /// Lets no container stop, for this reason.
    pub fn refuse_stops(&self, reason: &str) {
        self.state.lock().unwrap().unstoppable = Some(reason.to_owned());
    }

    /// What was asked of containers.
    pub fn asked(&self) -> Vec<Asked> {
        self.state.lock().unwrap().asked.clone()
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
        "/runtime.v1.RuntimeService/ListContainers" => {
            let filter = ListContainersRequest::decode(message).unwrap().filter.unwrap_or_default();
            let fits = |container: &Container| {
                let mut labels = filter.label_selector.iter();
                (filter.id.is_empty() || filter.id == container.id)
                    && labels.all(|(key, value)| container.labels.get(key) == Some(value))
            };
            let known = state.lock().unwrap();
            let containers = known.containers.iter().map(|(container, _)| container);
            answered(&ListContainersResponse {
                containers: containers.filter(|c| fits(c)).cloned().collect(),
            })
        }
        "/runtime.v1.RuntimeService/ContainerStatus" => {
            let id = ContainerStatusRequest::decode(message).unwrap().container_id;
            let known = state.lock().unwrap();
            let started = known.containers.iter().find(|(container, _)| container.id == id);
            let status = started.map(|(_, started)| ContainerStatus { started_at: *started });
            answered(&ContainerStatusResponse { status })
        }
        "/runtime.v1.RuntimeService/ExecSync" => {
            let request = ExecSyncRequest::decode(message).unwrap();
            let mut known = state.lock().unwrap();
            known.asked.push(Asked::Exec(request.container_id.clone(), request.cmd.clone()));
            answered(&(known.exec)(&request))
        }
        "/runtime.v1.RuntimeService/PodSandboxStatus" => {
            let network = Some(PodSandboxNetworkStatus { ip: "127.0.0.1".to_owned() });
            answered(&PodSandboxStatusResponse { status: Some(PodSandboxStatus { network }) })
        }
        "/runtime.v1.RuntimeService/StopContainer" => {
            stop(&state, StopContainerRequest::decode(message).unwrap()).await
        }
        other => refused(&format!("unknown method {other}")),
    })
}

async fn stop(state: &Mutex<State>, request: StopContainerRequest) -> Response<Body> {
    let id = request.container_id;
    let mut held = {
        let mut known = state.lock().unwrap();
        known.asked.push(Asked::Stop(id.clone(), request.timeout));
        known.held.subscribe()
    };
    held.wait_for(|held| !held.contains(&id)).await.unwrap();
    let mut known = state.lock().unwrap();
    if let Some(reason) = &known.unstoppable {
        return refused(reason);
    }
    known.exit(&id);
    answered(&StopContainerResponse {})
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
