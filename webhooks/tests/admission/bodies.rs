//! The memory that unfinished bodies share.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, SizeHint};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use webhooks::pending_answers::PendingAnswers;
use webhooks::router::{Limits, Router, router};
use webhooks::server::Serve;

use crate::support::{admission, create_pod, review};

/// Announces so many bytes, or no number, and sends none; says when it is asked for them.
struct Stalled {
    announced: Option<u64>,
    asked: Arc<Notify>,
}

impl Body for Stalled {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.asked.notify_one();
        Poll::Pending
    }

    fn size_hint(&self) -> SizeHint {
        self.announced.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

fn post<B>(path: &str, body: B) -> Request<B> {
    Request::post(path).header("content-type", "application/json").body(body).unwrap()
}

/// Begins a call that announces `bytes`; it has what it needs, or waits for it, when this returns.
async fn begin(router: &Router, path: &str, announced: u64) -> JoinHandle<Response<Full<Bytes>>> {
    let asked = Arc::new(Notify::new());
    let stalled = Stalled { announced: Some(announced), asked: asked.clone() };
    let call = router.clone().answer(post(path, stalled));
    let call = tokio::spawn(call);
    asked.notified().await;
    call
}

#[tokio::test(start_paused = true)]
async fn one_peer_does_not_take_all_memory() {
    let share = 64 << 10;
    let limits = Limits { unfinished_bytes_per_peer: share, ..Limits::default() };
    let router = router(Arc::new(admission("", "")), limits);
    let peer = |last: u8| router.for_connection([10, 0, 0, last].into(), false, &PendingAnswers::default());
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(begin(&peer(1), "/mutate-pod?timeout=20s", 1).await);
    }
    assert_turned_away(begin(&peer(1), "/mutate-pod?timeout=20s", 1).await.await.unwrap()).await;
    let other = begin(&peer(2), "/mutate-pod?timeout=20s", 1).await;
    tokio::task::yield_now().await;
    assert!(!other.is_finished());
    // What ends gives its share back.
    held.pop().unwrap().abort();
    while held.len() < 4 {
        let call = begin(&peer(1), "/mutate-pod?timeout=20s", 1).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        if !call.is_finished() {
            held.push(call);
        }
    }
}

async fn assert_turned_away(response: Response<Full<Bytes>>) {
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["retry-after"], "1");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let status: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&status["kind"], &status["code"]), (&"Status".into(), &503.into()));
    assert_eq!(status["message"], "too many requests are being received, try again later");
}

#[tokio::test(start_paused = true)]
async fn unfinished_bodies_of_all_kinds_share_one_memory() {
    let admission = Arc::new(admission("", ""));
    let metrics = admission.metrics.clone();
    // For four of the least, and one that waits.
    let router = router(admission, Limits { unfinished_bytes: 64 << 10, ..Limits::default() });
    let mut held = Vec::new();
    for path in ["/mutate-pod", "/mutate-pod", "/convert", "/validate-namespace"] {
        held.push(begin(&router, path, 1).await);
    }
    // What is there at once needs none.
    let whole = post("/mutate-pod", Full::from(review(&create_pod(10))));
    assert_eq!(router.clone().answer(whole).await.status(), StatusCode::OK);
    for path in ["/mutate-pod?timeout=100ms", "/convert?timeout=100ms"] {
        assert_turned_away(begin(&router, path, 1).await.await.unwrap()).await;
    }
    assert_eq!(metrics.overloads(), 2);
    // One waits in line, more are turned away at once.
    let waiting = begin(&router, "/mutate-pod?timeout=20s", 1).await;
    let started = Instant::now();
    assert_turned_away(begin(&router, "/mutate-pod?timeout=20s", 1).await.await.unwrap()).await;
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(!waiting.is_finished());
    // What ends gives its memory back, to the one that waited first.
    for call in held {
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    let next = begin(&router, "/mutate-pod", 48 << 10).await;
    assert!(!waiting.is_finished() && !next.is_finished());
    assert_turned_away(begin(&router, "/mutate-pod?timeout=100ms", 1).await.await.unwrap()).await;
}

/// Sends `sent` of the bytes that it announces, where it does.
fn stalls(
    announced: Option<u64>,
    sent: usize,
) -> (impl Body<Data = Bytes, Error = Infallible> + Unpin, Arc<Notify>) {
    let asked = Arc::new(Notify::new());
    let rest = Stalled { announced, asked: asked.clone() };
    (Begun { bytes: Some(Bytes::from(vec![b' '; sent])), rest }, asked)
}

struct Begun {
    bytes: Option<Bytes>,
    rest: Stalled,
}

impl Body for Begun {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.bytes.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.rest.size_hint()
    }
}

#[tokio::test(start_paused = true)]
async fn stalled_large_bodies_hold_up_no_honest_ones() {
    let router = router(Arc::new(admission("", "")), Limits::default());
    let peer = |last: u8| router.for_connection([10, 0, 0, last].into(), false, &PendingAnswers::default());
    for (announced, sent) in [(400 << 10, 300 << 10), (5 << 20, (4 << 20) + 1)] {
        let mut stalled = Vec::new();
        for _ in 0..8 {
            let (body, asked) = stalls(Some(announced), sent);
            let call = peer(1).answer(post("/mutate-pod?timeout=10s", body));
            stalled.push((tokio::spawn(call), asked));
        }
        stalled[0].1.notified().await;
        let started = Instant::now();
        // Of another peer at once, of the same one after a while.
        for (last, seconds) in [(2, 0), (1, 9)] {
            let mut honest = review(&create_pod(10));
            honest.resize(usize::try_from(announced).unwrap(), b' ');
            let response = peer(last).answer(post("/mutate-pod?timeout=30s", Full::from(honest))).await;
            let answer = response.into_body().collect().await.unwrap().to_bytes();
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer["response"]["allowed"], true, "{answer}");
            if sent < 4 << 20 {
                assert!(started.elapsed() <= Duration::from_secs(seconds), "{:?}", started.elapsed());
            }
        }
        for (call, _) in stalled {
            assert!(call.await.unwrap().status().is_success());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_waits_for_a_place_has_none() {
    let router = router(Arc::new(admission("", "")), Limits::default());
    let peer = |last: u8| router.for_connection([10, 0, 0, last].into(), false, &PendingAnswers::default());
    // Two of the largest have their places. Those of the others have begun to arrive, and may become as large.
    let sent = [(1, Some(5 << 20)), (2, None), (3, Some(5 << 20)), (4, None), (5, Some(5 << 20)), (6, None)];
    for (last, announced) in sent {
        let body = stalls(announced, 300 << 10).0;
        tokio::spawn(peer(last).answer(post("/mutate-pod?timeout=10s", body)));
    }
    tokio::task::yield_now().await;
    let started = Instant::now();
    let mut honest = review(&create_pod(10));
    honest.resize(400 << 10, b' ');
    let response = peer(7).answer(post("/mutate-pod?timeout=30s", Full::from(honest))).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(started.elapsed(), Duration::ZERO);
}
