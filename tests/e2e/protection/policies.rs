//! Policies of the chart, without webhooks, beside them and in the place of some
//! (docs/behaviour/deletion-protection.md#protection-policies).

use kit::builders::{Object, object, pod, stateful_set, workload};
use kit::{ApiServer, wait_for};
use serde_json::{Value, json};

use super::workloads::united_deployment;
use super::{ALWAYS, CASCADING, LABEL, definitions, denied, front, gates, ingress, service};
use crate::chart;
use crate::product::{self, Product};
use crate::support::{Stored, call, in_use, message};

const DECIDED_ALONE: [&str; 5] = [
    "vbuiltindeployment.kb.io",
    "vbuiltinreplicaset.kb.io",
    "vbuiltinstatefulset.kb.io",
    "vservice.kb.io",
    "vingress.kb.io",
];

/// Deletes it in vain: the policy for this value of the label refuses with the text of the webhooks.
async fn refused(stored: &Stored, value: &str, text: &str) {
    let field = |name: &str| stored.object[name].as_str().unwrap();
    let resource = kit::objects::kind(field("apiVersion"), field("kind"));
    let (plural, group) = (resource.plural, resource.group);
    let resource = if group.is_empty() { plural } else { format!("{plural}.{group}") };
    let name = stored.object["metadata"]["name"].as_str().unwrap();
    let policy = format!("kruise-delete-protection-{}", value.to_lowercase());
    let expected = format!(
        "{resource} \"{name}\" is forbidden: ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied \
         request: {text}"
    );
    stored.label(LABEL, value).await;
    // A policy is in force a moment after it was made.
    wait_for("the policy to be in force", async || match stored.delete_dry().await {
        answer @ (403, _) if message(&answer) == expected => Ok(()),
        answer => Err(answer),
    })
    .await;
    let answer = stored.delete().await;
    assert_eq!((answer.0, message(&answer)), (403, expected.as_str()));
}

/// Asserts the answers that are the same whether replicas run or not.
async fn assert_answers(server: &ApiServer) {
    let (client, namespace) = (server.client(), server.namespace("kept").await);
    let plain = |object: Object| object.matching("app", "front").container("main", "nginx:1.25");
    let ours = |kind: &str| plain(workload("apps.kruise.io/v1beta1", kind, "ours"));
    let workloads = [
        front(&namespace),
        plain(stateful_set("db")),
        plain(workload("apps/v1", "ReplicaSet", "front")),
        ours("CloneSet"),
        ours("StatefulSet").with("/spec/serviceName", "db"),
        united_deployment("apps.kruise.io/v1beta1"),
    ];
    for workload in workloads {
        let stored = Stored::create(&client, workload.in_namespace(&namespace).replicas(3)).await;
        refused(&stored, "Always", ALWAYS).await;
        refused(&stored, "Cascading", &format!("{CASCADING} and replicas 3>0")).await;
        stored.patch(&json!({"spec": {"replicas": 0}})).await;
        stored.deleted().await;
    }
    let others = [
        service("front").in_namespace(&namespace),
        ingress("front").in_namespace(&namespace),
        object("v1", "Namespace", &format!("empty-{namespace}")),
    ];
    for other in others {
        let stored = Stored::create(&client, other).await;
        refused(&stored, "Always", ALWAYS).await;
        stored.label(LABEL, "Cascading").await;
        stored.deleted().await;
    }
    let definition = definitions::define(&client, "Namespaced", "Always").await;
    refused(&definition, "Always", ALWAYS).await;
    definition.label(LABEL, Value::Null).await;
    definition.deleted().await;

    // Workloads of ours are in no namespace that is left out, and want a replica unless they say otherwise.
    let system = Stored::create(&client, ours("CloneSet").in_namespace("kube-system")).await;
    refused(&system, "Cascading", &format!("{CASCADING} and replicas 1>0")).await;
    refused(&system, "Always", ALWAYS).await;
    system.label(LABEL, Value::Null).await;
    system.deleted().await;

    for free in [
        front(&namespace),
        front(&namespace).label(LABEL, "always"),
        front("kube-system").label(LABEL, "Always"),
    ] {
        Stored::create(&client, free).await.deleted().await;
    }
    let held = Stored::create(&client, front(&namespace).finalizer("example.com/held")).await;
    held.deleted().await;
    held.label(LABEL, "Always").await;
    held.deleted().await;
}

/// Scenarios 25 and 26: the modes Both, first without a replica, and Policy.
#[tokio::test]
async fn policies_hold_while_no_replica_runs_and_answer_alike_beside_replicas() {
    let server = ApiServer::start(kit::Options::default()).await;
    let client = server.client();
    product::install(&server).await;
    let mut policies = chart::render(&["featureGates=ResourcesDeletionProtection=true"]);
    policies.retain(|object| {
        object["metadata"]["name"].as_str().unwrap().starts_with("kruise-delete-protection-")
    });
    server.apply(&policies).await;
    assert_answers(&server).await;
    let (_, metrics) = call(&client, "GET", "/metrics", &Value::Null).await;
    for policy in ["always", "cascading"] {
        let labels =
            [r#"enforcement_action="deny""#, &format!(r#"policy="kruise-delete-protection-{policy}""#)];
        let mut series = metrics.as_str().unwrap().lines();
        let counted = series.any(|line| {
            line.starts_with("apiserver_validating_admission_policy_check_total")
                && labels.iter().all(|label| line.contains(label))
        });
        assert!(counted, "refusals by {policy}");
    }

    let options = || product::Options::default().argument("--webhooks-only");
    let product = Product::serve(&server, options()).await;
    in_use(&server).await;
    assert_answers(&server).await;

    let port = product.port;
    assert!(product.stop().await.success());
    let mut product =
        Product::start(&server, options().argument("--protection-by-policies").port(port)).await;
    product.wait_ready().await;
    wait_for("the entries that are not needed to go", async || {
        let live = gates::entries(&client, "validating").await;
        if live.iter().any(|name| DECIDED_ALONE.contains(&name.as_str())) { Err(live) } else { Ok(()) }
    })
    .await;
    assert_answers(&server).await;

    // What a Namespace holds is counted by the webhook in each mode.
    let name = server.namespace("counted").await;
    Stored::create(&client, pod("single").in_namespace(&name).container("main", "busybox:1.36")).await;
    let namespace = Stored::existing(&client, format!("/api/v1/namespaces/{name}"), Value::Null);
    namespace.label(LABEL, "Cascading").await;
    let expected = denied("vnamespace.kb.io", 403, &format!("{CASCADING} and active pods 1>0"));
    assert_eq!(namespace.delete().await, expected);
}
