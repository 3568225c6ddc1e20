//! One HTTP request over a connection of its own, through no proxy: encrypted or plain, to a server that has to show who
//! it is or to anybody.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, InvalidMessage, RootCertStore, SignatureScheme};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum HttpError {
    /// There is no such request: a host, a path or a header can't be sent.
    #[error("the request can't be sent: {0}")]
    Request(#[from] http::Error),
    /// The name can't be verified.
    #[error("{0} is not a name that a certificate can carry")]
    Name(String),
    /// What is to be trusted is unusable.
    #[error("the CA bundle can't be used: {0}")]
    Authorities(#[source] rustls::Error),
    /// Nobody answers at the address.
    #[error("dial tcp {host}:{port}: {source}")]
    Connect {
        /// Where to.
        host: String,
        /// Where to.
        port: u16,
        /// Why not.
        source: io::Error,
    },
    /// The server does not speak TLS.
    #[error("http: server gave HTTP response to HTTPS client")]
    Plain,
    /// The certificate is not accepted, or both sides found no common way to encrypt.
    #[error("tls: {0}")]
    Tls(#[source] io::Error),
    /// What the server says is no HTTP.
    #[error("{0}")]
    Http(#[from] hyper::Error),
}

/// What a server has to show.
#[derive(Clone)]
pub struct Trust {
    client: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Trust {
    /// A certificate for `name` by one of these authorities.
    ///
    /// # Errors
    /// An authority can't be used, or no certificate can carry that name.
    pub fn authorities(
        authorities: impl IntoIterator<Item = CertificateDer<'static>>,
        name: &str,
    ) -> Result<Self, HttpError> {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority).map_err(HttpError::Authorities)?;
        }
        let client = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(HttpError::Authorities)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).map_err(|_| HttpError::Name(name.to_owned()))?;
        Ok(Self { client: Arc::new(client), name })
    }

    /// Any certificate. A host that is no name is asked for by its address alone.
    pub fn anyone(host: &str) -> Self {
        static CLIENT: OnceLock<Arc<ClientConfig>> = OnceLock::new();
        let client = || {
            let anyone = Arc::new(Anyone(aws_lc_rs::default_provider()));
            let client = ClientConfig::builder().dangerous().with_custom_certificate_verifier(anyone);
            let mut client = client.with_no_client_auth();
            client.resumption = Resumption::disabled();
            Arc::new(client)
        };
        let nobody = || ServerName::from(IpAddr::from([0, 0, 0, 0]));
        let name = ServerName::try_from(host.to_owned()).unwrap_or_else(|_| nobody());
        Self { client: CLIENT.get_or_init(client).clone(), name }
    }
}

/// Sends a request, encrypted where `trust` says what the server has to show. Gives the answer with the first `most` bytes of
/// its body, which may have been cut off.
///
/// # Errors
/// Nobody answers, or not as asked for.
pub async fn send(
    (host, port): (&str, u16),
    trust: Option<Trust>,
    request: Request<impl Into<Bytes>>,
    most: usize,
) -> Result<Response<Vec<u8>>, HttpError> {
    let request = request.map(|body| Full::new(body.into()));
    let failed = |source| HttpError::Connect { host: host.to_owned(), port, source };
    let stream = TcpStream::connect((host, port)).await.map_err(failed)?;
    match trust {
        None => exchange(stream, request, most).await,
        Some(Trust { client, name }) => {
            let stream = TlsConnector::from(client).connect(name, stream).await.map_err(read)?;
            exchange(stream, request, most).await
        }
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<Full<Bytes>>,
    most: usize,
) -> Result<Response<Vec<u8>>, HttpError> {
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    let asked = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok(Response::from_parts(head, beginning(body, most).await))
    };
    tokio::pin!(asked, connection);
    tokio::select! {
        answer = &mut asked => answer,
        // The end of the connection may be the end of the answer, and then no more is to come.
        _ = &mut connection => asked.await,
    }
}

/// The beginning of a body, also of one that is cut off.
async fn beginning(mut body: Incoming, most: usize) -> Vec<u8> {
    let mut read = Vec::new();
    while read.len() < most {
        let Some(Ok(frame)) = body.frame().await else { break };
        read.extend(frame.into_data().unwrap_or_default());
    }
    read.truncate(most);
    read
}

fn read(error: io::Error) -> HttpError {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => HttpError::Plain,
        _ => HttpError::Tls(error),
    }
}

/// Checks that the server has the key of its certificate, but not who says whose it is.
#[derive(Debug)]
struct Anyone(CryptoProvider);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
