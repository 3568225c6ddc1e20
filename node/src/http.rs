//! One GET request to a container, as the kubelet sends it (docs/behaviour/node-agent.md#http-requests): over a
//! connection of its own, through no proxy, without a look at the certificate.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, HOST, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, IpAddr, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, InvalidMessage, SignatureScheme};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

#[cfg(test)]
mod tests;

/// So much of a body is read.
const BODY: usize = 10 << 10;
/// The most requests for one answer.
const REQUESTS: usize = 10;

/// A GET request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Get {
    /// The name or the address that is connected to.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path, which may have a query.
    pub path: String,
    /// Whether it is asked by TLS.
    pub tls: bool,
    /// Headers. `Host` replaces the host in the request, and an empty `Accept` or `User-Agent` is not sent.
    pub headers: Vec<(String, String)>,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status. A redirect is one to another host, which is not followed.
    pub status: StatusCode,
    /// The beginning of the body.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum HttpError {
    /// There is no such request: a host, a path or a header can't be sent.
    #[error("the request can't be sent: {0}")]
    Request(#[from] http::Error),
    /// Nobody answers at the address.
    #[error("dial tcp {host}:{port}: {error}")]
    Connect {
        /// Where to.
        host: String,
        /// Where to.
        port: u16,
        /// Why not.
        error: std::io::Error,
    },
    /// The server does not speak TLS.
    #[error("http: server gave HTTP response to HTTPS client")]
    Plain,
    /// The server and the agent found no common way to encrypt.
    #[error("tls: {0}")]
    Tls(std::io::Error),
    /// What the server says is no HTTP.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// One redirect leads to the next.
    #[error("stopped after {REQUESTS} redirects")]
    Redirects,
    /// It took too long.
    #[error("context deadline exceeded after {0:?}")]
    Late(Duration),
}

/// Sends a request and follows redirects on the same host, all in this time.
///
/// # Errors
/// The request can't be sent, or is not answered.
pub async fn get(request: &Get, limit: Duration) -> Result<Answer, HttpError> {
    timeout(limit, follow(request)).await.unwrap_or(Err(HttpError::Late(limit)))
}

/// As [`get`], but a server that does not speak TLS is asked once more without.
///
/// # Errors
/// As [`get`].
pub async fn get_even_plain(request: &Get, limit: Duration) -> Result<Answer, HttpError> {
    let either = async {
        match follow(request).await {
            Err(HttpError::Plain) => follow(&Get { tls: false, ..request.clone() }).await,
            answer => answer,
        }
    };
    timeout(limit, either).await.unwrap_or(Err(HttpError::Late(limit)))
}

async fn follow(request: &Get) -> Result<Answer, HttpError> {
    let mut next = request.clone();
    for _ in 0..REQUESTS {
        let (head, body) = ask(&next).await?;
        match redirected(&next, &head) {
            Some(to) => next = to,
            None => return Ok(Answer { status: head.status(), body }),
        }
    }
    Err(HttpError::Redirects)
}

/// Where an answer leads to on the same host.
fn redirected(request: &Get, head: &Response<()>) -> Option<Get> {
    if !matches!(head.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = head.headers().get(LOCATION)?.to_str().ok()?;
    let location: Uri = location.parse().ok().or_else(|| format!("/{location}").parse().ok())?;
    let path = location.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let Some(host) = location.host() else { return Some(Get { path, ..request.clone() }) };
    let tls = location.scheme_str() == Some("https");
    let port = location.port_u16().unwrap_or(if tls { 443 } else { 80 });
    let is_same = host.trim_matches(['[', ']']).eq_ignore_ascii_case(&request.host);
    is_same.then(|| Get { port, path, tls, ..request.clone() })
}

/// Sends one request over a connection of its own.
async fn ask(request: &Get) -> Result<(Response<()>, Vec<u8>), HttpError> {
    let Get { host, port, .. } = request;
    let message = message(request)?;
    let failed = |error| HttpError::Connect { host: host.clone(), port: *port, error };
    let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
    if !request.tls {
        return exchange(stream, message).await;
    }
    let tls = TlsConnector::from(client()).connect(name(host), stream).await;
    exchange(tls.map_err(read)?, message).await
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    message: Request<Empty<Bytes>>,
) -> Result<(Response<()>, Vec<u8>), HttpError> {
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    let asked = async {
        let (head, body) = sender.send_request(message).await?.into_parts();
        Ok((Response::from_parts(head, ()), beginning(body).await))
    };
    tokio::pin!(asked, connection);
    tokio::select! {
        answer = &mut asked => answer,
        // The end of the connection may be the end of the answer, and then no more is to come.
        _ = &mut connection => asked.await,
    }
}

/// The beginning of a body, also of one that is cut off.
async fn beginning(mut body: Incoming) -> Vec<u8> {
    let mut read = Vec::new();
    while read.len() < BODY {
        let Some(Ok(frame)) = body.frame().await else { break };
        read.extend(frame.into_data().unwrap_or_default());
    }
    read.truncate(BODY);
    read
}

fn message(request: &Get) -> Result<Request<Empty<Bytes>>, HttpError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let name = HeaderName::try_from(name.as_str()).map_err(http::Error::from)?;
        headers.append(name, HeaderValue::try_from(value.as_str()).map_err(http::Error::from)?);
    }
    for (name, default) in [(USER_AGENT, "kube-probe"), (ACCEPT, "*/*")] {
        if headers.get(&name).is_some_and(HeaderValue::is_empty) {
            headers.remove(name);
        } else {
            headers.entry(name).or_insert(HeaderValue::from_static(default));
        }
    }
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    let Get { host, port, tls, .. } = request;
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let usual = if *tls { 443 } else { 80 };
    let host = if *port == usual { host } else { format!("{host}:{port}") };
    let host = HeaderValue::try_from(host).map_err(http::Error::from)?;
    if headers.get(HOST).is_none_or(HeaderValue::is_empty) {
        headers.insert(HOST, host);
    }
    let mut message = Request::get(sendable(&request.path)).body(Empty::new())?;
    *message.headers_mut() = headers;
    Ok(message)
}

/// A path in characters that may be sent.
fn sendable(path: &str) -> String {
    let path = path.split_once('#').map_or(path, |(path, _)| path);
    let mut sendable = String::with_capacity(path.len().saturating_add(1));
    if !path.starts_with('/') {
        sendable.push('/');
    }
    for byte in path.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            sendable.push(char::from(byte));
        } else {
            sendable.push_str(&format!("%{byte:02X}"));
        }
    }
    sendable
}

/// The name of a host in TLS. One that is no name is asked for by its address alone.
fn name(host: &str) -> ServerName<'static> {
    let nobody = || ServerName::IpAddress(IpAddr::from(std::net::IpAddr::from([0, 0, 0, 0])));
    ServerName::try_from(host.to_owned()).unwrap_or_else(|_| nobody())
}

fn read(error: std::io::Error) -> HttpError {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => HttpError::Plain,
        _ => HttpError::Tls(error),
    }
}

/// How all requests are encrypted.
fn client() -> Arc<ClientConfig> {
    static CLIENT: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let client = || {
        let anyone = Arc::new(TrustAnyone(aws_lc_rs::default_provider()));
        let client = ClientConfig::builder().dangerous().with_custom_certificate_verifier(anyone);
        let mut client = client.with_no_client_auth();
        client.resumption = Resumption::disabled();
        Arc::new(client)
    };
    CLIENT.get_or_init(client).clone()
}

/// Checks that the server has the key of its certificate, but not who says whose it is.
#[derive(Debug)]
struct TrustAnyone(CryptoProvider);

impl ServerCertVerifier for TrustAnyone {
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
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
