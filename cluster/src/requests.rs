//! What a process asks of the API server, counted by method and answer (docs/behaviour/server.md#metrics),
//! and by verb and resource (docs/behaviour/server.md#metrics).

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Method, Request, Response, Uri};
use prometheus::{IntCounterVec, Opts, Registry};
use tower::{Layer, Service};

/// Counts requests. Cheap to clone: clones count together.
#[derive(Clone, Debug)]
pub struct Requests {
    by_answer: IntCounterVec,
    by_resource: IntCounterVec,
}

impl Requests {
    /// Counters in `registry`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let options = Opts::new(
            "rest_client_requests_total",
            "Requests to the API server by method, host and status code; a watch counts once",
        );
        let by_answer = IntCounterVec::new(options, &["code", "method", "host"])?;
        registry.register(Box::new(by_answer.clone()))?;
        let options =
            Opts::new("kutter_api_requests_total", "Requests to the API server by verb and resource");
        let by_resource = IntCounterVec::new(options, &["verb", "resource"])?;
        registry.register(Box::new(by_resource.clone()))?;
        Ok(Self { by_answer, by_resource })
    }

    /// Counts the requests to `host`.
    pub(crate) fn layer(&self, host: String) -> RequestsLayer {
        RequestsLayer { requests: self.clone(), host }
    }
}

/// Puts a counter around a client's service.
pub(crate) struct RequestsLayer {
    requests: Requests,
    host: String,
}

impl<S> Layer<S> for RequestsLayer {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, requests: self.requests.clone(), host: self.host.clone() }
    }
}

/// A service whose answers are counted.
#[derive(Clone)]
pub(crate) struct Counted<S> {
    inner: S,
    requests: Requests,
    host: String,
}

impl<S, B, A> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (requests, host, method) = (self.requests.clone(), self.host.clone(), request.method().clone());
        let (verb, resource) = target(&method, request.uri());
        requests.by_resource.with_label_values(&[verb, &resource]).inc();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = match &answer {
                Ok(response) => response.status().as_str().to_owned(),
                // As client-go says it.
                Err(_) => "<error>".to_owned(),
            };
            requests.by_answer.with_label_values(&[code.as_str(), method.as_str(), host.as_str()]).inc();
            answer
        })
    }
}

/// Verb and resource, as Kubernetes' own metrics and roles name them: `patch` and `pods/status`.
fn target(method: &Method, uri: &Uri) -> (&'static str, String) {
    let mut segments = uri.path().split('/').skip(1).peekable();
    // `api/v1` or `apis/GROUP/VERSION`.
    let prefix = if segments.next() == Some("apis") { 2 } else { 1 };
    let mut rest: Vec<&str> = segments.skip(prefix).collect();
    // What is in a namespace; `namespaces/a` and its subresources are the namespace itself.
    if let ["namespaces", _, resource, ..] = rest[..]
        && !matches!(resource, "status" | "finalize")
    {
        rest.drain(..2);
    }
    let (resource, named) = match rest[..] {
        [resource, _, subresource, ..] => (format!("{resource}/{subresource}"), true),
        [resource, _] => (resource.to_owned(), true),
        [resource] => (resource.to_owned(), false),
        [] => ("".to_owned(), false),
    };
    let watches =
        || uri.query().unwrap_or_default().split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
    let verb = match (method.as_str(), named) {
        ("GET", _) if watches() => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "other",
    };
    (verb, resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_known_by_verb_and_resource() {
        for (method, uri, verb, resource) in [
            ("GET", "/api/v1/pods?limit=100&watch=true", "watch", "pods"),
            ("GET", "/api/v1/pods?limit=100", "list", "pods"),
            ("GET", "/api/v1/namespaces/a", "get", "namespaces"),
            ("PATCH", "/api/v1/namespaces/a/status", "patch", "namespaces/status"),
            ("PATCH", "/api/v1/namespaces/a/pods/b/status", "patch", "pods/status"),
            ("POST", "/apis/apps.kruise.io/v1beta1/namespaces/a/clonesets", "create", "clonesets"),
            ("DELETE", "/apis/apps/v1/namespaces/a/controllerrevisions/b", "delete", "controllerrevisions"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection", "pods"),
            ("GET", "/version", "list", ""),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(target(&method, &uri.parse().unwrap()), (verb, resource.to_owned()), "{uri}");
        }
    }
    use tower::{ServiceBuilder, ServiceExt};

    #[tokio::test]
    async fn answers_and_failures_are_counted_apart() {
        let registry = Registry::new();
        let requests = Requests::register(&registry).unwrap();
        let answer = |request: Request<u16>| async move {
            let status = http::StatusCode::from_u16(*request.body());
            status.map(|status| Response::builder().status(status).body(()).unwrap())
        };
        let service =
            ServiceBuilder::new().layer(requests.layer("10.0.0.1:443".to_owned())).service_fn(answer);
        for code in [200, 200, 409, 1] {
            drop(service.clone().oneshot(Request::patch("/").body(code).unwrap()).await);
        }
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "rest_client_requests_total{code=\"200\",host=\"10.0.0.1:443\",method=\"PATCH\"} 2\n",
            "rest_client_requests_total{code=\"409\",host=\"10.0.0.1:443\",method=\"PATCH\"} 1\n",
            "rest_client_requests_total{code=\"<error>\",host=\"10.0.0.1:443\",method=\"PATCH\"} 1\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
