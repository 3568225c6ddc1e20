//! One HTTPS request to our own server, verified as the API server would verify it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::material;

/// Answers of our own are small; more is not read.
const MAX_ANSWER: usize = 1 << 20;

/// Why our own server could not be called.
#[derive(Debug, Error)]
pub enum CallError {
    /// No answer in time.
    #[error("no answer within {0:?}")]
    TimedOut(std::time::Duration),
    /// No connection.
    #[error("{address} is not reachable: {source}")]
    Connect {
        /// Where to.
        address: String,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The certificate is not accepted, or the other side speaks no TLS.
    #[error("TLS with {name}: {source}")]
    Tls {
        /// The name that the certificate must carry.
        name: String,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The name can't be verified.
    #[error("{0} is not a name that a certificate can carry")]
    Name(String),
    /// The bundle is empty or unusable.
    #[error("the CA bundle can't be used: {0}")]
    Bundle(#[source] rustls::Error),
    /// HTTP went wrong.
    #[error("HTTP: {0}")]
    Http(#[from] hyper::Error),
    /// The request can't be built.
    #[error("HTTP request: {0}")]
    Request(#[from] http::Error),
    /// The answer can't be read.
    #[error("the answer is not readable: {0}")]
    Answer(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The answer isn't one of ours.
    #[error("unexpected answer of {path}: {detail}")]
    Unexpected {
        /// The path called.
        path: String,
        /// What came.
        detail: String,
    },
    /// The Service can't be looked up, or has no address.
    #[error("Service {name}: {detail}")]
    Service {
        /// Namespace and name.
        name: String,
        /// What is wrong.
        detail: String,
    },
}

/// What to trust, and under which name the server must show itself.
pub(crate) struct Peer {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Peer {
    pub(crate) fn new(bundle: &str, name: &str) -> Result<Self, CallError> {
        let mut roots = RootCertStore::empty();
        for certificate in material::certificates(bundle) {
            roots.add(certificate).map_err(CallError::Bundle)?;
        }
        let config = ClientConfig::builder_with_provider(material::provider())
            .with_safe_default_protocol_versions()
            .map_err(CallError::Bundle)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).map_err(|_| CallError::Name(name.to_owned()))?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }

    /// GETs `path` at `address`, or POSTs `body` to it.
    pub(crate) async fn call(
        &self,
        address: &Address,
        path: &str,
        body: Option<String>,
    ) -> Result<(StatusCode, Bytes), CallError> {
        let stream = address.connect().await?;
        let name = self.name.to_str().into_owned();
        let tls = self
            .connector
            .connect(self.name.clone(), stream)
            .await
            .map_err(|source| CallError::Tls { name: name.clone(), source })?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
        let driver = tokio::spawn(connection);
        let request = Request::builder()
            .method(if body.is_some() { "POST" } else { "GET" })
            .uri(path)
            .header(header::HOST, name)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.unwrap_or_default())))?;
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await.map_err(CallError::Answer)?;
        driver.abort();
        Ok((status, body.to_bytes()))
    }
}

/// Where to connect to.
pub(crate) enum Address {
    Name(String, u16),
    Socket(SocketAddr),
}

impl Address {
    async fn connect(&self) -> Result<TcpStream, CallError> {
        let stream = match self {
            Self::Name(host, port) => TcpStream::connect((host.as_str(), *port)).await,
            Self::Socket(address) => TcpStream::connect(address).await,
        };
        stream.map_err(|source| CallError::Connect { address: self.to_string(), source })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(host, port) => write!(formatter, "{host}:{port}"),
            Self::Socket(address) => address.fmt(formatter),
        }
    }
}
