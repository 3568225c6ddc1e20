//! One GET request to a container, as the kubelet sends it (docs/behaviour/node-agent.md#http-requests): over a
//! connection of its own, through no proxy, without checking the certificate.

use std::time::Duration;

use cluster::https::{self, Trust, send};
use http::header::{ACCEPT, CONNECTION, HOST, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use http::{HeaderMap, Request, Response, Uri};
use thiserror::Error;
use tokio::time::timeout;

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

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum HttpError {
    /// A request is not answered.
    #[error(transparent)]
    Unanswered(#[from] https::HttpError),
    /// One redirect leads to the next.
    #[error("stopped after {REQUESTS} redirects")]
    Redirects,
    /// It took too long.
    #[error("context deadline exceeded after {0:?}")]
    Late(Duration),
}

/// Sends a request and follows redirects on the same host, all in this time. Gives the answer with the beginning of its body;
/// a redirect is one to another host, which is not followed.
///
/// # Errors
/// The request can't be sent, or is not answered.
pub async fn get(request: &Get, limit: Duration) -> Result<Response<Vec<u8>>, HttpError> {
    timeout(limit, follow(request)).await.unwrap_or(Err(HttpError::Late(limit)))
}

/// As [`get`], but a server that does not speak TLS is asked once more without.
///
/// # Errors
/// As [`get`].
pub async fn get_even_plain(request: &Get, limit: Duration) -> Result<Response<Vec<u8>>, HttpError> {
    let either = async {
        match follow(request).await {
            Err(HttpError::Unanswered(https::HttpError::Plain)) => {
                follow(&Get { tls: false, ..request.clone() }).await
            }
            answer => answer,
        }
    };
    timeout(limit, either).await.unwrap_or(Err(HttpError::Late(limit)))
}

async fn follow(request: &Get) -> Result<Response<Vec<u8>>, HttpError> {
    let mut next = request.clone();
    for _ in 0..REQUESTS {
        let trust = next.tls.then(|| Trust::anyone(&next.host));
        let message = message(&next).map_err(https::HttpError::Request)?;
        let answer = send((&next.host, next.port), trust, message, BODY).await?;
        match redirected(&next, &answer) {
            Some(to) => next = to,
            None => return Ok(answer),
        }
    }
    Err(HttpError::Redirects)
}

/// Where an answer leads to on the same host.
fn redirected(request: &Get, answer: &Response<Vec<u8>>) -> Option<Get> {
    if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = answer.headers().get(LOCATION)?.to_str().ok()?;
    let location: Uri = location.parse().ok().or_else(|| format!("/{location}").parse().ok())?;
    let path = location.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let Some(host) = location.host() else { return Some(Get { path, ..request.clone() }) };
    let tls = location.scheme_str() == Some("https");
    let port = location.port_u16().unwrap_or(if tls { 443 } else { 80 });
    let is_same = host.trim_matches(['[', ']']).eq_ignore_ascii_case(&request.host);
    is_same.then(|| Get { port, path, tls, ..request.clone() })
}

fn message(request: &Get) -> Result<Request<String>, http::Error> {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let name = HeaderName::try_from(name.as_str())?;
        headers.append(name, HeaderValue::try_from(value.as_str())?);
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
    let host = HeaderValue::try_from(host)?;
    if headers.get(HOST).is_none_or(HeaderValue::is_empty) {
        headers.insert(HOST, host);
    }
    let mut message = Request::get(sendable(&request.path)).body(String::new())?;
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
