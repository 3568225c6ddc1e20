//! Connections to the API server.

use std::path::Path;
use std::time::Duration;

use kube::client::ClientBuilder;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use kube::{Client, Config};
use thiserror::Error;
use values::segment::without_segments;

use crate::requests::Requests;

/// Longest time for a connection to come up.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest silence on a connection that waits for an answer. Watches hear a bookmark each minute, so a host
/// that vanished without a word is noticed after this time.
const SILENCE: Duration = Duration::from_secs(100);

/// What to accept where only the metadata of an object is wanted.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// What to accept where only the metadata of a list is wanted.
pub const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Makes aws-lc-rs the cryptography of the process. Must come before any TLS.
pub fn install_cryptography() {
    // An error says that one is installed already.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
}

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The kubeconfig file can't be used.
    #[error("kubeconfig {path} can't be used: {source}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// What is wrong.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// A server of the cluster can't be called.
    #[error("server {url} can't be called: {source}")]
    Peer {
        /// Its address.
        url: String,
        /// What is wrong.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// Neither in a cluster nor a kubeconfig.
    #[error("no cluster found: neither a service account nor a kubeconfig is usable: {0}")]
    Infer(#[source] kube::config::InferConfigError),
    /// The client can't be built from the configuration.
    #[error("the client for the API server can't be built: {0}")]
    Client(#[source] kube::Error),
}

/// Reads where the API server is: from `kubeconfig` if given, else from the service account of the
/// Pod, else from the user's kubeconfig.
///
/// # Errors
/// Nothing usable was found.
pub async fn configuration(kubeconfig: Option<&Path>) -> Result<Config, ConnectError> {
    let Some(path) = kubeconfig else { return Config::infer().await.map_err(ConnectError::Infer) };
    let wrap = |source| ConnectError::Kubeconfig { path: path.display().to_string(), source };
    let file = Kubeconfig::read_from(path).map_err(wrap)?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(wrap)
}

/// A server of the cluster that answers like the API server to those that show a token of their account.
#[derive(Debug)]
pub struct Peer<'a> {
    /// `https://host:port`.
    pub url: String,
    /// The name in its certificate, where that is not the host.
    pub name: Option<String>,
    /// The certificates by which it is known: PEM in base64.
    pub authority: String,
    /// The file of the token.
    pub token: &'a Path,
}

impl Peer<'_> {
    /// The configuration of clients of this server. No proxy lies between servers of a cluster.
    ///
    /// # Errors
    /// The address is none, or the certificates can't be read.
    pub async fn configuration(self) -> Result<Config, ConnectError> {
        let Self { url, name, authority, token } = self;
        let cluster = Cluster {
            server: Some(url.clone()),
            certificate_authority_data: Some(authority),
            tls_server_name: name,
            ..Cluster::default()
        };
        let user = AuthInfo { token_file: Some(token.display().to_string()), ..AuthInfo::default() };
        let context =
            Context { cluster: "peer".to_owned(), user: Some("agent".to_owned()), ..Context::default() };
        let named = Kubeconfig {
            clusters: vec![NamedCluster {
                name: "peer".to_owned(),
                cluster: Some(cluster),
                ..NamedCluster::default()
            }],
            auth_infos: vec![NamedAuthInfo {
                name: "agent".to_owned(),
                auth_info: Some(user),
                ..NamedAuthInfo::default()
            }],
            contexts: vec![NamedContext {
                name: "peer".to_owned(),
                context: Some(context),
                ..NamedContext::default()
            }],
            current_context: Some("peer".to_owned()),
            ..Kubeconfig::default()
        };
        let wrap = |source| ConnectError::Peer { url, source };
        let configuration = Config::from_custom_kubeconfig(named, &KubeConfigOptions::default()).await;
        let mut configuration = configuration.map_err(wrap)?;
        configuration.proxy_url = None;
        Ok(configuration)
    }
}

/// A client that names itself `user_agent` (docs/behaviour/server.md#environment), with its worker on the
/// current runtime.
///
/// # Errors
/// The configuration does not make a client, for example for lack of a certificate.
pub fn connect(configuration: &Config, user_agent: &str) -> Result<Client, ConnectError> {
    connect_with_timeout(configuration, user_agent, SILENCE)
}

/// [`connect`], with a client that gives a silent connection up after `timeout`.
///
/// # Errors
/// The configuration does not make a client.
pub fn connect_with_timeout(
    configuration: &Config,
    user_agent: &str,
    timeout: Duration,
) -> Result<Client, ConnectError> {
    Client::try_from(prepared(configuration, user_agent, timeout)).map_err(ConnectError::Client)
}

/// Makes the clients of a process that counts what it asks of the API server.
#[derive(Clone)]
pub struct Connector {
    configuration: Config,
    requests: Requests,
}

impl Connector {
    /// Clients for this API server, whose requests are counted together.
    pub fn new(configuration: Config, requests: Requests) -> Self {
        Self { configuration, requests }
    }

    /// As the free function [`connect`].
    ///
    /// # Errors
    /// The configuration does not make a client.
    pub fn connect(&self, user_agent: &str) -> Result<Client, ConnectError> {
        self.connect_with_timeout(user_agent, SILENCE)
    }

    /// A client that gives a silent connection up after `timeout`.
    ///
    /// # Errors
    /// The configuration does not make a client.
    pub fn connect_with_timeout(&self, user_agent: &str, timeout: Duration) -> Result<Client, ConnectError> {
        self.build(prepared(&self.configuration, user_agent, timeout))
    }

    /// A client that asks once: where the API server says to try again later, the caller decides whether to.
    ///
    /// # Errors
    /// The configuration does not make a client.
    pub fn connect_once(&self, user_agent: &str) -> Result<Client, ConnectError> {
        let mut configuration = prepared(&self.configuration, user_agent, SILENCE);
        configuration.default_retry = false;
        self.build(configuration)
    }

    fn build(&self, configuration: Config) -> Result<Client, ConnectError> {
        let host = configuration.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
        let builder = ClientBuilder::try_from(configuration).map_err(ConnectError::Client)?;
        Ok(builder.with_layer(&self.requests.layer(host)).build())
    }
}

/// A client to which lists and watches show metadata alone, which costs the API server, the network and us
/// less, and keeps contents out of this process. The objects are of the same form, without their contents.
pub fn metadata_only(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let accepted = if is_watch { METADATA } else { METADATA_LIST };
        request.headers_mut().insert(http::header::ACCEPT, http::HeaderValue::from_static(accepted));
        let client = client.clone();
        async move { client.send(request).await }
    });
    Client::new(service, namespace)
}

fn prepared(configuration: &Config, user_agent: &str, timeout: Duration) -> Config {
    let mut configuration = configuration.clone();
    // A host that vanishes in the middle of an answer must not hold anybody forever.
    configuration.connect_timeout = Some(CONNECT.min(timeout));
    configuration.read_timeout = Some(timeout);
    if let Ok(value) = http::HeaderValue::from_str(user_agent) {
        configuration.headers.push((http::header::USER_AGENT, value));
    }
    configuration
}

/// The message of the API server where it sent one, else the client's own. It does not say how webhooks are called.
pub fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => without_segments(&status.message),
        other => without_segments(&other.to_string()),
    }
}
