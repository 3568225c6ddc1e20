use serde_json::{Value, json};

use super::super::workloads::NONE;
use super::*;

const KIND_REFUSED: &str = "targetRef.Kind must be StatefulSet or in PPS_Watch_Custom_Workload_WhiteList";

fn state(change: impl Fn(&mut Value)) -> String {
    let mut state = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "PersistentPodState",
        "metadata": {"name": "pps", "namespace": "shop"},
        "spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"},
            "requiredPersistentTopology": {"keys": ["zone"]}},
    });
    change(&mut state);
    state.to_string()
}

fn targeting(api_version: &str, kind: &str, name: &str) -> String {
    state(|state| state["spec"]["targetRef"] = json!({"apiVersion": api_version, "kind": kind, "name": name}))
}

/// The message of the refusal; empty where it is allowed.
fn answer(new: &str, old: Option<&str>, others: &[&str], listed: Result<&ListedKinds, &str>) -> String {
    let others: Vec<State> = others.iter().map(|other| State::read(other).unwrap()).collect();
    match review(new, old, &Context { others: &others, listed }) {
        Verdict::Allow { .. } => String::new(),
        Verdict::Deny(denial) => {
            assert_eq!(denial.code, 400);
            denial.message
        }
        refused @ Verdict::Refuse(..) => panic!("{refused:?}"),
    }
}

fn created(new: &str) -> String {
    answer(new, None, &[], Ok(&NONE))
}

#[test]
fn scenario_12_only_known_kinds_are_targets() {
    assert_eq!(created(&state(|_| ())), "");
    assert_eq!(created(&targeting("apps/v1beta2", "StatefulSet", "web")), "");
    for (api_version, kind) in [
        ("apps/v1", "Deployment"),
        ("example.com/v1", "StatefulSet"),
        ("v1", "StatefulSet"),
        ("apps/v1/x", "StatefulSet"),
    ] {
        let message = created(&targeting(api_version, kind, "web"));
        assert!(
            message.starts_with("spec.targetRef: Invalid value: ") && message.ends_with(KIND_REFUSED),
            "{message}"
        );
    }
    let empty = created(&targeting("", "", ""));
    assert!(empty.contains("empty targetRef is not valid for PersistentPodState."), "{empty}");
    assert!(empty.contains(KIND_REFUSED), "{empty}");
    let unnamed = created(&targeting("apps/v1", "StatefulSet", ""));
    assert!(unnamed.contains("empty targetRef") && !unnamed.contains(KIND_REFUSED), "{unnamed}");
}

#[test]
fn a_broken_list_refuses_other_kinds_only() {
    let database = targeting("example.com/v1", "Database", "web");
    let listed = ListedKinds::parse(r#"{"workloads":[{"group":"example.com","kind":"Database"}]}"#).unwrap();
    assert_eq!(answer(&database, None, &[], Ok(&listed)), "");
    let message = answer(&database, None, &[], Err("no JSON"));
    let expected = "Internal error: failed to get persistent pod state config white list, error: no JSON";
    assert!(message.ends_with(expected), "{message}");
    assert_eq!(answer(&state(|_| ()), None, &[], Err("no JSON")), "");
}

#[test]
fn scenario_13_some_topology_is_needed_and_the_target_stays() {
    let bare =
        state(|state| drop(state["spec"].as_object_mut().unwrap().remove("requiredPersistentTopology")));
    let message = created(&bare);
    assert!(
        message.ends_with("TopologyConstraint and TopologyPreference cannot be empty at the same time"),
        "{message}"
    );
    for changed in [
        targeting("apps.kruise.io/v1alpha1", "StatefulSet", "web"),
        targeting("apps/v1", "StatefulSet", "web"),
        targeting("apps.kruise.io/v1beta1", "StatefulSet", "web2"),
    ] {
        let message = answer(&changed, Some(&state(|_| ())), &[], Ok(&NONE));
        assert_eq!(message, "spec.targetRef: Forbidden: targetRef is immutable");
    }
    let other = state(|state| state["spec"]["requiredPersistentTopology"]["keys"] = json!(["region"]));
    assert_eq!(answer(&other, Some(&state(|_| ())), &[], Ok(&NONE)), "");
}

#[test]
fn scenario_14_a_workload_has_one() {
    let rival = |api_version: &str| {
        state(|state| {
            state["metadata"]["name"] = json!("rival");
            state["spec"]["targetRef"]["apiVersion"] = json!(api_version);
        })
    };
    let first = state(|state| state["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    let message = answer(&rival("apps.kruise.io/v1alpha1"), None, &[&first], Ok(&NONE));
    assert!(message.ends_with("targetRef is in conflict with other PersistentPodState pps"), "{message}");
    assert_eq!(answer(&rival("apps/v1"), None, &[&first], Ok(&NONE)), "");
    assert_eq!(answer(&first, Some(&first), &[&first], Ok(&NONE)), "", "it is no conflict with itself");
}

#[test]
fn sharp_edges_4_and_16_weights_and_policies_are_ones_that_work() {
    let weighing = |weight: i32| {
        state(|state| {
            state["spec"]["preferredPersistentTopology"] =
                json!([{"weight": weight, "preference": {"keys": []}}]);
        })
    };
    for (weight, accepted) in [(0, false), (1, true), (100, true), (101, false), (-1, false)] {
        let message = created(&weighing(weight));
        assert_eq!(message.is_empty(), accepted, "{message}");
        if !accepted {
            let path = "spec.preferredPersistentTopology[0].weight: Invalid value: ";
            assert_eq!(message, format!("{path}{weight}: must be in the range 1-100"));
        }
    }
    let keeping =
        |policy: &str| state(|state| state["spec"]["persistentPodStateRetentionPolicy"] = json!(policy));
    assert!(["", "WhenScaled", "WhenDeleted"].iter().all(|policy| created(&keeping(policy)).is_empty()));
    assert!(created(&keeping("Foo")).contains("Unsupported value: \"Foo\""));
    // What was stored before can still be labelled, and so on.
    let labelled = weighing(0).replace("\"name\":\"pps\"", "\"name\":\"pps\",\"labels\":{\"a\":\"b\"}");
    assert_eq!(answer(&labelled, Some(&weighing(0)), &[], Ok(&NONE)), "");
    assert!(answer(&weighing(101), Some(&weighing(0)), &[], Ok(&NONE)).contains("101"));
}

#[test]
fn both_versions_are_reviewed_and_others_are_refused() {
    let older = r#"{"apiVersion":"apps.kruise.io/v1alpha1","kind":"PersistentPodState","metadata":{"name":"pps"},"spec":{
        "targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"web"},
        "preferredPersistentTopology":[{"weight":0,"preference":{"nodeTopologyKeys":["zone"]}}]}}"#;
    assert!(created(older).contains("must be in the range 1-100"));
    assert_eq!(created(&older.replace("\"weight\":0", "\"weight\":9")), "");
    assert!(created(&older.replace("v1alpha1", "v2")).contains("unsupported version"));
    assert!(created("[").starts_with("EOF"));
}
