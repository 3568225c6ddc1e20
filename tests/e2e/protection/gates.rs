//! What the feature gates switch (docs/behaviour/deletion-protection.md#gates-of-deletion-protection).

use kit::wait_for;
use serde_json::Value;

use super::{ALWAYS, LABEL, definitions, denied, front, ingress, service};
use crate::product::{self, Product};
use crate::support::{Stored, call, gated, in_use, reached};

/// Scenario 8.
#[tokio::test]
async fn cascading_definitions_need_a_gate_of_their_own() {
    let site = gated().await;
    let definition = definitions::define(&site.server.client(), "Namespaced", "Cascading").await;
    assert_eq!(
        definition.delete().await,
        denied(
            definitions::WEBHOOK,
            403,
            "feature-gate DeletionProtectionForCRDCascadingGate is not enabled"
        )
    );
    assert!(site.product.log().contains("DeletionProtectionForCRDCascadingGate"));
}

/// Scenarios 23 and 21: the program restarts with other gates.
#[tokio::test]
async fn protection_goes_by_its_own_gate_alone() {
    let server = product::server(kit::Options::default()).await;
    let client = server.client();
    let gates = product::Options::default().gates("ResourcesDeletionProtection=true,PodWebhook=false");
    let product = Product::serve(&server, gates).await;
    in_use(&server).await;
    super::protecting(&server).await;
    let name = server.namespace("kept").await;
    let path = format!("/api/v1/namespaces/{name}");
    let namespace = Stored::existing(&client, path, Value::Null);
    namespace.label(LABEL, "Always").await;
    assert_eq!(namespace.delete().await, denied("vnamespace.kb.io", 403, ALWAYS));
    assert!(entries(&client, "mutating").await.iter().all(|entry| entry != "mpod.kb.io"));

    let port = product.port;
    assert!(product.stop().await.success());
    let gates = product::Options::default().gates("").port(port);
    let mut product = Product::start(&server, gates).await;
    product.wait_ready().await;
    wait_for("the entries to follow the gates", async || {
        let (validating, mutating) =
            (entries(&client, "validating").await, entries(&client, "mutating").await);
        let has = |entries: &[String], name: &str| entries.iter().any(|entry| entry == name);
        let dropped = !has(&validating, "vservice.kb.io") && !has(&validating, "vingress.kb.io");
        if dropped && has(&validating, "vnamespace.kb.io") && has(&mutating, "mpod.kb.io") {
            Ok(())
        } else {
            Err((validating, mutating))
        }
    })
    .await;
    for object in [front(&name), service("front").in_namespace(&name), ingress("front").in_namespace(&name)] {
        let stored = Stored::create(&client, object.label(LABEL, "Always")).await;
        // The API server learns later which entries went.
        reached(&stored).await;
        stored.deleted().await;
    }
    definitions::define(&client, "Namespaced", "Always").await.deleted().await;
    namespace.deleted().await;
}

pub(super) async fn entries(client: &kube::Client, kind: &str) -> Vec<String> {
    let path = format!(
        "/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/kruise-{kind}-webhook-configuration"
    );
    let (_, configuration) = call(client, "GET", &path, &Value::Null).await;
    let entries = configuration["webhooks"].as_array().cloned().unwrap_or_default();
    entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}
