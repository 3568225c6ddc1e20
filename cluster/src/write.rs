//! Writes by path: bodies are JSON text that the planner made.

use std::time::Duration;

use http::request::Builder;
use http::{Method, Request, header};
use kube::Client;
use values::json_patch::string;

use crate::error::{ApiError, ErrorReason, Retry};
use crate::resource::names_something;

const JSON: &str = "application/json";
/// Longest time for reading.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Longest time for a write: a little more than the API server takes, which asks webhooks one after another.
const WRITE_TIMEOUT: Duration = Duration::from_secs(65);

/// How a patch is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own: lists are merged by key.
    StrategicMerge,
}

impl PatchKind {
    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::StrategicMerge => "application/strategic-merge-patch+json",
        }
    }
}

/// Patches the object at `path` (`/api/v1/namespaces/a/pods/b/status`); gives the object after it.
///
/// # Errors
/// The API server refuses or can't be reached.
pub async fn patch(client: &Client, path: &str, kind: PatchKind, body: String) -> Result<String, ApiError> {
    write(client, Method::PATCH, path, kind.content_type(), body).await
}

/// Replaces the object at `path` by `body`, in the version that this names.
///
/// # Errors
/// The API server refuses (409 where it has changed) or can't be reached.
pub async fn replace(client: &Client, path: &str, body: String) -> Result<String, ApiError> {
    write(client, Method::PUT, path, JSON, body).await
}

/// Creates an object in the collection at `path`.
///
/// # Errors
/// The API server refuses (409 where it exists) or can't be reached.
pub async fn create(client: &Client, path: &str, body: String) -> Result<String, ApiError> {
    write(client, Method::POST, path, JSON, body).await
}

/// Deletes the object at `path` in the state that the options name, as `preconditions` of `DeleteOptions`.
///
/// # Errors
/// The API server refuses (409 where it is in another state) or can't be reached.
pub async fn delete(client: &Client, path: &str, options: String) -> Result<String, ApiError> {
    write(client, Method::DELETE, path, JSON, options).await
}

/// Options for a delete of just this object, in this state where one is named.
pub fn deletion(uid: &str, resource_version: Option<&str>) -> String {
    let version = resource_version.map(|version| format!(r#","resourceVersion":{}"#, string(version)));
    format!(
        r#"{{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{{"uid":{}{}}}}}"#,
        string(uid),
        version.unwrap_or_default()
    )
}

/// Options for a delete of just this object, in this state where one is named, after which what it owns is deleted too.
/// Jobs would leave their Pods behind.
pub fn background_deletion(uid: &str, resource_version: Option<&str>) -> String {
    let options = deletion(uid, resource_version);
    let members = options.strip_prefix('{').unwrap_or_default();
    format!(r#"{{"propagationPolicy":"Background",{members}"#)
}

/// The answer to a write; `None` where the object is gone or in another state than the write names, of which its watch
/// shows. A deletion need not be repeated then.
///
/// # Errors
/// The API server refuses for another reason, or can't be reached.
pub fn unless_outdated(answer: Result<String, ApiError>) -> Result<Option<String>, ApiError> {
    match answer {
        Err(error) if error.retry() == Retry::Now => Ok(None),
        answer => answer.map(Some),
    }
}

/// Reads the object or list at `path`; `None` where there is none.
///
/// # Errors
/// The API server refuses or can't be reached.
pub async fn get(client: &Client, path: &str) -> Result<Option<String>, ApiError> {
    match get_as(client, path, JSON).await {
        Err(error) if error.reason() == ErrorReason::NotFound => Ok(None),
        answer => answer.map(Some),
    }
}

/// Reads the object or list at `path` in the form `accept`.
pub async fn get_as(client: &Client, path: &str, accept: &'static str) -> Result<String, ApiError> {
    let request = Request::get(path).header(header::ACCEPT, accept);
    send(client, path, request, String::new()).await
}

async fn write(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &'static str,
    body: String,
) -> Result<String, ApiError> {
    let request = Request::builder().method(method).uri(path).header(header::ACCEPT, JSON);
    send(client, path, request.header(header::CONTENT_TYPE, content_type), body).await
}

async fn send(client: &Client, path: &str, request: Builder, body: String) -> Result<String, ApiError> {
    let method = request.method_ref().cloned().unwrap_or_default();
    let failed = |error| ApiError::new(format!("{method} {path}"), error);
    if !names_something(path) {
        return Err(ApiError::no_such_name(&method));
    }
    let timeout = if method == Method::GET { TIMEOUT } else { WRITE_TIMEOUT };
    let request = request.body(body.into_bytes()).map_err(|error| failed(kube::Error::HttpError(error)))?;
    match tokio::time::timeout(timeout, client.request_text(request)).await {
        Ok(answer) => answer.map_err(failed),
        Err(_) => {
            let silence = format!("no answer from the API server within {timeout:?}");
            Err(failed(kube::Error::Service(silence.into())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::PODS;
    use kube::client::Body;

    /// A client of an API server that answers after this time.
    fn slow(time: Duration) -> Client {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            tokio::time::sleep(time).await;
            Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(b"{}".to_vec())))
        });
        Client::new(service, "default")
    }

    #[test]
    fn options_of_a_delete_name_the_object_and_its_state() {
        let options = background_deletion("u", Some("7"));
        let options: serde_json::Value = serde_json::from_str(&options).unwrap();
        let expected = serde_json::json!({"propagationPolicy": "Background", "apiVersion": "v1",
            "kind": "DeleteOptions", "preconditions": {"uid": "u", "resourceVersion": "7"}});
        assert_eq!(options, expected);
    }

    #[tokio::test]
    async fn what_can_be_no_name_is_not_there_and_not_asked_for() {
        let (client, requests) = kit::double::api_server(|_| (200, "{}".to_owned()));
        for name in ["", ".", "..", "../secrets/x", "a/status", "/", &"a".repeat(254)] {
            let path = PODS.namespaced("shop").name(name);
            assert_eq!(get(&client, &path).await.unwrap(), None, "{name}");
            let eviction = path.subresource("eviction");
            for answer in [
                create(&client, &eviction, String::new()).await,
                replace(&client, &path, String::new()).await,
                patch(&client, &path, PatchKind::Merge, String::new()).await,
                delete(&client, &path, String::new()).await,
            ] {
                let error = answer.unwrap_err();
                assert_eq!(error.reason(), ErrorReason::NotFound, "{name}");
                assert_eq!(error.to_string(), "nothing can have such a name");
            }
        }
        assert!(requests.lock().unwrap().is_empty());
        get(&client, &PODS.namespaced("shop").name("a?watch=true")).await.unwrap();
        assert_eq!(*requests.lock().unwrap(), ["GET /api/v1/namespaces/shop/pods/a%3Fwatch%3Dtrue "]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_has_the_time_that_the_api_server_may_take() {
        for (seconds, reads, writes) in [(10, true, true), (59, false, true), (66, false, false)] {
            let client = slow(Duration::from_secs(seconds));
            assert_eq!(get(&client, "/a").await.is_ok(), reads, "{seconds}");
            assert_eq!(create(&client, "/a", String::new()).await.is_ok(), writes, "{seconds}");
            assert_eq!(delete(&client, "/a", String::new()).await.is_ok(), writes, "{seconds}");
            let patched = patch(&client, "/a", PatchKind::Merge, String::new()).await;
            assert_eq!(patched.is_ok(), writes, "{seconds}");
        }
    }
}
