//! The request of a preStop hook, as the kubelet sends it: any answer is a good one, and certificates are not checked.
//! The hook ends with the answer, since a program may answer for as long as it drains.

use std::io::{self, BufRead, BufReader, Read, Write};
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
/// The most bytes of the headers, and of the body, that are waited for.
const LONGEST: (u64, u64) = (64 << 10, 10 << 10);
/// Addresses that nobody has, by whose routes the own address is known. Nothing is sent there.
const ELSEWHERE: [(&str, &str); 2] = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];

/// A request was not answered.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    /// A header or the host breaks the line.
    #[error("the request of the preStop hook can't be sent: a header or the host has a line break")]
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

/// Sends a request and waits for the answer. What does not speak TLS is asked again without.
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
    if beginning != ANSWER {
        return Err(io::Error::other("the answer is no HTTP"));
    }
    // An answer that breaks off has been an answer.
    drop(read_on(stream));
    Ok(())
}

/// Reads an answer to its end, as far as the kubelet does: not at all where it says that it is longer.
fn read_on(stream: impl Read) -> io::Result<()> {
    let (head, body) = LONGEST;
    let mut answer = BufReader::new(stream.take(head + body));
    let (mut length, mut line) = (None, Vec::new());
    loop {
        line.clear();
        answer.read_until(b'\n', &mut line)?;
        let text = String::from_utf8_lossy(&line);
        match text.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse::<u64>().ok();
            }
            _ if text.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let wanted = length.map_or(body, |length| if length <= body { length } else { 0 });
    io::copy(&mut answer.take(wanted), &mut io::sink()).map(drop)
}

fn message(request: &Request, host: &str) -> Result<String, HttpError> {
    let Request { port, path, headers, .. } = request;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let path = escaped(path);
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

/// The path with the characters escaped that a request line can't have.
fn escaped(path: &str) -> String {
    let escape = |byte: u8| match byte {
        b'!'..=b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    path.bytes().map(escape).collect()
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
        let headers = vec![("A".to_owned(), "b\r\nC: d".to_owned())];
        assert!(matches!(send(&Request { headers, ..request(port) }), Err(HttpError::Lines)));
    }

    /// How much of an answer is read.
    fn taken(answer: &str) -> usize {
        struct Counted<'a>(&'a [u8], &'a std::cell::Cell<usize>);
        impl Read for Counted<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                // Byte for byte, since a buffer asks for more than is wanted.
                let most = buffer.len().min(1);
                let read = self.0.read(&mut buffer[..most])?;
                self.1.set(self.1.get() + read);
                Ok(read)
            }
        }
        let read = std::cell::Cell::new(0);
        read_on(Counted(answer.as_bytes(), &read)).unwrap();
        read.get()
    }

    #[test]
    fn an_answer_is_read_to_its_end() {
        let until_it_closes = "1.1 200 OK\r\nServer: a\r\n\r\ndraining\ndone\n";
        assert_eq!(taken(until_it_closes), until_it_closes.len());
        let stays_open = "1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone";
        assert_eq!(taken(&format!("{stays_open} and more")), stays_open.len());
        let long = format!("1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 10 * 1024 + 1);
        assert_eq!(taken(&format!("{long}body")), long.len());
        assert!(taken(&format!("1.1 200 OK\r\n\r\n{}", "x".repeat(100_000))) < 75 * 1024);
        assert!(taken(&"x".repeat(100_000)) < 75 * 1024);
    }

    #[test]
    fn a_path_keeps_its_line() {
        let (port, asked) = server(&["HTTP/1.1 200 OK\r\n\r\n"]);
        send(&Request { path: "/a b\r\nC: ü?x=%20".to_owned(), ..request(port) }).unwrap();
        let asked = asked.join().unwrap();
        assert!(asked[0].starts_with("GET /a%20b%0D%0AC:%20%C3%BC?x=%20 HTTP/1.1\r\n"), "{}", asked[0]);
    }

    #[test]
    fn a_server_without_tls_is_asked_again() {
        let (port, asked) = server(&["HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"]);
        send(&Request { scheme: "HTTPS".to_owned(), ..request(port) }).unwrap();
        assert!(asked.join().unwrap()[1].starts_with("GET /bye HTTP/1.1\r\nHost: 127.0.0.1:"));
    }
}
