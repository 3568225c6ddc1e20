//! An API server for tests: a function from requests to answers.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::Response;
use kube::Client;
use kube::client::Body;

/// A request.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) body: &'a str,
}

/// All requests so far, as `METHOD path body`.
pub(crate) type Requests = Arc<Mutex<Vec<String>>>;

/// A client of an API server that answers with the code and the body that `answer` gives.
pub(crate) fn api_server(
    answer: impl Fn(Request<'_>) -> (u16, String) + Clone + Send + 'static,
) -> (Client, Requests) {
    let requests = Requests::default();
    let log = requests.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (answer, log) = (answer.clone(), log.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = String::from_utf8(body.collect_bytes().await.unwrap().to_vec()).unwrap();
            let (method, path) = (head.method.as_str(), head.uri.to_string());
            log.lock().unwrap().push(format!("{method} {path} {body}"));
            let (code, text) = answer(Request { method, path: &path, body: &body });
            Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(text.into_bytes())).unwrap())
        }
    });
    (Client::new(service, "default"), requests)
}

/// What the API server says with an error code.
pub(crate) fn status(code: u16) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"refused","reason":"Test","code":{code}}}"#
    )
}

/// What the API server says to a creation in a namespace that is being deleted.
pub(crate) fn namespace_ends() -> (u16, String) {
    let cause = r#""details":{"causes":[{"reason":"NamespaceTerminating","message":"namespace n is being terminated","field":"metadata.namespace"}]},"code""#;
    (403, status(403).replace(r#""code""#, cause))
}
