use api::features::Feature;
use serde_json::{Value, json};

use super::*;
use crate::cloneset::defaulting::default;
use crate::cloneset::fixture::{merge, template};
use values::json_patch;

/// A valid CloneSet that went through defaulting, changed by `spec` before.
fn object(version: &str, spec: &Value) -> String {
    let mut object = json!({
        "apiVersion": format!("apps.kruise.io/{version}"), "kind": "CloneSet",
        "metadata": {"name": "web", "namespace": "shop", "uid": "set-uid"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template("nginx:1.25"), "replicas": 3},
    });
    merge(&mut object["spec"], spec.clone());
    let text = object.to_string();
    let patch = default(&text, None, version, &FeatureGates::default()).unwrap();
    json_patch::apply(&text, &patch).unwrap()
}

fn pod(name: &str) -> NamedPod {
    let read = |text: &str| NamedPod::Found(Box::new(ObservedPod::read(text).unwrap()));
    match name {
        "own" => read(r#"{"metadata":{"ownerReferences":[{"uid":"set-uid","controller":true}]}}"#),
        "ending" => read(r#"{"metadata":{"deletionTimestamp":"2026-05-01T08:00:00Z"}}"#),
        "foreign" => read(r#"{"metadata":{"ownerReferences":[{"uid":"x","controller":true}]}}"#),
        "slow" => NamedPod::Unknown("no answer".to_owned()),
        _ => NamedPod::Missing,
    }
}

fn answer(new: &str, old: Option<&str>, gates: &FeatureGates) -> Verdict {
    review(new, old, &Context { gates, allow_privileged: true, pod: &pod })
}

/// The message of a refusal with this code, or nothing.
fn refused(verdict: &Verdict, expected: u16) -> String {
    let denial = verdict.denial();
    assert!(denial.is_none_or(|denial| denial.code == expected), "{denial:?}");
    denial.map_or_else(String::new, |denial| denial.message.clone())
}

/// The message of a refusal, or nothing.
fn refusal(new: &str, old: Option<&str>) -> String {
    refused(&answer(new, old, &FeatureGates::default()), 422)
}

/// The strategy settings `rolling`, where each version has them.
fn rolling(version: &str, policy: &str, rolling: &Value) -> Value {
    let mut settings = rolling.clone();
    let strategy = if version == "v1alpha1" {
        settings["type"] = policy.into();
        settings
    } else {
        settings["podUpdatePolicy"] = policy.into();
        json!({"type": "RollingUpdate", "rollingUpdate": settings})
    };
    json!({"updateStrategy": strategy})
}

const VERSIONS: [(&str, &str); 2] =
    [("v1alpha1", "spec.updateStrategy"), ("v1beta1", "spec.updateStrategy.rollingUpdate")];

#[test]
fn scenario_39_an_order_of_labels_is_checked() {
    let annotated = |version: &str, order: &str| {
        let mut object: Value = serde_json::from_str(&object(version, &json!({}))).unwrap();
        object["metadata"]["annotations"] = json!({"kutter.io/scale-in-order": order});
        object.to_string()
    };
    for (version, _) in VERSIONS {
        assert_eq!(refusal(&annotated(version, "release=b, example.com/pool=spot"), None), "");
        let message = refusal(&annotated(version, "release"), None);
        let expected = r#"metadata.annotations[kutter.io/scale-in-order]: Invalid value: "release": "release" is not of the form LABEL=VALUE"#;
        assert!(message.contains(expected), "{message}");
        let bad = annotated(version, "release=b b");
        assert!(
            refusal(&bad, Some(&object(version, &json!({})))).contains(r#"value "b b": a valid label must"#)
        );
        assert_eq!(refusal(&bad, Some(&bad)), "", "what is stored already hinders no change");
    }
}

#[test]
fn ordinary_clone_sets_pass() {
    for (version, _) in VERSIONS {
        assert_eq!(refusal(&object(version, &json!({})), None), "");
        let claims = json!({
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
            "template": {"spec": {"containers": [{"name": "main", "image": "a", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}},
        });
        assert_eq!(refusal(&object(version, &claims), None), "", "mounts see the claims");
        for (policy, settings) in [
            ("InPlaceOnly", json!({"partition": "12.5%", "maxUnavailable": "100%"})),
            ("InPlaceIfPossible", json!({"maxUnavailable": 0, "maxSurge": "1%"})),
            ("ReCreate", json!({"maxSurge": -1})),
        ] {
            assert_eq!(
                refusal(&object(version, &rolling(version, policy, &settings)), None),
                "",
                "{settings}"
            );
        }
    }
}

#[test]
fn sharp_edge_1_to_3_what_is_meant_is_accepted() {
    assert_eq!(refusal(&object("v1alpha1", &json!({"updateStrategy": {"type": "OnDelete"}})), None), "");
    let surge = rolling("v1beta1", "ReCreate", &json!({"maxUnavailable": 0, "maxSurge": 1}));
    assert_eq!(refusal(&object("v1beta1", &surge), None), "");
    for block in [json!({}), json!({"partition": 1}), json!({"maxUnavailable": 0})] {
        let spec = json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": block}});
        assert_eq!(refusal(&object("v1beta1", &spec), None), "", "{spec}");
    }
}

#[test]
fn numbers_and_strategies_are_checked_in_both_versions() {
    for (version, path) in VERSIONS {
        let field = if version == "v1alpha1" { "strategy type" } else { "podUpdatePolicy" };
        for (policy, settings, expected) in [
            ("ReCreate", json!({"maxUnavailable": 0}), format!("{path}.maxUnavailable: Invalid value: intstr.IntOrString{{Type:0, IntVal:0, StrVal:\"\"}}: maxUnavailable and maxSurge should not both be less than 1")),
            ("ReCreate", json!({"maxUnavailable": "0%", "maxSurge": 0}), "should not both be less than 1".to_owned()),
            ("ReCreate", json!({"maxUnavailable": "5"}), format!("{path}.maxUnavailable: Invalid value: intstr.IntOrString{{Type:1, IntVal:0, StrVal:\"5\"}}: failed GetScaledValueFromIntOrPercent for maxUnavailable: invalid type: string is not a percentage")),
            ("ReCreate", json!({"maxSurge": "x%"}), format!("{path}.maxSurge: Invalid value:")),
            ("ReCreate", json!({"partition": "half"}), "failed GetScaledValueFromIntOrPercent for partition: invalid type: string is not a percentage".to_owned()),
            ("ReCreate", json!({"partition": -1}), format!("{path}.partition: Invalid value: -1: must be greater than or equal to 0")),
            ("InPlaceOnly", json!({"maxSurge": 1}), format!("can not use maxSurge with {field} InPlaceOnly")),
            ("ReCreate", json!({"scatterStrategy": [{"key": "k", "value": "v"}, {"key": "k", "value": "v"}]}), format!("{path}.scatterStrategy: Required value: duplicated key=k value=v")),
            ("ReCreate", json!({"scatterStrategy": [{"key": "", "value": "v"}]}), "key should not be empty".to_owned()),
            ("ReCreate", json!({"priorityStrategy": {"orderPriority": [{"orderedKey": ""}]}}), format!("{path}.priorityStrategy: Required value: order key can not be empty")),
            ("ReCreate", json!({"priorityStrategy": {"weightPriority": [{"weight": 101, "matchSelector": {}}]}}), "weight must be valid number in the range 1-100".to_owned()),
            ("ReCreate", json!({"priorityStrategy": {"weightPriority": [{"weight": 1, "matchSelector": {}}]}}), "selector can not be empty".to_owned()),
            ("ReCreate", json!({"priorityStrategy": {"weightPriority": [{"weight": 1, "matchSelector": {"matchLabels": {"a": "b"}}}], "orderPriority": [{"orderedKey": "k"}]}}), "only one of weightPriority and orderPriority can be used".to_owned()),
        ] {
            let text = refusal(&object(version, &rolling(version, policy, &settings)), None);
            assert!(text.contains(&expected), "{version} {settings}: {text}");
        }
        for (spec, expected) in [
            (json!({"replicas": -1}), "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
            (
                json!({"progressDeadlineSeconds": 10, "minReadySeconds": 10}),
                "spec.progressDeadlineSeconds: Invalid value: 10: must be greater than minReadySeconds",
            ),
            (json!({"progressDeadlineSeconds": -1}), "must be greater than or equal to 0"),
            (json!({"selector": {"matchLabels": null}}), "empty selector is invalid for cloneset"),
            (
                json!({"selector": {"matchLabels": {"app": "db"}}}),
                "`selector` does not match template `labels`",
            ),
            (json!({"selector": null}), "spec.selector: Required value"),
            (
                json!({"template": {"spec": {"restartPolicy": "Never"}}}),
                r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#,
            ),
            (
                json!({"template": {"spec": {"activeDeadlineSeconds": 3}}}),
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in cloneset is not Supported",
            ),
            (
                json!({"template": {"spec": {"containers": []}}}),
                "spec.template.spec.containers: Required value",
            ),
            (
                json!({"scaleStrategy": {"podsToDelete": ["own", "own"]}}),
                r#"spec.scaleStrategy.podsToDelete: Invalid value: []string{"own", "own"}: duplicated items [own]"#,
            ),
        ] {
            let text = refusal(&object(version, &spec), None);
            assert!(text.contains(expected), "{version} {spec}: {text}");
        }
        let off = json!({"progressDeadlineSeconds": i32::MAX, "minReadySeconds": i32::MAX});
        assert_eq!(refusal(&object(version, &off), None), "");
    }
}

#[test]
fn types_are_those_of_the_version() {
    for (version, strategy, expected) in [
        (
            "v1alpha1",
            json!({"type": "Odd"}),
            "spec.updateStrategy.type: Invalid value: \"Odd\": must be 'ReCreate', InPlaceIfPossible or 'InPlaceOnly'",
        ),
        ("v1beta1", json!({"type": "ReCreate"}), "must be 'RollingUpdate' or 'OnDelete'"),
        (
            "v1beta1",
            json!({"rollingUpdate": {"podUpdatePolicy": "Odd"}}),
            "spec.updateStrategy.rollingUpdate.podUpdatePolicy: Invalid value: \"Odd\": must be 'ReCreate', 'InPlaceIfPossible' or 'InPlaceOnly'",
        ),
    ] {
        let text = refusal(&object(version, &json!({"updateStrategy": strategy})), None);
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn pre_download_settings_are_checked() {
    for (settings, expected) in [
        (
            json!({"imagePreDownloadParallelism": "5%"}),
            "imagePreDownloadParallelism does not support percentage value",
        ),
        (
            json!({"imagePreDownloadParallelism": "many"}),
            "imagePreDownloadParallelism must be a valid integer: ",
        ),
        (json!({"imagePreDownloadParallelism": -1}), "imagePreDownloadParallelism must be non-negative"),
        (json!({"imagePreDownloadParallelism": "-1"}), "imagePreDownloadParallelism must be non-negative"),
        (
            json!({"imagePreDownloadTimeoutSeconds": -1}),
            "inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds: Invalid value: -1",
        ),
        (json!({"imagePreDownloadMinUpdatedReadyPods": -2}), "must be greater than or equal to 0"),
    ] {
        let settings = json!({"inPlaceUpdateStrategy": settings});
        let text = refusal(&object("v1beta1", &rolling("v1beta1", "InPlaceIfPossible", &settings)), None);
        assert!(text.contains(expected), "{settings}: {text}");
    }
}

#[test]
fn scenario_31_only_new_names_need_a_pod_of_ours() {
    for (version, _) in VERSIONS {
        let naming = |names: &[&str]| object(version, &json!({"scaleStrategy": {"podsToDelete": names}}));
        for (name, expected) in [
            ("none", "find pod none failed: Pod \"none\" not found"),
            ("slow", "find pod slow failed: no answer"),
            ("ending", "find pod ending already terminating"),
            ("foreign", "find pod foreign owner is not this CloneSet"),
        ] {
            let text = refusal(&naming(&[name]), None);
            assert!(
                text.ends_with(expected) && text.starts_with("spec.scaleStrategy.podsToDelete: "),
                "{text}"
            );
            assert_eq!(refusal(&naming(&[name]), Some(&naming(&[name]))), "", "it was there before");
        }
        assert_eq!(refusal(&naming(&["own"]), None), "");
        assert_eq!(newly_named(&naming(&["a", "b", "a"]), Some(&naming(&["b"]))), ["a"]);
        let odd = naming(&["../../secrets/a", "a b", ""]);
        assert!(newly_named(&odd, None).is_empty() && refusal(&odd, None).contains("not found"));
    }
}

#[test]
fn selectors_with_values_that_no_label_has_are_refused_unless_they_are_stored() {
    let odd = json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x y"]}]});
    for (version, path) in VERSIONS {
        let selector = json!({"selector": odd});
        let order = json!({"priorityStrategy": {"weightPriority": [{"weight": 1, "matchSelector": odd}]}});
        let order = rolling(version, "ReCreate", &order);
        for (spec, place) in [
            (selector, "spec.selector".to_owned()),
            (order, format!("{path}.priorityStrategy.weightPriority[0].matchSelector")),
        ] {
            let new = object(version, &spec);
            let message = refusal(&new, None);
            let expected =
                format!("{place}.matchExpressions[0].values[0]: Invalid value: \"x y\": a valid label");
            assert!(message.contains(&expected), "{message}");
            let mut scaled = spec.clone();
            scaled["replicas"] = json!(5);
            assert_eq!(refusal(&object(version, &scaled), Some(&new)), "", "what is stored goes on");
        }
    }
}

#[test]
fn two_claim_templates_of_one_name_are_refused_unless_they_are_stored() {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    let with = |claims: &[&Value]| object("v1beta1", &json!({"volumeClaimTemplates": claims}));
    let twice = with(&[&claim, &claim]);
    assert_eq!(
        refusal(&twice, None),
        "spec.volumeClaimTemplates[1].metadata.name: Duplicate value: \"data\""
    );
    assert_eq!(refusal(&twice.replace("\"replicas\":3", "\"replicas\":4"), Some(&twice)), "");
    assert_eq!(refusal(&with(&[&claim]), Some(&twice)), "");
}

#[test]
fn scenario_32_the_selector_stays() {
    for (version, _) in VERSIONS {
        let old = object(version, &json!({}));
        let other = json!({"selector": {"matchLabels": {"tier": "x"}}, "template": {"metadata": {"labels": {"tier": "x"}}}});
        let text = refusal(&object(version, &other), Some(&old));
        assert!(
            text.contains("spec: Forbidden: updates to cloneset spec for fields other than 'replicas'"),
            "{text}"
        );
        for (field, value) in [
            ("replicas", json!(5)),
            ("minReadySeconds", json!(5)),
            ("lifecycle", json!({"preDelete": {}})),
            ("revisionHistoryLimit", json!(2)),
            ("volumeClaimTemplates", json!([{"metadata": {"name": "data"}}])),
            ("progressDeadlineSeconds", json!(600)),
        ] {
            assert_eq!(refusal(&object(version, &json!({field: value})), Some(&old)), "", "{field}");
        }
    }
}

#[test]
fn scenario_12_in_place_only_refuses_what_needs_a_new_pod() {
    let container = |more: Value| {
        let mut container =
            json!({"name": "main", "image": "nginx:1.25", "resources": {"limits": {"cpu": "1"}}});
        merge(&mut container, more);
        json!({"template": {"spec": {"containers": [container]}}})
    };
    let limits = |cpu: &str| container(json!({"resources": {"limits": {"cpu": cpu}}}));
    for (version, _) in VERSIONS {
        let object = |edit: &Value, policy: &str| {
            let mut spec = rolling(version, policy, &json!({}));
            merge(&mut spec, edit.clone());
            object(version, &spec)
        };
        let old = object(&container(json!({})), "InPlaceOnly");
        let change = |edit: Value| refusal(&object(&edit, "InPlaceOnly"), Some(&old));
        assert_eq!(
            change(container(json!({"env": [{"name": "A", "value": "b"}]}))),
            "spec: Forbidden: only allowed to update images in spec for InPlaceOnly, but found add /containers/0/env"
        );
        assert!(change(limits("2")).ends_with("but found replace /containers/0/resources/limits/cpu"));
        assert_eq!(change(container(json!({"image": "nginx:1.26"}))), "");
        let proxied = |image: &str| {
            let proxy = json!([{"name": "proxy", "image": image, "restartPolicy": "Always"}]);
            json!({"template": {"spec": {"initContainers": proxy}}})
        };
        let changed = object(&proxied("proxy:2"), "InPlaceOnly");
        assert_eq!(refusal(&changed, Some(&object(&proxied("proxy:1"), "InPlaceOnly"))), "");
        let labelled = json!({"template": {"metadata": {"labels": {"more": "labels"}}}});
        assert_eq!(
            change({
                let mut edit = container(json!({}));
                merge(&mut edit, labelled);
                edit
            }),
            ""
        );
        assert_eq!(refusal(&object(&limits("2"), "InPlaceIfPossible"), Some(&old)), "");
        let mut on_delete: Value = serde_json::from_str(&object(&limits("2"), "InPlaceOnly")).unwrap();
        on_delete["spec"]["updateStrategy"]["type"] = "OnDelete".into();
        assert_eq!(refusal(&on_delete.to_string(), Some(&old)), "", "nothing is updated in place");
        let gate = FeatureGates::default().with(Feature::InPlaceWorkloadVerticalScaling, true);
        assert!(answer(&object(&limits("2"), "InPlaceOnly"), Some(&old), &gate).is_allowed());
    }
}

#[test]
fn a_template_stored_without_defaults_does_not_differ_by_them() {
    let spec = rolling("v1beta1", "InPlaceOnly", &json!({}));
    let mut bare: Value = serde_json::from_str(&object("v1beta1", &spec)).unwrap();
    bare["spec"]["template"] = template("nginx:1.25");
    let mut changed = spec;
    merge(&mut changed, json!({"template": template("nginx:1.26")}));
    assert_eq!(refusal(&object("v1beta1", &changed), Some(&bare.to_string())), "");
}

#[test]
fn sharp_edge_14_long_names_are_warned_about() {
    let mut long: Value = serde_json::from_str(&object("v1beta1", &json!({}))).unwrap();
    long["metadata"]["name"] = "a".repeat(53).into();
    let long = long.to_string();
    let warnings = |old: Option<&str>, gates: &FeatureGates| match answer(&long, old, gates) {
        Verdict::Allow { warnings, .. } => warnings.len(),
        refused => panic!("{refused:?}"),
    };
    let short = FeatureGates::default().with(Feature::CloneSetShortHash, true);
    assert_eq!(warnings(None, &FeatureGates::default()), 1);
    assert_eq!((warnings(None, &short), warnings(Some(&long), &FeatureGates::default())), (0, 0));
}

#[test]
fn names_are_dns_names_and_odd_objects_are_unreadable() {
    let mut odd: Value = serde_json::from_str(&object("v1beta1", &json!({}))).unwrap();
    odd["metadata"]["name"] = "Web".into();
    assert!(refusal(&odd.to_string(), None).starts_with("metadata.name: Invalid value: \"Web\""));
    for text in [
        "",
        "[]",
        r#"{"apiVersion":"apps.kruise.io/v2"}"#,
        r#"{"apiVersion":"apps.kruise.io/v1beta1","spec":{"replicas":"x"}}"#,
    ] {
        let Verdict::Deny(denial) = answer(text, None, &FeatureGates::default()) else { panic!("{text}") };
        assert_eq!(denial.code, 400, "{text}");
    }
    // What is stored must not stop the update that repairs it.
    let repaired = answer(&object("v1beta1", &json!({})), Some("{"), &FeatureGates::default());
    assert!(matches!(repaired, Verdict::Allow { warnings, .. } if warnings.len() == 1));
}

#[test]
fn claim_templates_that_cannot_be_read_are_refused_unless_they_are_stored_already() {
    let claims =
        |spec: &Value| json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}]});
    let denied = |new: &str, old: Option<&str>| refused(&answer(new, old, &FeatureGates::default()), 400);
    for (version, _) in VERSIONS {
        for (spec, place) in [
            (
                claims(&json!({"accessModes": "ReadWriteOnce"})),
                "spec.volumeClaimTemplates[0].spec.accessModes: ",
            ),
            (
                claims(&json!({"resources": {"requests": {"storage": "10 Gi"}}})),
                "spec.volumeClaimTemplates[0].spec.resources.requests.storage: ",
            ),
            (json!({"volumeClaimTemplates": {"data": {}}}), "spec.volumeClaimTemplates: "),
            (json!({"volumeClaimTemplates": ["data"]}), "spec.volumeClaimTemplates[0]: "),
        ] {
            let broken = object(version, &spec);
            assert!(denied(&broken, None).starts_with(place), "{}", denied(&broken, None));
            let sound = object(version, &claims(&json!({"accessModes": ["ReadWriteOnce"]})));
            assert!(denied(&broken, Some(&sound)).starts_with(place));
            assert_eq!((denied(&sound, Some(&broken)), denied(&sound, None)), (String::new(), String::new()));
            let mut labelled: Value = serde_json::from_str(&broken).unwrap();
            labelled["metadata"]["labels"] = json!({"a": "b"});
            assert_eq!(denied(&labelled.to_string(), Some(&broken)), "", "what an older release let in");
        }
        assert_eq!(denied(&object(version, &json!({"volumeClaimTemplates": null})), None), "");
    }
}

#[test]
fn a_claim_template_needs_a_name() {
    for (version, _) in VERSIONS {
        let claims = json!({"volumeClaimTemplates": [{"spec": {"accessModes": ["ReadWriteOnce"]}}]});
        let message = refusal(&object(version, &claims), None);
        assert!(message.contains("spec.template.spec.volumes[0].name: Required value"), "{message}");
    }
}

#[test]
fn labels_and_finalizers_of_an_unreadable_clone_set_can_be_changed_and_nothing_else() {
    let stored = |version: &str, spec: &Value, finalizers: &Value| {
        json!({"apiVersion": format!("apps.kruise.io/{version}"), "kind": "CloneSet",
            "metadata": {"name": "web", "namespace": "shop", "finalizers": finalizers}, "spec": spec})
        .to_string()
    };
    let gates = FeatureGates::default();
    let odd =
        [json!("odd"), json!({"replicas": "many"}), json!({"replicas": 99_999_999_999_u64, "selector": {}})];
    for version in ["v1alpha1", "v1beta1"] {
        for spec in &odd {
            let old = stored(version, spec, &json!(["example.com/hold"]));
            let new = stored(version, spec, &json!([]));
            let edits = default(&new, Some(&old), version, &gates).unwrap();
            assert!(edits.is_empty(), "{version} {spec}");
            assert_eq!(refusal(&new, Some(&old)), "", "{version} {spec}");
            let other = stored(version, &json!({"replicas": "several"}), &json!([]));
            for (new, old) in [(&other, Some(old.as_str())), (&new, None)] {
                assert!(matches!(answer(new, old, &gates), Verdict::Deny(_)), "{version} {spec}");
            }
        }
    }
}

#[test]
fn what_pods_restart_on_is_checked() {
    let reviewed = |version: &str, names: &str, gates: &str| {
        let mut object: Value = serde_json::from_str(&object(version, &json!({}))).unwrap();
        object["metadata"]["annotations"] = json!({"kutter.io/restart-on": names});
        let gates = FeatureGates::parse(gates, "").unwrap();
        let context = Context { gates: &gates, allow_privileged: true, pod: &|_| NamedPod::Missing };
        review(&object.to_string(), None, &context)
    };
    for (version, _) in VERSIONS {
        let verdict = reviewed(version, "configmap/web,secret/web", "RestartOnConfiguration=true");
        assert!(matches!(verdict, Verdict::Allow { warnings, .. } if warnings.is_empty()), "it recreates");
        let Verdict::Allow { warnings, .. } = reviewed(version, "configmap/web", "") else {
            panic!("refused")
        };
        assert!(warnings[0].contains("feature gate RestartOnConfiguration is off"), "{warnings:?}");
        let verdict = reviewed(version, "web", "");
        let expected =
            "metadata.annotations[kutter.io/restart-on]: Invalid value: \"web\": \"web\" is not of the form";
        assert!(verdict.denial().unwrap().message.contains(expected), "{verdict:?}");
    }
}
