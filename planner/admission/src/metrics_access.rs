//! Who may read metrics where they are protected (docs/behaviour/server.md#protected-metrics): all who may `get` the
//! path `/metrics` at the API server.

use serde::Deserialize;
use serde_json::{Value, json};

use super::tokens;

/// A SubjectAccessReview, as the API server answers it.
#[derive(Deserialize)]
struct AccessReview {
    status: AccessStatus,
}

#[derive(Deserialize)]
struct AccessStatus {
    #[serde(default)]
    allowed: bool,
}

/// The question whose token this is.
pub fn token_review(token: &str) -> String {
    tokens::token_review(token, None)
}

/// The question whether the holder of the reviewed token may read metrics; `None` where nobody holds it.
pub fn access_review(token_review: &str) -> Option<String> {
    let mut spec = serde_json::to_value(tokens::user_of(token_review, None)?).ok()?;
    spec.as_object_mut()?
        .insert("nonResourceAttributes".to_owned(), json!({"path": "/metrics", "verb": "get"}));
    let review: Value =
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
    Some(review.to_string())
}

/// Whether the answer to that question is yes.
pub fn is_allowed(access_review: &str) -> bool {
    serde_json::from_str::<AccessReview>(access_review).is_ok_and(|review| review.status.allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_server_is_asked_about_who_it_knows() {
        let review = json!({"status": {"authenticated": true, "audiences": ["https://kubernetes.default.svc"],
            "user": {"username": "prometheus", "uid": "1", "groups": ["scrapers"], "extra": {"a": ["b"]}}}});
        let asked: Value = serde_json::from_str(&access_review(&review.to_string()).unwrap()).unwrap();
        let spec = json!({
            "user": "prometheus", "uid": "1", "groups": ["scrapers"], "extra": {"a": ["b"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        });
        assert_eq!((&asked["kind"], &asked["spec"]), (&json!("SubjectAccessReview"), &spec));
    }

    #[test]
    fn what_is_not_said_is_no() {
        for review in [r#"{"status": {}}"#, r#"{"status": {"error": "expired"}}"#, "{}", ""] {
            assert_eq!(access_review(review), None, "{review}");
            assert!(!is_allowed(review), "{review}");
        }
        assert!(is_allowed(r#"{"status": {"allowed": true, "reason": "RBAC"}}"#));
        assert!(!is_allowed(r#"{"status": {"allowed": false, "denied": true}}"#));
    }
}
