//! A double of the API server, for unit tests of what calls it: a function from requests to answers behind
//! a real client, and a store of objects that such a function may lead to.
//!
//! It validates nothing and has no watches. What depends on the API server's own rules is tested on a
//! real [`ApiServer`](crate::ApiServer).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::Response;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::merge::strategic_merge;

/// A request.
pub struct Request<'a> {
    /// Its method, in capital letters.
    pub method: &'a str,
    /// Its path with the query.
    pub path: &'a str,
    /// Its body.
    pub body: &'a str,
}

/// All requests so far, as `METHOD path body`.
pub type Requests = Arc<Mutex<Vec<String>>>;

/// A client of an API server that answers with the code and the body that `answer` gives.
pub fn api_server(
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

/// A client of an API server that never answers.
pub fn silent() -> Client {
    let service = tower::service_fn(|_: http::Request<Body>| {
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    Client::new(service, "default")
}

/// What the API server says with an error code.
pub fn status(code: u16) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"refused","reason":"Test","code":{code}}}"#
    )
}

/// What the API server says to a creation in a namespace that is being deleted.
pub fn namespace_ends() -> (u16, String) {
    let cause = r#""details":{"causes":[{"reason":"NamespaceTerminating","message":"namespace n is being terminated","field":"metadata.namespace"}]},"code""#;
    (403, status(403).replace(r#""code""#, cause))
}

/// What the API server says to a write that meets another one.
pub fn conflict(reason: &str) -> (u16, String) {
    (409, status(409).replace(r#""reason":"Test""#, &format!(r#""reason":"{reason}""#)))
}

/// The names of the containers of a Pod.
fn containers(pod: &Value) -> Vec<Value> {
    pod["spec"]["containers"].as_array().into_iter().flatten().map(|one| one["name"].clone()).collect()
}

/// The objects of an API server, by path. Every change gives an object a new resourceVersion.
#[derive(Clone, Default)]
pub struct Objects(Arc<Mutex<Stored>>);

#[derive(Default)]
struct Stored {
    objects: BTreeMap<String, Value>,
    changes: u64,
}

impl Objects {
    /// Stores an object and returns it with its resourceVersion.
    pub fn put(&self, path: &str, mut object: Value) -> Value {
        let mut stored = self.0.lock().unwrap();
        stored.changes += 1;
        object["metadata"]["resourceVersion"] = json!((100 + stored.changes).to_string());
        stored.objects.insert(path.to_owned(), object.clone());
        object
    }

    /// The object at a path.
    pub fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.get(path).cloned()
    }

    /// Takes the object at a path away.
    pub fn remove(&self, path: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.remove(path)
    }

    /// The objects whose paths begin so, with their paths.
    pub fn under(&self, path: &str) -> Vec<(String, Value)> {
        let stored = self.0.lock().unwrap();
        let below = stored.objects.iter().filter(|(known, _)| known.starts_with(path));
        below.map(|(path, object)| (path.clone(), object.clone())).collect()
    }

    /// Answers a request for one object: create, get, patch (also of its status, also for a trial) or
    /// delete. A patch that names an old resourceVersion is a conflict; one by which containers would change places is
    /// refused.
    pub fn answer(&self, request: &Request<'_>) -> (u16, String) {
        let body: Value = serde_json::from_str(request.body).unwrap_or_default();
        let (path, is_dry) = match request.path.split_once('?') {
            Some((path, query)) => (path, query == "dryRun=All"),
            None => (request.path, false),
        };
        let whole = path.trim_end_matches("/status");
        let stored = self.get(whole);
        let (code, object) = match (request.method, stored) {
            ("POST", _) => {
                let name = body["metadata"]["name"].as_str().unwrap();
                let path = format!("{whole}/{name}");
                if self.get(&path).is_some() {
                    return conflict("AlreadyExists");
                }
                let mut object = body.clone();
                object["metadata"]["uid"] = json!(format!("uid-{name}"));
                (201, self.put(&path, object))
            }
            (_, None) => return (404, status(404)),
            ("DELETE", Some(object)) => {
                self.remove(whole);
                (200, object)
            }
            ("PATCH", Some(mut object)) => {
                let version = body["metadata"]["resourceVersion"].clone();
                if !version.is_null() && version != object["metadata"]["resourceVersion"] {
                    return conflict("Conflict");
                }
                let before = containers(&object);
                strategic_merge(&mut object, body);
                if !before.is_empty() && containers(&object) != before {
                    return (422, status(422));
                }
                (200, if is_dry { object } else { self.put(whole, object) })
            }
            (_, Some(object)) => (200, object),
        };
        (code, object.to_string())
    }
}
