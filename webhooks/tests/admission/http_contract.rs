//! The HTTP contract of docs/behaviour/server.md#http-of-reviews, and what bad input gets.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use futures::{Stream, StreamExt};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::Notify;
use webhooks::router::{Limits, Router, router};
use webhooks::{Admission, Endpoint};

use crate::support::{PROTECTED, admission, create_pod, delete, labelled, review};

fn served(flags: &str) -> Router {
    router(Arc::new(admission(flags, "")), Limits::default())
}

pub(crate) async fn call(router: &Router, request: Request<Body>) -> (StatusCode, Bytes) {
    let response = router.clone().answer(request).await;
    let status = response.status();
    (status, response.into_body().collect().await.unwrap().to_bytes())
}

pub(crate) fn post(path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(path).header("content-type", "application/json").body(body.into()).unwrap()
}

/// Sends `body` and returns the answer, which has to be a review.
async fn ask(router: &Router, path: &str, body: impl Into<Body>) -> Value {
    let (status, body) = call(router, post(path, body)).await;
    assert_eq!(status, StatusCode::OK);
    serde_json::from_slice(&body).unwrap()
}

fn status(answer: &Value) -> (u64, &str) {
    let status = &answer["response"]["status"];
    (status["code"].as_u64().unwrap(), status["message"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn scenario_38_versions_are_answered_in_kind() {
    let router = served("");
    for version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] {
        let body = json!({"kind": "AdmissionReview", "apiVersion": version, "request": create_pod(1)});
        let answer = ask(&router, "/mutate-pod", body.to_string()).await;
        assert_eq!(answer["apiVersion"], version);
        assert_eq!(answer["kind"], "AdmissionReview");
        assert_eq!(answer["response"]["uid"], "7f2c9e4a-0002");
        assert_eq!(answer["response"]["allowed"], true);
        assert_eq!(answer["response"]["status"]["code"], 200);
    }
}

#[tokio::test]
async fn scenario_38_an_empty_body_and_another_content_type_are_refused_inside_a_review() {
    let router = served("");
    let get = Request::get("/mutate-pod").body(Body::empty()).unwrap();
    let (http, body) = call(&router, get).await;
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(http, StatusCode::OK);
    assert_eq!(status(&answer), (400, "request body is empty"));
    assert_eq!(answer["response"]["uid"], "");
    assert!(answer.get("kind").is_none() && answer.get("apiVersion").is_none());

    let yaml =
        Request::post("/mutate-pod").header("content-type", "application/yaml").body("a: b".into()).unwrap();
    let (http, body) = call(&router, yaml).await;
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(http, StatusCode::OK);
    assert_eq!(status(&answer), (400, "contentType=application/yaml, expected application/json"));
}

#[tokio::test]
async fn truncated_reviews_are_refused() {
    let router = served("");
    let whole = review(&create_pod(2));
    for end in (1..whole.len()).step_by(17) {
        let answer = ask(&router, "/mutate-pod", whole.get(..end).unwrap().to_vec()).await;
        assert_eq!(status(&answer).0, 400, "cut at {end}");
        assert_eq!(answer["response"]["allowed"], false);
    }
}

#[tokio::test]
async fn bodies_above_the_limit_are_refused_whether_announced_or_not() {
    let router = served("");
    let announced = vec![b' '; 10_000_000];
    let answer = ask(&router, "/mutate-pod", announced).await;
    assert_eq!(status(&answer), (413, "request entity is too large: limit is 7340032 bytes"));
    let chunks = stream::repeat(Bytes::from_static(&[b' '; 1 << 16])).take(200).map(Ok::<_, Infallible>);
    let answer = ask(&router, "/mutate-pod", Body::from_stream(chunks)).await;
    assert_eq!(status(&answer).0, 413);
}

#[tokio::test]
async fn a_body_in_many_pieces_is_put_together() {
    let whole = review(&create_pod(10_000));
    let pieces: Vec<_> =
        whole.chunks(1_000).map(|piece| Ok::<_, Infallible>(Bytes::copy_from_slice(piece))).collect();
    let answer = ask(&served(""), "/mutate-pod", Body::from_stream(stream::iter(pieces))).await;
    assert_eq!(answer["response"]["uid"], "7f2c9e4a-0002");
    assert_eq!(answer["response"]["allowed"], true);
}

#[tokio::test]
async fn deeply_nested_input_is_answered() {
    let router = served(&format!("{PROTECTED},Rollouts=true"));
    let nest = "[".repeat(500_000) + &"]".repeat(500_000);
    let object = format!(r#"{{"kind":"Pod","metadata":{{"annotations":{nest}}},"spec":{nest}}}"#);
    for endpoint in Endpoint::all() {
        for operation in ["CREATE", "DELETE"] {
            let body = format!(
                r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"u","operation":"{operation}","object":{object},"oldObject":{object}}}}}"#
            );
            let answer = ask(&router, endpoint.path(), body).await;
            assert_eq!(answer["response"]["uid"], "u", "{endpoint:?}");
            assert!(!status(&answer).1.starts_with("panic"), "{endpoint:?}");
        }
    }
    let answer = ask(&router, "/mutate-pod", nest).await;
    assert_eq!(status(&answer).0, 400);
}

#[tokio::test]
async fn input_that_is_no_review_is_refused() {
    let router = served("");
    let cases: [&[u8]; 7] = [
        b"\xff\xfe{}",
        b"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{\"uid\":\"\xff\"}}",
        b"null",
        b"[]",
        b"7",
        b"\"text\"",
        b"{}",
    ];
    for body in cases {
        let answer = ask(&router, "/mutate-pod", body).await;
        assert_eq!(status(&answer).0, 400, "{body:?}");
        assert_eq!(answer["response"]["allowed"], false);
    }
}

#[tokio::test]
async fn objects_of_another_kind_are_refused() {
    let router = served(PROTECTED);
    let mut request = create_pod(1);
    for object in [json!("text"), json!([]), json!({"apiVersion": "v1", "kind": "Service"})] {
        request["object"] = object;
        let answer = ask(&router, "/mutate-pod", review(&request)).await;
        assert_eq!(status(&answer).0, 400, "{}", request["object"]);
    }
    let secret = delete("deployments", "v1", &labelled("Secret", "web", "shop", "Always"));
    let answer = ask(&router, "/validate-apps-deployment", review(&secret)).await;
    assert_eq!(status(&answer).0, 400);
}

#[tokio::test]
async fn paths_without_rules_are_not_found() {
    let router = served("PodWebhook=false");
    for path in
        ["/validate-pod", "/mutate-pod", "/validate-service", "/validate-ingress", "/", "/mutate-pod/x"]
    {
        let (status, _) = call(&router, post(path, review(&create_pod(1)))).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
    }
    let (status, _) = call(&served(PROTECTED), post("/validate-service", "{}")).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn health_is_answered_with_an_empty_body() {
    let (status, body) = call(&served(""), Request::get("/healthz").body(Body::empty()).unwrap()).await;
    assert_eq!((status, body.len()), (StatusCode::OK, 0));
}

#[tokio::test]
async fn conversion_reviews_are_answered() {
    let router = served("");
    for body in ["", "{", "{}", "[]"] {
        let (status, body) = call(&router, post("/convert", body)).await;
        assert_eq!((status, body.len()), (StatusCode::BAD_REQUEST, 0));
    }
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": {"name": "a"}, "spec": {}});
    // Large enough to leave the threads of admission.
    for count in [1, 4_000] {
        let objects = vec![object.clone(); count];
        let body = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "c", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": objects},
        });
        let answer = ask(&router, "/convert", body.to_string()).await;
        assert_eq!(answer["response"]["uid"], "c");
        assert_eq!(answer["response"]["result"]["status"], "Success");
        assert_eq!(answer["response"]["convertedObjects"].as_array().unwrap().len(), count);
    }
}

#[tokio::test]
async fn calls_above_the_limit_are_shed() {
    let admission = Arc::new(admission("", ""));
    let metrics = admission.metrics.clone();
    let router = router(admission, Limits { calls: 0, ..Limits::default() });
    let (status, _) = call(&router, post("/mutate-pod", review(&create_pod(1)))).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(metrics.overloads(), 1);
    let text = metrics.render().unwrap();
    assert!(
        text.contains("controller_runtime_webhook_requests_total{code=\"503\",webhook=\"/mutate-pod\"} 1"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stops_half_way_is_given_up_before_its_own_timeout() {
    let started = tokio::time::Instant::now();
    let half =
        stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"{\"kind\":"))]).chain(stream::pending());
    let answer = ask(&served(""), "/mutate-pod?timeout=2s", Body::from_stream(half)).await;
    assert_eq!(status(&answer), (504, "the time of this review ended while reading the request"));
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_long_timeout_does_not_give_a_stalled_client_long() {
    for (size, seconds) in [(0, 4), (128 << 10, 4), (1 << 20, 5)] {
        let started = tokio::time::Instant::now();
        let sent = stream::iter([Ok(Bytes::from(vec![b' '; size]))]);
        let body = Body::from_stream(sent.chain(stalled(Arc::default())));
        let answer = ask(&served(""), "/mutate-pod?timeout=30s", body).await;
        assert_eq!(status(&answer).0, 504);
        assert_eq!(started.elapsed().as_secs(), seconds, "{size} bytes");
    }
}

#[tokio::test]
async fn clients_that_send_no_body_take_no_call_from_others() {
    let router = router(Arc::new(admission("", "")), Limits { calls: 1, ..Limits::default() });
    for path in ["/mutate-pod", "/convert"] {
        let asked = Arc::new(Notify::new());
        let request = post(path, Body::from_stream(stalled(asked.clone())));
        let router = router.clone();
        tokio::spawn(router.answer(request));
        asked.notified().await;
    }
    let answer = ask(&router, "/mutate-pod", review(&create_pod(1))).await;
    assert_eq!(status(&answer).0, 200);
}

/// A body of which nothing comes; says when it is asked for.
fn stalled(asked: Arc<Notify>) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
    stream::poll_fn(move |_| {
        asked.notify_one();
        Poll::Pending
    })
}

#[tokio::test]
async fn one_huge_conversion_is_held_at_a_time() {
    let router = router(Arc::new(admission("", "")), Limits::default());
    let huge = Bytes::from(vec![b' '; 5 << 20]);
    let asked = Arc::new(Notify::new());
    let body = stream::iter([Ok(huge.clone())]).chain(stalled(asked.clone()));
    let holder = router.clone();
    let holder = tokio::spawn(holder.answer(post("/convert?timeout=30s", Body::from_stream(body))));
    asked.notified().await;
    let (refused, _) = call(&router, post("/convert?timeout=100ms", huge.clone())).await;
    assert_eq!(refused, StatusCode::SERVICE_UNAVAILABLE);
    // Smaller ones have room of their own.
    let (answered, _) = call(&router, post("/convert", vec![b' '; 1 << 20])).await;
    assert_eq!(answered, StatusCode::BAD_REQUEST);
    holder.abort();
    let (answered, _) = call(&router, post("/convert", huge)).await;
    assert_eq!(answered, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn reviews_from_ourselves_are_not_counted() {
    let admission: Arc<Admission> = Arc::new(admission("", ""));
    let metrics = admission.metrics.clone();
    let router = router(admission, Limits::default());
    let mut request = create_pod(1);
    request["uid"] = json!(api::SELF_CHECK_UID);
    let answer = ask(&router, "/mutate-pod", review(&request)).await;
    assert_eq!(answer["response"]["uid"], api::SELF_CHECK_UID);
    let counted = "kutter_admission_reviews{code=\"200\",webhook=\"/mutate-pod\"} 1\n";
    assert!(!metrics.render().unwrap().contains("kutter_admission_reviews{"));
    ask(&router, "/mutate-pod", review(&create_pod(1))).await;
    assert!(metrics.render().unwrap().contains(counted));
}

#[tokio::test]
async fn large_bodies_wait_for_room_and_small_ones_do_not() {
    let router = router(Arc::new(admission("", "")), Limits { large_requests: 0, ..Limits::default() });
    let answer = ask(&router, "/mutate-pod?timeout=100ms", review(&create_pod(20_000))).await;
    assert_eq!(
        status(&answer),
        (504, "the time of this review ended while waiting for room for a large request")
    );
    let answer = ask(&router, "/mutate-pod", review(&create_pod(10))).await;
    assert_eq!(status(&answer).0, 200);
}

#[tokio::test]
async fn every_call_is_counted_under_its_path() {
    let admission: Arc<Admission> = Arc::new(admission(PROTECTED, ""));
    let metrics = admission.metrics.clone();
    let router = router(admission, Limits::default());
    let set = delete("clonesets", "v1alpha1", &labelled("CloneSet", "web", "shop", "Always"));
    let answer = ask(&router, "/validate-apps-kruise-io-v1alpha1-cloneset", review(&set)).await;
    assert_eq!(status(&answer).0, 403);
    ask(&router, "/mutate-pod", "{").await;
    let text = metrics.render().unwrap();
    for line in [
        "controller_runtime_webhook_requests_total{code=\"200\",webhook=\"/validate-apps-kruise-io-cloneset\"} 1",
        "kutter_admission_reviews{code=\"403\",webhook=\"/validate-apps-kruise-io-cloneset\"} 1",
        "kutter_admission_reviews{code=\"400\",webhook=\"/mutate-pod\"} 1",
        "controller_runtime_webhook_requests_in_flight{webhook=\"/mutate-pod\"} 0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
