use api::features::Feature;
use serde_json::{Value, json};

use super::*;
use values::json_patch::apply;

fn object(version: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("apps.kruise.io/{version}"), "kind": "CloneSet", "metadata": {"name": "web"}, "spec": spec})
}

fn completed(version: &str, spec: &Value, old: Option<&Value>, gates: &FeatureGates) -> Value {
    let text = object(version, spec).to_string();
    let old = old.map(|old| object(version, old).to_string());
    let patch = default(&text, old.as_deref(), version, gates).unwrap();
    let mut completed: Value = serde_json::from_str(&apply(&text, &patch).unwrap()).unwrap();
    completed["spec"].take()
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]}})
}

fn strategy(version: &str, strategy: &Value) -> Value {
    let spec = json!({"template": template(), "updateStrategy": strategy});
    completed(version, &spec, None, &FeatureGates::default())["updateStrategy"].take()
}

#[test]
fn each_version_has_its_own_strategy() {
    for (version, given, expected) in [
        (
            "v1alpha1",
            json!({}),
            json!({"type": "ReCreate", "partition": 0, "maxUnavailable": "20%", "maxSurge": 0}),
        ),
        (
            "v1alpha1",
            json!({"type": "InPlaceOnly", "partition": "50%", "maxSurge": null}),
            json!({"type": "InPlaceOnly", "partition": "50%", "maxSurge": 0, "inPlaceUpdateStrategy": {}, "maxUnavailable": "20%"}),
        ),
        (
            "v1alpha1",
            json!({"type": "OnDelete"}),
            json!({"type": "OnDelete", "partition": 0, "maxUnavailable": "20%", "maxSurge": 0}),
        ),
        (
            "v1beta1",
            json!({}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "ReCreate", "partition": 0, "maxUnavailable": "20%", "maxSurge": 0}}),
        ),
        (
            "v1beta1",
            json!({"type": "", "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 3}}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 3,
                "inPlaceUpdateStrategy": {}, "partition": 0, "maxSurge": 0}}),
        ),
        ("v1beta1", json!({"type": "OnDelete"}), json!({"type": "OnDelete"})),
        (
            "v1beta1",
            json!({"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
            json!({"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
        ),
    ] {
        assert_eq!(strategy(version, &given), expected, "{version} {given}");
    }
}

#[test]
fn numbers_and_templates_are_completed() {
    let claim =
        json!({"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
    let spec = json!({"template": template(), "volumeClaimTemplates": [claim], "future": 1});
    let spec = completed("v1beta1", &spec, None, &FeatureGates::default());
    assert_eq!((&spec["replicas"], &spec["revisionHistoryLimit"]), (&json!(1), &json!(10)));
    assert_eq!(spec["template"]["spec"]["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(spec["template"]["spec"]["restartPolicy"], "Always");
    assert_eq!(spec["volumeClaimTemplates"][0]["status"]["phase"], "Pending");
    assert_eq!(spec["future"], 1);
}

#[test]
fn a_template_is_completed_only_when_it_changes() {
    let bare = json!({"template": template()});
    let same = completed("v1beta1", &bare, Some(&bare), &FeatureGates::default());
    assert_eq!(same["template"], template());
    let mut other = bare.clone();
    other["template"]["spec"]["containers"][0]["image"] = "nginx:1.26".into();
    let changed = completed("v1beta1", &other, Some(&bare), &FeatureGates::default());
    assert_eq!(changed["template"]["spec"]["dnsPolicy"], "ClusterFirst");
    let off = FeatureGates::default().with(Feature::TemplateNoDefaults, true);
    assert_eq!(completed("v1beta1", &bare, None, &off)["template"], template());
}

#[test]
fn a_complete_object_is_left_alone() {
    for version in ["v1alpha1", "v1beta1"] {
        let spec = json!({"template": template()});
        let once = completed(version, &spec, None, &FeatureGates::default());
        let text = object(version, &once).to_string();
        assert!(default(&text, None, version, &FeatureGates::default()).unwrap().is_empty());
    }
}

#[test]
fn what_is_no_clone_set_of_ours_is_refused() {
    let denial = default("{}", None, "v2", &FeatureGates::default()).unwrap_err();
    assert_eq!(denial, Denial { code: 400, message: "unsupported version: v2".to_owned() });
    assert_eq!(default("[]", None, "v1beta1", &FeatureGates::default()).unwrap_err().code, 400);
    assert_eq!(default("{", None, "v1beta1", &FeatureGates::default()).unwrap_err().code, 400);
}

#[test]
fn a_template_that_is_only_written_otherwise_gets_no_defaults() {
    let old = json!({"template": template()});
    let mut new = old.clone();
    new["template"]["metadata"]["creationTimestamp"] = json!(null);
    new["template"]["spec"]["containers"][0]["resources"] = json!({});
    new["template"]["spec"]["hostNetwork"] = json!(false);
    let after = |new: &Value| completed("v1beta1", new, Some(&old), &FeatureGates::default());
    assert!(after(&new)["template"]["spec"]["dnsPolicy"].is_null());
    new["template"]["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}});
    assert_eq!(after(&new)["template"]["spec"]["dnsPolicy"], "ClusterFirst");
}
