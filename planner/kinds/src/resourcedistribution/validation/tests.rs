use serde_json::{Value, json};

use super::*;

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"secret": "hush"}})
}

fn object(resource: Value, targets: Value) -> Value {
    let mut object =
        json!({"apiVersion": API_VERSION, "kind": "ResourceDistribution", "metadata": {"name": "rd"}});
    object["spec"]["resource"] = resource;
    object["spec"]["targets"] = targets;
    object
}

fn reviewed(new: &Value, old: Option<&Value>) -> (Review, Verdict) {
    let old = old.map(Value::to_string);
    let review = review(&new.to_string(), old.as_deref(), "kruise-system").unwrap();
    (review.clone(), review.verdict(DryRunResult::Accepted))
}

/// The message of the refusal.
fn refused(new: &Value, old: Option<&Value>) -> String {
    match reviewed(new, old).1 {
        Verdict::Deny(Denial { code: 422, message }) => message,
        verdict => panic!("{verdict:?}"),
    }
}

fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    match reviewed(new, old).1 {
        Verdict::Allow { warnings, .. } => warnings,
        refused => panic!("{refused:?}"),
    }
}

#[test]
fn the_resource_is_tried_out_in_the_install_namespace() {
    let mut resource = config_map("cm");
    resource["metadata"]["namespace"] = json!("other");
    let (review, verdict) = reviewed(&object(resource.clone(), json!({})), None);
    let DryRunCreation { kind, object } = review.rehearsal.unwrap();
    resource["metadata"]["namespace"] = json!("kruise-system");
    assert_eq!((kind, serde_json::from_str::<Value>(&object).unwrap()), (ResourceKind::ConfigMap, resource));
    assert_eq!(verdict, Verdict::allow());
}

#[test]
fn what_the_api_server_says_is_part_of_the_answer() {
    let new = object(config_map("cm"), json!({"includedNamespaces": {"list": [{"name": "A"}]}}));
    for (rehearsed, text) in [
        (
            DryRunResult::Invalid("no".to_owned()),
            r#"[spec.resource: Invalid value: "": spec.resource is invalid: no, "#,
        ),
        (
            DryRunResult::Forbidden("no".to_owned()),
            "[spec.resource: Forbidden: spec.resource is forbidden: no, ",
        ),
        (
            DryRunResult::Failed("no".to_owned()),
            "[spec.resource: Internal error: failed to dry-run validate spec.resource: no, ",
        ),
    ] {
        let verdict = reviewed(&new, None).0.verdict(rehearsed);
        let Verdict::Deny(Denial { code: 422, message }) = verdict else { panic!("{verdict:?}") };
        assert!(message.starts_with(text), "{message}");
        assert!(message.contains("spec.targets.includedNamespaces: Invalid value: \"A\""), "{message}");
    }
    let unknown = reviewed(&object(config_map("cm"), json!({})), None).0;
    let verdict = unknown.verdict(DryRunResult::Unknown("a webhook".to_owned()));
    assert!(
        matches!(verdict, Verdict::Allow { warnings, .. } if warnings == ["spec.resource is not tried out: a webhook"])
    );
}

#[test]
fn resources_that_cannot_be_distributed_are_not_tried_out() {
    let unnamed = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "a-"}});
    for (resource, text) in [
        (Value::Null, r#"spec.resource: Invalid value: "": empty resource is not allowed"#),
        (
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}),
            r#"spec.resource: Invalid value: "apps/v1/Deployment": unknown or unsupported resource GroupKind, only support [Secret ConfigMap]"#,
        ),
        (
            unnamed,
            "spec.resource.metadata.name: Required value: the name is required: it is that of every copy",
        ),
    ] {
        let new = object(resource, json!({}));
        assert_eq!(refused(&new, None), text);
        assert_eq!(reviewed(&new, None).0.rehearsal, None);
    }
    let wrong = refused(&object(json!({"kind": 7}), json!({})), None);
    let text = "spec.resource: Internal error: failed to deserialize resource, please check your spec.resource, err ";
    assert!(wrong.starts_with(text), "{wrong}");
}

#[test]
fn an_update_keeps_version_kind_and_name_of_the_resource() {
    let old = object(config_map("cm"), json!({}));
    let mut changed = config_map("cm");
    changed["data"] = json!({"a": "b"});
    assert!(warnings(&object(changed, json!({})), Some(&old)).is_empty());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cm"}});
    for resource in [config_map("other"), secret] {
        let new = object(resource, json!({}));
        let message = refused(&new, Some(&old));
        assert!(message.ends_with("resource apiVersion, kind, and name are immutable"), "{message}");
        assert_eq!(reviewed(&new, Some(&old)).0.rehearsal, None);
    }
    let broken = object(json!({"kind": 7}), json!({}));
    assert!(warnings(&object(config_map("cm"), json!({})), Some(&broken)).is_empty(), "it can be repaired");
    let mut unreadable = old.clone();
    unreadable["spec"] = json!(7);
    assert_eq!(warnings(&old, Some(&unreadable)).len(), 1);
}

#[test]
fn targets_have_sound_names_selectors_and_no_contradiction() {
    let of = |targets: Value| object(config_map("cm"), targets);
    let list = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"list": names})
    };
    for name in ["INVALID", "", "a.b"] {
        for field in ["includedNamespaces", "excludedNamespaces"] {
            let message = refused(&of(json!({field: list(&[name])})), None);
            let start = format!("spec.targets.{field}: Invalid value: {name:?}: ");
            assert!(message.starts_with(&start), "{message}");
        }
    }
    let both = json!({"includedNamespaces": list(&["c", "b", "a"]), "excludedNamespaces": list(&["a", "c"])});
    assert_eq!(
        refused(&of(both), None),
        r#"spec.targets: Invalid value: "a, c": ambiguous targets because namespace [a, c] is in both IncludedNamespaces.List and ExcludedNamespaces.List"#
    );
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
    let message = refused(&of(json!({"namespaceSelector": selector})), None);
    assert!(message.starts_with("spec.targets.namespaceSelector: Invalid value: "), "{message}");
    assert!(message.contains("labelSelectorAsSelector error: "), "{message}");
    let mut old = of(json!({"namespaceLabelSelector": selector}));
    old["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    assert!(
        refused(&old, None).starts_with("spec.targets.namespaceSelector: "),
        "paths are those of v1beta1"
    );
}

#[test]
fn a_listed_system_namespace_is_warned_of() {
    let list = json!({"list": [{"name": "kube-system"}, {"name": "ns-1"}]});
    let new = object(config_map("cm"), json!({"includedNamespaces": list}));
    assert_eq!(warnings(&new, None), ["spec.targets.includedNamespaces: kube-system never gets a copy"]);
}

#[test]
fn metadata_and_version_are_checked_and_no_content_is_ever_printed() {
    let mut new = object(config_map("cm"), json!({}));
    new["metadata"]["name"] = json!("Not_A_Name");
    let message = refused(&new, None);
    assert!(message.starts_with("metadata.name: Invalid value: "), "{message}");
    new["spec"]["resource"]["kind"] = json!("Pod");
    assert!(!refused(&new, None).contains("hush"));
    new["apiVersion"] = json!("apps.kruise.io/v2");
    let denial = review(&new.to_string(), None, "kruise-system").unwrap_err();
    assert_eq!(denial, Denial { code: 400, message: "unsupported version: apps.kruise.io/v2".to_owned() });
}
