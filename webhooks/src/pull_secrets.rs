//! Pull Secrets for the agents of the nodes (docs/behaviour/node-agent.md#pull-secrets-of-a-node). RBAC knows no nodes:
//! with a right of its own an agent could read the Secrets of all others. So none of them has one, and each gets
//! from here what the NodeImage of its node names.

use std::fmt;
use std::time::Duration;

use admission::pull_secrets::{is_named, node_of_agent, token_review};
use agent::keyring::may_exist;
use api::kinds::nodeimage::PullSecret;
use cluster::ApiError;
use cluster::resource::{NODE_IMAGES, SECRETS, TOKEN_REVIEWS};
use cluster::write::{create, get};
use http::request::Parts;
use http::{Method, StatusCode};
use kube::Client;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::warn;

use crate::tokens::bearer;

/// So many agents are answered at a time, each of which costs three calls of the API server.
const AT_A_TIME: usize = 16;
/// How long an agent waits at most, for its turn and for its answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The account of the agents, in the install namespace.
const ACCOUNT: &str = "kruise-daemon";

/// Gives out pull Secrets.
pub struct PullSecrets {
    client: Client,
    /// The user name of the agents.
    account: String,
    /// The namespace of the Secrets.
    namespace: String,
    turns: Semaphore,
}

/// Why an agent gets nothing.
#[derive(Clone, Copy)]
enum Refusal {
    /// It has shown no token of an agent.
    Unknown,
    /// The NodeImage of its node does not name the Secret.
    NotNamed,
    /// There is no such Secret.
    Absent,
    /// The API server does not answer, or too many agents ask.
    Busy,
}

impl fmt::Debug for PullSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PullSecrets").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl PullSecrets {
    /// Gives out the Secrets of `namespace` to agents whose account is in the install namespace.
    pub fn new(client: Client, install_namespace: &str, namespace: String) -> Self {
        let account = format!("system:serviceaccount:{install_namespace}:{ACCOUNT}");
        Self { client, account, namespace, turns: Semaphore::new(AT_A_TIME) }
    }

    /// The answer to an agent, by which path and token it may ask; a Secret has the path that it has at the API
    /// server. `None` where the path is another.
    pub(crate) async fn answer(&self, head: &Parts) -> Option<(StatusCode, String)> {
        let all = SECRETS.namespaced(&self.namespace);
        let name = head.uri.path().strip_prefix(&*all)?.strip_prefix('/')?;
        if head.method != Method::GET {
            return None;
        }
        let answer = timeout(TIMEOUT, self.secret(name, head)).await;
        Some(match answer.unwrap_or(Err(Refusal::Busy)) {
            Ok(secret) => (StatusCode::OK, secret),
            Err(refusal) => refusal.answer(),
        })
    }

    async fn secret(&self, name: &str, head: &Parts) -> Result<String, Refusal> {
        let token = bearer(&head.headers).ok_or(Refusal::Unknown)?;
        let secret =
            PullSecret { namespace: self.namespace.clone(), name: name.to_owned(), ..PullSecret::default() };
        if !may_exist(&secret) {
            return Err(Refusal::Absent);
        }
        let _turn = self.turns.acquire().await.map_err(|_| Refusal::Busy)?;
        let review = create(&self.client, &TOKEN_REVIEWS.all(), token_review(token))
            .await
            .map_err(|error| busy(&error))?;
        let node = node_of_agent(&review, &self.account).ok_or(Refusal::Unknown)?;
        let image = get(&self.client, &NODE_IMAGES.all().name(&node)).await.map_err(|error| busy(&error))?;
        if !image.is_some_and(|image| is_named(&image, &self.namespace, name)) {
            warn!(node, name, "an agent asks for a Secret that its NodeImage does not name");
            return Err(Refusal::NotNamed);
        }
        get(&self.client, &SECRETS.namespaced(&self.namespace).name(name))
            .await
            .map_err(|error| busy(&error))?
            .ok_or(Refusal::Absent)
    }
}

fn busy(error: &ApiError) -> Refusal {
    warn!(request = error.request(), %error, "an agent gets no pull Secret");
    Refusal::Busy
}

impl Refusal {
    /// What the API server would say.
    fn answer(self) -> (StatusCode, String) {
        let (code, reason, message) = match self {
            Self::Unknown => (StatusCode::UNAUTHORIZED, "Unauthorized", "show the token of an agent"),
            Self::NotNamed => {
                (StatusCode::FORBIDDEN, "Forbidden", "the NodeImage of this node does not name the Secret")
            }
            Self::Absent => (StatusCode::NOT_FOUND, "NotFound", "there is no such Secret"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "ask again later"),
        };
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code.as_u16(),
        });
        (code, status.to_string())
    }
}
