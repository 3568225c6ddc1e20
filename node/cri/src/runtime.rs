//! The calls to one runtime. The connection comes up with the first call, and again after the runtime was away.

use std::path::Path;
use std::time::Duration;

use http::uri::PathAndQuery;
use prometheus::{IntCounterVec, Opts, Registry};
use tokio::time::timeout;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::error::CriError;
use crate::messages::{
    AuthConfig, Image, ImageFsInfoRequest, ImageFsInfoResponse, ImageSpec, ListImagesRequest,
    ListImagesResponse, PodSandboxConfig, PullImageRequest, PullImageResponse, VersionRequest,
    VersionResponse,
};

/// The largest answer: lists of images and containers of a full node.
const LARGEST: usize = 16 << 20;
/// The version of the kubelet's API that is asked for.
const KUBELET_API: &str = "0.1.0";
/// Longest time for the calls that look at little.
const SHORT: Duration = Duration::from_secs(5);
/// Longest time for the calls that look at the disk.
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
