//! What users choose about the webhook entries while the program runs
//! (docs/behaviour/api-and-registration.md#choices-of-users).

use kit::{ApiServer, wait_for};
use kube::Client;
use serde_json::{Value, json};

use crate::product::{self, NAMESPACE, Options};
use crate::registration::{CONFIGURATIONS, Replica, entries, event, get};
use crate::support::{call, in_use, named};

const IN_EFFECT: &str = "kutter.io/webhook-settings";
const REFUSED: &str = "kutter.io/webhook-settings-refused";

/// Writes the settings; with `None` they are taken away.
async fn choose(client: &Client, settings: Option<&str>) {
    let maps = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let data = json!({"data": {"Webhook_Settings": settings}});
    let (code, answer) = call(client, "PATCH", &format!("{maps}/kruise-configuration"), &data).await;
    if code != 404 {
        assert_eq!(code, 200, "{answer:#}");
        return;
    }
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kruise-configuration"}, "data": data["data"],
    });
    let (code, answer) = call(client, "POST", &maps, &map).await;
    assert_eq!(code, 201, "{answer:#}");
}

async fn annotations(client: &Client) -> [Value; 2] {
    let configuration = get(client, CONFIGURATIONS[0]).await;
    [IN_EFFECT, REFUSED].map(|key| configuration["metadata"]["annotations"][key].clone())
}

/// Waits until the entries are `wanted`.
async fn registered(client: &Client, wanted: &[Value]) {
    wait_for("the entries to follow the settings", async || {
        let live = entries(client).await;
        if live == wanted { Ok(()) } else { Err(named(&json!(live), "mpod.kb.io").clone()) }
    })
    .await;
}

/// `entries` where that of Pods has another value in `field`.
fn with(entries: &[Value], field: &str, value: &Value) -> Vec<Value> {
    let mut entries = entries.to_vec();
    let pods = entries.iter_mut().find(|entry| entry["name"] == "mpod.kb.io").unwrap();
    pods[field] = value.clone();
    entries
}

/// A selector of `entry` with one more requirement.
fn narrowed(entries: &[Value], field: &str, requirement: Value) -> Value {
    let mut selector = named(&json!(entries), "mpod.kb.io")[field].clone();
    selector["matchExpressions"].as_array_mut().unwrap().push(requirement);
    selector
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_settings_take_effect_at_once_and_outlive_restarts() {
    let server = product::server(kit::Options::default()).await;
    let mut program = Replica::ready(&server, Options::default()).await;
    in_use(&server).await;
    let client = server.client();
    let plain = entries(&client).await;
    let exclusion = json!({"matchExpressions": [
        {"key": "control-plane", "operator": "DoesNotExist"},
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", NAMESPACE, "batch"]},
    ]});
    let inclusion = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop"]});
    for (choice, field, value) in [
        ("{failurePolicy: Ignore}", "failurePolicy", json!("Ignore")),
        ("{timeoutSeconds: 5}", "timeoutSeconds", json!(5)),
        ("{namespaces: {exclude: [batch]}}", "namespaceSelector", exclusion),
        (
            "{namespaces: {include: [shop]}}",
            "namespaceSelector",
            narrowed(&plain, "namespaceSelector", inclusion),
        ),
        (
            "{namespaceSelector: {matchExpressions: [{key: inject, operator: Exists}]}}",
            "namespaceSelector",
            narrowed(&plain, "namespaceSelector", json!({"key": "inject", "operator": "Exists"})),
        ),
        (
            "{objectSelector: {matchExpressions: [{key: app, operator: Exists}]}}",
            "objectSelector",
            narrowed(&plain, "objectSelector", json!({"key": "app", "operator": "Exists"})),
        ),
    ] {
        choose(&client, Some(&format!("webhooks:\n  mpod.kb.io: {choice}\n"))).await;
        let wanted = with(&plain, field, &value);
        registered(&client, &wanted).await;
        program = restarted(&server, program).await;
        assert_eq!(entries(&client).await, wanted, "{choice}");
    }
    event(&client, "WebhookSettingsApplied").await;
    what_cannot_be_used_changes_nothing(&server, program, &plain).await;
}

async fn what_cannot_be_used_changes_nothing(server: &ApiServer, program: Replica, plain: &[Value]) {
    let client = server.client();
    choose(&client, Some("defaults: {timeoutSeconds: 5}")).await;
    let mut wanted = plain.to_vec();
    wanted.iter_mut().for_each(|entry| entry["timeoutSeconds"] = json!(5));
    registered(&client, &wanted).await;
    let in_effect = json!(r#"{"defaults":{"timeoutSeconds":5}}"#);
    assert_eq!(annotations(&client).await, [in_effect.clone(), Value::Null]);

    choose(&client, Some("defaults: {timeoutSecond: 7}")).await;
    let refused = wait_for("the refusal to show", async || {
        let [_, refused] = annotations(&client).await;
        refused.as_str().map(str::to_owned).ok_or(refused)
    })
    .await;
    assert!(refused.contains("timeoutSecond"), "{refused}");
    event(&client, "WebhookSettingsRefused").await;
    assert_eq!(entries(&client).await, wanted);
    // Not even a new process that never knew anything else.
    let program = restarted(server, program).await;
    assert_eq!(entries(&client).await, wanted);
    assert_eq!(annotations(&client).await[0], in_effect);

    choose(&client, None).await;
    registered(&client, plain).await;
    wait_for("no trace to stay", async || match annotations(&client).await {
        [Value::Null, Value::Null] => Ok(()),
        annotations => Err(annotations),
    })
    .await;
    program.stop().await;
}

/// Another process in the place of `program`.
async fn restarted(server: &ApiServer, program: Replica) -> Replica {
    program.stop().await;
    Replica::ready(server, Options::default()).await
}
