//! The harness's own API server.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kit::builders::config_map;
use kit::{ApiServer, Options, objects, wait_for};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

#[tokio::test]
async fn shared_server_answers_client_and_kubectl() {
    let server = kit::shared().await;
    let namespace = kit::namespace("answers").await;
    let manifest = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "note", "namespace": namespace}, "data": {"key": "value"},
    });
    server.kubectl_with_input(["apply", "-f", "-"], &manifest.to_string()).await.success();
    let note = Api::<ConfigMap>::namespaced(server.client(), &namespace).get("note").await.unwrap();
    assert_eq!(note.data.unwrap()["key"], "value");
    assert!(server.kubectl(["get", "configmap", "absent"]).await.failure().contains("NotFound"));
}

#[tokio::test]
async fn users_have_no_rights_without_a_role() {
    let server = kit::shared().await;
    let api = Api::<ConfigMap>::default_namespaced(server.client_as("nobody", &["system:authenticated"]));
    let error = api.list(&Default::default()).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 403));
}

#[tokio::test]
async fn data_and_clients_survive_an_outage() {
    let server = ApiServer::start(Options::default().with_controller_manager()).await;
    let namespaces = Api::<Namespace>::all(server.client());
    let name = server.namespace("outage").await;
    server.stop();
    assert!(namespaces.get(&name).await.is_err());
    server.restart().await;
    namespaces.get(&name).await.unwrap();

    // The controller manager survived too: it completes the deletion of a namespace.
    namespaces.delete(&name, &DeleteParams::default()).await.unwrap();
    wait_for("the namespace to be gone", async || match namespaces.get_opt(&name).await {
        Ok(None) => Ok(()),
        other => Err(other),
    })
    .await;
}

#[tokio::test]
async fn webhook_behind_a_service_is_called_on_this_machine() {
    let server = ApiServer::start(Options::default()).await;
    let client = server.client();
    let namespace = server.namespace("route").await;
    let listener = tokio::net::TcpListener::bind(("0.0.0.0", 0)).await.unwrap();
    server.route_service(&namespace, "hook", listener.local_addr().unwrap().port()).await;
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hook"},
        "webhooks": [{
            "name": "hook.example.test", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": namespace, "name": "hook"}}, "timeoutSeconds": 1,
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        }],
    });
    objects::create(&client, webhook).await.unwrap();
    let connection = tokio::spawn(async move { listener.accept().await.map(drop) });
    // The registration takes effect a moment after its creation.
    wait_for("the webhook to be called", async || {
        let note =
            config_map("", "key", "value").with("/metadata/generateName", "note-").in_namespace(&namespace);
        drop(objects::create(&client, note).await);
        if connection.is_finished() { Ok(()) } else { Err("no connection yet") }
    })
    .await;
    connection.await.unwrap().unwrap();
}
