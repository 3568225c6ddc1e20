//! What is reported about a Deployment, in the words of Kubernetes.

use values::event::{Event, normal, warning};

/// A ReplicaSet has got another size.
pub(super) fn scaled(name: &str, from: i64, to: i64) -> Event {
    let direction = if to > from { "up" } else { "down" };
    normal("ScalingReplicaSet", format!("Scaled {direction} replica set {name} from {from} to {to}"))
}

/// The selector of the Deployment is empty.
pub(super) fn selecting_all() -> Event {
    let message = "This deployment is selecting all pods. A non-empty selector is required.";
    warning("SelectingAll", message.to_owned())
}

/// Nothing keeps the Deployment paused any more.
pub(super) fn unguarded(configuration: &str) -> Event {
    let message = format!(
        "MutatingWebhookConfiguration {configuration} is gone, so that anybody could let this deployment go: it gets its \
         rolling update back"
    );
    warning("WebhookMissing", message)
}

/// The ReplicaSet of a new template could not be created.
pub fn create_failed(name: &str, problem: &str) -> Event {
    warning("ReplicaSetCreateError", format!("Failed to create new replica set {name:?}: {problem}"))
}
