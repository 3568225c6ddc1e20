//! Whose token a caller shows: the questions to the API server, and its answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

/// A TokenReview, as the API server answers it.
#[derive(Deserialize)]
struct TokenReview {
    status: TokenStatus,
}

#[derive(Deserialize)]
struct TokenStatus {
    #[serde(default)]
    authenticated: bool,
    #[serde(default)]
    audiences: Vec<String>,
    #[serde(default)]
    user: User,
}

/// Who has a token.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct User {
    #[serde(rename(serialize = "user"))]
    pub(crate) username: String,
    uid: String,
    groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

/// The question whose token this is. Without an audience it has to be for the API server itself.
pub(crate) fn token_review(token: &str, audience: Option<&str>) -> String {
    json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": audience.as_slice()},
    })
    .to_string()
}

/// Who has the reviewed token; `None` where nobody has, or it is for somebody else.
pub(crate) fn user_of(review: &str, audience: Option<&str>) -> Option<User> {
    let TokenStatus { authenticated, audiences, user } =
        serde_json::from_str::<TokenReview>(review).ok()?.status;
    let ours = audience.is_none_or(|ours| audiences.iter().any(|audience| audience == ours));
    (authenticated && ours).then_some(user)
}
