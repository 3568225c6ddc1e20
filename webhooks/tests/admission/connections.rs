//! Who keeps a connection, and who loses it.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::{Request, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use webhooks::server::ConnectionLimits;

use crate::tls::{H2, HTTP1, World, counted, patiently, request, served, slow_router};

const BRIEF: Duration = Duration::from_millis(100);

fn quick() -> Router {
    Router::new().route("/quick", get(|| async {})).route("/large", get(|| async { vec![b' '; 16 << 20] }))
}

#[tokio::test]
async fn an_http2_connection_without_a_request_is_closed_and_an_idle_one_is_not() {
    let first = Duration::from_secs(2);
    let world = World::start(quick(), ConnectionLimits { first, ..ConnectionLimits::default() });
    let mut used = world.client().http2().await;
    assert_eq!(used.get("/quick").await, StatusCode::OK);
    world.client().http2().await.closed().await;
    // One that does not even begin.
    let mut silent = world.client().tls(H2).await.unwrap();
    drop(patiently(silent.read_to_end(&mut Vec::new())).await);
    counted(&world.metrics, "kutter_connections 1").await;
    assert_eq!(used.get("/quick").await, StatusCode::OK);
}

#[tokio::test]
async fn a_caller_that_does_not_read_its_answer_loses_its_connection() {
    let world = World::start(quick(), ConnectionLimits { write: BRIEF, ..ConnectionLimits::default() });
    let mut deaf = world.client().tls(HTTP1).await.unwrap();
    deaf.write_all(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    counted(&world.metrics, "kutter_connections 0").await;
}

#[tokio::test]
async fn a_caller_that_goes_on_and_leaves_an_answer_unread_loses_its_connection() {
    let world = World::start(served(), ConnectionLimits::default());
    let leaves_unread = async |size, window| {
        let mut deaf = world.client().http2_with_window(window).await;
        let job = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "BroadcastJob",
        "metadata": {"name": "a", "annotations": {"a": "a".repeat(size)}}});
        let question = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": [job]}});
        let question =
            Request::post("https://localhost/convert?timeout=30s").body(question.to_string().into()).unwrap();
        // More than the window of the caller, and nobody reads it.
        let unread = patiently(deaf.sender.send_request(question)).await.unwrap();
        assert_eq!((unread.status(), deaf.get("/healthz").await), (StatusCode::OK, StatusCode::OK));
        deaf.closed().await;
        drop(unread);
    };
    tokio::join!(leaves_unread(8 << 20, 2 << 20), leaves_unread(1, 1));
    counted(&world.metrics, "kutter_connections 0").await;
}

#[tokio::test]
async fn an_idle_connection_makes_room_where_places_run_out_and_one_with_a_call_does_not() {
    let (router, arrived, release) = slow_router();
    let limits = ConnectionLimits { connections: 2, settled: BRIEF, ..ConnectionLimits::default() };
    let world = World::start(router, limits);
    let mut first = world.client().http2().await;
    let mut second = world.client().http2().await;
    assert_eq!(first.get("/quick").await, StatusCode::OK);
    let call = tokio::spawn(second.sender.send_request(request("/slow")));
    patiently(arrived.notified()).await;
    let mut third = patiently(world.client().http2()).await;
    assert_eq!(third.get("/quick").await, StatusCode::OK);
    first.closed().await;
    counted(&world.metrics, "kutter_connections_displaced 1").await;
    release.notify_one();
    assert_eq!(patiently(call).await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!(second.get("/quick").await, StatusCode::OK);
}

#[tokio::test]
async fn places_held_by_half_open_connections_are_given_back() {
    let limits = ConnectionLimits { connections: 1, settled: BRIEF, ..ConnectionLimits::default() };
    let world = World::start(quick(), limits);
    let client = world.client();
    // Neither speaks: one not even TLS, the other no HTTP/1.1.
    let _mute = tokio::net::TcpStream::connect(client.address).await.unwrap();
    counted(&world.metrics, "kutter_connections 1").await;
    let _silent = patiently(client.tls(HTTP1)).await.unwrap();
    assert_eq!(patiently(client.http2()).await.get("/quick").await, StatusCode::OK);
    counted(&world.metrics, "kutter_connections_displaced 2").await;
}
