//! Each reason for which a Pod has no sidecars, or not the present ones (docs/sidecarset-pods.md#see-it):
//! annotation, warning and command say it in the same words.

use kit::builders::{deployment, pod};
use kit::wait_for;
use serde_json::{Value, json};

use super::{Fleet, NEW, account, explain, reason, reported, sidecar};
use crate::support::{KeptImages, Shop, Stored, shared};

/// Changes the sidecar, and more of the `spec`.
async fn roll(fleet: &Fleet, change: Value, strategy: Value) {
    let mut containers = fleet.set.get().await.1["spec"]["containers"].clone();
    for (key, value) in change.as_object().unwrap() {
        containers[0][key] = value.clone();
    }
    fleet.set.patch(&json!({"spec": {"containers": containers, "updateStrategy": strategy}})).await;
}

#[tokio::test]
async fn a_pod_from_before_the_sidecarset() {
    let shop = Shop::open("before").await;
    shop.admit(shop.pod("earlier")).await;
    let fleet = Fleet::open_in(shop, |set| set).await;
    let message = fleet.agree("CreatedBefore", "earlier").await;
    assert_eq!(message, "not injected: created before the SidecarSet selected it; recreate the Pod");
    let reported = account(&fleet.set.get().await.1);
    assert_eq!(
        (&reported["matched"], &reported["injected"], &reported["missed"]),
        (&json!(1), &json!(0), &json!(0))
    );
    // SidecarSets of other tests, which the command prints too, come and go between the two.
    wait_for("the same answer to both forms", async || {
        let (one, other) = (fleet.explain(&["pod/earlier"]).await, fleet.explain(&["pod", "earlier"]).await);
        assert_eq!(one.status.code(), Some(2));
        if one.stdout == other.stdout { Ok(()) } else { Err((one.stdout, other.stdout)) }
    })
    .await;
}

#[tokio::test]
async fn another_namespace() {
    let shop = Shop::open("namespace").await;
    let selector = json!({"matchLabels": {"team": "elsewhere"}});
    // All namespaces that are selected have this label, and there is none.
    let set = kit::builders::sidecar_set(&shop.name("log")).matching("only", &shop.namespace);
    // No other SidecarSet has a container of this name, for they might meet the same Pods.
    let set = set.with("/spec/namespaceSelector", selector).container("only", NEW);
    let (server, _) = shared().await;
    let applied = server.kubectl_with_input(["apply", "-f", "-"], &set.clone().build().to_string()).await;
    let set = Stored::existing(
        &shop.client,
        format!("/apis/apps.kruise.io/v1beta1/sidecarsets/{}", shop.name("log")),
        Value::Null,
    );
    shop.settle().await;
    shop.admit(shop.pod("plain").label("only", &shop.namespace)).await;
    let reported = reported(&set, "the Pod", |reported| reason(reported, "OtherNamespace").is_some()).await;
    let other = reason(&reported, "OtherNamespace").unwrap();
    assert_eq!(other["pods"], json!([format!("{}/plain", shop.namespace)]));
    let message = other["message"].as_str().unwrap();
    let explained = explain(server, &["pod/plain", "-n", &shop.namespace]).await;
    assert!(explained.stdout.contains(&format!("{}: no: {message}\n", shop.name("log"))), "{explained:?}");
    assert_eq!(explained.status.code(), Some(0), "that is what was asked for: {explained:?}");
    // The reason beside it comes as a warning too.
    let none = reason(&reported, "NoNamespace").unwrap()["message"].as_str().unwrap();
    assert!(applied.stderr.contains(&format!("Warning: {none}\n")), "{applied:?}");
    let explained = explain(server, &["sidecarset", &shop.name("log")]).await;
    assert!(explained.stdout.contains(&format!("  {none}\n")), "{explained:?}");
}

/// What is known from the SidecarSet alone is a warning when it is written.
#[tokio::test]
async fn selectors_that_match_nothing() {
    let (server, _) = shared().await;
    let shop = Shop::open("nothing").await;
    let excluded = pod("excluded").in_namespace("kube-system").label("excluded", &shop.namespace);
    let excluded = Stored::create(&shop.client, excluded.container("main", "nginx:1.25")).await;
    let named = |name: &str| json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
    let contradiction = json!({"matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]});
    for (set, word) in [
        (shop.sidecar_set("never").with("/spec/selector", contradiction), "NeverMatches"),
        (shop.sidecar_set("typo").with("/spec/namespaceSelector", named("shpo")), "NoSuchNamespace"),
        (
            kit::builders::sidecar_set(&shop.name("system"))
                .matching("excluded", &shop.namespace)
                .with("/spec/namespaceSelector", named("kube-system")),
            "NamespaceExcluded",
        ),
    ] {
        let set = sidecar(set).build();
        let name = set["metadata"]["name"].as_str().unwrap();
        let applied = server.kubectl_with_input(["apply", "-f", "-"], &set.to_string()).await;
        let path = format!("/apis/apps.kruise.io/v1beta1/sidecarsets/{name}");
        let stored = Stored::existing(&shop.client, path, Value::Null);
        let excluded = json!(["kube-system/excluded"]);
        let is_whole = |found: &Value| word != "NamespaceExcluded" || found["pods"] == excluded;
        let reported = reported(&stored, word, |reported| reason(reported, word).is_some_and(is_whole)).await;
        let found = reason(&reported, word).unwrap();
        let message = found["message"].as_str().unwrap();
        assert!(applied.stderr.contains(&format!("Warning: {message}\n")), "{message}: {applied:?}");
        let explained = explain(server, &["sidecarset", name]).await;
        assert!(explained.stdout.contains(message), "{message}: {explained:?}");
        if word == "NamespaceExcluded" {
            let explained = explain(server, &["pod/excluded", "-n", "kube-system"]).await;
            assert!(explained.stdout.contains(&format!("{name}: no: {message}\n")), "{explained:?}");
        }
        stored.deleted().await;
    }
    excluded.deleted().await;
}

/// Only images are changed in running Pods.
#[tokio::test]
async fn a_change_of_more_than_images() {
    let fleet = Fleet::open("more", |set| set).await;
    fleet.shop.admit(fleet.shop.pod("web")).await;
    fleet.reported("the Pod", |reported| reported["injected"] == 1).await;
    roll(&fleet, json!({"image": NEW, "env": [{"name": "A", "value": "1"}]}), json!({})).await;
    let message = fleet.agree("NeedsRecreation", "web").await;
    // What has changed is known where the Pod's revision was known at its creation.
    assert!(message.starts_with("not updated: more than images changed"), "{message}");
}

/// A broken Pod uses up `maxUnavailable`.
#[tokio::test]
async fn a_limit_that_is_used_up() {
    let fleet = Fleet::open("limit", |set| set).await;
    for name in ["web-0", "web-1"] {
        fleet.shop.admit(fleet.shop.pod(name)).await;
    }
    fleet.reported("the Pods", |reported| reported["injected"] == 2).await;
    kit::wait_for("the Pods to be ready", async || {
        let status = fleet.set.get().await.1["status"].clone();
        if status["readyPods"] == 2 { Ok(()) } else { Err(status) }
    })
    .await;
    roll(&fleet, json!({"image": "busybox:missing"}), json!({})).await;
    let found = fleet.reason("OverLimit").await;
    let (pod, cause) = (&found["pods"], &found["becauseOf"]);
    assert_eq!((pod.as_array().unwrap().len(), cause.as_array().unwrap().len()), (1, 1), "{found:#}");
    assert_ne!(pod[0], cause[0]);
    let name = pod[0].as_str().unwrap().split_once('/').unwrap().1;
    let message = fleet.agree("OverLimit", name).await;
    assert_eq!(message, "not updated: 1 Pods are being updated and spec.updateStrategy.maxUnavailable is 1");
    let explained = fleet.explain(&["sidecarset", &fleet.name()]).await;
    assert!(
        explained.stdout.contains(&format!("because of {}", cause[0].as_str().unwrap())),
        "{explained:?}"
    );
}

/// Labels that keep a Pod out of admission.
#[tokio::test]
async fn a_pod_that_admission_is_not_asked_about() {
    let fleet = Fleet::open("out", |set| set).await;
    let pod = fleet.shop.pod("helper").label("kutter.io/component", "helper");
    let pod = fleet.shop.admit(pod).await;
    assert_eq!(pod["spec"]["containers"].as_array().unwrap().len(), 1);
    let message = fleet.agree("OptedOut", "helper").await;
    assert_eq!(message, "not injected: the labels of the Pod exclude it from admission");
    let reported = account(&fleet.set.get().await.1);
    assert_eq!(
        (&reported["matched"], &reported["injected"], &reported["missed"]),
        (&json!(1), &json!(0), &json!(0))
    );
    assert_eq!(fleet.explain(&["pod", "helper"]).await.status.code(), Some(0), "that is what was asked for");
}

/// Others follow; the decider about the Pod is quoted.
#[tokio::test]
async fn an_update_that_a_policy_refuses() {
    let fleet = Fleet::open("refused", |set| set).await;
    for name in ["web-0", "web-1"] {
        fleet.shop.admit(fleet.shop.pod(name)).await;
    }
    fleet.reported("the Pods", |reported| reported["injected"] == 2).await;
    let policy = KeptImages::of(&fleet.shop, "web-0").await;
    roll(&fleet, json!({"image": NEW}), json!({})).await;
    let refused = fleet.reason("UpdateRefused").await;
    assert_eq!(refused["pods"], json!([format!("{}/web-0", fleet.shop.namespace)]));
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("not updated: ") && message.contains("web-0 keeps its images"), "{message}");
    let updated = async |count: usize| {
        wait_for("Pods to be updated", async || {
            let status = fleet.set.get().await.1["status"].clone();
            if status["updatedReadyPods"] == count { Ok(()) } else { Err(status) }
        })
        .await;
    };
    updated(1).await;
    policy.lift().await;
    roll(&fleet, json!({"image": NEW}), json!({"maxUnavailable": 2})).await;
    fleet
        .reported("no refusal", |reported| {
            reported["injected"] == 2 && reason(reported, "UpdateRefused").is_none()
        })
        .await;
    updated(2).await;
}

/// The labels are those of the workload, not those of its Pods; only the command reads workloads.
#[tokio::test]
async fn labels_in_the_wrong_place() {
    let fleet = Fleet::open("workload", |set| set).await;
    let web =
        deployment("web").in_namespace(&fleet.shop.namespace).matching("tier", "front").label("app", "web");
    Stored::create(&fleet.shop.client, web.container("main", "nginx:1.25")).await;
    let explained = fleet.explain(&["sidecarset", &fleet.name()]).await;
    let message = "spec.selector matches the labels of the workload, but not those of its Pod template";
    let expected = format!("  1: {message}\n    {}/deployment/web\n", fleet.shop.namespace);
    assert!(explained.stdout.contains(&expected), "{explained:?}");
    assert_eq!(explained.status.code(), Some(2));
}
