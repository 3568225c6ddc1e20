//! The Pod of a request as it is when the request is made: what the request copies.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use pod::node_fit;
use values::verdict::{Denial, refused};

/// The condition of a Pod whose phase its sidecars do not decide any more: they may still run.
const SIDECAR_TERMINATED: &str = "SidecarTerminated";

/// A Pod.
#[derive(Debug, Deserialize)]
pub(super) struct Pod<'a> {
    metadata: Metadata,
    #[serde(borrow)]
    spec: Spec<'a>,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    uid: String,
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(default)]
    node_name: String,
    termination_grace_period_seconds: Option<i64>,
    #[serde(borrow, default)]
    containers: Vec<Container<'a>>,
    #[serde(borrow, default)]
    init_containers: Vec<Container<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container<'a> {
    name: String,
    restart_policy: Option<String>,
    #[serde(borrow)]
    ports: Option<&'a RawValue>,
    #[serde(borrow)]
    lifecycle: Option<Lifecycle<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lifecycle<'a> {
    #[serde(borrow)]
    pre_stop: Option<Handler<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Handler<'a> {
    #[serde(borrow)]
    exec: Option<&'a RawValue>,
    #[serde(borrow)]
    http_get: Option<&'a RawValue>,
    #[serde(borrow)]
    tcp_socket: Option<&'a RawValue>,
    sleep: Option<Sleep>,
}

#[derive(Debug, Deserialize)]
struct Sleep {
    seconds: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    conditions: Vec<Condition>,
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    #[serde(rename = "containerID", default)]
    container_id: String,
    #[serde(default)]
    restart_count: i32,
}

/// What a request takes over of a container, as JSON texts.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) pre_stop: Option<String>,
    pub(super) ports: Option<String>,
    pub(super) status_context: String,
    /// How long the preStop hook sleeps.
    pub(super) sleep: Option<i64>,
}

impl<'a> Pod<'a> {
    /// Reads a Pod in which containers can be restarted.
    pub(super) fn read(text: &'a str) -> Result<Self, Denial> {
        let read = serde_json::from_str(text);
        let pod: Self = read
            .map_err(|error| Denial { code: 500, message: format!("the Pod is not understood: {error}") })?;
        let ended = matches!(&*pod.status.phase, "Succeeded" | "Failed");
        let ends = ended || pod.metadata.deletion_timestamp.is_some();
        let sidecars_remain =
            pod.status.conditions.iter().any(|condition| condition.kind == SIDECAR_TERMINATED);
        if ends && !sidecars_remain {
            return Err(refused("not allowed to recreate containers in an inactive Pod"));
        }
        if pod.spec.node_name.is_empty() {
            return Err(refused("not allowed to recreate containers in a pending Pod"));
        }
        Ok(pod)
    }

    pub(super) fn uid(&self) -> &str {
        &self.metadata.uid
    }

    pub(super) fn node(&self) -> &str {
        &self.spec.node_name
    }

    pub(super) fn grace_period(&self) -> Option<i64> {
        self.spec.termination_grace_period_seconds
    }

    /// What is copied of the container of this name. Init containers can be restarted where they run beside the others.
    pub(super) fn container(&self, name: &str) -> Result<Copied, Denial> {
        let (spec, status) = (&self.spec, &self.status);
        let named = |container: &&Container<'_>| container.name == name;
        let own = spec.containers.iter().find(named).map(|container| (container, &status.container_statuses));
        let found = own.or_else(|| {
            let container = spec.init_containers.iter().find(named)?;
            let runs_on = container.restart_policy.as_deref() == Some("Always");
            let statuses = if runs_on { &status.init_container_statuses } else { &status.container_statuses };
            Some((container, statuses))
        });
        let (container, statuses) =
            found.ok_or_else(|| refused(format!("container {name} not found in Pod")))?;
        let status = statuses.iter().find(|status| status.name == name);
        let status =
            status.ok_or_else(|| refused(format!("not found {name} containerStatus in Pod Status")))?;
        if status.container_id.is_empty() {
            return Err(refused(format!(
                "no containerID in {name} containerStatus, maybe the container has not been initialized"
            )));
        }
        let handler = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
        let ports = handler.filter(|handler| handler.http_get.is_some()).and(container.ports);
        Ok(Copied {
            pre_stop: handler.and_then(Handler::to_json),
            ports: ports.map(|ports| ports.get().to_owned()),
            status_context: json!({"containerID": status.container_id, "restartCount": status.restart_count})
                .to_string(),
            sleep: handler.and_then(|handler| handler.sleep.as_ref()).map(|sleep| sleep.seconds),
        })
    }
}

impl Handler<'_> {
    /// The handler in the fields that a request has; `None` where it has none of them.
    fn to_json(&self) -> Option<String> {
        let all = [("exec", self.exec), ("httpGet", self.http_get), ("tcpSocket", self.tcp_socket)];
        let set: BTreeMap<&str, &RawValue> =
            all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        // JSON texts under plain keys: writing them cannot fail.
        (!set.is_empty()).then(|| serde_json::to_string(&set).unwrap_or_default())
    }
}

/// Whether a Node runs no kubelet, and so no node agent.
pub(super) fn is_virtual(node: &str) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Node {
        metadata: NodeMetadata,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct NodeMetadata {
        labels: BTreeMap<String, String>,
    }
    let node: Node = serde_json::from_str(node).unwrap_or_default();
    node_fit::is_virtual(&node.metadata.labels)
}
