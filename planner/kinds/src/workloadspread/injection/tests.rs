use serde_json::{Value, json};

use super::*;
use pod::placement::REQUIRED;
use values::json_patch;

fn matched(uid: &str) -> Matched {
    Matched { name: "ws".to_owned(), subset: "a".to_owned(), uid: uid.to_owned() }
}

fn injected(pod: &Value, subset: Value) -> Value {
    let subset: Subset = serde_json::from_value(subset).unwrap();
    let text = pod.to_string();
    let (after, edits) = inject(&text, &subset, &matched("")).unwrap();
    let after: Value = serde_json::from_str(&after).unwrap();
    let patched: Value = serde_json::from_str(&json_patch::apply(&text, &edits).unwrap()).unwrap();
    assert_eq!(patched, after, "the operations say the same as the Pod");
    after
}

fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}], "tolerations": [{"key": "own"}]}})
}

fn zone(zone: &str) -> Value {
    json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]})
}

#[test]
fn scenario_15_the_required_term_goes_into_every_term_of_the_pod() {
    let mut pod = pod();
    let terms =
        json!([zone("x"), {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]);
    pod["spec"]["affinity"] =
        json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}, "podAffinity": {}});
    let after = injected(&pod, json!({"name": "a", "requiredNodeSelector": zone("a")}));
    let expressions = |term: &Value| term["matchExpressions"].as_array().unwrap().clone();
    let terms = after["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"].as_array().unwrap();
    assert_eq!(terms.len(), 2);
    assert_eq!(expressions(&terms[0]), [expressions(&zone("x")), expressions(&zone("a"))].concat());
    assert_eq!(expressions(&terms[1]), expressions(&zone("a")));
    assert_eq!(after["spec"]["affinity"]["podAffinity"], json!({}));
}

#[test]
fn a_pod_without_terms_gets_the_term_as_it_is() {
    let preferred = json!([{"weight": 5, "preference": zone("b")}]);
    let subset = json!({"name": "a", "requiredNodeSelector": zone("a"), "preferredNodeSelector": preferred, "tolerations": [{"key": "gpu"}]});
    let after = injected(&pod(), subset);
    let nodes = &after["spec"]["affinity"]["nodeAffinity"];
    assert_eq!(nodes[REQUIRED], json!({"nodeSelectorTerms": [zone("a")]}));
    assert_eq!(nodes[PREFERRED], preferred);
    assert_eq!(after["spec"]["tolerations"], json!([{"key": "own"}, {"key": "gpu"}]));
}

#[test]
fn a_term_without_requirements_is_as_none() {
    for term in [json!({}), json!({"matchExpressions": []})] {
        let after = injected(&pod(), json!({"name": "a", "requiredNodeSelector": term}));
        assert_eq!(after["spec"]["affinity"], json!({"nodeAffinity": {}}));
    }
}

#[test]
fn scenario_16_labels_alone_leave_an_empty_node_affinity() {
    let after = injected(&pod(), json!({"name": "a", "patch": {"metadata": {"labels": {"subset": "a"}}}}));
    assert_eq!(after["metadata"]["labels"], json!({"app": "web", "subset": "a"}));
    assert_eq!(after["spec"]["affinity"], json!({"nodeAffinity": {}}));
    let mark = json!({"apps.kruise.io/matched-workloadspread": r#"{"name":"ws","subset":"a"}"#});
    assert_eq!(after["metadata"]["annotations"], mark);
}

#[test]
fn scenario_17_another_class_has_another_priority() {
    let mut pod = pod();
    for (field, value) in
        [("priorityClassName", json!("high")), ("priority", json!(9)), ("preemptionPolicy", json!("Never"))]
    {
        pod["spec"][field] = value;
    }
    let same = injected(&pod, json!({"name": "a", "patch": {"spec": {"priorityClassName": "high"}}}));
    assert_eq!(same["spec"]["priority"], 9);
    let low = injected(&pod, json!({"name": "a", "patch": {"spec": {"priorityClassName": "low"}}}));
    assert_eq!(low["spec"]["priorityClassName"], "low");
    assert!(low["spec"].get("priority").is_none() && low["spec"].get("preemptionPolicy").is_none());
}

#[test]
fn scenario_18_the_patch_merges_as_kubernetes_does_and_has_the_last_word() {
    let patch = json!({"spec": {"containers": [{"name": "main", "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "9"}]}],
        "tolerations": [{"key": "patched"}]}});
    let after = injected(&pod(), json!({"name": "a", "tolerations": [{"key": "gpu"}], "patch": patch}));
    let env = after["spec"]["containers"][0]["env"].as_array().unwrap();
    assert_eq!(env.len(), 2);
    assert!(
        env.contains(&json!({"name": "A", "value": "9"}))
            && env.contains(&json!({"name": "B", "value": "2"}))
    );
    assert_eq!(after["spec"]["tolerations"], json!([{"key": "patched"}]));
}

#[test]
fn what_is_not_understood_survives() {
    let text = r#"{"metadata":{"future":1.50},"spec":{"big":12345678901234567890123,"containers":[]}}"#;
    let subset: Subset =
        serde_json::from_value(json!({"name": "a", "patch": {"spec": {"hostname": "h"}}})).unwrap();
    let (after, edits) = inject(text, &subset, &matched("u")).unwrap();
    assert!(after.contains("1.50") && after.contains("12345678901234567890123"), "{after}");
    assert!(!edits.to_json().contains("containers"), "{}", edits.to_json());
    assert!(after.contains(r#"\"uid\":\"u\""#));
}

#[test]
fn a_patch_that_contradicts_the_pod_is_an_error() {
    let subset: Subset =
        serde_json::from_value(json!({"name": "a", "patch": {"spec": {"containers": [{"image": "x"}]}}}))
            .unwrap();
    let error = inject(&pod().to_string(), &subset, &matched("")).unwrap_err().to_string();
    assert!(error.starts_with("failed to merge patch of subset \"a\""), "{error}");
}
