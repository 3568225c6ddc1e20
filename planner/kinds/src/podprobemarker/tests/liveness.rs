use super::*;
use crate::podprobemarker::liveness::has_moved;
use crate::podprobemarker::node::{Node, Step, step};
use crate::podprobemarker::probed::probed;
use crate::podprobemarker::restarts::restarts;

const CONTEXT: &str = "apps.kruise.io/container-probe-context";

/// A Pod whose liveness probe was moved, and whose container started at 00:01:00.
fn moved() -> Arc<ObservedPod> {
    let probes =
        r#"[{"name":"main","livenessProbe":{"httpGet":{"path":"/","port":"http"},"periodSeconds":10}}]"#;
    pod("web", |pod| {
        pod["metadata"]["annotations"] = json!({CONTEXT: probes});
        pod["status"]["containerStatuses"] =
            json!([{"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:01:00Z"}}}]);
    })
}

fn state(state: &str, since: &str) -> Value {
    json!([{"name": "#main", "state": state, "message": "no answer", "lastTransitionTime": since}])
}

#[test]
fn the_agent_runs_the_probes_that_were_moved() {
    let pods = [moved()];
    let node = Some(Node { is_ready: true, ..Node::default() });
    let Step::Create(object) = step("n", node, None, &probed(&pods, &[], true)) else { panic!("no step") };
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!(
        object["spec"]["podProbes"][0]["probes"],
        json!([{"name": "#main", "containerName": "main", "probe":
            {"httpGet": {"path": "/", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10}}])
    );
    assert!(has_moved(&pods[0]) && probed(&pods, &[], false).is_empty());
    let spoilt = [pod("web", |pod| pod["metadata"]["annotations"] = json!({CONTEXT: "["}))];
    assert!(probed(&spoilt, &[], true).is_empty());
}

#[test]
fn a_container_that_fails_is_restarted_once_for_each_start() {
    let pods = [moved()];
    let probed = probed(&pods, &[], true);
    let requests = |states: Value| restarts(&reported(states), &probed);
    let failed = requests(state("Failed", "2026-01-01T00:02:00Z"));
    assert_eq!(failed.len(), 1);
    assert_eq!(
        failed[0].request.json,
        concat!(
            r#"{"apiVersion":"apps.kruise.io/v1beta1","kind":"ContainerRecreateRequest","metadata":{"namespace":"shop","#,
            r#""name":"liveness-uid-web-main-1767225720","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web","uid":"uid-web","controller":true}]},"#,
            r#""spec":{"podName":"web","containers":[{"name":"main"}],"strategy":{},"ttlSecondsAfterFinished":300}}"#
        )
    );
    assert!(failed[0].event.message.ends_with("will be restarted: no answer"));
    // The container that has started since has not been probed yet.
    assert!(requests(state("Failed", "2026-01-01T00:00:59Z")).is_empty());
    assert!(requests(state("Succeeded", "2026-01-01T00:02:00Z")).is_empty());
    assert!(requests(state("Unknown", "2026-01-01T00:02:00Z")).is_empty());
}
