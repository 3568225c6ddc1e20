//! The measure of things: a bare axum server over TLS and HTTP/2 that reads a review and answers as
//! many bytes as the product would.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use axum::serve::Listener;
use benches::tls;
use bytes::Bytes;
use http::HeaderName;
use http::header::CONTENT_TYPE;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Serves until it is killed.
pub(crate) fn serve(port: u16, answer_bytes: usize) {
    kit::install_crypto_provider();
    let answer = Bytes::from(vec![b'x'; answer_bytes]);
    let router = Router::new().route("/{*path}", post(echo)).with_state(answer);
    // Like the product's: worker threads, as many as there are cores for this process.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.expect("the port is free");
        axum::serve(TlsListener { listener, acceptor: tls::acceptor() }, router)
            .await
            .expect("it never ends");
    });
}

async fn echo(State(answer): State<Bytes>, _review: Bytes) -> ([(HeaderName, &'static str); 1], Bytes) {
    ([(CONTENT_TYPE, "application/json")], answer)
}

struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            stream.set_nodelay(true).expect("a TCP option");
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
