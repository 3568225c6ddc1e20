use api::features::FeatureGates;
use serde_json::json;

use super::*;

fn pods() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]}})
}

fn of_kind(kind: ChildKind) -> Value {
    let mut template = json!({});
    template[kind.member()] = json!({"metadata": {"labels": {"app": "a"}},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": pods()}});
    template
}

fn united(spec: &Value) -> Value {
    let mut whole = json!({"replicas": 6, "selector": {"matchLabels": {"app": "a"}},
        "template": of_kind(ChildKind::StatefulSet), "topology": {"subsets": [{"name": "a"}, {"name": "b"}]}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "web", "namespace": "shop"}, "spec": whole})
}

fn reviewed(new: &Value, old: Option<&Value>) -> Option<String> {
    let gates = FeatureGates::default();
    let context = Context { gates: &gates, allow_privileged: true };
    let old = old.map(Value::to_string);
    let verdict = review(&new.to_string(), old.as_deref(), &context);
    let denial = verdict.denial()?;
    assert_eq!(denial.code, 422, "{}", denial.message);
    Some(denial.message.clone())
}

fn subsets(subsets: &Value) -> Value {
    united(&json!({"topology": {"subsets": subsets}}))
}

#[track_caller]
fn refused(new: &Value, text: &str) {
    let message = reviewed(new, None).unwrap_or_else(|| panic!("nothing is wrong, but {text}"));
    assert!(message.contains(text), "{message}");
}

#[test]
fn sound_objects_of_all_kinds_are_admitted() {
    for kind in ChildKind::ALL {
        assert_eq!(reviewed(&united(&json!({"template": of_kind(kind)})), None), None, "{kind:?}");
    }
    assert_eq!(reviewed(&subsets(&json!([])), None), None);
    let odd = json!({"cloneSetTemplate": {"spec": {"replicas": 2}}});
    assert_eq!(reviewed(&united(&json!({"template": odd})), None), None);
}

#[test]
fn numbers_of_subsets_must_come_to_all_pods() {
    let share = |one: Value, other: Value| {
        subsets(&json!([{"name": "a", "replicas": one}, {"name": "b", "replicas": other}]))
    };
    refused(
        &share(json!(3), json!(2)),
        "the sum of indicated subset replicas 5 should equal UnitedDeployment replicas 6",
    );
    refused(
        &share(json!(4), json!(3)),
        "sum of indicated subset replicas 7 should not be greater than UnitedDeployment replicas 6",
    );
    assert_eq!(reviewed(&share(json!(2), json!(4)), None), None);
    refused(
        &subsets(&json!([{"name": "a", "replicas": 2}, {"name": "b", "maxReplicas": 1}])),
        "mutually exclusive in a UnitedDeployment",
    );
    refused(
        &subsets(&json!([{"name": "a", "maxReplicas": 2}, {"name": "b", "maxReplicas": 1}])),
        "at least one subset.maxReplicas must be empty",
    );
    refused(
        &subsets(&json!([{"name": "a", "minReplicas": 3, "maxReplicas": 2}, {"name": "b"}])),
        "minReplicas must be less than or equal to maxReplicas",
    );
    for (value, text) in [
        (json!(-1), "should not be less than 0"),
        (json!("5"), "only support integer value or percentage"),
        (json!("x%"), "should be correct percentage integer"),
        (json!("101%"), "should be in range [0, 100]"),
    ] {
        refused(&subsets(&json!([{"name": "a", "replicas": value}, {"name": "b"}])), text);
    }
}

#[test]
fn names_places_and_partitions_of_subsets_are_checked() {
    refused(&subsets(&json!([{"name": ""}])), "spec.topology.subsets[0].name: Required value");
    refused(&subsets(&json!([{"name": "a"}, {"name": "a"}])), "duplicated subset name a");
    refused(&subsets(&json!([{"name": "A_b"}])), "invalid subset name");
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In"}]});
    refused(
        &subsets(&json!([{"name": "a", "nodeSelectorTerm": term}])),
        "spec.topology.subsets[0].nodeSelectorTerm.matchExpressions[0].values",
    );
    refused(
        &subsets(&json!([{"name": "a", "tolerations": [{"operator": "Exists", "value": "x"}]}])),
        "spec.topology.subsets[0].tolerations[0]",
    );
    let partitions = |partitions: Value| {
        united(&json!({"updateStrategy": {"type": "Manual", "manualUpdate": {"partitions": partitions}}}))
    };
    refused(&partitions(json!({"c": 1})), "subset c does not exist");
    refused(&partitions(json!({"a": -1})), "must be greater than or equal to 0");
    refused(&united(&json!({"updateStrategy": {"type": "Automatic"}})), r#"supported values: "Manual""#);
}

#[test]
fn adaptive_strategies_have_conditions() {
    let adaptive = |template: Value, subset: Value| {
        let strategy = json!({"type": "Adaptive", "adaptive": {"reserveUnschedulablePods": true}});
        united(
            &json!({"template": template, "topology": {"scheduleStrategy": strategy, "subsets": [subset, {"name": "b"}]}}),
        )
    };
    refused(
        &adaptive(of_kind(ChildKind::StatefulSet), json!({"name": "a"})),
        "only stateless workloads (Deployment and CloneSet) are supported",
    );
    refused(
        &adaptive(of_kind(ChildKind::CloneSet), json!({"name": "a", "replicas": 1})),
        "use minReplicas/maxReplicas to enable adaptive strategy",
    );
    assert_eq!(reviewed(&adaptive(of_kind(ChildKind::Deployment), json!({"name": "a"})), None), None);
}

#[test]
fn templates_must_fit() {
    let mut both = of_kind(ChildKind::StatefulSet);
    both["cloneSetTemplate"] = json!({"spec": {}});
    refused(&united(&json!({"template": both})), "should provide only one of");
    refused(&united(&json!({"template": {}})), "should provide one of");
    for kind in [ChildKind::StatefulSet, ChildKind::AdvancedStatefulSet, ChildKind::Deployment] {
        let member = kind.member();
        let mut template = of_kind(kind);
        template[member]["metadata"]["labels"]["app"] = json!("other");
        refused(&united(&json!({"template": template})), &format!("spec.template.{member}.metadata.labels"));
        let mut template = of_kind(kind);
        template[member]["spec"]["replicas"] = json!(2);
        refused(&united(&json!({"template": template})), &format!("replicas in {member} will not be used"));
        let mut template = of_kind(kind);
        template[member]["spec"]["template"]["metadata"]["labels"]["app"] = json!("other");
        refused(
            &united(&json!({"template": template})),
            &format!("spec.template.{member}.spec.template.metadata.labels"),
        );
        let mut template = of_kind(kind);
        template[member]["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
        refused(&united(&json!({"template": template})), "restartPolicy");
    }
    let mut template = of_kind(ChildKind::StatefulSet);
    template["statefulSetTemplate"]["spec"]["updateStrategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    refused(&united(&json!({"template": template})), "rollingUpdate.partition");
}

#[test]
fn names_leave_room_for_those_of_revisions() {
    let mut long = united(&json!({}));
    long["metadata"]["name"] = "x".repeat(53).into();
    refused(&long, "must be no more than 52 characters");
    // One that is stored already can still be changed.
    let mut labelled = long.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(reviewed(&labelled, Some(&long)), None);
}

#[test]
fn some_changes_are_forbidden() {
    let before = subsets(
        &json!([{"name": "a", "nodeSelectorTerm": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}, {"name": "b"}]),
    );
    let change = |edit: fn(&mut Value)| {
        let mut after = before.clone();
        edit(&mut after["spec"]);
        reviewed(&after, Some(&before))
    };
    let forbidden = |edit: fn(&mut Value), text: &str| {
        let message = change(edit).unwrap();
        assert!(message.contains(text), "{message}");
    };
    forbidden(
        |spec| spec["topology"]["subsets"][0]["nodeSelectorTerm"] = json!({}),
        "subsets[0].nodeSelectorTerm: Forbidden: may not be changed in an update",
    );
    forbidden(
        |spec| spec["topology"]["subsets"][1]["tolerations"] = json!([{"operator": "Exists"}]),
        "subsets[1].tolerations: Forbidden",
    );
    forbidden(|spec| spec["selector"]["matchLabels"]["app"] = json!("b"), "spec.selector: Forbidden");
    forbidden(
        |spec| spec["template"]["statefulSetTemplate"]["spec"]["serviceName"] = json!("b"),
        "updates to statefulset spec for fields other than",
    );
    assert_eq!(change(|spec| spec["topology"]["subsets"][0] = json!({"name": "d"})), None);
    assert_eq!(
        change(|spec| spec["template"]["statefulSetTemplate"]["spec"]["minReadySeconds"] = json!(5)),
        None
    );
    assert_eq!(change(|spec| spec["template"] = of_kind(ChildKind::CloneSet)), None);
}

/// The template of a kind with one member set.
fn with(kind: ChildKind, pointer: &str, value: &Value) -> Value {
    let mut template = of_kind(kind);
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    template[kind.member()].pointer_mut(parent).unwrap()[name] = value.clone();
    united(&json!({"template": template}))
}

fn answered(new: &Value, old: Option<&Value>) -> Verdict {
    let context = Context { gates: &FeatureGates::default(), allow_privileged: true };
    review(&new.to_string(), old.map(Value::to_string).as_deref(), &context)
}

#[test]
fn templates_are_read_with_the_types_of_their_kinds() {
    for (kind, pointer, value, expected) in [
        (ChildKind::CloneSet, "/metadata", json!("x"), "metadata: Invalid value: \"x\": must be an object"),
        (
            ChildKind::CloneSet,
            "/metadata/labels",
            json!([]),
            "metadata.labels: Invalid value: []: must be an object",
        ),
        (
            ChildKind::Deployment,
            "/metadata/labels",
            json!({"a": 1}),
            "metadata.labels.a: Invalid value: 1: must be a string",
        ),
        (
            ChildKind::CloneSet,
            "/spec/volumeClaimTemplates",
            json!({}),
            "spec.volumeClaimTemplates: Invalid value: {}: must be a list",
        ),
        (
            ChildKind::CloneSet,
            "/spec/minReadySeconds",
            json!(2_147_483_648_u64),
            "spec.minReadySeconds: Invalid value: 2147483648: must be an integer of 32 bits",
        ),
        (
            ChildKind::CloneSet,
            "/spec/replicas",
            json!("x"),
            "spec.replicas: Invalid value: \"x\": must be an integer",
        ),
        (
            ChildKind::AdvancedStatefulSet,
            "/spec/scaleStrategy",
            json!({"maxUnavailable": 2_147_483_648_u64}),
            "spec.scaleStrategy.maxUnavailable: Invalid value: 2147483648: must be an integer of 32 bits or a string",
        ),
        (
            ChildKind::StatefulSet,
            "/spec/minReadySeconds",
            json!(2_147_483_648_u64),
            "spec.minReadySeconds: Invalid value: 2147483648: must be an integer of 32 bits",
        ),
        (
            ChildKind::Deployment,
            "/spec/paused",
            json!("yes"),
            "spec.paused: Invalid value: \"yes\": must be true or false",
        ),
    ] {
        let new = with(kind, pointer, &value);
        let verdict = answered(&new, None);
        let denial = verdict.denial().unwrap_or_else(|| panic!("{new}"));
        let expected = format!("spec.template.{}.{expected}", kind.member());
        assert_eq!((denial.code, denial.message.as_str()), (400, expected.as_str()));
        let mut freed = new.clone();
        freed["metadata"]["finalizers"] = json!([]);
        assert!(answered(&freed, Some(&new)).is_allowed(), "what is stored can go");
        let mut scaled = new.clone();
        scaled["spec"]["replicas"] = json!(1);
        assert_ne!(scaled["spec"]["replicas"], new["spec"]["replicas"]);
        let verdict = answered(&scaled, Some(&new));
        let message = verdict.denial().map_or("", |denial| &*denial.message);
        assert!(!message.contains(&expected), "a stored template hinders no other change: {message}");
    }
    refused(
        &with(ChildKind::CloneSet, "/spec/template", &json!("x")),
        "spec.template.cloneSetTemplate.spec.template: Invalid value: \"x\": must be an object",
    );
}

#[test]
fn two_claim_templates_of_one_name_are_refused() {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    for kind in [ChildKind::AdvancedStatefulSet, ChildKind::CloneSet, ChildKind::StatefulSet] {
        let place = format!("spec.template.{}.spec.volumeClaimTemplates", kind.member());
        let twice = with(kind, "/spec/volumeClaimTemplates", &json!([claim, claim]));
        refused(&twice, &format!("{place}[1].metadata.name: Duplicate value: \"data\""));
        assert_eq!(reviewed(&with(kind, "/spec/volumeClaimTemplates", &json!([claim])), None), None);
    }
}

#[test]
fn selectors_have_values_that_labels_can_have() {
    let odd = json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x y"]}]});
    refused(
        &united(&json!({"selector": odd})),
        "spec.selector.matchExpressions[0].values[0]: Invalid value: \"x y\"",
    );
}

#[test]
fn the_template_of_deployments_alone_is_tried() {
    for kind in ChildKind::ALL {
        let object = united(&json!({"template": of_kind(kind)})).to_string();
        let tried = trials(&object, None).list.len();
        assert_eq!(tried, usize::from(kind == ChildKind::Deployment), "{}", kind.member());
    }
}
