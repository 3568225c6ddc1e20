use serde_json::{Value, json};

use super::*;
use values::json_patch::apply;

fn completed(version: &str, spec: &Value, old: Option<&Value>, gates: &str) -> Value {
    let object = |spec: &Value| {
        json!({"apiVersion": format!("apps.kruise.io/{version}"), "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": spec})
            .to_string()
    };
    let text = object(spec);
    let old = old.map(object);
    let gates = FeatureGates::parse(gates, "").unwrap();
    let patch = default(&text, old.as_deref(), version, &gates).unwrap();
    let mut completed: Value = serde_json::from_str(&apply(&text, &patch).unwrap()).unwrap();
    completed["spec"].take()
}

fn spec() -> Value {
    json!({
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]}},
        "volumeClaimTemplates": [{"metadata": {"name": "www"}, "spec": {"resources": {"requests": {"storage": "1.0001Gi"}}}}],
    })
}

#[test]
fn what_is_not_said_has_a_default() {
    let completed = completed("v1beta1", &spec(), None, "");
    assert_eq!(completed["podManagementPolicy"], "OrderedReady");
    assert_eq!(
        completed["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1, "podUpdatePolicy": "ReCreate", "minReadySeconds": 0}})
    );
    assert_eq!((&completed["replicas"], &completed["revisionHistoryLimit"]), (&json!(1), &json!(10)));
    let retain = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    assert_eq!(completed["persistentVolumeClaimRetentionPolicy"], retain);
    assert!(completed["volumeClaimUpdateStrategy"].is_null());
    assert_eq!(completed["volumeClaimTemplates"][0]["status"]["phase"], "Pending");
    assert_eq!(completed["template"]["spec"]["containers"][0]["imagePullPolicy"], "Always");
}

#[test]
fn gates_and_versions_decide_about_claims() {
    let on = "StatefulSetAutoDeletePVC=false,StatefulSetAutoResizePVCGate=true";
    let claims = completed("v1beta1", &spec(), None, on);
    assert!(claims["persistentVolumeClaimRetentionPolicy"].is_null());
    assert_eq!(claims["volumeClaimUpdateStrategy"], json!({"type": "OnDelete"}));
    let alpha = completed("v1alpha1", &spec(), None, "StatefulSetAutoResizePVCGate=true");
    assert!(alpha["persistentVolumeClaimRetentionPolicy"].is_null());
    assert!(alpha["volumeClaimUpdateStrategy"].is_null());
    assert_eq!(alpha["replicas"], 1);
}

#[test]
fn what_is_said_stays() {
    let mut given = spec();
    given["updateStrategy"] = json!({"type": "OnDelete"});
    given["podManagementPolicy"] = "Parallel".into();
    given["unknownToThisBuild"] = json!({"a": [1]});
    let completed = completed("v1beta1", &given, None, "");
    assert_eq!(completed["updateStrategy"], json!({"type": "OnDelete"}));
    assert_eq!(completed["podManagementPolicy"], "Parallel");
    assert_eq!(completed["unknownToThisBuild"], json!({"a": [1]}));
}

#[test]
fn a_template_that_stays_is_not_completed() {
    let with_replicas = |replicas: i32| {
        let mut spec = spec();
        spec["replicas"] = replicas.into();
        spec
    };
    let kept = completed("v1beta1", &with_replicas(2), Some(&with_replicas(1)), "");
    assert!(kept["template"]["spec"]["containers"][0]["imagePullPolicy"].is_null());
    let whole = completed("v1beta1", &with_replicas(2), None, "TemplateNoDefaults=true");
    assert!(whole["template"]["spec"]["containers"][0]["imagePullPolicy"].is_null());
}

#[test]
fn a_complete_object_needs_no_patch() {
    let whole = completed("v1beta1", &spec(), None, "");
    assert_eq!(completed("v1beta1", &whole, None, ""), whole);
    assert!(default("[]", None, "v1beta1", &FeatureGates::default()).is_err());
    assert!(default("{}", None, "v1", &FeatureGates::default()).is_err());
}
