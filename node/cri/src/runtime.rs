//! The calls to one runtime. The connection comes up with the first call, and again after the runtime was away.

use std::path::Path;
use std::time::Duration;

use http::uri::PathAndQuery;
use prometheus::{IntCounterVec, Opts, Registry};
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};
use tonic_prost::ProstCodec;

use crate::error::CriError;
use crate::messages::{
    AuthConfig, Container, ContainerFilter, ContainerStatusRequest, ContainerStatusResponse, ExecSyncRequest,
    ExecSyncResponse, Image, ImageFsInfoRequest, ImageFsInfoResponse, ImageSpec, ListContainersRequest,
    ListContainersResponse, ListImagesRequest, ListImagesResponse, PodSandboxConfig, PodSandboxStatusRequest,
    PodSandboxStatusResponse, PullImageRequest, PullImageResponse, StopContainerRequest,
    StopContainerResponse, VersionRequest, VersionResponse,
};

/// The largest answer: lists of images and containers of a full node.
const LARGEST: usize = 16 << 20;
/// The largest answer of a command, whose output the container chooses.
const LARGEST_OUTPUT: usize = 1 << 20;
/// The version of the kubelet's API that is asked for.
const KUBELET_API: &str = "0.1.0";
/// Longest time for the calls that read little.
const SHORT: Duration = Duration::from_secs(5);
/// How much longer the runtime may take for what has a time of its own.
const GRACE: Duration = SHORT;
/// Longest time for the calls that read the disk.
const LONG: Duration = Duration::from_secs(10);

/// Counts calls by method and by what came of them. Cheap to clone: clones count together.
#[derive(Clone, Debug, Default)]
pub struct Calls(Option<IntCounterVec>);

impl Calls {
    /// A counter in `registry`.
    ///
    /// # Errors
    /// The registry has a metric of this name already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let options = Opts::new(
            "kruise_daemon_cri_requests_total",
            "Calls to the container runtime by method and by the code of gRPC that came of them",
        );
        let calls = IntCounterVec::new(options, &["method", "code"])?;
        registry.register(Box::new(calls.clone()))?;
        Ok(Self(Some(calls)))
    }

    fn count(&self, method: &str, code: &str) {
        if let Some(calls) = &self.0 {
            calls.with_label_values(&[method, code]).inc();
        }
    }
}

/// A container runtime. Cheap to clone: clones share a connection.
#[derive(Clone, Debug)]
pub struct Runtime {
    grpc: Grpc<Channel>,
    name: String,
    calls: Calls,
}

/// A method of the interface: its service, its name.
type Method = (&'static str, &'static str);

/// The label in which the kubelet names the Pod of a container.
const POD_UID: &str = "io.kubernetes.pod.uid";
const IMAGES: &str = "runtime.v1.ImageService";
const CONTAINERS: &str = "runtime.v1.RuntimeService";

impl Runtime {
    /// The runtime that listens at `socket`, after it has shown that it serves images and containers.
    ///
    /// # Errors
    /// It does not answer, or not as a runtime does.
    pub async fn prove(socket: &Path, calls: Calls) -> Result<Self, CriError> {
        let wrong = || CriError::Path(socket.to_owned());
        let address = format!("unix:{}", socket.to_str().ok_or_else(wrong)?);
        let channel = Endpoint::from_shared(address).map_err(|_| wrong())?.connect_lazy();
        let grpc = Grpc::new(channel).max_decoding_message_size(LARGEST);
        let mut runtime = Self { grpc, name: String::new(), calls };
        let ImageFsInfoResponse {} =
            runtime.call((IMAGES, "ImageFsInfo"), ImageFsInfoRequest {}, Some(LONG)).await?;
        runtime.list_images(Some(LONG)).await?;
        let request = VersionRequest { version: KUBELET_API.to_owned() };
        let version: VersionResponse = runtime.call((CONTAINERS, "Version"), request, Some(SHORT)).await?;
        for (what, value) in [
            ("its name", &version.runtime_name),
            ("its version", &version.runtime_version),
            ("the version of its API", &version.runtime_api_version),
            ("the version of the kubelet's API", &version.version),
        ] {
            if value.is_empty() {
                return Err(CriError::Nameless(what));
            }
        }
        runtime.name = version.runtime_name;
        Ok(runtime)
    }

    /// Its name, which is the scheme of its container IDs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The images of the node.
    ///
    /// # Errors
    /// The runtime does not answer, or with an error.
    pub async fn list_images(&self, limit: Option<Duration>) -> Result<Vec<Image>, CriError> {
        let method = (IMAGES, "ListImages");
        let answer: ListImagesResponse = self.call(method, ListImagesRequest {}, limit).await?;
        Ok(answer.images)
    }

    /// Pulls an image, as somebody where a user is given. It takes as long as it takes: the caller drops it.
    ///
    /// # Errors
    /// The runtime does not answer, or says what the registry said.
    pub async fn pull_image(
        &self,
        image: &str,
        auth: Option<AuthConfig>,
        sandbox: PodSandboxConfig,
    ) -> Result<String, CriError> {
        let image = Some(ImageSpec { image: image.to_owned() });
        let request = PullImageRequest { image, auth, sandbox_config: Some(sandbox) };
        let answer: PullImageResponse = self.call((IMAGES, "PullImage"), request, None).await?;
        Ok(answer.image_ref)
    }

    /// The containers of a Pod, all that were not removed yet.
    ///
    /// # Errors
    /// The runtime does not answer, or with an error.
    pub async fn containers_of(&self, pod_uid: &str) -> Result<Vec<Container>, CriError> {
        let label = (POD_UID.to_owned(), pod_uid.to_owned());
        self.list_containers(ContainerFilter { label_selector: [label].into(), ..ContainerFilter::default() })
            .await
    }

    /// The containers of the node, all that were not removed yet.
    ///
    /// # Errors
    /// The runtime does not answer, or with an error.
    pub async fn containers(&self) -> Result<Vec<Container>, CriError> {
        self.list_containers(ContainerFilter::default()).await
    }

    /// The container of this ID; `None` where there is none.
    ///
    /// # Errors
    /// The runtime does not answer, or with an error.
    pub async fn container(&self, id: &str) -> Result<Option<Container>, CriError> {
        let filter = ContainerFilter { id: id.to_owned(), ..ContainerFilter::default() };
        Ok(self.list_containers(filter).await?.into_iter().next())
    }

    async fn list_containers(&self, filter: ContainerFilter) -> Result<Vec<Container>, CriError> {
        let request = ListContainersRequest { filter: Some(filter) };
        let answer: ListContainersResponse =
            self.call((CONTAINERS, "ListContainers"), request, Some(SHORT)).await?;
        Ok(answer.containers)
    }

    /// When a container was started, in nanoseconds since 1970; 0 where it was not.
    ///
    /// # Errors
    /// The runtime does not answer, or with an error.
    pub async fn started_at(&self, id: &str) -> Result<i64, CriError> {
        let request = ContainerStatusRequest { container_id: id.to_owned() };
        let answer: ContainerStatusResponse =
            self.call((CONTAINERS, "ContainerStatus"), request, Some(SHORT)).await?;
        Ok(answer.status.map_or(0, |status| status.started_at))
    }

    /// The address of a Pod; `None` where it is on the network of the host.
    ///
    /// # Errors
    /// The runtime does not answer, or with an error.
    pub async fn address(&self, sandbox: &str) -> Result<Option<String>, CriError> {
        let request = PodSandboxStatusRequest { pod_sandbox_id: sandbox.to_owned() };
        let answer: PodSandboxStatusResponse =
            self.call((CONTAINERS, "PodSandboxStatus"), request, Some(SHORT)).await?;
        let network = answer.status.and_then(|status| status.network);
        Ok(network.map(|network| network.ip).filter(|ip| !ip.is_empty()))
    }

    /// Runs a command in a container, for so long at most.
    ///
    /// # Errors
    /// The runtime does not answer, or with an error; the command may have run all the same.
    pub async fn exec(
        &self,
        id: &str,
        command: Vec<String>,
        limit: Duration,
    ) -> Result<ExecSyncResponse, CriError> {
        let request = ExecSyncRequest { container_id: id.to_owned(), cmd: command, timeout: seconds(limit) };
        let small =
            Self { grpc: self.grpc.clone().max_decoding_message_size(LARGEST_OUTPUT), ..self.clone() };
        small.call((CONTAINERS, "ExecSync"), request, Some(limit.saturating_add(GRACE))).await
    }

    /// Stops a container, which is killed after `grace`. One that is not there has stopped.
    ///
    /// # Errors
    /// The runtime does not answer, or can't stop it.
    pub async fn stop(&self, id: &str, grace: Duration) -> Result<(), CriError> {
        let request = StopContainerRequest { container_id: id.to_owned(), timeout: seconds(grace) };
        let limit = Some(grace.saturating_add(GRACE));
        let answer: Result<StopContainerResponse, CriError> =
            self.call((CONTAINERS, "StopContainer"), request, limit).await;
        match answer {
            Err(CriError::Refused { code: Code::NotFound, .. }) => Ok(()),
            answer => answer.map(drop),
        }
    }

    async fn call<Q, A>(
        &self,
        (service, method): Method,
        request: Q,
        limit: Option<Duration>,
    ) -> Result<A, CriError>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let answered = async {
            let mut grpc = self.grpc.clone();
            grpc.ready().await.map_err(|error| CriError::Unreachable(error.to_string()))?;
            let path = PathAndQuery::try_from(format!("/{service}/{method}"))
                .map_err(|error| CriError::Unreachable(error.to_string()))?;
            let answer = grpc.unary(Request::new(request), path, ProstCodec::<Q, A>::default()).await?;
            Ok(answer.into_inner())
        };
        let answer = match limit {
            Some(limit) => timeout(limit, answered).await.unwrap_or(Err(CriError::Late { method, limit })),
            None => answered.await,
        };
        match &answer {
            Ok(_) => self.calls.count(method, "OK"),
            Err(error) => self.calls.count(method, &error.code()),
        }
        answer
    }
}

/// In whole seconds, and one at least: 0 would mean no limit.
fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX).max(1)
}
