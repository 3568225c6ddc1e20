//! The request of a preStop hook, as the kubelet sends it: any answer is a good one, and nobody looks at certificates.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream, UdpSocket};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};
use thiserror::Error;

use crate::arguments::Request;

/// How every HTTP answer begins.
const ANSWER: &[u8] = b"HTTP/";
/// Addresses that nobody has, by whose routes the own address is known. Nothing is sent there.
const ELSEWHERE: [(&str, &str); 2] = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];

/// A request was not answered.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    /// A header or the path breaks the line.
    #[error("the request of the preStop hook can't be sent: it has line breaks")]
    Lines,
    /// The connection failed.
    #[error("the request of the preStop hook to {host}:{port} failed: {error}")]
    Connection {
        /// Where to.
        host: String,
        /// Where to.
        port: u16,
        /// Why.
        error: io::Error,
    },
}

/// Sends a request and waits for the beginning of the answer. What does not speak TLS is asked again without.
///
/// # Errors
/// Nobody answers, or not by HTTP.
pub(crate) fn send(request: &Request) -> Result<(), HttpError> {
    let host = Some(request.host.clone()).filter(|host| !host.is_empty());
    let host = host.unwrap_or_else(|| own_address().to_string());
    let message = message(request, &host)?;
    let exchanged = match request.scheme.eq_ignore_ascii_case("https") {
        false => plain(request, &host, &message),
        true => match encrypted(request, &host, &message) {
            // A server without TLS answers with what is no TLS.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => plain(request, &host, &message),
            exchanged => exchanged,
        },
    };
    exchanged.map_err(|error| HttpError::Connection { host, port: request.port, error })
}

fn plain(request: &Request, host: &str, message: &str) -> io::Result<()> {
    exchange(TcpStream::connect((host, request.port))?, message)
}

fn encrypted(request: &Request, host: &str, message: &str) -> io::Result<()> {
    let stream = TcpStream::connect((host, request.port))?;
    let provider = Arc::new(default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.map_err(io::Error::other)?.dangerous();
    let trusting = Arc::new(Trusting(provider.signature_verification_algorithms.supported_schemes()));
    let configuration = builder.with_custom_certificate_verifier(trusting).with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::new(configuration), name).map_err(io::Error::other)?;
    exchange(StreamOwned::new(connection, stream), message)
}

fn exchange(mut stream: impl Read + Write, message: &str) -> io::Result<()> {
    stream.write_all(message.as_bytes())?;
    stream.flush()?;
    let mut beginning = [0; ANSWER.len()];
    stream.read_exact(&mut beginning)?;
    if beginning == ANSWER { Ok(()) } else { Err(io::Error::other("the answer is no HTTP")) }
}

fn message(request: &Request, host: &str) -> Result<String, HttpError> {
    let Request { port, path, headers, .. } = request;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let authority = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let given = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    let usual = [("Host", authority.as_str()), ("User-Agent", "kube-lifecycle"), ("Accept", "*/*")];
    let usual = usual.into_iter().filter(|(name, _)| !given(name));
    let own = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut lines = vec![format!("GET {slash}{path} HTTP/1.1")];
    lines.extend(
        usual.chain(own).chain([("Connection", "close")]).map(|(name, value)| format!("{name}: {value}")),
    );
    if lines.iter().any(|line| line.contains(['\r', '\n'])) {
        return Err(HttpError::Lines);
    }
    Ok(lines.join("\r\n") + "\r\n\r\n")
}

/// The address of the Pod: the one from which it calls others. A Pod that can call nobody has its loopback.
fn own_address() -> IpAddr {
    let found = ELSEWHERE.into_iter().find_map(|(from, to)| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    });
    found.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Takes any certificate, as the kubelet does in hooks. It knows these ways to sign.
#[derive(Debug)]
struct Trusting(Vec<SignatureScheme>);

impl ServerCertVerifier for Trusting {
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
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// Answers one call after another as given, and returns what was asked.
    fn server(answers: &'static [&'static str]) -> (u16, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = thread::spawn(move || {
            let serve = |answer: &&str| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = vec![0; 4096];
                let length = stream.read(&mut asked).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
                String::from_utf8_lossy(&asked[..length]).into_owned()
            };
            answers.iter().map(serve).collect()
        });
        (port, asked)
    }

    fn request(port: u16) -> Request {
        Request { host: "127.0.0.1".to_owned(), port, path: "/bye".to_owned(), ..Request::default() }
    }

    #[test]
    fn any_answer_is_a_good_one() {
        let (port, asked) = server(&["HTTP/1.1 500 Internal Server Error\r\n\r\n"]);
        let headers = vec![("Host".to_owned(), "web".to_owned()), ("A".to_owned(), "b".to_owned())];
        send(&Request { headers, ..request(port) }).unwrap();
        let expected = "GET /bye HTTP/1.1\r\nUser-Agent: kube-lifecycle\r\nAccept: */*\r\nHost: web\r\nA: b\r\nConnection: close\r\n\r\n";
        assert_eq!(asked.join().unwrap(), [expected]);
    }

    #[test]
    fn what_is_no_http_is_a_failure() {
        let (port, asked) = server(&["SSH-2.0-x"]);
        let error = send(&request(port)).unwrap_err().to_string();
        assert!(error.ends_with("the answer is no HTTP"), "{error}");
        asked.join().unwrap();
        assert!(matches!(send(&request(port)), Err(HttpError::Connection { .. })), "nobody listens");
        let broken = Request { path: "/a\r\nB: c".to_owned(), ..request(port) };
        assert!(matches!(send(&broken), Err(HttpError::Lines)));
    }

    #[test]
    fn a_server_without_tls_is_asked_again() {
        let (port, asked) = server(&["HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"]);
        send(&Request { scheme: "HTTPS".to_owned(), ..request(port) }).unwrap();
        assert!(asked.join().unwrap()[1].starts_with("GET /bye HTTP/1.1\r\nHost: 127.0.0.1:"));
    }
}
