use super::*;

const NOW: &str = "2026-01-02T03:04:05Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn distribution(status: &Value) -> Distribution {
    let json = json!({
        "metadata": {"name": "rd", "uid": "rd-1", "resourceVersion": "9", "generation": 2},
        "spec": {"resource": {}, "targets": {}}, "status": status,
    });
    Distribution::read(&json.to_string()).unwrap()
}

fn patched(outcome: &Outcome, old: &Value) -> Option<Value> {
    let patch: Value = serde_json::from_str(&outcome.patch(&distribution(old), now())?).unwrap();
    assert_eq!(patch["metadata"], json!({"resourceVersion": "9"}));
    let mut status = old.clone();
    json_patch::merge(&mut status, &patch["status"]);
    Some(status)
}

#[test]
fn success_is_six_conditions_and_no_number_that_is_zero() {
    let mut outcome = Outcome::of(1);
    outcome.succeeded();
    let status = patched(&outcome, &json!({})).unwrap();
    let kinds: Vec<_> =
        status["conditions"].as_array().unwrap().iter().map(|one| one["type"].clone()).collect();
    assert_eq!(
        kinds,
        [
            "GetResourceFailed",
            "CreateResourceFailed",
            "UpdateResourceFailed",
            "DeleteResourceFailed",
            "ConflictOccurred",
            "NamespaceNotExists"
        ]
    );
    for condition in status["conditions"].as_array().unwrap() {
        let kind = condition["type"].clone();
        let expected =
            json!({"type": kind, "status": "False", "reason": "Succeeded", "lastTransitionTime": NOW});
        assert_eq!(*condition, expected);
    }
    let numbers =
        json!([status["desired"], status["succeeded"], status["failed"], status["observedGeneration"]]);
    assert_eq!(numbers, json!([1, 1, null, 2]));
    assert_eq!(outcome.to_try_again(), None);
    assert_eq!(patched(&outcome, &status), None, "nothing differs");
    let nothing = patched(&Outcome::of(0), &status).unwrap();
    assert_eq!(nothing.get("desired").or(nothing.get("succeeded")), None);
}

#[test]
fn failures_are_sorted_and_reported_by_the_first_namespace() {
    let mut outcome = Outcome::of(4);
    outcome.failed(Failure::Update, "ns-2", "late");
    outcome.failed(Failure::Update, "ns-1", "early");
    outcome.failed(Failure::NoNamespace, "ghost", NO_NAMESPACE);
    outcome.failed(Failure::Delete, "ns-9", "no");
    outcome.succeeded();
    let status = patched(&outcome, &json!({})).unwrap();
    let update = &status["conditions"][2];
    assert_eq!((&update["reason"], &update["failedNamespaces"]), (&json!("early"), &json!(["ns-1", "ns-2"])));
    assert_eq!(status["conditions"][5]["reason"], NO_NAMESPACE);
    assert_eq!((&status["desired"], &status["failed"]), (&json!(4), &json!(3)));
    assert_eq!(outcome.to_try_again(), Some((3, "ns-1: UpdateResourceFailed: early".to_owned())));
}

#[test]
fn conflicts_and_missing_namespaces_are_not_tried_again() {
    let mut outcome = Outcome::of(2);
    outcome.failed(Failure::Conflict, "a", CONFLICT);
    outcome.failed(Failure::NoNamespace, "b", NO_NAMESPACE);
    assert_eq!(outcome.to_try_again(), None);
}

#[test]
fn a_transition_keeps_its_time_until_the_next_one_whatever_the_stored_order() {
    let before = "2026-01-01T00:00:00Z";
    let old = json!({"conditions": [
        {"type": "ConflictOccurred", "status": "True", "reason": "x", "lastTransitionTime": before},
        {"type": "GetResourceFailed", "status": "False", "reason": "x", "lastTransitionTime": before},
    ]});
    let mut outcome = Outcome::of(1);
    outcome.failed(Failure::Conflict, "a", CONFLICT);
    outcome.failed(Failure::Get, "b", "no");
    let status = patched(&outcome, &old).unwrap();
    let times: Vec<_> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["lastTransitionTime"].clone())
        .collect();
    assert_eq!(times, [NOW, NOW, NOW, NOW, before, NOW]);
}
