use serde_json::{Value, json};

use super::*;

fn united(template: &Value) -> UnitedDeployment {
    let metadata = json!({"name": "web", "namespace": "shop", "uid": "1"});
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn target(kind: ChildKind, subset: &Value) -> Target {
    let mut whole = json!({"name": "a"});
    whole.as_object_mut().unwrap().extend(subset.as_object().unwrap().clone());
    let subset = serde_json::from_value(whole).unwrap();
    Target { kind, subset, replicas: 3, partition: 1, revision: "web-1".to_owned(), allowance: None }
}

fn pods(spec: &Value) -> Value {
    let mut pod = json!({"containers": [{"name": "main", "image": "a", "fieldOfTomorrow": 7}]});
    pod.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"labels": {"app": "web"}}, "spec": pod})
}

fn made(kind: ChildKind, spec: &Value, subset: &Value) -> Value {
    let mut template = json!({});
    template[kind.member()] =
        json!({"metadata": {"labels": {"team": "shop"}, "annotations": {"note": "x"}}, "spec": spec});
    let json = new_child(&united(&template), &target(kind, subset)).unwrap();
    serde_json::from_str(&json).unwrap()
}

#[test]
fn a_workload_has_its_names_its_share_and_all_of_its_template() {
    let spec = json!({"template": pods(&json!({})), "minReadySeconds": 5, "newerField": {"n": 1}});
    let made = made(ChildKind::CloneSet, &spec, &json!({}));
    assert_eq!(made["apiVersion"], "apps.kruise.io/v1beta1");
    assert_eq!(made["metadata"]["generateName"], "web-a-");
    let labels = json!({"team": "shop", "app": "web", "apps.kruise.io/subset-name": "a",
        "apps.kruise.io/controller-revision-hash": "web-1"});
    assert_eq!(made["metadata"]["labels"], labels);
    assert_eq!(made["metadata"]["annotations"], json!({"note": "x", "apps.kruise.io/subset-patch": ""}));
    assert_eq!(made["metadata"]["ownerReferences"][0]["kind"], "UnitedDeployment");
    let spec = &made["spec"];
    assert_eq!(spec["selector"]["matchLabels"], json!({"app": "web", "apps.kruise.io/subset-name": "a"}));
    assert_eq!(
        (&spec["replicas"], &spec["minReadySeconds"], &spec["newerField"]["n"]),
        (&json!(3), &json!(5), &json!(1))
    );
    assert_eq!(spec["updateStrategy"], json!({"rollingUpdate": {"partition": 1}}));
    assert_eq!(spec["template"]["metadata"]["labels"]["apps.kruise.io/subset-name"], "a");
    assert_eq!(spec["template"]["spec"]["containers"][0]["fieldOfTomorrow"], 7);
}

#[test]
fn each_kind_has_its_partition_or_none() {
    let strategy = |kind, given: Value| {
        let mut spec = json!({"template": pods(&json!({}))});
        spec[if kind == ChildKind::Deployment { "strategy" } else { "updateStrategy" }] = given;
        let made = made(kind, &spec, &json!({}));
        [made["spec"]["updateStrategy"].clone(), made["spec"]["strategy"].clone()]
    };
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    assert_eq!(strategy(ChildKind::StatefulSet, json!({})), [rolling, Value::Null]);
    let advanced = json!({"rollingUpdate": {"partition": 1}});
    assert_eq!(strategy(ChildKind::AdvancedStatefulSet, json!({})), [advanced, Value::Null]);
    let on_delete = json!({"type": "OnDelete"});
    assert_eq!(strategy(ChildKind::StatefulSet, on_delete.clone()), [on_delete, Value::Null]);
    let recreate = json!({"type": "Recreate"});
    assert_eq!(strategy(ChildKind::Deployment, recreate.clone()), [Value::Null, recreate]);
}

#[test]
fn a_subset_says_where_its_pods_go_and_what_is_different() {
    let zone = json!({"key": "zone", "operator": "In", "values": ["a"]});
    let terms =
        json!([{"matchExpressions": [{"key": "arch", "operator": "Exists"}]}, {"matchExpressions": []}]);
    let required = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    let template = pods(&json!({"affinity": required, "tolerations": [{"key": "x"}]}));
    let patch = json!({"spec": {"containers": [{"name": "main", "env": [{"name": "K", "value": "V"}]}]}});
    let subset = json!({"nodeSelectorTerm": {"matchExpressions": [zone]}, "tolerations": [{"key": "gpu", "operator": "Exists"}], "patch": patch});
    let made = made(ChildKind::Deployment, &json!({"template": template}), &subset);
    assert_eq!(made["metadata"]["annotations"]["apps.kruise.io/subset-patch"], patch.to_string());
    let pod = &made["spec"]["template"]["spec"];
    let terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"].as_array().unwrap();
    assert!(
        terms.len() == 2
            && terms.iter().all(|term| term["matchExpressions"].as_array().unwrap().contains(&zone))
    );
    assert_eq!(pod["tolerations"], json!([{"key": "x"}, {"key": "gpu", "operator": "Exists"}]));
    assert_eq!(pod["containers"][0]["env"], json!([{"name": "K", "value": "V"}]));
    assert_eq!(pod["containers"][0]["image"], "a");
}

#[test]
fn what_others_set_stays_but_for_the_spec() {
    let live = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web-a-x", "uid": "c", "resourceVersion": "7", "labels": {"mine": "1"}, "ownerReferences": [{"uid": "1"}]},
        "spec": {"replicas": 9, "paused": true}, "status": {"replicas": 2}});
    let united = united(&json!({"deploymentTemplate": {"spec": {"template": pods(&json!({}))}}}));
    let changed =
        changed_child(&live.to_string(), &united, &target(ChildKind::Deployment, &json!({}))).unwrap();
    let changed: Value = serde_json::from_str(&changed).unwrap();
    assert_eq!(changed["metadata"]["labels"]["mine"], "1");
    assert_eq!(changed["metadata"]["resourceVersion"], "7");
    assert_eq!(changed["metadata"]["ownerReferences"], live["metadata"]["ownerReferences"]);
    assert_eq!((&changed["spec"]["replicas"], changed["spec"].get("paused")), (&json!(3), None));
    assert_eq!(changed["status"], live["status"]);
}

#[test]
fn a_wrong_patch_is_reported_and_expressions_alone_are_a_selector() {
    let united = united(&json!({"cloneSetTemplate": {"spec": {"template": pods(&json!({}))}}}));
    let wrong = target(ChildKind::CloneSet, &json!({"patch": {"spec": {"containers": [{"image": "a"}]}}}));
    let problem = new_child(&united, &wrong).unwrap_err();
    assert!(problem.contains("failed to merge the patch of subset a"), "{problem}");
    let mut expressions = united;
    expressions.spec.selector =
        serde_json::from_value(json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]})).unwrap();
    let made = new_child(&expressions, &target(ChildKind::CloneSet, &json!({}))).unwrap();
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!(made["spec"]["selector"]["matchLabels"], json!({"apps.kruise.io/subset-name": "a"}));
    assert_eq!(made["spec"]["selector"]["matchExpressions"][0]["key"], "app");
}

#[test]
fn replicas_of_a_template_are_ignored() {
    let made = made(ChildKind::CloneSet, &json!({"template": pods(&json!({})), "replicas": 99}), &json!({}));
    assert_eq!(made["spec"]["replicas"], 3);
}

#[test]
fn pods_without_room_make_way_for_a_rollout() {
    let made = |kind: ChildKind, lacking: i32| {
        let strategy = kind.strategy();
        let spec =
            json!({"template": pods(&json!({})), strategy: {"rollingUpdate": {"maxUnavailable": "25%"}}});
        let mut template = json!({});
        template[kind.member()] = json!({"spec": spec});
        let allowance = Some(Allowance { own: 1, lacking });
        let target = Target { allowance, ..target(kind, &json!({})) };
        let made: Value = serde_json::from_str(&new_child(&united(&template), &target).unwrap()).unwrap();
        made["spec"][strategy]["rollingUpdate"]["maxUnavailable"].clone()
    };
    for kind in [ChildKind::CloneSet, ChildKind::Deployment] {
        assert_eq!((made(kind, 2), made(kind, 0)), (json!(3), json!("25%")));
    }
}
