//! What the controller does when the API server refuses: it asks less and less often, and goes on with the rest.

use jiff::Timestamp;
use kit::builders::object;
use kit::{fake_nodes, wait_for};
use serde_json::{Value, json};

use super::{Fleet, NEW, SPECIFIED_DELETE, condition, image, in_place, is_available, name, time, with_claim};
use crate::support::{Shop, Stored, create, message, wait_quota};

/// Sets a quota of Pods, as the controller manager does: none runs here.
async fn allow(quota: &Stored, pods: &str) {
    quota.patch(&json!({"spec": {"hard": {"pods": pods}}})).await;
    let used = quota.get().await.1["status"]["used"]["pods"].as_str().unwrap_or("1").to_owned();
    quota.patch_status(&json!({"hard": {"pods": pods}, "used": {"pods": used}})).await;
}

/// The time of each Event with this reason, in their order.
async fn times(fleet: &Fleet, reason: &str) -> Vec<Timestamp> {
    let events = fleet.list("apis/events.k8s.io/v1", "events").await;
    let told = events.iter().filter(|event| event["reason"] == reason);
    let mut times: Vec<Timestamp> = told.map(|event| time(&event["eventTime"])).collect();
    times.sort_unstable();
    times
}

/// A quota that is used up: creations are tried after pauses that grow, Pods that exist are updated all the
/// same, and a higher quota is noticed.
#[tokio::test]
async fn an_exceeded_quota_is_tried_less_and_less_often_and_holds_no_update() {
    let fleet = Fleet::launch("cloneset-exceeded", |set| in_place(set.replicas(1), json!({}))).await;
    let quota = object("v1", "ResourceQuota", "pods")
        .in_namespace(&fleet.shop.namespace)
        .with("/spec/hard/pods", "1");
    let quota = Stored::create(&fleet.shop.client, quota).await;
    allow(&quota, "1").await;
    wait_quota(&fleet.shop.client, fleet.shop.pod("trial")).await;

    fleet.scale(3).await;
    let times = wait_for("nine tries", async || {
        let times = times(&fleet, "FailedCreate").await;
        if times.len() >= 9 { Ok(times) } else { Err(times) }
    })
    .await;
    // Each is told after it was tried, which may be late: pauses are compared that differ by many seconds.
    let between = |first: usize, last: usize| times[last].duration_since(times[first]);
    assert!(between(6, 8) > between(0, 2), "{times:?}");
    assert!(between(0, 8).as_secs() >= 15, "{times:?}");

    fleet.roll(NEW).await;
    fleet
        .wait_pods("the Pod to be updated", |pods| {
            pods.len() == 1 && image(&pods[0]) == NEW && is_available(&pods[0])
        })
        .await;
    let set = fleet.set.get().await.1;
    let told = condition(&set, "FailedScale")["message"].as_str().unwrap().to_owned();
    assert!(told.contains("exceeded quota"), "{told}");
    let output = fleet.explained().await;
    assert_eq!(output.status.code(), Some(2), "{}", output.stderr);
    let begin = format!("CloneSet {}/web: waiting\n", fleet.shop.namespace);
    assert!(output.stdout.starts_with(&begin), "{}", output.stdout);
    let waits = "waits: 2 Pods are not created: the API server refuses it: ";
    assert!(output.stdout.contains(waits) && output.stdout.contains("exceeded quota"), "{}", output.stdout);

    allow(&quota, "9").await;
    fleet.complete().await;
    fleet.observed("the condition to go", |set| condition(set, "FailedScale").is_null()).await;
}

/// An administrator's policy that keeps a Pod from being deleted.
async fn keep(shop: &Shop, pod: &str) -> Stored {
    let (client, name) = (&shop.client, shop.name("kept"));
    let policy = object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", &name).with(
        "/spec",
        json!({
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"],
            }]},
            "validations": [{"expression": format!("oldObject.metadata.name != '{pod}'"), "message": "kept"}],
        }),
    );
    Stored::create(client, policy).await;
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": shop.namespace}});
    let binding = object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", &name).with(
        "/spec",
        json!({
            "policyName": name, "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": selector},
        }),
    );
    let binding = Stored::create(client, binding).await;
    let path = format!("/api/v1/namespaces/{}/pods/{pod}", shop.namespace);
    let pod = Stored::existing(client, path, Value::Null);
    wait_for("the policy to be in force", async || match pod.delete_dry().await {
        (200 | 202, answer) => Err(answer),
        _ => Ok(()),
    })
    .await;
    binding
}

#[tokio::test]
async fn a_delete_that_is_refused_stops_no_creation() {
    let fleet = Fleet::launch("cloneset-kept", |set| in_place(set.replicas(3), json!({}))).await;
    let names = fleet.names().await;
    let policy = keep(&fleet.shop, &names[0]).await;
    fleet.annotate(&names[0], fake_nodes::READY_AFTER, "never").await;
    fleet.status("one Pod to be unavailable", json!({"availableReplicas": 2})).await;
    fleet.pod(&names[0]).label(SPECIFIED_DELETE, "").await;
    let told = fleet.event("FailedDelete").await;
    assert!(told.starts_with(&format!("failed to delete pod {}: ", names[0])), "{told}");
    fleet.pod(&names[1]).deleted().await;
    fleet
        .wait_pods("the lost Pod to be replaced", |pods| {
            pods.iter().filter(|pod| !names.contains(&name(pod))).any(is_available)
        })
        .await;
    policy.deleted().await;
    fleet.pod(&names[0]).gone().await;
    fleet.complete().await;
}

/// The schema says nothing of claim templates.
#[tokio::test]
async fn a_mistyped_claim_template_is_refused_with_its_place() {
    let server = super::asked().await;
    let shop = Shop::open_on(server, "cloneset-mistyped").await;
    for version in ["v1alpha1", "v1beta1"] {
        let sound = with_claim(super::clone_set(&shop, version)).build();
        for (field, value, code, place) in [
            ("/spec/accessModes", json!("ReadWriteOnce"), 400, "[0].spec.accessModes"),
            ("/spec/resources/requests/storage", json!("10 Gi"), 400, "[0].spec.resources.requests.storage"),
            ("/metadata/name", json!(null), 422, "volumes[0].name: Required value"),
        ] {
            let mut set = sound.clone();
            *set["spec"]["volumeClaimTemplates"][0].pointer_mut(field).unwrap() = value;
            let answer = create(&shop.client, set, "?dryRun=All").await;
            assert!(answer.0 == code && message(&answer).contains(place), "{version}: {answer:#?}");
        }
        let (code, answer) = create(&shop.client, sound, "?dryRun=All").await;
        assert_eq!(code, 201, "{answer:#}");
    }
}

/// docs/behaviour/deletion-protection.md#warnings.
#[tokio::test]
async fn a_protection_that_means_nothing_is_warned_of() {
    let fleet = Fleet::launch("cloneset-warned", |set| set.replicas(1)).await;
    let server = super::asked().await;
    let label = "policy.kruise.io/delete-protection=always";
    let namespace = &fleet.shop.namespace;
    let told = server.kubectl(["label", "cloneset", "web", "-n", namespace, label]).await;
    assert!(told.stderr.contains("protects nothing"), "{}", told.stderr);
}
