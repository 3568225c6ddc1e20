use proptest::prelude::*;
use serde_json::json;

use super::*;

fn gates(flags: &str) -> FeatureGates {
    FeatureGates::parse(flags, "").unwrap()
}

fn all_on() -> FeatureGates {
    gates("ResourcesDeletionProtection=true,DeletionProtectionForCRDCascadingGate=true")
}

fn raw(value: &serde_json::Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

fn ask(kind: Kind, version: &str, object: &serde_json::Value) -> Assessment {
    assess(kind, version, Some(&raw(object)), &all_on())
}

fn labelled(value: &str) -> serde_json::Value {
    json!({"metadata": {"name": "shop", "namespace": "web", "labels": {"policy.kruise.io/delete-protection": value}}})
}

fn workload(value: &str, replicas: Option<i32>) -> serde_json::Value {
    let mut object = labelled(value);
    object["spec"] = replicas.map_or(json!({}), |replicas| json!({"replicas": replicas}));
    object
}

fn refusal(assessment: Assessment) -> Refusal {
    match assessment {
        Assessment::Refused(refusal) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

fn message(assessment: Assessment) -> String {
    let refusal = refusal(assessment);
    assert_eq!(refusal.denial.code, 403);
    refusal.denial.message
}

fn question(assessment: Assessment) -> Question {
    match assessment {
        Assessment::Undecided(question) => question,
        other => panic!("nothing is asked: {other:?}"),
    }
}

const WORKLOADS: [(Kind, &str); 9] = [
    (Kind::Deployment, "v1"),
    (Kind::StatefulSet, "v1"),
    (Kind::ReplicaSet, "v1"),
    (Kind::CloneSet, "v1alpha1"),
    (Kind::CloneSet, "v1beta1"),
    (Kind::AdvancedStatefulSet, "v1alpha1"),
    (Kind::AdvancedStatefulSet, "v1beta1"),
    (Kind::UnitedDeployment, "v1alpha1"),
    (Kind::UnitedDeployment, "v1beta1"),
];

#[test]
fn always_refuses_every_kind() {
    for kind in Kind::ALL {
        let version = if kind.is_kruise_workload() { "v1beta1" } else { "v1" };
        let refusal = refusal(ask(*kind, version, &labelled("Always")));
        assert_eq!(
            refusal.denial.message,
            "forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Always"
        );
        assert_eq!((refusal.namespace.as_str(), refusal.name.as_str()), ("web", "shop"));
    }
}

#[test]
fn scenario_9_and_10_cascading_workloads_are_refused_while_replicas_are_wanted() {
    for (kind, version) in WORKLOADS {
        assert_eq!(
            message(ask(kind, version, &workload("Cascading", Some(3)))),
            "forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Cascading and replicas 3>0"
        );
        for replicas in [Some(0), Some(-1)] {
            assert_eq!(ask(kind, version, &workload("Cascading", replicas)), Assessment::Allowed);
        }
    }
}

#[test]
fn scenario_24_a_kruise_workload_without_a_number_wants_one_replica() {
    for (kind, version) in WORKLOADS {
        let answer = ask(kind, version, &workload("Cascading", None));
        if kind.is_kruise_workload() {
            assert!(message(answer).ends_with("=Cascading and replicas 1>0"), "{kind:?}");
        } else {
            assert_eq!(answer, Assessment::Allowed, "{kind:?}");
        }
    }
}

#[test]
fn scenario_11_always_refuses_without_replicas() {
    message(ask(Kind::CloneSet, "v1alpha1", &workload("Always", Some(0))));
}

#[test]
fn scenario_12_and_13_cascading_means_nothing_for_services_and_ingresses() {
    for kind in [Kind::Service, Kind::Ingress] {
        assert_eq!(ask(kind, "v1", &labelled("Cascading")), Assessment::Allowed);
    }
}

#[test]
fn scenario_15_values_are_matched_exactly() {
    for kind in Kind::ALL {
        for value in ["always", "cascading", "true", "", "Always "] {
            let version = if kind.is_kruise_workload() { "v1beta1" } else { "v1" };
            assert_eq!(ask(*kind, version, &labelled(value)), Assessment::Allowed);
        }
    }
}

#[test]
fn an_annotation_protects_nothing() {
    let object = json!({"metadata": {"annotations": {"policy.kruise.io/delete-protection": "Always"}}});
    assert_eq!(ask(Kind::Deployment, "v1", &object), Assessment::Allowed);
}

#[test]
fn scenario_19_an_object_in_deletion_is_never_refused() {
    for kind in Kind::ALL {
        let version = if kind.is_kruise_workload() { "v1beta1" } else { "v1" };
        let mut object = labelled("Always");
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(ask(*kind, version, &object), Assessment::Allowed);
    }
}

#[test]
fn scenario_21_the_gate_off_frees_everything() {
    for kind in Kind::ALL {
        let version = if kind.is_kruise_workload() { "v1beta1" } else { "v1" };
        let object = raw(&labelled("Always"));
        assert_eq!(assess(*kind, version, Some(&object), &gates("")), Assessment::Allowed);
    }
}

#[test]
fn scenario_2_active_pods_keep_a_namespace() {
    let question = question(ask(Kind::Namespace, "v1", &labelled("Cascading")));
    assert_eq!(question.need(), &Need::ActivePods { namespace: "shop".to_owned() });
    assert_eq!(
        message(question.clone().answer::<&str>(Ok(1))),
        "forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Cascading and active pods 1>0"
    );
    assert_eq!(
        message(question.answer(Err("etcd is gone"))),
        "forbidden by ResourcesProtectionDeletion for list pods error: etcd is gone"
    );
}

#[test]
fn scenario_4_bound_claims_keep_a_namespace_without_pods() {
    let pods = question(ask(Kind::Namespace, "v1", &labelled("Cascading")));
    let claims = question(pods.answer::<&str>(Ok(0)));
    assert_eq!(claims.need(), &Need::BoundClaims { namespace: "shop".to_owned() });
    assert_eq!(claims.clone().answer::<&str>(Ok(0)), Assessment::Allowed);
    assert_eq!(
        message(claims.clone().answer::<&str>(Ok(1))),
        "forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Cascading and \"Bound\" status pvc 1>0"
    );
    assert_eq!(
        message(claims.answer(Err("forbidden"))),
        "forbidden by ResourcesProtectionDeletion for list pvc error: forbidden"
    );
}

fn definition(versions: &serde_json::Value) -> serde_json::Value {
    let mut object = labelled("Cascading");
    object["metadata"]["namespace"] = json!(null);
    object["kind"] = json!("CustomResourceDefinition");
    object["spec"] = json!({
        "group": "example.com",
        "names": {"plural": "widgets", "kind": "Widget", "listKind": "WidgetList"},
        "versions": versions,
    });
    object["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
    object
}

#[test]
fn scenario_6_custom_resources_keep_their_definition() {
    let versions = json!([{"name": "v1", "served": true, "storage": true}]);
    let question = question(ask(Kind::CustomResourceDefinition, "v1", &definition(&versions)));
    let Need::CustomResources(resources) = question.need() else { panic!("{question:?}") };
    assert_eq!(resources.plural, "widgets");
    assert_eq!(question.clone().answer::<&str>(Ok(0)), Assessment::Allowed);
    assert_eq!(
        message(question.clone().answer::<&str>(Ok(2))),
        "forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Cascading and active CRs 2>0"
    );
    assert_eq!(
        message(question.answer(Err("no route"))),
        "failed to list CRs of example.com/v1, Kind=WidgetList: no route"
    );
}

#[test]
fn scenario_8_cascading_definitions_need_their_own_gate() {
    let object = raw(&definition(&json!([])));
    let decided = assess(
        Kind::CustomResourceDefinition,
        "v1",
        Some(&object),
        &gates("ResourcesDeletionProtection=true"),
    );
    assert_eq!(message(decided), "feature-gate DeletionProtectionForCRDCascadingGate is not enabled");
}

#[test]
fn custom_resources_are_listed_in_a_served_version() {
    let cases = [
        (
            json!([{"name": "v1", "served": true, "storage": false}, {"name": "v2", "served": true, "storage": true}]),
            "v2",
        ),
        (
            json!([{"name": "v1", "served": true, "storage": false}, {"name": "v2", "served": false, "storage": true}]),
            "v1",
        ),
    ];
    for (versions, expected) in cases {
        let question = question(ask(Kind::CustomResourceDefinition, "v1", &definition(&versions)));
        let Need::CustomResources(resources) = question.need() else { panic!("{question:?}") };
        assert_eq!(resources.version, expected);
    }
}

#[test]
fn a_definition_nobody_can_reach_may_go() {
    let unserved = definition(&json!([{"name": "v1", "served": false, "storage": true}]));
    assert_eq!(ask(Kind::CustomResourceDefinition, "v1", &unserved), Assessment::Allowed);
    let mut pending = definition(&json!([{"name": "v1", "served": true, "storage": true}]));
    pending["status"] = json!({"conditions": [{"type": "Established", "status": "False"}]});
    assert_eq!(ask(Kind::CustomResourceDefinition, "v1", &pending), Assessment::Allowed);
}

#[test]
fn old_definitions_name_their_only_version_beside_the_list() {
    let mut object = definition(&json!(null));
    object["spec"]["version"] = json!("v1alpha1");
    object["spec"]["names"]["listKind"] = json!(null);
    let question = question(ask(Kind::CustomResourceDefinition, "v1beta1", &object));
    let Need::CustomResources(resources) = question.need() else { panic!("{question:?}") };
    assert_eq!((resources.version.as_str(), resources.list_kind.as_str()), ("v1alpha1", "WidgetList"));
}

#[test]
fn unknown_versions_are_refused_only_where_the_reference_refuses_them() {
    let object = labelled("Always");
    for kind in [Kind::CloneSet, Kind::UnitedDeployment] {
        let expected = Denial { code: 400, message: "unsupported version: v9".to_owned() };
        assert_eq!(ask(kind, "v9", &object), Assessment::Invalid(expected));
    }
    for kind in [Kind::AdvancedStatefulSet, Kind::Ingress, Kind::CustomResourceDefinition] {
        assert_eq!(ask(kind, "v9", &object), Assessment::Allowed);
    }
}

#[test]
fn a_missing_object_is_allowed() {
    for object in [None, Some(raw(&json!(null)))] {
        assert_eq!(assess(Kind::CloneSet, "v1beta1", object.as_deref(), &all_on()), Assessment::Allowed);
    }
}

#[test]
fn what_cannot_be_read_is_invalid() {
    let mut other_kind = labelled("Always");
    other_kind["kind"] = json!("Secret");
    for object in [json!("text"), json!([]), json!(7), json!({"metadata": []}), other_kind] {
        let decided = ask(Kind::Deployment, "v1", &object);
        assert!(
            matches!(&decided, Assessment::Invalid(denial) if denial.code == 400),
            "{object}: {decided:?}"
        );
    }
}

/// Specs that nobody can read.
fn odd_specs() -> [serde_json::Value; 5] {
    [
        json!("odd"),
        json!({"replicas": "three"}),
        json!({"replicas": 3_000_000_000_u64}),
        json!(7),
        json!({"group": 7, "versions": "odd", "replicas": {}}),
    ]
}

#[test]
fn a_spec_that_cannot_be_read_matters_only_with_cascading() {
    for kind in Kind::ALL {
        let version = if kind.is_kruise_workload() { "v1beta1" } else { "v1" };
        for spec in odd_specs() {
            let decided = |value: Option<&str>| {
                let mut object = json!({"metadata": {"name": "shop"}});
                if let Some(value) = value {
                    object = labelled(value);
                }
                object["spec"] = spec.clone();
                object["status"] = json!("odd");
                ask(*kind, version, &object)
            };
            assert_eq!(decided(None), Assessment::Allowed, "{kind:?} {spec}");
            assert_eq!(decided(Some("always")), Assessment::Allowed, "{kind:?} {spec}");
            assert!(message(decided(Some("Always"))).ends_with("=Always"), "{kind:?} {spec}");
            if matches!(kind, Kind::Namespace | Kind::Service | Kind::Ingress) {
                assert!(!matches!(decided(Some("Cascading")), Assessment::Refused(_)), "{kind:?} {spec}");
                continue;
            }
            let text = message(decided(Some("Cascading")));
            assert!(
                text.starts_with("forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Cascading and ")
                    && text.contains("cannot be read")
                    && text.ends_with("correct the object, or remove the label to delete it as it is"),
                "{kind:?} {spec}: {text}"
            );
        }
    }
}

proptest! {
    /// Invariant 1: whatever else an object holds, only the two values refuse.
    #[test]
    fn only_known_values_are_refused(value in ".*", replicas in any::<i32>()) {
        let refused = matches!(ask(Kind::Deployment, "v1", &workload(&value, Some(replicas))), Assessment::Refused(_));
        prop_assert_eq!(refused, value == "Always" || (value == "Cascading" && replicas > 0));
    }
}

#[test]
fn a_label_that_means_nothing_is_reported() {
    let reported = |value: &str| unknown_value(&raw(&labelled(value)));
    assert_eq!(
        reported("always").as_deref(),
        Some("label policy.kruise.io/delete-protection=always protects nothing: write Always or Cascading")
    );
    assert!(reported("").is_some());
    assert_eq!((reported("Always"), reported("Cascading")), (None, None));
    assert_eq!(unknown_value(&raw(&json!({"metadata": {"labels": {"app": "web"}}}))), None);
    assert_eq!(unknown_value(&raw(&json!([]))), None);
}

#[test]
fn only_objects_that_are_really_kept_are_left_behind() {
    let of = |kind: Kind| *NAMESPACED.iter().find(|one| one.kind == kind).unwrap();
    let reported = |objects: &[(Kind, serde_json::Value)], gates: &FeatureGates| {
        let objects: Vec<_> = objects.iter().map(|(kind, object)| (of(*kind), raw(object))).collect();
        left_behind(objects.iter().map(|(kind, object)| (*kind, &**object)), gates)
    };
    let nothing = [
        (Kind::Deployment, workload("Cascading", Some(0))),
        (Kind::Service, labelled("Cascading")),
        (Kind::Ingress, labelled("always")),
    ];
    assert_eq!(reported(&nothing, &all_on()), None);
    let always = [(Kind::Service, labelled("Always"))];
    assert_eq!(reported(&always, &gates("")), None);
    assert_eq!(
        reported(&always, &all_on()).as_deref(),
        Some(
            "the namespace will stay Terminating: policy.kruise.io/delete-protection keeps Service shop until that \
             label is removed"
        )
    );
    let many: Vec<_> = (0..5).map(|_| (Kind::CloneSet, workload("Cascading", Some(2)))).collect();
    let text = reported(&many, &all_on()).unwrap();
    assert!(text.contains("keeps CloneSet shop, CloneSet shop, CloneSet shop and 2 more until"), "{text}");
}

#[test]
fn every_kind_in_namespaces_can_be_found() {
    let found: Vec<Kind> = NAMESPACED.iter().map(|one| one.kind).collect();
    let cluster_wide = [Kind::Namespace, Kind::CustomResourceDefinition];
    for kind in Kind::ALL {
        assert_eq!(found.contains(kind), !cluster_wide.contains(kind), "{kind:?}");
    }
}
