//! Calls to our own server: through the Service before an entry is registered, and to this very
//! process for readiness.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use admission::callers::Callers;
use admission::registration::ServerAddress;
use api::SELF_CHECK_UID;
use arc_swap::ArcSwap;
use cluster::https::{HttpError, Trust, send};
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt, stream};
use http::{Request, Response, StatusCode, header};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client};
use serde::Deserialize;
use thiserror::Error;
use tokio::sync::watch;

use crate::material::certificates;

const PROBE_LIMIT: Duration = Duration::from_secs(5);
const CHECK_LIMIT: Duration = Duration::from_secs(2);
/// Calls of one probe at the same time.
const PARALLEL: usize = 8;
/// Of the Service.
const PORT: u16 = 443;
/// Answers of our own are small; more is not read.
const MAX_ANSWER: usize = 1 << 20;

/// Why our own server could not be called.
#[derive(Debug, Error)]
pub enum CallError {
    /// No answer in time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// No answer, or none that is trusted.
    #[error(transparent)]
    Unanswered(#[from] HttpError),
    /// The answer isn't one of ours.
    #[error("unexpected answer of {path}: {detail}")]
    Unexpected {
        /// The path called.
        path: String,
        /// What came.
        detail: String,
    },
    /// The Service can't be looked up, or has no address.
    #[error("Service {name}: {detail}")]
    Service {
        /// Namespace and name.
        name: String,
        /// What is wrong.
        detail: String,
    },
}

/// What to trust, and under which name the server must show itself, as the API server would verify it.
struct Peer {
    trust: Trust,
    name: String,
}

impl Peer {
    fn new(bundle: &str, name: &str) -> Result<Self, HttpError> {
        Ok(Self { trust: Trust::authorities(certificates(bundle), name)?, name: name.to_owned() })
    }

    /// GETs `path` at a host and port, or POSTs `body` to it.
    async fn call(
        &self,
        (host, port): &Address,
        path: &str,
        body: Option<String>,
    ) -> Result<Response<Vec<u8>>, HttpError> {
        let request = Request::builder()
            .method(if body.is_some() { "POST" } else { "GET" })
            .uri(path)
            .header(header::HOST, &self.name)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body.unwrap_or_default())?;
        send((host, *port), Some(self.trust.clone()), request, MAX_ANSWER).await
    }
}

/// A name or an IP address, and a port.
type Address = (String, u16);

/// A call on the way that the API server takes, trusting the bundle given (PEM): succeeds where these
/// paths are answered.
pub type Probe =
    Arc<dyn Fn(String, BTreeSet<String>) -> BoxFuture<'static, Result<(), CallError>> + Send + Sync>;

/// A probe that sends an empty review to each path at `endpoint`: at every serving address behind a
/// Service, since the API server may call any; at the Service's own address where nobody keeps
/// EndpointSlices; at a host as it is.
pub fn through(client: Client, endpoint: ServerAddress) -> Probe {
    Arc::new(move |bundle, paths| {
        let (client, endpoint) = (client.clone(), endpoint.clone());
        Box::pin(async move {
            let call = async {
                let peer = Peer::new(&bundle, &endpoint.dns_name())?;
                let addresses = addresses(client, &endpoint).await?;
                let mut calls = Vec::new();
                for address in &addresses {
                    calls.extend(paths.iter().map(|path| review(&peer, address, path)));
                }
                stream::iter(calls).buffer_unordered(PARALLEL).try_collect::<()>().await
            };
            tokio::time::timeout(PROBE_LIMIT, call).await.unwrap_or(Err(CallError::TimedOut(PROBE_LIMIT)))
        })
    })
}

/// Sends a review to `path` which every handler answers. Takes at most 2 seconds.
async fn review(peer: &Peer, address: &Address, path: &str) -> Result<(), CallError> {
    let call = peer.call(address, path, Some(empty_review()));
    let answer = tokio::time::timeout(CHECK_LIMIT, call).await;
    let answer = answer.map_err(|_| CallError::TimedOut(CHECK_LIMIT))??;
    let status = answer.status();
    match serde_json::from_slice::<Answer>(answer.body()) {
        // It serves the path, to callers who show the certificate of an API server.
        _ if status == StatusCode::UNAUTHORIZED => Ok(()),
        Ok(answer) if answer.response.uid == SELF_CHECK_UID => Ok(()),
        // The segment is not published.
        _ => Err(CallError::Unexpected {
            path: values::segment::split(path).1.to_owned(),
            detail: format!("{status} from {}:{}", address.0, address.1),
        }),
    }
}

async fn addresses(client: Client, endpoint: &ServerAddress) -> Result<Vec<Address>, CallError> {
    let (namespace, name) = match endpoint {
        ServerAddress::Host { host, port } => return Ok(vec![(host.clone(), *port)]),
        ServerAddress::Service { namespace, name } => (namespace, name),
    };
    let failed = |detail: String| CallError::Service { name: format!("{namespace}/{name}"), detail };
    let refused = |error: kube::Error| failed(cluster::client::message(&error));
    let service = Api::<Service>::namespaced(client.clone(), namespace).get(name).await.map_err(refused)?;
    let spec = service.spec.unwrap_or_default();
    let parameters = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
    let slices =
        Api::<EndpointSlice>::namespaced(client, namespace).list(&parameters).await.map_err(refused)?;
    if slices.items.is_empty() {
        let address = spec.cluster_ip.filter(|address| address.parse::<IpAddr>().is_ok());
        let address = address.ok_or_else(|| failed("it has no cluster address".to_owned()))?;
        return Ok(vec![(address, PORT)]);
    }
    let named = |name: Option<&str>| {
        let mut ports = spec.ports.iter().flatten().filter(|port| port.port == i32::from(PORT));
        ports.any(|port| port.name.as_deref().unwrap_or_default() == name.unwrap_or_default())
    };
    let addresses: BTreeSet<SocketAddr> =
        slices.iter().flat_map(|slice| serving_addresses(slice, named)).collect();
    if addresses.is_empty() {
        return Err(failed("it has no ready endpoint".to_owned()));
    }
    Ok(addresses.into_iter().map(|address| (address.ip().to_string(), address.port())).collect())
}

/// The addresses of the endpoints that are not known to serve nobody, with the ports of those names. One that ends may
/// serve still.
fn serving_addresses(slice: &EndpointSlice, named: impl Fn(Option<&str>) -> bool) -> Vec<SocketAddr> {
    let ports: Vec<u16> = slice
        .ports
        .iter()
        .flatten()
        .filter(|port| named(port.name.as_deref()))
        .filter_map(|port| port.port.and_then(|port| u16::try_from(port).ok()))
        .collect();
    let serves = |endpoint: &&k8s_openapi::api::discovery::v1::Endpoint| {
        let conditions = endpoint.conditions.as_ref();
        conditions.and_then(|conditions| conditions.serving.or(conditions.ready)) != Some(false)
    };
    let addresses = slice.endpoints.iter().filter(serves).flat_map(|endpoint| &endpoint.addresses);
    addresses
        .filter_map(|address| address.parse::<IpAddr>().ok())
        .flat_map(|address| ports.iter().map(move |port| SocketAddr::new(address, *port)))
        .collect()
}

/// Whether this very process answers over TLS with a certificate that the published bundle accepts. Part of
/// readiness (docs/behaviour/server.md#readiness).
#[derive(Clone, Debug)]
pub struct SelfCheck {
    pub(crate) port: u16,
    pub(crate) bundle: Arc<ArcSwap<String>>,
    pub(crate) callers: watch::Receiver<Callers>,
}

#[derive(Deserialize)]
struct Answer {
    response: AnswerUid,
}

#[derive(Deserialize)]
struct AnswerUid {
    uid: String,
}

impl SelfCheck {
    /// GETs `/healthz` at `localhost` and, with `review`, POSTs to that path an AdmissionReview which
    /// every handler allows: a dry-run DELETE of nothing. Takes at most 2 seconds.
    ///
    /// # Errors
    /// No answer in time, no trust, or an answer to something else.
    pub async fn run(&self, review: Option<&str>) -> Result<(), CallError> {
        let check = async {
            let peer = Peer::new(&self.bundle.load(), "localhost")?;
            let address = ("localhost".to_owned(), self.port);
            // Any status counts: the question is whether TLS and the server work.
            peer.call(&address, "/healthz", None).await?;
            let Some(path) = review else { return Ok(()) };
            let path = self.callers.borrow().way_to(path);
            self::review(&peer, &address, &path).await
        };
        tokio::time::timeout(CHECK_LIMIT, check).await.unwrap_or(Err(CallError::TimedOut(CHECK_LIMIT)))
    }
}

fn empty_review() -> String {
    serde_json::json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": SELF_CHECK_UID, "operation": "DELETE", "dryRun": true, "name": SELF_CHECK_UID, "namespace": "",
            "kind": {"group": "", "version": "v1", "kind": "Namespace"},
            "resource": {"group": "", "version": "v1", "resource": "namespaces"},
            "requestKind": {"group": "", "version": "v1", "kind": "Namespace"},
            "requestResource": {"group": "", "version": "v1", "resource": "namespaces"},
            "userInfo": {"username": SELF_CHECK_UID}, "object": null, "oldObject": null,
        },
    })
    .to_string()
}
