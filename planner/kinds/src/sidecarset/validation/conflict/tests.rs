use serde_json::{Value, json};

use api::features::FeatureGates;

use super::*;
use crate::sidecarset::validation::RevisionQuery;

fn set(name: &str, spec: &Value) -> SidecarSet {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

fn meet(new: &SidecarSet, other: &SidecarSet) -> (Vec<String>, Vec<String>) {
    let gates = FeatureGates::default();
    let others = [other, new];
    let context = Context {
        sidecar_sets: &others,
        has_revision: &|_: RevisionQuery<'_>| true,
        allow_list: None,
        gates: &gates,
        allow_privileged: true,
    };
    let mut validation = Validation::default();
    validate(new, &context, &mut validation);
    (validation.errors.iter().map(ToString::to_string).collect(), validation.warnings)
}

fn log(name: &str, selector: &Value, namespaces: &Value) -> SidecarSet {
    let spec = json!({"selector": selector, "namespaceSelector": namespaces, "containers": [{"name": "log", "image": "a"}]});
    set(name, &spec)
}

#[test]
fn equal_containers_conflict_where_selectors_overlap() {
    let app = |value: &str| json!({"matchLabels": {"app": value}});
    let other = log("x", &app("web"), &Value::Null);
    let (errors, _) = meet(&log("y", &app("web"), &Value::Null), &other);
    assert_eq!(errors, [r#"spec.containers: Invalid value: "log": container log already exist in x"#]);
    assert_eq!(meet(&log("y", &app("db"), &Value::Null), &other), (vec![], vec![]));
    let namespace = |name: &str| json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
    let other = log("x", &app("web"), &namespace("n1"));
    assert_eq!(meet(&log("y", &app("web"), &namespace("n2")), &other), (vec![], vec![]));
    assert_eq!(meet(&log("y", &app("web"), &Value::Null), &other).0.len(), 1);
}

#[test]
fn a_sidecarset_does_not_conflict_with_itself_or_with_its_other_half() {
    let app = json!({"matchLabels": {"app": "web"}});
    let base = log("base", &app, &Value::Null);
    let mut canary = log("canary", &app, &Value::Null);
    assert_eq!(meet(&base, &base).0, [""; 0]);
    assert_eq!(meet(&base, &canary).0.len(), 1);
    let annotations = &mut canary.metadata.annotations;
    annotations.insert("apps.kruise.io/sidecarset-canary".to_owned(), "true".to_owned());
    annotations.insert("apps.kruise.io/sidecarset-base".to_owned(), "base".to_owned());
    assert_eq!(meet(&canary, &base).0, [""; 0]);
    assert_eq!(meet(&base, &canary).0, [""; 0]);
}

#[test]
fn an_overlap_that_the_rule_misses_is_a_warning() {
    let exists = json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
    let (errors, warnings) = meet(
        &log("y", &exists, &Value::Null),
        &log("x", &json!({"matchLabels": {"tier": "web"}}), &Value::Null),
    );
    assert_eq!(errors, [""; 0]);
    assert_eq!(
        warnings,
        ["container log is also a container of SidecarSet x, whose selector can match the same Pods"]
    );
}

#[test]
fn volumes_and_annotations_conflict_unless_they_mean_the_same() {
    let spec = |volume: Value, policy: &str| {
        json!({
            "selector": {"matchLabels": {"app": "web"}}, "volumes": [volume],
            "patchPodMetadata": [{"annotations": {"a": "1"}, "patchPolicy": policy}],
        })
    };
    let empty = json!({"name": "v", "emptyDir": {"medium": ""}});
    let other = set("x", &spec(json!({"emptyDir": {}, "name": "v"}), "MergePatchJson"));
    assert_eq!(meet(&set("y", &spec(empty.clone(), "MergePatchJson")), &other).0, [""; 0]);
    assert_eq!(meet(&set("y", &spec(empty, "Retain")), &other).0, [""; 0]);
    assert_eq!(
        meet(&set("y", &spec(json!({"name": "v", "hostPath": {"path": "/"}}), "Overwrite")), &other).0,
        [
            r#"spec.volumes: Invalid value: "v": volume v is in conflict with sidecarset x"#,
            r#"spec.patchPodMetadata: Invalid value: "a": annotation a is in conflict with sidecarset x"#,
        ]
    );
}

#[test]
fn the_two_tests_for_overlap() {
    let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
    let label = |key: &str, value: &str| json!({"matchLabels": {key: value}});
    for (one, other, denied, possible) in [
        (label("a", "1"), label("a", "1"), true, true),
        (label("a", "1"), label("a", "2"), false, false),
        (label("a", "1"), label("b", "1"), true, true),
        (label("a", "1"), expression("In", json!(["1", "2"])), true, true),
        (label("a", "3"), expression("In", json!(["1", "2"])), false, false),
        (label("a", "1"), expression("NotIn", json!(["1"])), false, false),
        (expression("In", json!(["1", "2"])), expression("NotIn", json!(["1"])), true, true),
        (label("a", "1"), expression("Exists", Value::Null), true, true),
        (label("b", "1"), expression("Exists", Value::Null), false, true),
        (label("a", "1"), expression("DoesNotExist", Value::Null), false, false),
        (expression("Exists", Value::Null), expression("DoesNotExist", Value::Null), false, false),
        (expression("NotIn", json!(["1"])), expression("DoesNotExist", Value::Null), true, true),
    ] {
        let parse = |selector: &Value| serde_json::from_value::<LabelSelector>(selector.clone()).unwrap();
        let (first, second) = (parse(&one), parse(&other));
        for (first, second) in [(&first, &second), (&second, &first)] {
            assert_eq!(selectors_overlap(first, second), denied, "{one} {other}");
            assert_eq!(satisfiable_together(first, second), possible, "{one} {other}");
        }
    }
}
