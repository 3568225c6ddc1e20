//! EphemeralJobs.

use kit::wait_for;
use serde_json::{Value, json};

use super::{Site, until};
use crate::support::{Stored, create, message};

/// Says how the container of a job is in a Pod.
async fn report(pod: &Stored, state: &Value) {
    let status = json!({"name": "debug", "state": state, "image": "busybox:1.36", "imageID": "", "ready": false,
        "restartCount": 0});
    pod.patch_status(&json!({"ephemeralContainerStatuses": [status]})).await;
}

async fn end(pod: &Stored, code: i32) {
    report(pod, &json!({"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}})).await;
}

fn is_added(pod: &Value) -> bool {
    pod["spec"].get("ephemeralContainers").is_some()
}

/// Waits until the job is in this phase, and gives its status.
async fn phase(job: &Stored, phase: &str) -> Value {
    let job = until("the job's phase", job, |job| job["status"]["phase"] == phase).await;
    job["status"].clone()
}

fn reason<'v>(status: &'v Value, kind: &str) -> Option<&'v str> {
    let conditions = status["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)?["reason"].as_str()
}

#[tokio::test]
async fn scenarios_33_and_38_pods_are_taken_one_after_the_other() {
    let site = Site::open("debug").await;
    // Of Pods that were created in the same second the names decide.
    let (first, second) = (site.running(site.pod("a")).await, site.running(site.pod("b")).await);
    let job = Stored::create(&site.shop.client, site.job("debug", &json!({"parallelism": 1}))).await;
    let added = until("the first Pod to be taken", &first, is_added).await;
    let container = &added["spec"]["ephemeralContainers"][0];
    let variable = json!({"name": "KRUISE_EJOB_ID", "value": job.object["metadata"]["uid"]});
    assert_eq!((&container["name"], &container["env"]), (&json!("debug"), &json!([variable])));
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    report(&first, &json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}})).await;
    let running = phase(&job, "Running").await;
    assert_eq!((&running["match"], &running["running"]), (&json!(2), &json!(1)));
    assert!(!is_added(&second.get().await.1));
    end(&first, 0).await;
    until("the second Pod to be taken", &second, is_added).await;
    end(&second, 0).await;
    let done = phase(&job, "Succeeded").await;
    assert_eq!((&done["match"], &done["succeeded"], &done["running"]), (&json!(2), &json!(2), &json!(0)));
    assert_eq!(reason(&done, "JobSucceeded"), Some("JobSucceeded"));
    assert!(!done["completionTime"].is_null());
    let (_, stored) = job.get().await;
    assert_eq!(stored["metadata"]["finalizers"], json!(["apps.kruise.io/ephemeralcontainers-cleanup"]));

    // It stays for half an hour, unless it is to be deleted at once.
    job.patch(&json!({"spec": {"ttlSecondsAfterFinished": 0}})).await;
    job.gone().await;
}

#[tokio::test]
async fn scenario_34_what_may_not_be_added_is_refused() {
    let site = Site::open("refused").await;
    let client = &site.shop.client;
    let with = |members: Value| {
        let mut container = json!({"name": "debug", "image": "busybox:1.36"});
        json_patch::merge(&mut container, &members);
        site.job("bad", &json!({"template": {"ephemeralContainers": [container]}}))
    };
    let ports = with(json!({"ports": [{"containerPort": 80, "protocol": "TCP"}]}));
    let answer = create(client, ports, "").await;
    let path = "ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container";
    assert_eq!(answer.0, 400);
    assert!(message(&answer).contains(path), "{answer:?}");
    let expression = json!([{"key": "app", "operator": "Like", "values": ["web"]}]);
    let selector =
        site.job("bad", &json!({"selector": {"matchLabels": null, "matchExpressions": expression}}));
    let selector = create(client, selector, "").await;
    let path = "spec.selector.matchExpressions[0].operator: Invalid value: ";
    assert!(selector.0 == 400 && message(&selector).contains(path), "{selector:?}");
}

/// docs/behaviour/restarts.md#the-controller-of-ephemeraljobs: a refusal is reported, and the job continues from there.
#[tokio::test]
async fn what_pods_refuse_is_reported() {
    let site = Site::open("told").await;
    site.running(site.pod("web")).await;
    // No container can be looked into that is not there.
    let container = json!({"name": "debug", "image": "busybox:1.36", "targetContainerName": "none"});
    let job = site.job("told", &json!({"template": {"ephemeralContainers": [container]}}));
    let job = Stored::create(&site.shop.client, job).await;
    let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", site.shop.namespace);
    wait_for("the Event", async || {
        let list = crate::support::call(&site.shop.client, "GET", &path, &Value::Null).await.1;
        let events = list["items"].as_array().unwrap();
        let found =
            events.iter().any(|event| event["reason"] == "CreateFailed" && event["type"] == "Warning");
        if found { Ok(()) } else { Err(list) }
    })
    .await;
    let (_, job) = job.get().await;
    assert!(!job["status"]["startTime"].is_null(), "{job:#}");
}
