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
