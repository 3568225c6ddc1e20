//! Answers that are there before the caller has sent its body: none is lost, and neither is the next call.

use bytes::Bytes;
use h2::Reason;
use h2::client::{self, SendRequest};
use http::{Request, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use webhooks::server::ConnectionLimits;

use crate::tls::{H2, HTTP1, World, patiently, served};

/// More than is read of a body that nobody wants.
const ENDLESS: usize = 64 << 20;
const SMALL: usize = 100_000;

fn world() -> World {
    World::start(served(), ConnectionLimits::default())
}

/// The next answer on an HTTP/1.1 connection.
async fn answer(stream: &mut TlsStream<TcpStream>) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(patiently(stream.read_u8()).await.unwrap());
    }
    let head = String::from_utf8(answer).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    patiently(stream.read_exact(&mut body)).await.unwrap();
    head + &String::from_utf8(body).unwrap()
}

fn head(path: &str, length: usize, header: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{header}content-length: {length}\r\n\r\n"
    )
}

#[tokio::test]
async fn http1_announces_that_the_connection_closes() {
    let world = world();
    for (path, status) in [("/nope", "404"), ("/convert", "413"), ("/mutate-pod", "200")] {
        let mut stream = world.client().tls(HTTP1).await.unwrap();
        stream.write_all(head(path, 80 << 20, "").as_bytes()).await.unwrap();
        stream.write_all(&vec![b' '; 1 << 20]).await.unwrap();
        let answer = answer(&mut stream).await;
        assert!(answer.starts_with(&format!("http/1.1 {status} ")), "{answer}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
        // What is on its way is taken, and then the connection is over.
        let rest = vec![b' '; 1 << 20];
        patiently(async { while stream.write_all(&rest).await.is_ok() {} }).await;
    }
}

#[tokio::test]
async fn http1_goes_on_behind_a_small_body() {
    let world = world();
    let mut stream = world.client().tls(HTTP1).await.unwrap();
    for path in ["/nope", "/healthz"] {
        stream.write_all(head(path, SMALL, "").as_bytes()).await.unwrap();
        let answer = answer(&mut stream).await;
        assert!(!answer.contains("connection:"), "{answer}");
        stream.write_all(&vec![b' '; SMALL]).await.unwrap();
    }
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(answer(&mut stream).await.starts_with("http/1.1 200 "));
}

#[tokio::test]
async fn http1_does_not_invite_a_body_that_nobody_wants() {
    let world = world();
    let mut stream = world.client().tls(HTTP1).await.unwrap();
    let head = head("/nope", ENDLESS, "expect: 100-continue\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = answer(&mut stream).await;
    assert!(answer.starts_with("http/1.1 404 ") && answer.contains("\r\nconnection: close\r\n"), "{answer}");
    drop(patiently(stream.read_to_end(&mut Vec::new())).await);
}

async fn http2(world: &World) -> SendRequest<Bytes> {
    let stream = world.client().tls(H2).await.unwrap();
    let (sender, connection) = client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Sends at most `length` bytes to `path`, the first of them before the answer is there; gives the status, and
/// the reset that comes behind the answer.
async fn post(sender: &SendRequest<Bytes>, path: &str, length: usize) -> (StatusCode, Option<Reason>) {
    let mut sender = sender.clone().ready().await.unwrap();
    let request = Request::post(format!("https://localhost{path}")).body(()).unwrap();
    let (response, mut stream) = sender.send_request(request, false).unwrap();
    stream.send_data(Bytes::from_static(b"{"), false).unwrap();
    let response = patiently(response).await.unwrap();
    let status = response.status();
    let mut body = response.into_body();
    while let Some(data) = patiently(body.data()).await {
        let length = data.expect("the answer comes whole").len();
        body.flow_control().release_capacity(length).unwrap();
    }
    let mut sent = 1;
    while sent < length {
        let piece = (length - sent).min(16 * 1024);
        stream.reserve_capacity(piece);
        let capacity = patiently(std::future::poll_fn(|context| stream.poll_capacity(context))).await;
        let Some(Ok(capacity)) = capacity else { break };
        let piece = piece.min(capacity);
        sent += piece;
        if stream.send_data(Bytes::from(vec![b' '; piece]), sent == length).is_err() {
            break;
        }
    }
    let mut reset = None;
    if sent < length {
        let reason = std::future::poll_fn(|context| stream.poll_reset(context));
        reset = Some(patiently(reason).await.unwrap());
    }
    (status, reset)
}

#[tokio::test]
async fn http2_ends_an_unread_body_without_an_error() {
    let world = world();
    let sender = http2(&world).await;
    for path in ["/nope", "/healthz"] {
        let status = if path == "/nope" { StatusCode::NOT_FOUND } else { StatusCode::OK };
        assert_eq!(post(&sender, path, SMALL).await, (status, None));
        assert_eq!(post(&sender, path, ENDLESS).await, (status, Some(Reason::NO_ERROR)));
    }
    // The connection lives on.
    assert_eq!(post(&sender, "/healthz", 2).await, (StatusCode::OK, None));
}
