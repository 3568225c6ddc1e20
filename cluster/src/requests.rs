//! What a process asks of the API server, counted by method and answer (spec 00 §3.6, users' pain 17).

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response};
use prometheus::{IntCounterVec, Opts, Registry};
use tower::{Layer, Service};

/// Counts requests. Cheap to clone: clones count together.
#[derive(Clone, Debug)]
pub struct Requests(IntCounterVec);

impl Requests {
    /// A counter in `registry`.
    ///
    /// # Errors
    /// The registry has a metric of this name already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let options = Opts::new(
            "rest_client_requests_total",
            "Requests to the API server by method, host and status code; a watch counts once",
        );
        let requests = IntCounterVec::new(options, &["code", "method", "host"])?;
        registry.register(Box::new(requests.clone()))?;
        Ok(Self(requests))
    }

    /// Counts what goes to `host`.
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
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = match &answer {
                Ok(response) => response.status().as_str().to_owned(),
                // As client-go says it.
                Err(_) => "<error>".to_owned(),
            };
            requests.0.with_label_values(&[code.as_str(), method.as_str(), host.as_str()]).inc();
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
