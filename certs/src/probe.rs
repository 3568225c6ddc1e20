//! Calls to our own server: through the Service before an entry is registered, and to this very
//! process for readiness.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client};
use planner::registration::Endpoint;
use serde::Deserialize;

use crate::connection::{Address, CallError, Peer};

const PROBE_LIMIT: Duration = Duration::from_secs(5);
const CHECK_LIMIT: Duration = Duration::from_secs(2);
const CHECK_UID: &str = "self-check";

/// A call on the way that the API server takes, trusting the bundle given (PEM).
pub type Probe = Arc<dyn Fn(String) -> BoxFuture<'static, Result<(), CallError>> + Send + Sync>;

/// A probe that calls `/healthz` at `endpoint`: a Service at its cluster address and, where that is
/// not routed (no kube-proxy on this machine), at the addresses behind it; a host as it is.
pub fn through(client: Client, endpoint: Endpoint) -> Probe {
    Arc::new(move |bundle| {
        let (client, endpoint) = (client.clone(), endpoint.clone());
        Box::pin(async move {
            let call = async {
                let peer = Peer::new(&bundle, &endpoint.dns_name())?;
                let mut last = None;
                for address in addresses(client, &endpoint).await? {
                    match tokio::time::timeout(CHECK_LIMIT, peer.call(&address, "/healthz", None)).await {
                        Ok(Ok((status, _))) if status.is_success() => return Ok(()),
                        Ok(Ok((status, _))) => last = Some(unexpected("/healthz", status.to_string())),
                        Ok(Err(error)) => last = Some(error),
                        Err(_) => last = Some(CallError::TimedOut(CHECK_LIMIT)),
                    }
                }
                Err(last.unwrap_or_else(|| CallError::Service {
                    name: endpoint.dns_name(),
                    detail: "it has neither a cluster address nor a ready endpoint".to_owned(),
                }))
            };
            tokio::time::timeout(PROBE_LIMIT, call).await.unwrap_or(Err(CallError::TimedOut(PROBE_LIMIT)))
        })
    })
}

async fn addresses(client: Client, endpoint: &Endpoint) -> Result<Vec<Address>, CallError> {
    let (namespace, name) = match endpoint {
        Endpoint::Host { host, port } => return Ok(vec![Address::Name(host.clone(), *port)]),
        Endpoint::Service { namespace, name } => (namespace, name),
    };
    let failed = |error: kube::Error| CallError::Service {
        name: format!("{namespace}/{name}"),
        detail: cluster::client::message(&error),
    };
    let service = Api::<Service>::namespaced(client.clone(), namespace).get(name).await.map_err(failed)?;
    let mut addresses: Vec<Address> = service
        .spec
        .and_then(|spec| spec.cluster_ip)
        .and_then(|address| address.parse::<IpAddr>().ok())
        .map(|address| Address::Socket(SocketAddr::new(address, 443)))
        .into_iter()
        .collect();
    let parameters = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
    let slices =
        Api::<EndpointSlice>::namespaced(client, namespace).list(&parameters).await.map_err(failed)?;
    for slice in slices {
        let ports: Vec<u16> = slice
            .ports
            .iter()
            .flatten()
            .filter_map(|port| port.port.and_then(|port| u16::try_from(port).ok()))
            .collect();
        for endpoint in &slice.endpoints {
            if endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) == Some(false) {
                continue;
            }
            for address in endpoint.addresses.iter().filter_map(|address| address.parse::<IpAddr>().ok()) {
                addresses.extend(ports.iter().map(|port| Address::Socket(SocketAddr::new(address, *port))));
            }
        }
    }
    Ok(addresses)
}

/// Whether this very process answers over TLS with a certificate that the published bundle accepts.
/// Part of readiness (spec 00 §3.7).
#[derive(Clone, Debug)]
pub struct SelfCheck {
    pub(crate) port: u16,
    pub(crate) bundle: Arc<ArcSwap<String>>,
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
            let address = Address::Name("localhost".to_owned(), self.port);
            // Any status counts: what is asked is whether TLS and the server stand.
            peer.call(&address, "/healthz", None).await?;
            let Some(path) = review else { return Ok(()) };
            let (status, body) = peer.call(&address, path, Some(empty_review())).await?;
            match serde_json::from_slice::<Answer>(&body) {
                Ok(answer) if answer.response.uid == CHECK_UID => Ok(()),
                _ => Err(unexpected(path, status.to_string())),
            }
        };
        tokio::time::timeout(CHECK_LIMIT, check).await.unwrap_or(Err(CallError::TimedOut(CHECK_LIMIT)))
    }
}

fn unexpected(path: &str, detail: String) -> CallError {
    CallError::Unexpected { path: path.to_owned(), detail }
}

fn empty_review() -> String {
    serde_json::json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": CHECK_UID, "operation": "DELETE", "dryRun": true, "name": CHECK_UID, "namespace": "",
            "kind": {"group": "", "version": "v1", "kind": "Namespace"},
            "resource": {"group": "", "version": "v1", "resource": "namespaces"},
            "requestKind": {"group": "", "version": "v1", "kind": "Namespace"},
            "requestResource": {"group": "", "version": "v1", "resource": "namespaces"},
            "userInfo": {"username": CHECK_UID}, "object": null, "oldObject": null,
        },
    })
    .to_string()
}
