//! Deletion protection from the review to the answer, the counters and the log
//! (docs/behaviour/deletion-protection.md#acceptance-scenarios).

use std::fs;

use cluster::client::connect;
use informers::Lookup;
use serde_json::{Value, json};
use webhooks::ProtectionLog;

use crate::support::{PROTECTED, admission, ask, delete, labelled, with_lookup};

fn assert_refused(answer: &Value, message: &str) {
    assert_eq!(answer["allowed"], false, "{answer}");
    assert_eq!(answer["status"]["code"], 403);
    assert!(answer["status"].get("reason").is_none());
    assert!(answer["status"]["message"].as_str().unwrap().ends_with(message), "{answer}");
}

const PATHS: [(&str, &str, &str, &str); 10] = [
    ("/validate-namespace", "namespaces", "v1", "Namespace"),
    ("/validate-customresourcedefinition", "customresourcedefinitions", "v1", "CustomResourceDefinition"),
    ("/validate-service", "services", "v1", "Service"),
    ("/validate-ingress", "ingresses", "v1", "Ingress"),
    ("/validate-apps-deployment", "deployments", "v1", "Deployment"),
    ("/validate-apps-replicaset", "replicasets", "v1", "ReplicaSet"),
    ("/validate-apps-statefulset", "statefulsets", "v1", "StatefulSet"),
    ("/validate-apps-kruise-io-cloneset", "clonesets", "v1alpha1", "CloneSet"),
    ("/validate-apps-kruise-io-statefulset", "statefulsets", "v1beta1", "StatefulSet"),
    ("/validate-apps-kruise-io-uniteddeployment", "uniteddeployments", "v1beta1", "UnitedDeployment"),
];

#[tokio::test]
async fn always_is_refused_on_every_path_and_freed_by_the_gate() {
    let (on, off) = (admission(PROTECTED, ""), admission("", ""));
    for (path, resource, version, kind) in PATHS {
        let request = delete(resource, version, &labelled(kind, "web", "shop", "Always"));
        let message =
            "forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Always";
        assert_refused(&ask(&on, path, &request).await, message);
        assert_eq!(ask(&off, path, &request).await["allowed"], true, "{path}");
    }
}

#[tokio::test]
async fn scenario_16_dry_runs_and_odd_options_are_refused_alike() {
    let admission = admission(PROTECTED, "");
    let mut request = delete("deployments", "v1", &labelled("Deployment", "web", "shop", "Always"));
    for options in
        [json!({"gracePeriodSeconds": 0}), json!({"propagationPolicy": "Orphan"}), json!({"dryRun": ["All"]})]
    {
        request["dryRun"] = json!(options.get("dryRun").is_some());
        request["options"] = options;
        assert_refused(&ask(&admission, "/validate-apps-deployment", &request).await, "=Always");
    }
}

#[tokio::test]
async fn other_operations_and_subresources_pass() {
    let admission = admission(PROTECTED, "");
    let mut request = delete("deployments", "v1", &labelled("Deployment", "web", "shop", "Always"));
    request["operation"] = json!("UPDATE");
    assert_eq!(ask(&admission, "/validate-apps-deployment", &request).await["allowed"], true);
    request["operation"] = json!("DELETE");
    request["subResource"] = json!("scale");
    assert_eq!(ask(&admission, "/validate-apps-deployment", &request).await["allowed"], true);
}

fn pod(namespace: &str, name: &str, phase: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}}}\nstatus: {{phase: {phase}}}\n"
    )
}

fn claim(namespace: &str, phase: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data, namespace: {namespace}}}\nstatus: {{phase: {phase}}}\n"
    )
}

#[tokio::test]
async fn scenarios_2_to_4_a_namespace_is_kept_by_what_is_active_in_it() {
    let manifests = [
        pod("b", "web-0", "Running"),
        pod("c", "done", "Succeeded"),
        claim("d", "Bound"),
        claim("e", "Pending"),
    ];
    let admission = admission(PROTECTED, &manifests.concat());
    let cases =
        [("b", Some("active pods 1>0")), ("c", None), ("d", Some("\"Bound\" status pvc 1>0")), ("e", None)];
    for (name, expected) in cases {
        let request = delete("namespaces", "v1", &labelled("Namespace", "", name, "Cascading"));
        let answer = ask(&admission, "/validate-namespace", &request).await;
        match expected {
            Some(message) => assert_refused(&answer, message),
            None => assert_eq!(answer["allowed"], true, "{name}"),
        }
    }
}

/// docs/behaviour/deletion-protection.md#warnings.
#[tokio::test]
async fn a_delete_that_passes_says_what_it_leaves_behind() {
    let manifests = [
        labelled("Service", "b", "front", "Always").to_string(),
        labelled("Service", "c", "front", "Always").to_string(),
        labelled("Service", "b", "free", "Cascading").to_string(),
    ];
    let manifests = manifests.map(|object| format!("---\n{object}\n")).concat();
    let admission = admission(PROTECTED, &manifests);
    let answer = ask(
        &admission,
        "/validate-namespace",
        &delete("namespaces", "v1", &labelled("Namespace", "", "b", "Cascading")),
    )
    .await;
    assert_eq!(answer["allowed"], true);
    let text = "the namespace will stay Terminating: policy.kruise.io/delete-protection keeps Service front until that \
                label is removed";
    assert_eq!(answer["warnings"], json!([text]));
    let request = delete("namespaces", "v1", &labelled("Namespace", "", "empty", "Cascading"));
    assert!(ask(&admission, "/validate-namespace", &request).await.get("warnings").is_none());

    let request = delete("deployments", "v1", &labelled("Deployment", "web", "shop", "true"));
    let answer = ask(&admission, "/validate-apps-deployment", &request).await;
    let text = "label policy.kruise.io/delete-protection=true protects nothing: write Always or Cascading";
    assert_eq!((&answer["allowed"], &answer["warnings"]), (&json!(true), &json!([text])));
}

#[tokio::test]
async fn scenarios_6_and_7_a_definition_is_kept_by_its_active_objects() {
    let widget = |namespace: &str, extra: &str| {
        format!(
            "---\napiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: w, namespace: {namespace}{extra}}}\n"
        )
    };
    let mut definition = labelled("CustomResourceDefinition", "", "widgets.example.com", "Cascading");
    definition["spec"] = json!({
        "group": "example.com", "names": {"plural": "widgets", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true}],
    });
    definition["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
    let request = delete("customresourcedefinitions", "v1", &definition);
    let path = "/validate-customresourcedefinition";
    let two = admission(PROTECTED, &[widget("a", ""), widget("b", "")].concat());
    assert_refused(&ask(&two, path, &request).await, "active CRs 2>0");
    let dying = admission(PROTECTED, &widget("a", ", deletionTimestamp: \"2026-01-01T00:00:00Z\""));
    assert_eq!(ask(&dying, path, &request).await["allowed"], true);
}

#[tokio::test]
async fn scenario_22_refusals_are_counted_and_logged() {
    let folder = tempfile::tempdir().unwrap();
    let mut admission = admission(PROTECTED, "");
    admission.protection_log = ProtectionLog::open(folder.path());
    for (path, resource, version, kind) in PATHS {
        let namespace = if matches!(kind, "Namespace" | "CustomResourceDefinition") { "" } else { "web" };
        ask(&admission, path, &delete(resource, version, &labelled(kind, namespace, "shop", "Always"))).await;
    }
    let text = admission.metrics.render().unwrap();
    for line in [
        "namespace_deletion_protection{name=\"shop\",username=\"other\"} 1",
        "crd_deletion_protection{name=\"shop\",username=\"other\"} 1",
        "workload_deletion_protection{kind_namespace_name=\"Deployment_web_shop\",username=\"other\"} 1",
        "workload_deletion_protection{kind_namespace_name=\"StatefulSet_web_shop\",username=\"other\"} 2",
        "resource_deletion_protection{kind_namespace_name=\"Service_web_shop\",username=\"other\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    drop(admission);
    let log = fs::read_to_string(folder.path().join("protection.log")).unwrap();
    assert_eq!(log.lines().count(), PATHS.len());
    for line in [
        r#"{"Event":"DeletionProtection","Kind":"Namespace","Namespace":"","Name":"shop","UserAgent":"alice"}"#,
        r#"{"Event":"DeletionProtection","Kind":"Deployment","Namespace":"web","Name":"shop","UserAgent":"alice"}"#,
    ] {
        assert!(log.lines().any(|logged| logged == line), "{line} is not in\n{log}");
    }
}

#[tokio::test]
async fn user_names_can_be_kept_out_of_the_metrics() {
    let mut admission = admission(PROTECTED, "");
    admission.flags.user_names_in_metrics = false;
    ask(
        &admission,
        "/validate-namespace",
        &delete("namespaces", "v1", &labelled("Namespace", "", "a", "Always")),
    )
    .await;
    let text = admission.metrics.render().unwrap();
    assert!(text.contains("namespace_deletion_protection{name=\"a\",username=\"\"} 1"), "{text}");
}

#[tokio::test]
async fn without_api_server_counts_refuse_and_everything_else_is_answered() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let configuration = kube::Config::new(format!("http://{address}").parse().unwrap());
    let admission = with_lookup(PROTECTED, Lookup::cluster(connect(&configuration, "test").unwrap()));
    let namespace = delete("namespaces", "v1", &labelled("Namespace", "", "b", "Cascading"));
    let answer = ask(&admission, "/validate-namespace", &namespace).await;
    assert_refused(&answer, "");
    let message = answer["status"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("forbidden by ResourcesProtectionDeletion for list pods error: "),
        "{message}"
    );
    let workload = delete("deployments", "v1", &labelled("Deployment", "web", "shop", "Always"));
    assert_refused(&ask(&admission, "/validate-apps-deployment", &workload).await, "=Always");
}
