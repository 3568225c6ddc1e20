//! Deletion protection (docs/behaviour/deletion-protection.md#acceptance-scenarios), on an API server with
//! the controllers that delete by themselves.

mod controllers;
mod definitions;
mod gates;
mod namespaces;
mod policies;
mod workloads;

use kit::builders::{Object, deployment, object};
use kit::{ApiServer, Options, Shared, wait_for};
use kube::Client;
use serde_json::{Value, json};
use std::sync::Arc;

use crate::product::{self, Product};
use crate::support::{Site, Stored, call, denied, in_use};

const LABEL: &str = "policy.kruise.io/delete-protection";
const ALWAYS: &str = "forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Always";
const CASCADING: &str =
    "forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Cascading";

/// An API server with a controller manager, and the program on it.
async fn site() -> Arc<Site> {
    static SITE: Shared<Site> = Shared::new();
    SITE.get(async || {
        let server = product::server(Options::default().with_controller_manager()).await;
        let product = Product::serve(&server, product::Options::default()).await;
        in_use(&server).await;
        protecting(&server).await;
        Site { server, product }
    })
    .await
}

/// Waits until the API server asks before it deletes a Service, whose entry may come last.
async fn protecting(server: &ApiServer) {
    let client = server.client();
    let namespace = server.namespace("protecting").await;
    let service =
        Stored::create(&client, service("asked").in_namespace(&namespace).label(LABEL, "Always")).await;
    wait_for("deletes to be reviewed", async || match service.delete_dry().await {
        (403, _) => Ok(()),
        (_, answer) => Err(answer),
    })
    .await;
}

impl Site {
    fn client(&self) -> Client {
        self.server.client()
    }

    async fn namespace(&self) -> String {
        self.server.namespace("kept").await
    }

    /// A Namespace object with the label.
    async fn labelled_namespace(&self, value: &str) -> Stored {
        let namespace = self.namespace().await;
        let (client, path) = (self.client(), format!("/api/v1/namespaces/{namespace}"));
        let (_, object) = call(&client, "GET", &path, &Value::Null).await;
        let namespace = Stored::existing(&client, path, object);
        namespace.label(LABEL, value).await;
        namespace
    }
}

fn front(namespace: &str) -> Object {
    deployment("front").in_namespace(namespace).matching("app", "front").container("main", "nginx:1.25")
}

fn service(name: &str) -> Object {
    object("v1", "Service", name).with("/spec/ports", json!([{"port": 80}]))
}

fn ingress(name: &str) -> Object {
    let backend = json!({"service": {"name": "front", "port": {"number": 80}}});
    object("networking.k8s.io/v1", "Ingress", name).with("/spec/defaultBackend", backend)
}

/// Scenarios 12 and 13.
#[tokio::test]
async fn services_and_ingresses_are_kept_by_always_alone() {
    let site = site().await;
    let (client, namespace) = (site.client(), site.namespace().await);
    for (kind, webhook, object) in
        [("Service", "vservice.kb.io", service("front")), ("Ingress", "vingress.kb.io", ingress("front"))]
    {
        let stored = Stored::create(&client, object.in_namespace(&namespace).label(LABEL, "Always")).await;
        assert_eq!(stored.delete().await, denied(webhook, 403, ALWAYS));
        let series = format!(
            "resource_deletion_protection{{kind_namespace_name=\"{kind}_{namespace}_front\",username=\"admin\"}}"
        );
        assert!(refusals(&site.product.metrics().await, &series) > 0);
        stored.label(LABEL, "Cascading").await;
        stored.deleted().await;
        stored.gone().await;
    }
}

/// Scenario 14.
#[tokio::test]
async fn the_label_means_nothing_on_other_kinds() {
    let site = site().await;
    let (client, namespace) = (site.client(), site.namespace().await);
    let daemons = |api_version: &str| {
        kit::builders::workload(api_version, "DaemonSet", "agent")
            .matching("app", "agent")
            .container("main", "busybox:1.36")
            .build()
    };
    let others = [
        kit::builders::pod("single").container("main", "busybox:1.36").build(),
        daemons("apps/v1"),
        daemons("apps.kruise.io/v1alpha1"),
        kit::builders::config_map("settings", "key", "value").build(),
        object("batch/v1", "Job", "once")
            .with(
                "/spec/template/spec",
                json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1.36"}]}),
            )
            .build(),
    ];
    for mut other in others {
        other["metadata"]["namespace"] = json!(namespace);
        other["metadata"]["labels"][LABEL] = json!("Always");
        let stored = Stored::create(&client, other).await;
        stored.deleted().await;
        stored.gone().await;
    }
}

/// Scenario 22.
#[tokio::test]
async fn refusals_are_counted_and_written_down_with_the_user() {
    let site = site().await;
    let namespace = site.labelled_namespace("Always").await;
    let name = namespace.object["metadata"]["name"].as_str().unwrap().to_owned();
    let definition = definitions::define(&site.client(), "Namespaced", "Always").await;
    let definition_name = definition.object["metadata"]["name"].as_str().unwrap().to_owned();
    let deployment = Stored::create(&site.client(), front(&name).label(LABEL, "Always")).await;

    let alice = site.server.client_as("alice", &["system:masters"]);
    for object in [&namespace, &definition, &deployment] {
        assert_eq!(object.seen_by(&alice).delete().await.0, 403);
    }
    let metrics = site.product.metrics().await;
    for help in [
        "# HELP namespace_deletion_protection Namespace Deletion Protection\n",
        "# HELP crd_deletion_protection CustomResourceDefinition Deletion Protection\n",
        "# HELP workload_deletion_protection Workload Deletion Protection\n",
    ] {
        assert!(metrics.contains(help), "no {help} in {metrics}");
    }
    let front = format!("Deployment_{name}_front");
    for (series, label, [kind, of_namespace, of_name]) in [
        ("namespace", format!("name=\"{name}\""), ["Namespace", "", &name]),
        ("crd", format!("name=\"{definition_name}\""), ["CustomResourceDefinition", "", &definition_name]),
        ("workload", format!("kind_namespace_name=\"{front}\""), ["Deployment", &name, "front"]),
    ] {
        let refused =
            refusals(&metrics, &format!("{series}_deletion_protection{{{label},username=\"other\"}}"));
        assert!(refused > 0, "{series}: {metrics}");
        let line = format!(
            r#"{{"Event":"DeletionProtection","Kind":"{kind}","Namespace":"{of_namespace}","Name":"{of_name}","UserAgent":"alice"}}"#
        );
        wait_for("a line in protection.log for each refusal", async || {
            let log = site.product.protection_log();
            if log.lines().filter(|written| *written == line).count() == refused { Ok(()) } else { Err(log) }
        })
        .await;
    }
}

/// How many refusals a series counts. The API server may ask again about a delete that was refused, once it has read
/// the object anew.
fn refusals(metrics: &str, series: &str) -> usize {
    let counted = metrics.lines().find_map(|line| line.strip_prefix(series));
    counted.map_or(0, |count| count.trim().parse().unwrap())
}

/// Section 5: kubectl prints no `(Forbidden)`, and a forced delete is refused as well.
#[tokio::test]
async fn kubectl_tells_which_webhook_refused() {
    let site = site().await;
    let namespace = site.namespace().await;
    Stored::create(&site.client(), front(&namespace).label(LABEL, "Always")).await;
    let arguments =
        ["delete", "deployment", "front", "--namespace", &namespace, "--force", "--grace-period=0"];
    let printed = site.server.kubectl(arguments).await.failure();
    let expected = format!(
        "Error from server: admission webhook \"vbuiltindeployment.kb.io\" denied the request: {ALWAYS}"
    );
    assert_eq!(printed.lines().last(), Some(expected.as_str()), "{printed}");
}

/// Whether an object is there.
async fn exists(object: &Stored) -> bool {
    object.get().await.0 == 200
}
