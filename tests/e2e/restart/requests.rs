//! ContainerRecreateRequests.

use serde_json::{Value, json};

use super::{Site, condition, until};
use crate::support::{Stored, assert_holds, create, denied};

const WEBHOOK: &str = "mcontainerrecreaterequest.kb.io";
const ACTIVE: &str = "crr.apps.kruise.io/active";
const NODE_NAME: &str = "crr.apps.kruise.io/node-name";
const POD_UID: &str = "crr.apps.kruise.io/pod-uid";
const ACQUIRED: &str = "crr.apps.kruise.io/unready-acquired";

fn is_completed(request: &Value) -> bool {
    request["status"]["phase"] == "Completed" && request["metadata"]["labels"].get(ACTIVE).is_none()
}

#[tokio::test]
async fn scenarios_25_and_26_a_request_takes_over_what_the_agent_needs_and_keeps_it() {
    let site = Site::open("asked").await;
    let client = &site.shop.client;
    let web = site.running(site.pod("web").with("/spec/terminationGracePeriodSeconds", 7)).await;
    let request = Stored::create(client, site.request("both", &["main", "side"], &json!({}))).await;
    let uid = web.object["metadata"]["uid"].clone();
    let labels = json!({ACTIVE: "true", NODE_NAME: site.node, POD_UID: uid});
    assert_eq!(request.object["metadata"]["labels"], labels);
    let (_, pod) = web.get().await;
    let id = |index: usize| pod["status"]["containerStatuses"][index]["containerID"].clone();
    let expected = json!({
        "strategy": {"failurePolicy": "Fail", "terminationGracePeriodSeconds": 7},
        "containers": [
            {"name": "main", "preStop": {"exec": {"command": ["sync"]}},
                "statusContext": {"containerID": id(0), "restartCount": 0}},
            {"name": "side", "statusContext": {"containerID": id(1), "restartCount": 0}},
        ],
    });
    assert_holds(&request.object["spec"], &expected);

    let refused = async |more: Value, containers: &[&str]| {
        create(client, site.request("bad", containers, &more), "").await
    };
    let unknown = denied(WEBHOOK, 400, "container x not found in Pod");
    assert_eq!(refused(json!({}), &["x"]).await, unknown);
    let context =
        json!({"containers": [{"name": "main", "statusContext": {"containerID": "a", "restartCount": 0}}]});
    let given = denied(WEBHOOK, 400, "preStop, ports, statusContext in container are ready-only fields");
    assert_eq!(refused(context, &["main"]).await, given);
    let missing = denied(WEBHOOK, 400, "no found Pod named none");
    assert_eq!(refused(json!({"podName": "none"}), &["main"]).await, missing);

    let immutable = denied(WEBHOOK, 403, "spec of ContainerRecreateRequest is immutable");
    assert_eq!(request.try_patch(&json!({"spec": {"activeDeadlineSeconds": 9}})).await, immutable);
    let message = format!("not allowed to update immutable label {NODE_NAME}");
    let moved = request.try_patch(&json!({"metadata": {"labels": {NODE_NAME: "other"}}})).await;
    assert_eq!(moved, denied(WEBHOOK, 403, &message));
    request.label("team", "web").await;
}

#[tokio::test]
async fn scenarios_28_and_32_a_pod_is_not_ready_while_its_containers_are_restarted() {
    let site = Site::open("held").await;
    let web = site.running(site.pod("web").readiness_gate("KruisePodReady")).await;
    until("the gate to be open", &web, |pod| condition(pod, "KruisePodReady")["status"] == "True").await;
    let strategy = json!({"strategy": {"unreadyGracePeriodSeconds": 5}});
    let request = Stored::create(&site.shop.client, site.request("drain", &["main"], &strategy)).await;
    // The agent begins, and waits until the Pod was long enough not ready.
    request.patch_status(&json!({"phase": "Recreating"})).await;
    let held = until("the grace period to begin", &request, |request| {
        condition(request, "PreRecreateGrace")["status"] == "True"
    })
    .await;
    assert_eq!(held["metadata"]["finalizers"], json!([ACQUIRED]));
    assert!(held["metadata"].get("annotations").is_none(), "{held:#}");
    let (_, pod) = web.get().await;
    let gate = condition(&pod, "KruisePodReady");
    let key =
        format!(r#"[{{"userAgent":"ContainerRecreateRequest","key":"{}/drain"}}]"#, site.shop.namespace);
    assert_eq!((&gate["status"], &gate["message"]), (&json!("False"), &json!(key)));
    let ready = condition(&pod, "Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("ReadinessGatesNotReady")));
    let (_, older) = request.in_version("v1alpha1").get().await;
    let since = &condition(&held, "PreRecreateGrace")["lastTransitionTime"];
    assert_eq!(&older["metadata"]["annotations"][ACQUIRED], since);
    assert!(older["status"].get("conditions").is_none(), "{older:#}");

    // The container is stopped and started again, which the agent learns.
    let statuses = json!([{"name": "main", "ready": true, "restartCount": 1, "image": "nginx:1.25", "imageID": "",
        "containerID": "containerd://new", "state": {"running": {"startedAt": "2099-01-01T00:00:00Z"}}}]);
    web.patch_status(&json!({"containerStatuses": statuses})).await;
    let reported = until("the agent to be told", &request, |request| {
        request["status"]["containerStatusSnapshot"][0]["containerID"] == "containerd://new"
    })
    .await;
    let seen = json!([{"name": "main", "ready": true, "restartCount": 1, "containerID": "containerd://new"}]);
    assert_eq!(reported["status"]["containerStatusSnapshot"], seen);
    let done = json!({"phase": "Completed", "completionTime": "2026-01-01T00:00:00Z",
        "containerRecreateStates": [{"name": "main", "phase": "Succeeded", "isKilled": true}]});
    request.patch_status(&done).await;
    let after = until("the request to be over", &request, |request| {
        is_completed(request) && request["metadata"].get("finalizers").is_none()
    })
    .await;
    assert_eq!(after["status"]["containerRecreateStates"][0]["phase"], "Succeeded");
    let gate = condition(&web.get().await.1, "KruisePodReady").clone();
    assert_eq!((&gate["status"], &gate["message"]), (&json!("True"), &json!("[]")));
}

#[tokio::test]
async fn scenario_31_a_request_ends_with_its_pod_or_at_its_deadline() {
    let site = Site::open("ended").await;
    let client = &site.shop.client;
    let web = site.running(site.pod("web").readiness_gate("KruisePodReady")).await;
    let late =
        site.request("late", &["main"], &json!({"activeDeadlineSeconds": 30, "ttlSecondsAfterFinished": 5}));
    let late = Stored::create(client, late).await;
    late.patch_status(
        &json!({"phase": "Recreating", "containerRecreateStates": [{"name": "main", "phase": "Pending"}]}),
    )
    .await;
    let ended = until("the deadline to end it", &late, is_completed).await;
    assert_eq!(ended["status"]["message"], "recreating has exceeded the activeDeadlineSeconds");
    assert_eq!(ended["status"]["containerRecreateStates"], json!([{"name": "main", "phase": "Pending"}]));

    let strategy = json!({"strategy": {"unreadyGracePeriodSeconds": 5}});
    let held = Stored::create(client, site.request("held", &["main"], &strategy)).await;
    held.patch_status(&json!({"phase": "Recreating"})).await;
    until("the Pod to be held", &held, |request| !condition(request, "PreRecreateGrace").is_null()).await;
    let waiting = Stored::create(client, site.request("waiting", &["side"], &json!({}))).await;
    waiting.patch_status(&json!({"phase": "Pending"})).await;
    web.delete_with(&json!({"gracePeriodSeconds": 0})).await;
    for request in [&held, &waiting] {
        let ended = until("the request to end", request, is_completed).await;
        assert_eq!(ended["status"]["message"], "pod has gone");
        assert!(ended["metadata"].get("finalizers").is_none(), "{ended:#}");
    }
    // The older version is treated alike.
    let older = site.request("older", &["main"], &json!({})).api_version(super::ALPHA);
    let (code, answer) = create(client, older, "").await;
    assert_eq!((code, answer["message"].as_str().unwrap().contains("no found Pod named web")), (400, true));
    // A request that says how long it is to be kept is deleted after that time.
    late.gone().await;
    assert_eq!(held.get().await.0, 200);
}
