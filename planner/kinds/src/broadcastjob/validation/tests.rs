use api::features::FeatureGates;
use api::kinds::broadcastjob::API_VERSION;
use serde_json::json;

use super::*;

fn submit(name: &str, spec: &Value) -> Option<String> {
    let mut whole = json!({"template": {"metadata": {"labels": {"app": "check"}}, "spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]}}});
    ::json_patch::merge(&mut whole, spec);
    let metadata = json!({"name": name, "namespace": "shop", "resourceVersion": "1"});
    let object =
        json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": whole}).to_string();
    let gates = FeatureGates::default();
    let patch = super::super::defaulting::default(&object, None, "v1beta1", &gates).unwrap();
    let object = values::json_patch::apply(&object, &patch).unwrap();
    let verdict = review(&object, None, &Context { gates: &gates, allow_privileged: true });
    verdict.denial().map(|denial| {
        assert_eq!(denial.code, 500);
        denial.message.clone()
    })
}

#[test]
fn what_is_wrong_is_refused_with_its_path() {
    for (spec, part) in [
        (
            json!({"template": {"spec": {"restartPolicy": null}}}),
            "pod restartPolicy can only be Never or OnFailure",
        ),
        (
            json!({"template": {"metadata": {"labels": {"broadcastjob-name": "x"}}}}),
            "are not allowed to preset in pod labels",
        ),
        (
            json!({"completionPolicy": {"type": "Never", "ttlSecondsAfterFinished": 3}}),
            "spec.completionPolicy.ttlSecondsAfterFinished: Invalid value: 3: ttlSecondsAfterFinished can just work with",
        ),
        (
            json!({"completionPolicy": {"type": "Never", "activeDeadlineSeconds": 3}}),
            "activeDeadlineSeconds can just work with Always CompletionPolicyType",
        ),
        (
            json!({"completionPolicy": {"activeDeadlineSeconds": 0}}),
            "spec.completionPolicy.activeDeadlineSeconds: Invalid value: 0",
        ),
        (
            json!({"completionPolicy": {"ttlSecondsAfterFinished": -1}}),
            "spec.completionPolicy.ttlSecondsAfterFinished",
        ),
        (
            json!({"completionPolicy": {"type": "Often"}}),
            r#"spec.completionPolicy.type: Unsupported value: "Often""#,
        ),
        (json!({"failurePolicy": {"type": "Cry"}}), r#"spec.failurePolicy.type: Unsupported value: "Cry""#),
        (json!({"parallelism": -1}), "spec.parallelism: Invalid value"),
        (json!({"parallelism": "abc"}), "spec.parallelism: Invalid value"),
    ] {
        let message = submit("check", &spec).unwrap_or_default();
        assert!(message.contains(part), "{spec}: {message}");
    }
    assert!(submit("a.b", &json!({})).unwrap().contains("BroadcastJob name must consist of"));
    assert!(submit(&"a".repeat(64), &json!({})).unwrap().contains("must be no more than 63 characters"));
}

#[test]
fn what_is_right_is_accepted() {
    for spec in [
        json!({}),
        json!({"parallelism": "5", "template": {"spec": {"restartPolicy": "OnFailure"}}}),
        json!({"completionPolicy": {"type": "Never"}, "failurePolicy": {"type": "Continue", "restartLimit": 3}}),
        json!({"completionPolicy": {"activeDeadlineSeconds": 10, "ttlSecondsAfterFinished": 0}}),
    ] {
        assert_eq!(submit("check", &spec), None, "{spec}");
    }
}
