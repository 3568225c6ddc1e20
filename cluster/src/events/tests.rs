use super::series::{BURST, OVER, PAUSE, REFILL, REMEMBERED};
use super::*;
use http::Method;
use kube::client::Body;
use serde_json::Value;
use tokio::time::{advance, sleep};

/// What was asked for: the method and the body.
type Requests = Arc<Mutex<Vec<(Method, Value)>>>;

/// A recorder, and what it asks an API server that answers with this code.
fn recorder(code: u16) -> (Recorder, Requests) {
    let requests = Requests::default();
    let seen = requests.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let seen = seen.clone();
        async move {
            let method = request.method().clone();
            let body = request.into_body().collect_bytes().await.unwrap().to_vec();
            seen.lock().unwrap().push((method.clone(), serde_json::from_slice(&body).unwrap()));
            let refused = method == Method::PATCH && code >= 400;
            let body =
                if refused { json!({"status": "Failure", "code": code}).to_string().into() } else { body };
            let code = if refused { code } else { 200 };
            let answer = http::Response::builder().status(code).body(Body::from(body)).unwrap();
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    (Recorder::new(Client::new(service, "default"), "test", None), requests)
}

fn thing() -> ObjectReference {
    about("v1", "Thing", "a", "u")
}

async fn record(recorder: &Recorder, reason: &str, note: &str) {
    recorder.record(&thing(), Severity::Warning, "Reconcile", reason, note.to_owned()).await;
}

fn written(requests: &Requests) -> usize {
    requests.lock().unwrap().len()
}

fn count(requests: &Requests, wanted: &Method) -> usize {
    requests.lock().unwrap().iter().filter(|(method, _)| method == wanted).count()
}

/// What the last patch says about the number.
fn last_count(requests: &Requests) -> Option<i64> {
    requests.lock().unwrap().last().and_then(|(_, body)| body["series"]["count"].as_i64())
}

#[tokio::test(start_paused = true)]
async fn events_that_differ_in_their_notes_are_few() {
    let (recorder, requests) = recorder(200);
    let numbered = async |number: usize| {
        record(&recorder, "FailedCreate", &format!("failed to create pod-{number}")).await;
    };
    let created = || count(&requests, &Method::POST);
    for number in 0..1000 {
        numbered(number).await;
    }
    assert_eq!((created(), requests.lock().unwrap().len()), (BURST as usize, BURST as usize));
    sleep(REFILL).await;
    assert_eq!((count(&requests, &Method::PATCH), last_count(&requests)), (1, Some(1001 - i64::from(BURST))));
    for number in 0..10 {
        numbered(number).await;
    }
    assert_eq!(created(), BURST as usize + 1);
    record(&recorder, "FailedDelete", "").await;
    assert_eq!(created(), BURST as usize + 2, "another subject");
}

#[tokio::test(start_paused = true)]
async fn five_thousand_pods_cost_as_many_writes_as_the_time_allows() {
    let (recorder, requests) = recorder(200);
    // A minute and forty seconds of creations.
    for number in 0..5000 {
        record(&recorder, "SuccessfulCreate", &format!("succeed to create pod web-{number}")).await;
        sleep(Duration::from_millis(20)).await;
    }
    sleep(PAUSE).await;
    let (posts, patches) = (count(&requests, &Method::POST), count(&requests, &Method::PATCH));
    assert!(posts <= BURST as usize + 2 && patches <= 12, "{posts} created, {patches} counted up");
    let requests = requests.lock().unwrap();
    let mut reported: std::collections::BTreeMap<&str, i64> = std::collections::BTreeMap::new();
    let mut latest = "";
    for (method, body) in requests.iter() {
        if *method == Method::POST {
            latest = body["metadata"]["name"].as_str().unwrap();
            assert!(body["note"].as_str().unwrap().starts_with("succeed to create pod web-"), "{body}");
        }
        reported.insert(latest, body["series"]["count"].as_i64().unwrap_or(1));
    }
    // The count of an Event is written before the next one is created; that patch is noted for the same name.
    assert_eq!(reported.values().sum::<i64>(), 5000, "each creation is counted once: {reported:?}");
}

#[tokio::test(start_paused = true)]
async fn an_event_is_counted_up_once_in_ten_seconds() {
    let (recorder, requests) = recorder(200);
    for _ in 0..5 {
        record(&recorder, "Waits", "for a node").await;
    }
    assert_eq!(written(&requests), 1, "the first is written at once");
    sleep(PAUSE - Duration::from_millis(10)).await;
    assert_eq!(written(&requests), 1);
    sleep(Duration::from_millis(20)).await;
    assert_eq!((written(&requests), last_count(&requests)), (2, Some(5)));
    let patch = requests.lock().unwrap().last().unwrap().1.clone();
    assert!(patch["series"]["lastObservedTime"].is_string(), "{patch}");
    // After a quiet time the next is written at once.
    advance(PAUSE).await;
    record(&recorder, "Waits", "for a node").await;
    assert_eq!((written(&requests), last_count(&requests)), (3, Some(6)));
    advance(OVER).await;
    record(&recorder, "Waits", "for a node").await;
    assert_eq!(count(&requests, &Method::POST), 2, "long after it is another Event");
}

#[tokio::test(start_paused = true)]
async fn what_was_counted_is_written_when_the_recorder_goes() {
    let (recorder, requests) = recorder(200);
    for _ in 0..3 {
        record(&recorder, "Waits", "for a node").await;
    }
    let begun = Instant::now();
    drop(recorder);
    while last_count(&requests).is_none() {
        tokio::task::yield_now().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
    assert_eq!(last_count(&requests), Some(3));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_api_server_has_dropped_is_written_anew() {
    let (recorder, requests) = recorder(404);
    for _ in 0..3 {
        record(&recorder, "Waits", "for a node").await;
        advance(PAUSE).await;
    }
    let methods: Vec<Method> = requests.lock().unwrap().iter().map(|(method, _)| method.clone()).collect();
    assert_eq!(methods, [Method::POST, Method::PATCH, Method::POST]);
}

#[tokio::test(start_paused = true)]
async fn memory_of_events_is_bounded() {
    let (recorder, requests) = recorder(200);
    let created = || count(&requests, &Method::POST);
    let tell_of = async |number: usize| {
        let object = about("v1", "Thing", "a", &number.to_string());
        recorder.record(&object, Severity::Normal, "Reconcile", "Waits", String::new()).await;
        advance(Duration::from_millis(1)).await;
    };
    for number in 0..=REMEMBERED {
        tell_of(number).await;
    }
    assert_eq!(created(), REMEMBERED + 1);
    tell_of(REMEMBERED).await;
    assert_eq!(created(), REMEMBERED + 1, "it is counted");
    tell_of(0).await;
    assert_eq!(created(), REMEMBERED + 2, "the oldest was forgotten");
}
