//! The messages of `runtime.v1`, with those of their fields that are used here. What a runtime sends beside them
//! is passed over. The numbers are those of `k8s.io/cri-api`.

use std::collections::HashMap;

/// Asks who answers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VersionRequest {
    /// The version of the kubelet's API.
    #[prost(string, tag = "1")]
    pub version: String,
}

/// Who answers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VersionResponse {
    /// The version of the kubelet's API.
    #[prost(string, tag = "1")]
    pub version: String,
    /// The name of the runtime, which is also the scheme of its container IDs.
    #[prost(string, tag = "2")]
    pub runtime_name: String,
    /// The version of the runtime.
    #[prost(string, tag = "3")]
    pub runtime_version: String,
    /// The version of its API.
    #[prost(string, tag = "4")]
    pub runtime_api_version: String,
}

/// Asks where images are stored. Only the answer counts here: it proves that images are served.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ImageFsInfoRequest {}

/// Where images are stored.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ImageFsInfoResponse {}

/// Asks for all images.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ListImagesRequest {}

/// The images of the node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListImagesResponse {
    /// One entry for each ID.
    #[prost(message, repeated, tag = "1")]
    pub images: Vec<Image>,
}

/// An image on the node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Image {
    /// Its ID: the digest of its configuration.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its names with tags.
    #[prost(string, repeated, tag = "2")]
    pub repo_tags: Vec<String>,
    /// Its names with digests.
    #[prost(string, repeated, tag = "3")]
    pub repo_digests: Vec<String>,
}

/// The name of an image.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ImageSpec {
    /// The name, with tag or digest.
    #[prost(string, tag = "1")]
    pub image: String,
}

/// Asks to pull an image.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PullImageRequest {
    /// The image.
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
    /// Who asks the registry; nobody where it is absent.
    #[prost(message, optional, tag = "2")]
    pub auth: Option<AuthConfig>,
    /// The Pod that the image is for. Some runtimes want one.
    #[prost(message, optional, tag = "3")]
    pub sandbox_config: Option<PodSandboxConfig>,
}

/// A user of a registry. Its password is not printed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct AuthConfig {
    /// The name.
    #[prost(string, tag = "1")]
    pub username: String,
    /// The password.
    #[prost(string, tag = "2")]
    pub password: String,
}

impl std::fmt::Debug for AuthConfig {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AuthConfig").finish_non_exhaustive()
    }
}

/// Metadata of the Pod that an image is for.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PodSandboxConfig {
    /// Its labels.
    #[prost(map = "string, string", tag = "6")]
    pub labels: HashMap<String, String>,
    /// Its annotations.
    #[prost(map = "string, string", tag = "7")]
    pub annotations: HashMap<String, String>,
}

/// The image that was pulled.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PullImageResponse {
    /// Its ID or its name with the digest.
    #[prost(string, tag = "1")]
    pub image_ref: String,
}

/// Which containers are asked for: those of an ID, and those that have all these labels.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerFilter {
    /// The ID; any where it is empty.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The labels.
    #[prost(map = "string, string", tag = "4")]
    pub label_selector: HashMap<String, String>,
}

/// Asks for containers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListContainersRequest {
    /// Which ones.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<ContainerFilter>,
}

/// The containers that were asked for.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListContainersResponse {
    /// The containers.
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<Container>,
}

/// What a container does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ContainerState {
    /// It was made and does not run yet.
    Created = 0,
    /// It runs.
    Running = 1,
    /// It has ended.
    Exited = 2,
    /// The runtime does not know.
    Unknown = 3,
}

/// A container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Container {
    /// Its ID.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The ID of the sandbox of its Pod.
    #[prost(string, tag = "2")]
    pub pod_sandbox_id: String,
    /// What it does.
    #[prost(enumeration = "ContainerState", tag = "6")]
    pub state: i32,
    /// When it was made, in nanoseconds since 1970.
    #[prost(int64, tag = "7")]
    pub created_at: i64,
    /// The kubelet's labels.
    #[prost(map = "string, string", tag = "8")]
    pub labels: HashMap<String, String>,
    /// The kubelet's annotations.
    #[prost(map = "string, string", tag = "9")]
    pub annotations: HashMap<String, String>,
}

/// Asks for more about a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerStatusRequest {
    /// Its ID.
    #[prost(string, tag = "1")]
    pub container_id: String,
}

/// More about a container.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ContainerStatusResponse {
    /// What is known.
    #[prost(message, optional, tag = "1")]
    pub status: Option<ContainerStatus>,
}

/// What a list of containers does not contain.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ContainerStatus {
    /// When it was started, in nanoseconds since 1970; 0 where it was not.
    #[prost(int64, tag = "5")]
    pub started_at: i64,
}

/// Asks to run a command in a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecSyncRequest {
    /// The container's ID.
    #[prost(string, tag = "1")]
    pub container_id: String,
    /// The command.
    #[prost(string, repeated, tag = "2")]
    pub cmd: Vec<String>,
    /// How many seconds it may take; any where it is 0.
    #[prost(int64, tag = "3")]
    pub timeout: i64,
}

/// What came of a command.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecSyncResponse {
    /// Its output.
    #[prost(bytes = "vec", tag = "1")]
    pub stdout: Vec<u8>,
    /// Its output of errors.
    #[prost(bytes = "vec", tag = "2")]
    pub stderr: Vec<u8>,
    /// Its exit code.
    #[prost(int32, tag = "3")]
    pub exit_code: i32,
}

/// Asks to stop a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StopContainerRequest {
    /// Its ID.
    #[prost(string, tag = "1")]
    pub container_id: String,
    /// How many seconds it has before it is killed.
    #[prost(int64, tag = "2")]
    pub timeout: i64,
}

/// A container has stopped.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StopContainerResponse {}

/// Asks for the sandbox of a Pod.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PodSandboxStatusRequest {
    /// Its ID.
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
}

/// The sandbox of a Pod.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PodSandboxStatusResponse {
    /// What is known.
    #[prost(message, optional, tag = "1")]
    pub status: Option<PodSandboxStatus>,
}

/// What is known of a sandbox.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PodSandboxStatus {
    /// Its network; a Pod on the network of the host has none of its own.
    #[prost(message, optional, tag = "5")]
    pub network: Option<PodSandboxNetworkStatus>,
}

/// The network of a sandbox.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PodSandboxNetworkStatus {
    /// The address of the Pod.
    #[prost(string, tag = "1")]
    pub ip: String,
}
