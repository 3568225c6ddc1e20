//! Requests to servers that say what a test wants.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use super::*;

const LIMIT: Duration = Duration::from_secs(60);

/// A server that answers a request for a path with what `answer` says; gives its port and the requests.
async fn serve(
    tls: Option<TlsAcceptor>,
    answer: impl Fn(&str) -> String + Send + Sync + 'static,
) -> (u16, mpsc::UnboundedReceiver<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (heads, reported) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let lines = match &tls {
                Some(tls) => talk(tls.accept(stream).await.unwrap(), &answer).await,
                None => talk(stream, &answer).await,
            };
            drop(heads.send(lines));
        }
    });
    (port, reported)
}

async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin, answer: &impl Fn(&str) -> String) -> Vec<String> {
    let mut stream = BufReader::new(stream);
    let mut lines = Vec::new();
    let mut line = String::new();
    while stream.read_line(&mut line).await.is_ok_and(|read| read > 2) {
        lines.push(std::mem::take(&mut line).trim_end().to_owned());
    }
    let path = lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    drop(stream.write_all(format!("HTTP/1.1 {}", answer(path)).as_bytes()).await);
    drop(stream.shutdown().await);
    lines
}

fn says(status: &str, body: &str) -> String {
    format!("{status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn to(port: u16, path: &str) -> Get {
    Get { host: "127.0.0.1".to_owned(), port, path: path.to_owned(), ..Get::default() }
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn encrypted() -> TlsAcceptor {
    let own = rcgen::generate_simple_self_signed(["nobody.example.com".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    TlsAcceptor::from(Arc::new(config.with_single_cert(vec![own.cert.der().clone()], key).unwrap()))
}

#[tokio::test]
async fn a_request_has_the_headers_of_the_kubelet_unless_it_says_others() {
    let (port, mut requests) = serve(None, |_| says("503 Busy", "later")).await;
    let answer = get(&to(port, "a b?q=ü#x"), LIMIT).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.body().as_slice()), (503, b"later".as_slice()));
    let sent = requests.recv().await.unwrap();
    let host = format!("host: 127.0.0.1:{port}");
    assert_eq!(sent[0], "GET /a%20b?q=%C3%BC HTTP/1.1");
    for line in ["user-agent: kube-probe", "accept: */*", "connection: close", &host] {
        assert!(sent.iter().any(|sent| sent == line), "{line} is not in {sent:?}");
    }
    let headers = vec![
        header("Host", "shop.example.com"),
        header("Accept", ""),
        header("X-A", "1"),
        header("X-A", "2"),
    ];
    get(&Get { headers, ..to(port, "/") }, LIMIT).await.unwrap();
    let sent = requests.recv().await.unwrap();
    for line in ["host: shop.example.com", "x-a: 1", "x-a: 2"] {
        assert!(sent.iter().any(|sent| sent == line), "{line} is not in {sent:?}");
    }
    assert!(!sent.iter().any(|line| line.starts_with("accept")), "{sent:?}");
    let wrong = Get { headers: vec![header("a b", "")], ..to(port, "/") };
    assert!(matches!(get(&wrong, LIMIT).await, Err(HttpError::Unanswered(https::HttpError::Request(_)))));
}

#[tokio::test]
async fn redirects_are_followed_on_the_same_host_alone() {
    let (port, _requests) = serve(None, |path| match path {
        "/moved" => "302 Found\r\nlocation: /there\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "/away" => "302 Found\r\nlocation: http://example.com/\r\ncontent-length: 4\r\n\r\naway".to_owned(),
        "/circle" => "301 Moved\r\nlocation: /circle\r\ncontent-length: 0\r\n\r\n".to_owned(),
        path => says("200 OK", path),
    })
    .await;
    let answer = get(&to(port, "/moved"), LIMIT).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.body().as_slice()), (200, b"/there".as_slice()));
    let answer = get(&to(port, "/away"), LIMIT).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.body().as_slice()), (302, b"away".as_slice()));
    assert!(matches!(get(&to(port, "/circle"), LIMIT).await, Err(HttpError::Redirects)));
}

#[tokio::test]
async fn certificates_are_not_checked_and_a_hook_is_repeated_without_encryption() {
    let (port, _requests) = serve(Some(encrypted()), |path| says("200 OK", path)).await;
    let tls = |port| Get { tls: true, ..to(port, "/") };
    assert_eq!(get(&tls(port), LIMIT).await.unwrap().status().as_u16(), 200);
    let (port, _requests) = serve(None, |path| says("400 Bad Request", path)).await;
    assert!(matches!(get(&tls(port), LIMIT).await, Err(HttpError::Unanswered(https::HttpError::Plain))));
    assert_eq!(get_even_plain(&tls(port), LIMIT).await.unwrap().status().as_u16(), 400);
}

#[tokio::test]
async fn a_body_is_read_to_its_limit_and_a_server_that_hangs_costs_its_time() {
    let (port, _requests) = serve(None, |_| says("200 OK", &"x".repeat(BODY * 3))).await;
    assert_eq!(get(&to(port, "/"), LIMIT).await.unwrap().body().len(), BODY);
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let limit = Duration::from_millis(50);
    let error = get(&to(port, "/"), limit).await.unwrap_err();
    assert_eq!(error.to_string(), "context deadline exceeded after 50ms");
    // A socket that does not listen keeps its port from other tests.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = closed.local_addr().unwrap().port();
    assert!(matches!(
        get(&to(port, "/"), LIMIT).await,
        Err(HttpError::Unanswered(https::HttpError::Connect { .. }))
    ));
}
