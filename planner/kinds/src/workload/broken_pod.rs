//! Pods that serve nobody and do not come to it by themselves: what a broken revision leaves behind.

use pod::observed::{ContainerStatus, ObservedPod, PodCondition};

/// Words of the kubelet for a container that is about to start.
const STARTING: [&str; 3] = ["", "ContainerCreating", "PodInitializing"];

/// The Pod finds no node, one of its containers can't start or ends each time, or it has never been ready.
pub(crate) fn is_broken(pod: &ObservedPod) -> bool {
    if pod.is_ready() {
        return false;
    }
    if pod.spec.node_name.is_empty() {
        let scheduled = pod.condition("PodScheduled");
        return scheduled.is_some_and(|condition| &*condition.reason == "Unschedulable");
    }
    let statuses = &pod.status;
    let all = || statuses.init_container_statuses.iter().chain(&*statuses.container_statuses);
    all().any(cannot_start) || was_never_ready(pod)
}

fn cannot_start(status: &ContainerStatus) -> bool {
    status.state.waiting.as_ref().is_some_and(|waiting| !STARTING.contains(&&*waiting.reason))
}

/// A container runs for the first time and is not ready, and the Pod was not ready before that either.
fn was_never_ready(pod: &ObservedPod) -> bool {
    let statuses = &pod.status.container_statuses;
    let Some(since) = pod.condition("Ready").and_then(PodCondition::since) else { return false };
    let started = |status: &ContainerStatus| status.running?.started_at.map(jiff::Timestamp::from);
    statuses.iter().all(|status| status.restart_count == 0)
        && statuses.iter().any(|status| !status.ready && started(status).is_some_and(|start| since <= start))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn broken(status: &Value, node: &str) -> bool {
        let pod = json!({"metadata": {"name": "web-0"}, "spec": {"nodeName": node}, "status": status});
        is_broken(&ObservedPod::read(&pod.to_string()).unwrap())
    }

    #[test]
    fn a_pod_is_broken_that_does_not_come_to_serve_by_itself() {
        let ready = |status: &str, second: u32| json!({"type": "Ready", "status": status, "lastTransitionTime": format!("2026-01-01T12:00:{second:02}Z")});
        let waits = |reason: &str| json!({"name": "main", "ready": false, "restartCount": 3, "state": {"waiting": {"reason": reason}}});
        let runs = |second: u32, restarts: i32| {
            json!({"name": "main", "ready": false, "restartCount": restarts,
                "state": {"running": {"startedAt": format!("2026-01-01T12:00:{second:02}Z")}}})
        };
        let with =
            |ready: Value, container: Value| json!({"conditions": [ready], "containerStatuses": [container]});
        for reason in ["ImagePullBackOff", "ErrImagePull", "CrashLoopBackOff", "CreateContainerConfigError"] {
            assert!(broken(&with(ready("False", 1), waits(reason)), "node"), "{reason}");
            let init = json!({"conditions": [ready("False", 1)], "initContainerStatuses": [waits(reason)]});
            assert!(broken(&init, "node"), "{reason}");
        }
        for reason in ["", "ContainerCreating", "PodInitializing"] {
            assert!(!broken(&with(ready("False", 1), waits(reason)), "node"), "{reason}");
        }
        // Its probe has never passed; or it passed before; or nobody knows.
        assert!(broken(&with(ready("False", 1), runs(5, 0)), "node"));
        assert!(!broken(&with(ready("False", 9), runs(5, 0)), "node"));
        assert!(!broken(&with(ready("False", 1), runs(5, 1)), "node"));
        assert!(!broken(&json!({"containerStatuses": [runs(5, 0)]}), "node"));
        assert!(!broken(&with(ready("True", 1), waits("CrashLoopBackOff")), "node"));
        // It finds no node; or has not been looked at.
        let unscheduled = |reason: &str| json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason}]});
        assert!(broken(&unscheduled("Unschedulable"), ""));
        assert!(!broken(&unscheduled("SchedulingGated"), ""));
        assert!(!broken(&json!({}), ""));
    }
}
