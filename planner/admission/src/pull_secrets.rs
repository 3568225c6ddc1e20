//! Which pull Secrets the agent of a node gets: those that the NodeImage of its node names
//! (docs/behaviour/node-agent.md#pull-secrets-of-a-node). What the API server knows of a token is read here.

use api::kinds::nodeimage::NodeImage;

use super::tokens;

/// Whom tokens of agents are for. The API server takes no token that is for somebody else, so a client that has
/// one can't act with it as the agent.
const AUDIENCE: &str = "kutter";
/// Where the API server names the node of the Pod that a token was made for.
const NODE: &str = "authentication.kubernetes.io/node-name";

/// The question whose token this is.
pub fn token_review(token: &str) -> String {
    tokens::token_review(token, Some(AUDIENCE))
}

/// The node whose agent has the reviewed token; `account` is the user name of all agents. `None` where the
/// token is no agent's, is for somebody else, or is bound to no Pod.
pub fn node_of_agent(review: &str, account: &str) -> Option<String> {
    let mut user = tokens::user_of(review, Some(AUDIENCE)).filter(|user| user.username == account)?;
    user.extra.remove(NODE)?.into_iter().next().filter(|node| !node.is_empty())
}

/// Whether the NodeImage with this JSON names that Secret for one of its images.
pub fn is_named(node_image: &str, namespace: &str, name: &str) -> bool {
    serde_json::from_str::<NodeImage>(node_image).is_ok_and(|node| {
        let mut secrets = node.spec.images.values().flat_map(|image| &image.pull_secrets);
        secrets.any(|secret| secret.namespace == namespace && secret.name == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const ACCOUNT: &str = "system:serviceaccount:kruise-system:kruise-daemon";

    fn review() -> Value {
        json!({"status": {"authenticated": true, "audiences": ["kutter"],
            "user": {"username": ACCOUNT, "uid": "1", "groups": ["system:serviceaccounts"],
                "extra": {NODE: ["node-1"], "authentication.kubernetes.io/pod-name": ["p"]}}}})
    }

    #[test]
    fn the_node_of_an_agent_is_that_of_its_token() {
        let node = |review: &Value| node_of_agent(&review.to_string(), ACCOUNT);
        assert_eq!(node(&review()).as_deref(), Some("node-1"));
        for (pointer, value) in [
            ("/status/authenticated", json!(false)),
            ("/status/audiences", json!(["https://kubernetes.default.svc"])),
            ("/status/audiences", json!([])),
            ("/status/user/username", json!("system:serviceaccount:shop:kruise-daemon")),
            ("/status/user/extra", json!({})),
            ("/status/user/extra", json!({NODE: []})),
            ("/status/user/extra", json!({NODE: [""]})),
            ("/status", json!({"error": "expired"})),
        ] {
            let mut review = review();
            *review.pointer_mut(pointer).unwrap() = value;
            assert_eq!(node(&review), None, "{review}");
        }
        assert_eq!(node_of_agent("no JSON", ACCOUNT), None);
    }

    #[test]
    fn a_secret_is_named_by_namespace_and_name() {
        let image = |secrets: Value| json!({"pullSecrets": secrets, "tags": []});
        let node = json!({"metadata": {"name": "n"}, "spec": {"images": {
            "a": image(json!([{"namespace": "config", "name": "one"}])),
            "b": image(json!([{"namespace": "shop", "name": "two"}, {"namespace": "config", "name": "three"}])),
        }}});
        let named = |namespace: &str, name: &str| is_named(&node.to_string(), namespace, name);
        assert!(named("config", "one") && named("config", "three"));
        assert!(!named("config", "two") && !named("shop", "one") && !named("config", ""));
        assert!(!is_named("no JSON", "config", "one"));
    }

    #[test]
    fn a_token_is_reviewed_for_our_audience() {
        let review: Value = serde_json::from_str(&token_review("a\"b")).unwrap();
        assert_eq!(review["spec"], json!({"token": "a\"b", "audiences": ["kutter"]}));
    }
}
