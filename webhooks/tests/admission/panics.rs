//! A panic anywhere in a call is answered, counted, and harms nobody else.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use webhooks::server::{ConnectionLimits, Serve};
use webhooks::{Deadline, Endpoint};

use crate::support::{admission, create_pod, review};
use crate::tls::{World, counted, patiently, request};

/// Panics where the program notes details: while it reads reviews and writes answers, outside of the rules.
struct Explosive;

impl Subscriber for Explosive {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::DEBUG && metadata.target().starts_with("webhooks")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        panic!("boom");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_panic_outside_of_the_rules_refuses_the_review_with_its_uid() {
    let admission = admission("", "");
    let unreadable = json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": {"uid": "7f2c9e4a-0002", "namespace": 7},
    });
    let whole = review(&create_pod(1));
    let deadline = Deadline::after(Duration::from_secs(5));
    for body in [unreadable.to_string().into_bytes(), whole.clone()] {
        let _explosive = tracing::subscriber::set_default(Explosive);
        let reply = admission.admit(Endpoint::MutatePod, &body, deadline).await;
        let answer: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(answer["kind"], "AdmissionReview");
        assert_eq!(answer["response"]["uid"], "7f2c9e4a-0002");
        assert_eq!(answer["response"]["allowed"], false);
        assert_eq!(answer["response"]["status"]["code"], 500);
        assert_eq!(answer["response"]["status"]["message"], "panic: boom [recovered]");
    }
    let metrics = admission.metrics.render().unwrap();
    assert!(metrics.contains("kutter_admission_panics 2"), "{metrics}");
    assert!(
        metrics.contains("kutter_admission_reviews{code=\"500\",webhook=\"/mutate-pod\"} 2"),
        "{metrics}"
    );
    assert_eq!(admission.admit(Endpoint::MutatePod, &whole, deadline).await.code, 200);
}

/// Panics at `/panic` and answers everything else.
#[derive(Clone)]
struct Fragile;

impl Serve for Fragile {
    type Body = Full<Bytes>;

    fn serve(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send + 'static + use<> {
        async move {
            assert_ne!(request.uri().path(), "/panic");
            tokio::task::yield_now().await;
            assert_ne!(request.uri().path(), "/panic-later");
            Response::default()
        }
    }
}

#[tokio::test]
async fn a_panic_is_answered_and_keeps_its_connection_over_both_protocols() {
    let world = World::start(Fragile, ConnectionLimits::default());
    let mut two = world.client().http2().await;
    let mut one = world.client().http1().await;
    for path in ["/panic", "/panic-later"] {
        assert_eq!(two.get(path).await, StatusCode::INTERNAL_SERVER_ERROR);
        let answer = patiently(one.send_request(request(path))).await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        patiently(one.ready()).await.unwrap();
    }
    assert_eq!(two.get("/").await, StatusCode::OK);
    assert_eq!(patiently(one.send_request(request("/"))).await.unwrap().status(), StatusCode::OK);
    counted(&world.metrics, "kutter_admission_panics 4").await;
}
