use serde_json::{Value, json};

use super::*;
use crate::statefulset::defaulting;
use crate::statefulset::fixture::merge;
use crate::workload::storage_class::StorageClass;
use values::json_patch::apply;

fn object(spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]}},
        },
    });
    merge(&mut object["spec"], spec);
    object
}

fn completed(object: &Value, gates: &FeatureGates) -> String {
    let text = object.to_string();
    apply(&text, &defaulting::default(&text, None, "v1beta1", gates).unwrap()).unwrap()
}

fn reviewed(new: &Value, old: Option<&Value>, gates: &str, classes: &StorageClasses) -> Option<String> {
    let gates = FeatureGates::parse(gates, "").unwrap();
    let context = Context { gates: &gates, allow_privileged: true, storage_classes: Some(classes) };
    let old = old.map(|old| completed(old, &gates));
    let verdict = review(&completed(new, &gates), old.as_deref(), &context);
    verdict.denial().map(|denial| {
        assert_eq!(denial.code, 422, "{denial:?}");
        denial.message.clone()
    })
}

fn created(spec: Value) -> Option<String> {
    reviewed(&object(spec), None, "", &StorageClasses::default())
}

fn changed(old: Value, new: Value) -> Option<String> {
    reviewed(&object(new), Some(&object(old)), "", &StorageClasses::default())
}

fn has(message: Option<String>, parts: &[&str]) {
    let message = message.expect("it is refused");
    for part in parts {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_plain_set_passes() {
    assert_eq!(created(json!({})), None);
    assert_eq!(created(json!({"reserveOrdinals": [1, "2-5", "007-08"], "replicas": 0})), None);
}

#[test]
fn scenario_5_entries_of_reserved_ordinals_are_checked() {
    has(
        created(json!({"reserveOrdinals": [1, "5-2"]})),
        &["spec: Invalid value: \"5-2\": 1 th reserve ordinal is invalid: 5-2, err = "],
    );
    has(
        created(json!({"reserveOrdinals": ["a-b"]})),
        &["0 th reserve ordinal is not a valid range: a-b", "0 th reserve ordinal is invalid: a-b"],
    );
    has(created(json!({"reserveOrdinals": ["5"]})), &["0 th reserve ordinal is not a valid range: 5"]);
    has(
        created(json!({"reserveOrdinals": [-1]})),
        &["spec: Invalid value: -1: 0 th reserve ordinal is negative: -1"],
    );
    assert_eq!(created(json!({"reserveOrdinals": ["0-2000000000"]})), None);
}

#[test]
fn scenario_14_ordered_pods_are_created_one_at_a_time_and_updated_within_a_limit() {
    let limit = |limit: Value, policy: &str| {
        let rolling = json!({"rollingUpdate": {"maxUnavailable": limit}, "type": "RollingUpdate"});
        created(json!({"podManagementPolicy": policy, "updateStrategy": rolling}))
    };
    for policy in ["OrderedReady", "Parallel"] {
        for value in [json!(1), json!(2), json!("1%"), json!("200%")] {
            assert_eq!(limit(value, policy), None);
        }
        has(
            limit(json!("5"), policy),
            &[
                "spec.updateStrategy.rollingUpdate.maxUnavailable",
                "a valid percent string must be a numeric string followed by an ending '%'",
            ],
        );
        has(limit(json!("x%"), policy), &["a valid percent string", "getValueFromIntOrPercent error"]);
        has(limit(json!(0), policy), &["should not be less than 1"]);
        has(limit(json!("0%"), policy), &["should not be less than 1"]);
        has(limit(json!(-1), policy), &["must be greater than or equal to 0", "should not be less than 1"]);
    }
    for value in [json!(2), json!("1%")] {
        has(
            created(json!({"scaleStrategy": {"maxUnavailable": value}})),
            &["spec.scaleStrategy.maxUnavailable", "can only work with Parallel PodManagementPolicyType"],
        );
    }
    assert_eq!(created(json!({"scaleStrategy": {"maxUnavailable": 1}})), None);
}

#[test]
fn scenario_15_updates_in_place_need_their_readiness_gate() {
    for policy in ["InPlaceIfPossible", "InPlaceOnly"] {
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": policy}});
        let message = format!("must contains InPlaceUpdateReady when podUpdatePolicy is {policy}");
        has(created(json!({"updateStrategy": rolling})), &["spec.template.spec.readinessGates", &message]);
        let gate = json!({"spec": {"readinessGates": [{"conditionType": "InPlaceUpdateReady"}]}});
        assert_eq!(created(json!({"updateStrategy": rolling, "template": gate})), None);
    }
}

#[test]
fn scenario_35_on_delete_has_no_settings() {
    let strategy = json!({"type": "OnDelete", "rollingUpdate": {"partition": 1}});
    has(
        created(json!({"updateStrategy": strategy})),
        &[
            "spec.updateStrategy.rollingUpdate: Invalid value",
            "only allowed for updateStrategy 'RollingUpdate'",
        ],
    );
}

#[test]
fn numbers_policies_and_selectors_are_checked() {
    let rolling = |settings: Value| {
        created(json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": settings}}))
    };
    has(
        rolling(json!({"partition": -1})),
        &["spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater"],
    );
    has(rolling(json!({"minReadySeconds": 301})), &["must be no more than 300 seconds"]);
    has(
        rolling(json!({"minReadySeconds": -1})),
        &["minReadySeconds: Invalid value: -1: must be greater than or equal to 0"],
    );
    has(
        rolling(json!({"podUpdatePolicy": "Recreate"})),
        &["must be 'ReCreate', InPlaceIfPossible or 'InPlaceOnly'"],
    );
    has(
        rolling(json!({"unorderedUpdate": {}})),
        &["unorderedUpdate can only work with Parallel PodManagementPolicyType"],
    );
    has(created(json!({"podManagementPolicy": "Other"})), &["must be 'OrderedReady' or 'Parallel'"]);
    has(created(json!({"updateStrategy": {"type": "Other"}})), &["must be 'RollingUpdate' or 'OnDelete'"]);
    has(created(json!({"replicas": -1})), &["spec.replicas: Invalid value: -1"]);
    has(created(json!({"revisionHistoryLimit": -1})), &["spec.revisionHistoryLimit: Invalid value: -1"]);
    has(created(json!({"ordinals": {"start": -1}})), &["spec.ordinals.start: Invalid value: -1"]);
    has(created(json!({"selector": {"matchLabels": null}})), &["empty selector is invalid for statefulset"]);
    has(
        created(json!({"selector": {"matchLabels": {"app": "x"}}})),
        &["`selector` does not match template `labels`"],
    );
    has(
        created(json!({"template": {"spec": {"restartPolicy": "Never"}}})),
        &["spec.template.spec.restartPolicy: Unsupported value: \"Never\""],
    );
    has(
        created(json!({"template": {"spec": {"activeDeadlineSeconds": 5}}})),
        &["activeDeadlineSeconds in StatefulSet is not Supported"],
    );
    has(
        created(json!({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Keep"}})),
        &["spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: \"Keep\""],
    );
    let mut long = object(json!({}));
    long["metadata"]["name"] = "a.b".into();
    has(reviewed(&long, None, "", &StorageClasses::default()), &["metadata.name: Invalid value: \"a.b\""]);
}

#[test]
fn scenario_33_three_fields_stay() {
    for new in [
        json!({"serviceName": "other"}),
        json!({"podManagementPolicy": "Parallel"}),
        json!({"selector": {"matchLabels": {"tier": "x"}}, "template": {"metadata": {"labels": {"tier": "x"}}}}),
    ] {
        has(
            changed(json!({}), new),
            &[
                "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'reserveOrdinals'",
            ],
        );
    }
    for new in [
        json!({"ordinals": {"start": 2}}),
        json!({"lifecycle": {"preDelete": {"labelsHandler": {"a": "b"}}}}),
        json!({"scaleStrategy": {"maxUnavailable": 1}}),
        json!({"revisionHistoryLimit": 2}),
    ] {
        assert_eq!(changed(json!({}), new), None);
    }
}

#[test]
fn scenario_17_what_needs_new_pods_is_refused_under_in_place_only() {
    let spec = |image: &str, env: Value| {
        json!({
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly"}},
            "template": {"spec": {
                "readinessGates": [{"conditionType": "InPlaceUpdateReady"}],
                "containers": [{"name": "main", "image": image, "env": env}],
            }},
        })
    };
    let env = json!([{"name": "A", "value": "b"}]);
    assert_eq!(changed(spec("nginx:1", json!([])), spec("nginx:2", json!([]))), None);
    has(
        changed(spec("nginx:1", json!([])), spec("nginx:1", env)),
        &[
            "invalid template modified with InPlaceOnly strategy: ",
            "currently only image update is allowed for InPlaceOnly",
        ],
    );
}

#[test]
fn scenario_28_claims_change_only_as_they_can_grow() {
    let class = |name: &str, expansion: &str| {
        StorageClass::read(&format!(r#"{{"metadata":{{"name":"{name}"}}{expansion}}}"#)).unwrap()
    };
    let mut classes = StorageClasses::default();
    classes.apply(class("fast", r#","allowVolumeExpansion":true"#));
    classes.apply(class("fixed", r#","allowVolumeExpansion":false"#));
    classes.apply(class("silent", ""));
    let claim = |name: &str, class: &str, size: &str| json!({"metadata": {"name": name}, "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}}});
    let review = |old: &[Value], new: &[Value], strategy: &str, gates: &str| {
        let spec = |claims: &[Value]| {
            object(json!({"volumeClaimTemplates": claims, "volumeClaimUpdateStrategy": {"type": strategy}}))
        };
        let mut old = spec(old);
        // The strategy of the new object counts.
        old["spec"]["volumeClaimUpdateStrategy"] = json!({"type": "OnDelete"});
        reviewed(&spec(new), Some(&old), gates, &classes)
    };
    const ON: &str = "StatefulSetAutoResizePVCGate=true";
    const ROLLING: &str = "OnPodRollingUpdate";
    let old = [claim("a", "fast", "1Gi"), claim("b", "fixed", "1Gi")];
    let cases = [
        (vec![claim("a", "fast", "2Gi"), old[1].clone()], None),
        (vec![old[1].clone(), old[0].clone()], None),
        (
            vec![old[0].clone(), claim("b", "fixed", "2Gi")],
            Some(
                "spec.volumeClaimTemplates[b].spec.resources.requests.storage: Forbidden: storage class fixed does not support volume expansion",
            ),
        ),
        (vec![old[0].clone()], Some("volumeClaimTemplate can not be added or deleted when OnRollingUpdate")),
        (
            vec![old[0].clone(), claim("c", "fixed", "1Gi")],
            Some(
                "spec.volumeClaimTemplates[c].name: Forbidden: volumeClaimTemplate name can not be modified",
            ),
        ),
        (
            vec![old[0].clone(), claim("b", "fast", "1Gi")],
            Some("volumeClaimTemplate can not be modified when OnRollingUpdate"),
        ),
    ];
    for (new, problem) in cases {
        let message = review(&old, &new, ROLLING, ON);
        match problem {
            None => assert_eq!(message, None),
            Some(problem) => has(message, &[problem]),
        }
        assert_eq!(review(&old, &new, "OnDelete", ON), None);
        assert_eq!(review(&old, &new, ROLLING, ""), None);
    }
    let silent = [claim("a", "silent", "1Gi")];
    has(
        review(&silent, &[claim("a", "silent", "2Gi")], ROLLING, ON),
        &["storage class silent does not support"],
    );
    let gone = [claim("a", "gone", "1Gi")];
    has(
        review(&gone, &[claim("a", "gone", "2Gi")], ROLLING, ON),
        &["spec.volumeClaimTemplates[a].spec.storageClassName: Invalid value: \"gone\": can not get sc"],
    );
}

#[test]
fn an_update_is_refused_for_what_it_makes_wrong() {
    let context = Context { gates: &FeatureGates::default(), allow_privileged: true, storage_classes: None };
    let mut stored = object(
        json!({"revisionHistoryLimit": -1, "updateStrategy": {"type": "OnDelete"}, "podManagementPolicy": "OrderedReady"}),
    );
    let old = stored.to_string();
    stored["metadata"]["labels"] = json!({"a": "b"});
    assert!(review(&stored.to_string(), Some(&old), &context).denial().is_none());
    stored["spec"]["replicas"] = json!(-1);
    assert!(review(&stored.to_string(), Some(&old), &context).denial().is_some());
}

/// Templates are not checked that deep: who takes a claim template away that is still mounted hears of it once.
#[test]
fn a_mounted_volume_that_pods_would_not_have_is_warned_of() {
    let gates = FeatureGates::default();
    let context = Context { gates: &gates, allow_privileged: true, storage_classes: None };
    let claims = json!([{"metadata": {"name": "log"}, "spec": {}}]);
    let mounting = |claims: &Value| {
        let mounts = json!([{"name": "log", "mountPath": "/log"}]);
        let containers = json!([{"name": "main", "image": "nginx:1", "volumeMounts": mounts}]);
        let spec = json!({"template": {"spec": {"containers": containers}}, "volumeClaimTemplates": claims});
        completed(&object(spec), &gates)
    };
    let (whole, lacking) = (mounting(&claims), mounting(&json!([])));
    let warned = |new: &str, old: Option<&str>| match review(new, old, &context) {
        Verdict::Allow { warnings, .. } => warnings,
        other => panic!("{other:?}"),
    };
    assert_eq!(warned(&whole, None), [""; 0]);
    for old in [None, Some(&*whole)] {
        let warnings = warned(&lacking, old);
        assert!(matches!(&*warnings, [one] if one.contains(r#"mounts volume "log""#)), "{warnings:?}");
    }
    assert_eq!(warned(&lacking, Some(&lacking)), [""; 0]);
}

#[test]
fn two_claim_templates_of_one_name_are_refused() {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    let message = created(json!({"volumeClaimTemplates": [claim, claim]}));
    assert_eq!(message.unwrap(), "spec.volumeClaimTemplates[1].metadata.name: Duplicate value: \"data\"");
    assert_eq!(created(json!({"volumeClaimTemplates": [claim]})), None);
}

#[test]
fn what_pods_restart_on_is_checked() {
    let mut set = object(json!({}));
    for (names, refused) in [("configmap/web", false), ("configmap/", true)] {
        set["metadata"]["annotations"] = json!({"kutter.io/restart-on": names});
        let message = reviewed(&set, None, "", &StorageClasses::default()).unwrap_or_default();
        assert_eq!(
            message.contains("metadata.annotations[kutter.io/restart-on]: Invalid value"),
            refused,
            "{message}"
        );
    }
}
