//! Health, readiness and metrics (docs/behaviour/server.md#ports-and-endpoints).

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodRouter, get};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use prometheus::Registry;

use crate::metrics::render;
use crate::metrics_access::MetricsAccess;

/// Answers whether something is well, and if not, why.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The two questions that a kubelet asks.
#[derive(Clone)]
pub struct Checks {
    /// Whether the process works: every runtime of it ticks. If not, it is restarted.
    pub liveness: Check,
    /// Whether calls may come: certificate published, caches filled, self-sent review answered, not
    /// draining.
    pub readiness: Check,
}

/// `/healthz` and `/readyz`, each also by the name of its only check; 200 `ok`, or 500 with the reason.
pub fn health_router(checks: Checks) -> Router {
    let Checks { liveness, readiness } = checks;
    Router::new()
        .route("/healthz", probe("ping", liveness.clone()))
        .route("/healthz/ping", probe("ping", liveness))
        .route("/readyz", probe("webhook-ready", readiness.clone()))
        .route("/readyz/webhook-ready", probe("webhook-ready", readiness))
}

fn probe(name: &'static str, check: Check) -> MethodRouter {
    get(move || {
        let answer = match check() {
            Ok(()) => (StatusCode::OK, "ok".to_owned()),
            Err(reason) => (StatusCode::INTERNAL_SERVER_ERROR, format!("[-]{name} failed: {reason}\n")),
        };
        async move { answer }
    })
}

/// Gives the text of `/metrics/objects`.
pub type ObjectMetrics = Arc<dyn Fn() -> prometheus::Result<String> + Send + Sync>;

/// `/metrics`, and `/metrics/objects` where there are `objects`, in Prometheus' text format, for those who have `access`;
/// without one for everybody.
pub fn metrics_router(
    registry: Registry,
    objects: Option<ObjectMetrics>,
    access: Option<MetricsAccess>,
) -> Router {
    let access = Arc::new(access);
    let metrics = guarded(access.clone(), move || {
        let text = render(&registry).map_err(|error| error.to_string());
        async move { text }
    });
    let router = Router::new().route("/metrics", metrics);
    let Some(objects) = objects else { return router };
    let objects = guarded(access, move || {
        let objects = objects.clone();
        async move {
            // There may be many, and reviews do not wait for them.
            let text = tokio::task::spawn_blocking(move || objects()).await;
            text.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
        }
    });
    router.route("/metrics/objects", objects)
}

/// Answers a GET with `text`, or why there is none, where the caller has access.
fn guarded<F>(
    access: Arc<Option<MetricsAccess>>,
    text: impl Fn() -> F + Clone + Send + Sync + 'static,
) -> MethodRouter
where
    F: Future<Output = Result<String, String>> + Send + 'static,
{
    const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
    get(move |headers: HeaderMap| {
        let (access, text) = (access.clone(), text.clone());
        async move {
            let code = match &*access {
                Some(access) => access.check(&headers).await,
                None => StatusCode::OK,
            };
            let (code, text) = if code == StatusCode::OK {
                text()
                    .await
                    .map_or_else(|error| (StatusCode::INTERNAL_SERVER_ERROR, error), |text| (code, text))
            } else {
                (code, code.to_string())
            };
            (code, [(CONTENT_TYPE, TEXT)], text)
        }
    })
}
