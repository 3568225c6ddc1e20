//! Whom the webhook paths answer (docs/behaviour/server.md#callers).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use admission::callers::{Callers, Calls};
use axum::body::Body;
use bytes::Bytes;
use futures::future::join_all;
use futures::{poll, stream};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use values::segment::Segment;
use webhooks::Endpoint;
use webhooks::pending_answers::PendingAnswers;
use webhooks::router::{CONVERT_PATH, Limits, Router, router};
use webhooks::server::{ConnectionLimits, Serve};

use crate::http_contract::{call, post};
use crate::support::{PROTECTED, admission, create_pod, delete, labelled, review};
use crate::tls::World;

fn own() -> Segment {
    Segment::new(1 << 100 | 0xabc)
}

/// Our own segment, and what is registered.
fn callers(live: &[(Option<Segment>, &str)]) -> Callers {
    let mut calls = Calls::default();
    let live = live.iter().map(|(segment, path)| (*segment, (*path).to_owned()));
    calls.see(live, SignedDuration::from_secs(90), Timestamp::UNIX_EPOCH);
    calls.callers(&[own()], false)
}

fn answering(flags: &str, callers: Callers) -> (watch::Sender<Callers>, Router) {
    let (tell, reported) = watch::channel(callers);
    (tell, router(Arc::new(admission(flags, "")), Limits::default()).with_callers(reported))
}

fn paths() -> impl Iterator<Item = &'static str> {
    let endpoints =
        Endpoint::all().into_iter().flat_map(|endpoint| [Some(endpoint.path()), endpoint.legacy_path()]);
    endpoints.flatten().chain([CONVERT_PATH])
}

#[tokio::test]
async fn every_path_refuses_a_forged_review_over_tls() {
    let flags = "ResourcesDeletionProtection=true,ContainerExitPriority=true,Rollouts=true";
    // The sender is gone: nothing more becomes known.
    let world = World::start(answering(flags, callers(&[])).1, ConnectionLimits::default());
    let forged = review(&create_pod(2));
    let sender = world.client().http2().await.sender;
    let ask = |called: String| {
        let (mut sender, forged) = (sender.clone(), forged.clone());
        async move {
            let request = Request::post(format!("https://localhost{called}?timeout=10s"));
            let request = request.header("content-type", "application/json");
            let answer = sender.send_request(request.body(Full::from(forged)).unwrap()).await.unwrap();
            let (head, body) = answer.into_parts();
            (called, head.status, body.collect().await.unwrap().to_bytes())
        }
    };
    let strange = |path: &str| [path.to_owned(), Segment::new(7).before(path), format!("/x{path}")];
    for (called, status, body) in join_all(paths().flat_map(strange).map(&ask)).await {
        assert_eq!((status, body.len()), (StatusCode::NOT_FOUND, 0), "{called}");
    }
    for (_, status, body) in join_all(paths().map(|path| ask(own().before(path)))).await {
        assert!(status != StatusCode::NOT_FOUND && !body.is_empty());
    }
    // Probes and agents know no segment, and need none.
    assert_eq!(world.client().http2().await.get("/healthz").await, StatusCode::OK);
    assert_eq!(world.client().http2().await.get(&own().before("/healthz")).await, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn what_gates_switch_off_is_allowed_while_it_may_be_called() {
    let path = "/validate-service";
    let registered = || callers(&[(Some(own()), path)]);
    let forbidden = review(&delete("services", "v1", &labelled("Service", "web", "shop", "Always")));
    let ask = async |router: &Router, called: &str| {
        let (status, body) = call(router, post(called, forbidden.clone())).await;
        (status, serde_json::from_slice::<Value>(&body).unwrap_or_default()["response"]["allowed"].as_bool())
    };
    let called = own().before(path);
    let (_, on) = answering(PROTECTED, registered());
    assert_eq!(ask(&on, &called).await.1, Some(false));
    let (tell, off) = answering("", registered());
    assert_eq!(ask(&off, &called).await, (StatusCode::OK, Some(true)));
    // By its plain path it was never registered.
    assert_eq!(ask(&off, path).await, (StatusCode::NOT_FOUND, None));
    tell.send_replace(callers(&[]));
    assert_eq!(ask(&off, &called).await, (StatusCode::NOT_FOUND, None));
    assert_eq!(ask(&off, &own().before("/validate-namespace")).await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_call_is_not_lost_that_comes_before_its_registration_is_observed() {
    let other = Segment::new(9);
    for called in [other.before("/mutate-pod"), "/mutate-pod".to_owned()] {
        let (tell, router) = answering("", callers(&[]));
        let early = call(&router, post(&called, review(&create_pod(1))));
        let reported = async {
            tokio::task::yield_now().await;
            tell.send_replace(callers(&[(Some(other), "/mutate-pod"), (None, "/mutate-pod")]));
        };
        assert_eq!(tokio::join!(early, reported).0.0, StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn few_calls_wait_to_be_known() {
    let called = own().before("/mutate-pod");
    let (tell, router) = answering("", Callers::default());
    let ask = || call(&router, post(&called, review(&create_pod(1))));
    let mut waiting = Box::pin(join_all((0..64).map(|_| ask())));
    assert!(poll!(&mut waiting).is_pending());
    let started = Instant::now();
    assert_eq!(ask().await.0, StatusCode::NOT_FOUND);
    assert_eq!(started.elapsed(), Duration::ZERO);
    tell.send_replace(callers(&[]));
    assert!(waiting.await.iter().all(|(status, _)| *status == StatusCode::OK));
    // Their places are free again.
    tell.send_replace(Callers::default());
    assert_eq!(ask().await.0, StatusCode::NOT_FOUND);
    assert_eq!(started.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_wait_to_be_known_is_part_of_the_callers_time() {
    let (tell, router) = answering("", Callers::default());
    let endless = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    let started = Instant::now();
    let early = call(&router, post(&own().before("/mutate-pod?timeout=2s"), endless));
    let reported = async {
        tokio::time::sleep(Duration::from_millis(900)).await;
        tell.send_replace(callers(&[]));
    };
    let ((_, answer), ()) = tokio::join!(early, reported);
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["response"]["status"]["code"], 504);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn reviews_need_a_certificate_where_it_is_asked_for() {
    let switched_off = own().before("/validate-service");
    let (_tell, router) = answering("", callers(&[(Some(own()), "/validate-service")]));
    let router = router.for_certified();
    let ask = async |is_certified, called: &str| {
        let peer = router.for_connection([10, 0, 0, 1].into(), is_certified, &PendingAnswers::default());
        call(&peer, post(called, review(&create_pod(1)))).await.0
    };
    let called = own().before("/mutate-pod");
    assert_eq!(ask(true, &called).await, StatusCode::OK);
    assert_eq!(ask(false, &called).await, StatusCode::UNAUTHORIZED);
    // A certificate alone is not enough.
    assert_eq!(ask(true, "/mutate-pod").await, StatusCode::NOT_FOUND);
    // API servers convert without one.
    assert_ne!(ask(false, &own().before(CONVERT_PATH)).await, StatusCode::UNAUTHORIZED);
    assert_eq!(ask(false, "/healthz").await, StatusCode::OK);
    // No replica takes it for a path that it may register.
    assert_eq!(ask(true, &switched_off).await, StatusCode::OK);
    assert_eq!(ask(false, &switched_off).await, StatusCode::NOT_FOUND);
}
