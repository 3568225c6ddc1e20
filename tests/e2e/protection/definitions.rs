//! CustomResourceDefinitions (docs/behaviour/deletion-protection.md#cascading-for-definitions).

use std::sync::atomic::{AtomicU32, Ordering};

use kit::builders::object;
use kit::wait_for;
use kube::Client;
use serde_json::{Value, json};

use super::{ALWAYS, CASCADING, LABEL, denied, site};
use crate::support::{Stored, call, create};

pub(super) const WEBHOOK: &str = "vcustomresourcedefinition.kb.io";

/// Defines the kind Thing in a group of its own, with the label, and waits until it can be used.
pub(super) async fn define(client: &Client, scope: &str, label: &str) -> Stored {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let group = format!("g{}.example.com", NEXT.fetch_add(1, Ordering::Relaxed));
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition =
        object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &format!("things.{group}"))
            .label(LABEL, label)
            .with(
                "/spec",
                json!({
                    "group": group, "scope": scope, "names": {"kind": "Thing", "plural": "things"},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
                }),
            );
    let definition = Stored::create(client, definition).await;
    wait_for("the kind to be served", async || {
        match call(client, "GET", &format!("/apis/{group}/v1/things"), &Value::Null).await {
            (200, _) => Ok(()),
            (_, answer) => Err(answer),
        }
    })
    .await;
    definition
}

async fn thing(client: &Client, definition: &Stored, metadata: Value) -> Stored {
    let group = definition.object["spec"]["group"].as_str().unwrap();
    let mut thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": metadata});
    thing["metadata"]["name"] = json!("one");
    // The kind may be listed a moment before it can be written.
    wait_for("the kind to be writable", async || match create(client, thing.clone(), "?dryRun=All").await {
        (201, _) => Ok(()),
        (_, answer) => Err(answer),
    })
    .await;
    Stored::create(client, thing).await
}

/// Scenario 5.
#[tokio::test]
async fn a_definition_without_objects_is_kept_by_always() {
    let definition = define(&site().await.client(), "Namespaced", "Always").await;
    assert_eq!(definition.delete().await, denied(WEBHOOK, 403, ALWAYS));
}

/// Scenario 6.
#[tokio::test]
async fn a_cascading_definition_is_kept_while_objects_exist_anywhere() {
    let site = site().await;
    let client = site.client();
    let definition = define(&client, "Namespaced", "Cascading").await;
    let mut things = Vec::new();
    for namespace in [site.namespace().await, site.namespace().await] {
        things.push(thing(&client, &definition, json!({"namespace": namespace})).await);
    }
    let text = format!("{CASCADING} and active CRs 2>0");
    assert_eq!(definition.delete().await, denied(WEBHOOK, 403, &text));
    for thing in &things {
        thing.deleted().await;
        thing.gone().await;
    }
    definition.deleted().await;
    definition.gone().await;
}

/// Scenario 7.
#[tokio::test]
async fn objects_on_their_way_out_do_not_keep_a_cascading_definition() {
    let client = site().await.client();
    let definition = define(&client, "Cluster", "Cascading").await;
    let held = thing(&client, &definition, json!({"finalizers": ["example.com/held"]})).await;
    let text = format!("{CASCADING} and active CRs 1>0");
    assert_eq!(definition.delete().await, denied(WEBHOOK, 403, &text));
    held.deleted().await;
    definition.deleted().await;
    held.patch(&json!({"metadata": {"finalizers": null}})).await;
    definition.gone().await;
}
