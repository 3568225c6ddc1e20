//! A provider that keeps webhooks away from its own namespaces (docs/behaviour/api-and-registration.md#terms-of-others):
//! a task of the test is the admissions enforcer of AKS.

use std::time::Duration;

use kit::{ApiServer, wait_for};
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{CONFIGURATIONS, Replica, entries, get, patch};
use crate::product::{self, Options};
use crate::support::{call, in_use, named};

/// How often the enforcer looks.
const PERIOD: Duration = Duration::from_millis(250);
/// Longer than the pause between two repairs.
const CALM: Duration = Duration::from_secs(3);

/// What AKS adds.
fn terms() -> [Value; 2] {
    [("control-plane", "true"), ("kubernetes.azure.com/managedby", "aks")]
        .map(|(key, value)| json!({"key": key, "operator": "NotIn", "values": [value]}))
}

fn expressions(entry: &Value) -> Vec<Value> {
    entry["namespaceSelector"]["matchExpressions"].as_array().cloned().unwrap_or_default()
}

/// An entry as the enforcer leaves it, with its terms in front of ours.
fn enforced(entry: &Value) -> Value {
    let (mut entry, mut all) = (entry.clone(), expressions(entry));
    for term in terms() {
        if !all.contains(&term) {
            all.insert(0, term);
        }
    }
    entry["namespaceSelector"]["matchExpressions"] = all.into();
    entry
}

/// Puts the terms back whenever an entry lacks one, until it is aborted.
async fn enforce(client: Client) {
    let mut period = tokio::time::interval(PERIOD);
    loop {
        period.tick().await;
        for path in CONFIGURATIONS {
            let live = get(&client, path).await;
            let webhooks: Vec<Value> =
                live["webhooks"].as_array().into_iter().flatten().map(enforced).collect();
            if live["webhooks"].as_array().is_none_or(|live| *live == webhooks) {
                continue;
            }
            let version = &live["metadata"]["resourceVersion"];
            let change = json!({"metadata": {"resourceVersion": version}, "webhooks": webhooks});
            // Another one was faster, or the object is gone.
            let (code, answer) = call(&client, "PATCH", path, &change).await;
            assert!([200, 404, 409].contains(&code), "{answer:#}");
        }
    }
}

async fn stopped(enforcer: JoinHandle<()>) {
    enforcer.abort();
    assert!(enforcer.await.unwrap_err().is_cancelled(), "the enforcer went on to its end");
}

async fn versions(client: &Client) -> [Value; 2] {
    let mut versions = [Value::Null, Value::Null];
    for (version, path) in versions.iter_mut().zip(CONFIGURATIONS) {
        *version = get(client, path).await["metadata"]["resourceVersion"].clone();
    }
    versions
}

async fn registered(client: &Client, wanted: &[Value]) {
    wait_for("the entries", async || {
        let live = entries(client).await;
        if live == wanted { Ok(()) } else { Err(live) }
    })
    .await;
}

/// Waits until the entries are `wanted`, and then until nobody writes any more.
async fn settled(client: &Client, wanted: &[Value]) {
    registered(client, wanted).await;
    wait_for("the versions to stay", async || {
        let before = versions(client).await;
        tokio::time::sleep(CALM).await;
        let after = versions(client).await;
        if before == after { Ok(()) } else { Err((before, after)) }
    })
    .await;
    assert_eq!(entries(client).await, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn terms_of_the_provider_stay_and_writes_settle() {
    let server = product::server(kit::Options::default()).await;
    let replica = Replica::ready(&server, Options::default()).await;
    in_use(&server).await;
    let client = server.client();
    let own = entries(&client).await;
    let wanted: Vec<Value> = own.iter().map(enforced).collect();

    let enforcer = tokio::spawn(enforce(server.client()));
    settled(&client, &wanted).await;
    for (entry, own) in entries(&client).await.iter().zip(&own) {
        assert!(
            terms().iter().chain(&expressions(own)).all(|term| expressions(entry).contains(term)),
            "{entry:#}"
        );
    }
    all_else_is_repaired(&server, &wanted).await;
    stopped(enforcer).await;

    // Another process that never knew anything else.
    let before = versions(&client).await;
    replica.stop().await;
    let replica = Replica::ready(&server, Options::default()).await;
    assert_eq!(versions(&client).await, before);

    the_chart_can_ask_for_them(&client, &own).await;
    replica.stop().await;
}

/// What somebody changes beside the terms.
async fn all_else_is_repaired(server: &ApiServer, wanted: &[Value]) {
    let mut all = expressions(named(&json!(wanted), "mcloneset.kb.io"));
    all.push(json!({"key": "team", "operator": "DoesNotExist"}));
    let edits = json!({"webhooks": [
        {"name": "mcloneset.kb.io", "failurePolicy": "Ignore", "namespaceSelector": {"matchExpressions": all}},
    ]});
    let configuration = "mutatingwebhookconfiguration/kruise-mutating-webhook-configuration";
    server.kubectl(["patch", configuration, "--type=strategic", "-p", &edits.to_string()]).await.success();
    settled(&server.client(), wanted).await;
}

/// With its annotation the server writes them itself.
async fn the_chart_can_ask_for_them(client: &Client, own: &[Value]) {
    for path in CONFIGURATIONS {
        let (code, answer) = call(client, "DELETE", path, &Value::Null).await;
        assert_eq!(code, 200, "{answer:#}");
    }
    registered(client, own).await;
    for path in CONFIGURATIONS {
        patch(client, path, &json!({"metadata": {"annotations": {"kutter.io/aks-integration": "true"}}}))
            .await;
    }
    let wanted: Vec<Value> = own.to_vec();
    let wanted = wanted.into_iter().map(|mut entry| {
        entry["namespaceSelector"]["matchExpressions"] =
            [expressions(&entry), terms().to_vec()].concat().into();
        entry
    });
    settled(client, &wanted.collect::<Vec<Value>>()).await;
}
