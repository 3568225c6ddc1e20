use api::features::FeatureGates;
use api::kinds::daemonset::KIND;
use serde_json::{Value, json};

use super::*;
use values::verdict::Denial;

fn submit(version: &str, spec: &Value, old: Option<&Value>) -> Result<(), Denial> {
    let object = |spec: &Value| {
        let mut whole = json!({
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}},
        });
        ::json_patch::merge(&mut whole, spec);
        let metadata = json!({"name": "web", "namespace": "shop", "resourceVersion": "1"});
        json!({"apiVersion": format!("apps.kruise.io/{version}"), "kind": KIND, "metadata": metadata, "spec": whole})
            .to_string()
    };
    let default = |text: String| {
        let patch = super::super::defaulting::default(&text, None, version).unwrap();
        values::json_patch::apply(&text, &patch).unwrap()
    };
    let context = Context { gates: &FeatureGates::default(), allow_privileged: true };
    let old = old.map(|old| default(object(old)));
    match review(&default(object(spec)), old.as_deref(), &context).denial() {
        Some(denial) => Err(denial.clone()),
        None => Ok(()),
    }
}

fn refusal(spec: &Value) -> String {
    let denial = submit("v1beta1", spec, None).unwrap_err();
    assert_eq!(denial.code, 500);
    denial.message
}

fn rolling(settings: &Value) -> Value {
    json!({"updateStrategy": {"rollingUpdate": settings}})
}

#[test]
fn what_is_wrong_is_refused_with_its_path() {
    for (spec, part) in [
        (json!({"selector": {"matchLabels": null}}), "empty selector is invalid for daemonset"),
        (
            json!({"selector": {"matchLabels": {"app": "other"}}}),
            "`selector` does not match template `labels`",
        ),
        (
            json!({"template": {"spec": {"restartPolicy": "Never"}}}),
            r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#,
        ),
        (
            json!({"template": {"spec": {"activeDeadlineSeconds": 3}}}),
            "activeDeadlineSeconds in DaemonSet is not Supported",
        ),
        (
            json!({"minReadySeconds": -1}),
            "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
        ),
        (json!({"revisionHistoryLimit": -1}), "spec.revisionHistoryLimit: Invalid value: -1"),
        (json!({"burstReplicas": "5"}), "spec.burstReplicas: Invalid value"),
        (
            json!({"updateStrategy": {"type": "Often"}}),
            r#"spec.updateStrategy: Unsupported value: "Often": supported values: "RollingUpdate", "OnDelete""#,
        ),
        (
            rolling(&json!({"maxUnavailable": 1, "maxSurge": 1})),
            "may not be set when maxUnavailable is non-zero",
        ),
        (
            rolling(&json!({"maxSurge": 0})),
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
        ),
        (
            rolling(&json!({"maxUnavailable": "abc", "maxSurge": 1})),
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value",
        ),
        (rolling(&json!({"maxUnavailable": "101%"})), "must not be greater than 100%"),
        (
            rolling(&json!({"rollingUpdateType": "InPlaceIfPossible", "maxSurge": 1, "maxUnavailable": 0})),
            "must be 0 for InPlaceIfPossible type",
        ),
        (
            rolling(&json!({"rollingUpdateType": "Surging"})),
            r#"spec.updateStrategy.rollingUpdate.rollingUpdate.type: Unsupported value: "Surging": supported values: "Standard", "InPlaceIfPossible""#,
        ),
        (
            rolling(&json!({"partition": -1})),
            "spec.updateStrategy.rollingUpdate.rollingUpdate.partition: Invalid value",
        ),
        (
            rolling(&json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}})),
            "spec.updateStrategy.rollingUpdate.selector.matchExpressions[0].operator: Invalid value: \"Near\"",
        ),
        (
            json!({"lifecycle": {"inPlaceUpdate": {"labelsHandler": {"a": "b"}}}}),
            "inPlaceUpdate hook has not supported yet",
        ),
    ] {
        let message = refusal(&spec);
        assert!(message.contains(part), "{spec}: {message}");
    }
}

#[test]
fn what_is_right_is_accepted() {
    for spec in [
        json!({}),
        json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"maxSurge": "what"}}}),
        rolling(&json!({"maxSurge": "30%", "maxUnavailable": 0, "partition": "100%"})),
        rolling(&json!({"rollingUpdateType": "InPlaceIfPossible"})),
        json!({"lifecycle": {"preDelete": {"labelsHandler": {"a": "b"}}, "preNormal": {"labelsHandler": {"a": "b"}}}}),
    ] {
        assert_eq!(submit("v1beta1", &spec, None), Ok(()), "{spec}");
    }
    assert_eq!(submit("v1alpha1", &rolling(&json!({"rollingUpdateType": "Surging"})), None), Ok(()));
}

#[test]
fn the_selector_may_not_change() {
    let old = json!({});
    let new = json!({"selector": {"matchLabels": {"app": "web", "tier": "one"}}, "template": {"metadata": {"labels": {"tier": "one"}}}});
    let denial = submit("v1beta1", &new, Some(&old)).unwrap_err();
    assert_eq!((denial.code, denial.message), (422, format!("spec: Forbidden: {IMMUTABLE}")));
    let denial = submit("v1alpha1", &new, Some(&old)).unwrap_err();
    assert_eq!(denial.message, format!("spec: Forbidden: {IMMUTABLE_ALPHA}"));
}

#[test]
fn what_the_api_server_refuses_has_the_code_of_other_refusals() {
    let of = |image: &str| {
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
            .to_string()
    };
    let (created, updated) = (trials(&of("a"), None), trials(&of("b"), Some(&of("a"))));
    assert_eq!((created.code, created.list.len(), updated.code, updated.list.len()), (500, 1, 422, 1));
}

#[test]
fn what_pods_restart_on_is_checked() {
    let gates = FeatureGates::parse("RestartOnConfiguration=true", "").unwrap();
    let reviewed = |names: &str, kind: &str| {
        let metadata = json!({"name": "web", "annotations": {"kutter.io/restart-on": names}});
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}});
        let strategy = json!({"rollingUpdate": {"rollingUpdateType": kind}});
        let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template, "updateStrategy": strategy});
        let object =
            json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": KIND, "metadata": metadata, "spec": spec});
        let text = object.to_string();
        let patch = super::super::defaulting::default(&text, None, "v1beta1").unwrap();
        let text = values::json_patch::apply(&text, &patch).unwrap();
        review(&text, None, &Context { gates: &gates, allow_privileged: true })
    };
    let warnings = |kind: &str| match reviewed("secret/web", kind) {
        Verdict::Allow { warnings, .. } => warnings,
        refused => panic!("{refused:?}"),
    };
    assert!(warnings("Standard").is_empty());
    assert!(warnings("InPlaceIfPossible")[0].contains("restarts no container"));
    let verdict = reviewed("daemon/web", "Standard");
    assert!(
        verdict.denial().unwrap().message.contains("metadata.annotations[kutter.io/restart-on]"),
        "{verdict:?}"
    );
}
