use serde_json::{Value, json};

use super::*;

const LIST: &str = r#"{"workloads":[{"group":"example.com","kind":"Rollout"}]}"#;

fn spread(target: (&str, &str, &str), subsets: Value) -> Value {
    let (api_version, kind, name) = target;
    let mut object = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "WorkloadSpread", "metadata": {"name": "ws", "namespace": "shop"},
        "spec": {"targetRef": {"apiVersion": api_version, "kind": kind, "name": name}}});
    object["spec"]["subsets"] = subsets;
    object
}

fn web() -> (&'static str, &'static str, &'static str) {
    ("apps.kruise.io/v1beta1", "CloneSet", "web")
}

fn answer(new: &Value, old: Option<&Value>, others: &[Spread], target: Option<&Value>) -> String {
    let custom = CustomWorkloads::parse(LIST).unwrap();
    let gates = FeatureGates::default();
    let context = Context { others, custom: Ok(&custom), target, gates: &gates, allow_privileged: true };
    match review(&new.to_string(), old.map(Value::to_string).as_deref(), &context).denial() {
        None => String::new(),
        Some(denial) => {
            assert_eq!(denial.code, 400);
            denial.message.clone()
        }
    }
}

fn said(new: &Value) -> String {
    answer(new, None, &[], None)
}

fn subsets(subsets: Value) -> String {
    said(&spread(web(), subsets))
}

#[track_caller]
fn assert_says(said: &str, words: &str) {
    assert!(said.contains(words), "{said:?} does not say {words:?}");
}

#[test]
fn a_plain_spread_is_accepted_in_both_versions() {
    let mut plain = spread(web(), json!([{"name": "a", "maxReplicas": 0}, {"name": "b"}]));
    assert_eq!(said(&plain), "");
    assert_eq!(subsets(json!([{"name": "a"}])), "");
    plain["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    plain["spec"]["subsets"][0]["requiredNodeSelectorTerm"] =
        json!({"matchExpressions": [{"key": "zone", "operator": "Near"}]});
    assert_says(&said(&plain), "spec.subsets[0].requiredNodeSelector.matchExpressions[0].operator");
    plain["apiVersion"] = json!("apps.kruise.io/v9");
    assert_says(&said(&plain), "failed to convert v1alpha1 WorkloadSpread to v1beta1");
}

#[test]
fn scenario_8_shares_add_up_to_a_hundred() {
    let shares = |shares: &[Value]| {
        let list: Value = shares
            .iter()
            .enumerate()
            .map(|(index, max)| json!({"name": format!("s{index}"), "maxReplicas": max}))
            .collect();
        subsets(list)
    };
    assert_says(&shares(&[json!("40%"), json!("70%")]), "exceeds 100%");
    assert_says(&shares(&[json!("40%"), json!("20%"), json!("20%")]), "must equal 100%");
    assert_eq!(shares(&[json!("40%"), json!("20%"), json!(null)]), "");
    assert_eq!(shares(&[json!("40%"), json!("60%")]), "");
    for bad in [json!("0.2%"), json!("5"), json!("-5%"), json!("x%"), json!(-1)] {
        assert_says(&shares(&[bad]), "maxReplicas is not valid for subset");
    }
}

#[test]
fn scenario_9_quotas_are_all_numbers_or_all_shares() {
    let mixed = json!([{"name": "a", "maxReplicas": 1}, {"name": "b", "maxReplicas": "50%"}, {"name": ""}]);
    let said = subsets(mixed);
    assert_says(&said, "spec.subsets[1].maxReplicas");
    assert_says(&said, "the maxReplicas type of all subsets must be the same");
    assert!(!said.contains("subsets[2]"), "{said}");
    let share =
        spread(("apps/v1", "StatefulSet", "db"), json!([{"name": "a", "maxReplicas": "50%"}, {"name": "b"}]));
    assert_says(&super::tests::said(&share), "the maxReplicas type must be Int for StatefulSet");
}

#[test]
fn scenario_10_a_workload_has_one_spread() {
    let of = |name: &str, api_version: &str| {
        let mut spread = spread((api_version, "Deployment", "web"), json!([{"name": "a"}]));
        spread["metadata"]["name"] = json!(name);
        spread
    };
    let first = Spread::read(&of("first", "apps/v1").to_string()).unwrap();
    let second = of("second", "apps/v1beta2");
    let said = answer(&second, None, std::slice::from_ref(&first), None);
    assert_says(&said, "ws.spec.targetRef is in conflict with other WorkloadSpread first");
    assert_eq!(answer(&of("first", "apps/v1"), None, &[first], None), "", "not with itself");
}

#[test]
fn scenario_11_the_target_stays() {
    let old = spread(("apps/v1", "Deployment", "web"), json!([{"name": "a"}]));
    let update = |api_version: &str, name: &str| {
        answer(&spread((api_version, "Deployment", name), json!([{"name": "a"}])), Some(&old), &[], None)
    };
    assert_says(&update("apps/v1", "other"), "change TargetReference is not permitted for WorkloadSpread");
    assert_eq!(update("apps/v1beta2", "web"), "");
}

#[test]
fn scenario_12_targets_are_known_or_listed() {
    let target =
        |api_version: &str, kind: &str| said(&spread((api_version, kind, "web"), json!([{"name": "a"}])));
    assert_says(&target("apps/v1", "CloneSet"), "TargetReference is not valid for CloneSet.");
    assert_says(&target("batch/v1", "Deployment"), "TargetReference is not valid for Deployment.");
    assert_says(&target("argoproj.io/v1", "Rollout"), "TargetReference's GroupKind is not permitted.");
    assert_eq!(target("example.com/v3", "Rollout"), "");
    for known in [("batch/v1", "Job"), ("apps.kruise.io/v1alpha1", "StatefulSet"), ("apps/v1", "ReplicaSet")]
    {
        assert_eq!(target(known.0, known.1), "");
    }
    assert_says(&target("", "Deployment"), "empty TargetReference is not valid for WorkloadSpread.");
    let mut none = spread(web(), json!([{"name": "a"}]));
    none["spec"].as_object_mut().unwrap().remove("targetRef");
    assert_says(&said(&none), "spec.targetRef: Required value: no targetRef defined in WorkloadSpread");
    let gates = FeatureGates::default();
    let context =
        Context { others: &[], custom: Err("broken"), target: None, gates: &gates, allow_privileged: true };
    let rollout = spread(("example.com/v3", "Rollout", "web"), json!([{"name": "a"}]));
    let Verdict::Deny(denial) = review(&rollout.to_string(), None, &context) else { panic!("allowed") };
    assert_says(&denial.message, "Internal error: broken");
}

#[test]
fn scenario_13_the_adaptive_strategy_has_its_limits() {
    let strategy = |count: usize, strategy: Value, last: Value| {
        let subsets: Value = (0..count)
            .map(|index| {
                let max = if index + 1 == count { last.clone() } else { json!(1) };
                json!({"name": format!("s{index}"), "maxReplicas": max})
            })
            .collect();
        let mut spread = spread(web(), subsets);
        spread["spec"]["scheduleStrategy"] = strategy;
        said(&spread)
    };
    let seconds =
        |seconds: i64| json!({"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": seconds}});
    for count in [2, 3, 40] {
        assert_eq!(strategy(count, seconds(3600), Value::Null), "");
        let text = "rescheduleCriticalSeconds > 3600 is not permitted";
        assert_says(&strategy(count, seconds(3601), Value::Null), text);
    }
    assert_says(&strategy(3, seconds(-1), Value::Null), "rescheduleCriticalSeconds < 0");
    assert_eq!(strategy(1, seconds(100_000), json!(1)), "");
    assert_says(&strategy(3, seconds(1), json!(1)), "the last subset's maxReplicas must be not specified");
    let fixed = json!({"type": "Fixed", "adaptive": {"rescheduleCriticalSeconds": 1}});
    assert_says(&strategy(3, fixed, Value::Null), "type must be adaptive");
    assert_says(&strategy(3, json!({"type": "Odd"}), Value::Null), "ScheduleStrategy's type is not valid");
    assert_eq!(strategy(3, json!({"type": ""}), Value::Null), "");
}

#[test]
fn subsets_have_names_of_their_own() {
    assert_says(
        &subsets(json!([])),
        "spec.subsets: Required value: subsets number must >= 1 in WorkloadSpread",
    );
    assert_says(&subsets(json!([{"name": ""}])), "spec.subsets[0].name: Invalid value: \"\"");
    assert_says(&subsets(json!([{"name": "a"}, {"name": "a"}])), "duplicated subset name a");
}

#[test]
fn placement_follows_the_rules_for_pods() {
    let expression =
        |values: Value| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": values}]});
    let one = |field: &str, value: Value| {
        let mut subset = json!({"name": "a"});
        subset[field] = value;
        subsets(json!([subset]))
    };
    assert_eq!(one("requiredNodeSelector", expression(json!(["a"]))), "");
    assert_says(
        &one("requiredNodeSelector", expression(json!(["a b"]))),
        "spec.subsets[0].requiredNodeSelector.matchExpressions[0].values[0]",
    );
    assert_eq!(
        one("preferredNodeSelector", json!([{"weight": 1, "preference": expression(json!(["a b"]))}])),
        ""
    );
    assert_says(
        &one("preferredNodeSelector", json!([{"weight": 101, "preference": {}}])),
        "must be in the range 1-100",
    );
    assert_says(
        &one("tolerations", json!([{"operator": "Equal"}])),
        "spec.subsets[0].tolerations[0].operator",
    );
    assert_eq!(one("tolerations", json!([{"operator": "Exists"}])), "");
}

#[test]
fn a_patch_has_to_make_sound_pods_of_the_template() {
    let template = json!({"spec": {"containers": [{"name": "main", "image": "nginx"}]}});
    let claims = json!([{"metadata": {"name": "data"}, "spec": {}}]);
    let target = json!({"spec": {"template": template, "volumeClaimTemplates": claims}});
    let patched = |patch: Value, target: Option<&Value>| {
        answer(&spread(web(), json!([{"name": "a", "patch": patch}])), None, &[], target)
    };
    let mount = json!({"spec": {"containers": [{"name": "main", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}});
    assert_eq!(patched(mount, Some(&target)), "");
    let unknown = json!({"spec": {"containers": [{"name": "main", "volumeMounts": [{"name": "none", "mountPath": "/d"}]}]}});
    assert_says(&patched(unknown.clone(), Some(&target)), "spec.subsets[0].patch");
    assert_eq!(patched(unknown, None), "", "there is no template to try it on");
    assert_says(
        &patched(json!({"spec": {"containers": [{"image": "x"}]}}), Some(&target)),
        "failed to merge patch: ",
    );
    assert_says(&patched(json!([1]), Some(&target)), "failed to merge patch: ");
}

#[test]
fn templates_that_a_patch_changes_are_tried() {
    let target =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx"}]}}}});
    let policy = |policy: &str| json!({"spec": {"dnsPolicy": policy}});
    let of = |subsets: &[(&str, Value)]| {
        let subset = |(name, patch): &(&str, Value)| json!({"name": name, "patch": patch});
        spread(web(), subsets.iter().map(subset).collect()).to_string()
    };
    let new = of(&[("a", json!(null)), ("b", json!({"spec": {}})), ("c", policy("X"))]);
    let tried = trials(&new, None, Some(&target));
    let [trial] = &tried.list[..] else { panic!("{tried:?}") };
    let object: Value = serde_json::from_str(&trial.object()).unwrap();
    assert_eq!(object["template"]["spec"]["dnsPolicy"], "X");
    assert_eq!(object["template"]["spec"]["containers"][0]["image"], "nginx");
    let judgement = trial.judge([("template.spec.dnsPolicy", "Unsupported value: \"X\"")]);
    assert_says(&judgement.errors[0].to_string(), "spec.subsets[2].patch.spec.dnsPolicy: Unsupported value");
    assert!(!trial.stored_object().unwrap().contains("dnsPolicy"), "the target is at fault itself");
    assert!(trials(&new, None, None).list.is_empty(), "there is no template");
    let old = of(&[("c", policy("X")), ("d", policy("Y"))]);
    let tried = trials(&of(&[("d", policy("Z")), ("c", policy("X"))]), Some(&old), Some(&target));
    let [trial] = &tried.list[..] else { panic!("{tried:?}") };
    assert!(trial.object().contains(r#""Z""#) && trial.stored_object().unwrap().contains(r#""Y""#));
}

#[test]
fn a_filter_has_a_sound_selector() {
    let mut spread = spread(web(), json!([{"name": "a"}]));
    let path = "spec.targetFilter.selector.matchExpressions[0]";
    for (term, words) in [
        (json!({"key": "app", "operator": "In"}), "values: Required value"),
        (json!({"key": "a/b/c", "operator": "Exists"}), "key: Invalid value: \"a/b/c\""),
        (json!({"key": "app", "operator": "NotIn", "values": ["x y"]}), "values[0]: Invalid value: \"x y\""),
    ] {
        let stored = spread.clone();
        spread["spec"]["targetFilter"] = json!({"selector": {"matchExpressions": [term]}});
        assert_says(&answer(&spread, Some(&stored), &[], None), &format!("{path}.{words}"));
        let mut next = spread.clone();
        next["spec"]["subsets"][0]["maxReplicas"] = json!(3);
        assert_eq!(answer(&next, Some(&spread), &[], None), "", "stored objects still work");
    }
}

#[test]
fn what_was_stored_before_hinders_no_other_change() {
    let mut old = spread(web(), json!([{"name": "a", "maxReplicas": "5"}, {"name": "b"}]));
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"k": "v"});
    assert_eq!(answer(&new, Some(&old), &[], None), "");
    new["spec"]["subsets"][1]["name"] = json!("");
    assert_eq!(answer(&new, Some(&old), &[], None), "", "nothing behind the first wrong quota is checked");
    old["spec"]["subsets"][0]["maxReplicas"] = json!("5%");
    new["spec"]["subsets"][0]["maxReplicas"] = json!("5");
    assert_says(&answer(&new, Some(&old), &[], None), "maxReplicas is not valid for subset");
}
