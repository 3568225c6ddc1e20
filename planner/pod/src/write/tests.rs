use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use values::canonical::table;
use values::strategic_merge;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn write() -> PodWrite {
    let mut write = PodWrite::to(Target::Pod);
    write.set_label("a", "1");
    write.labels.insert("b".to_owned(), None);
    write.set_annotation("c", "2");
    write.finalizers.push("x/y".to_owned());
    write.removed_finalizers.push("x/z".to_owned());
    write.owners.push(OwnerChange::Remove("o".to_owned()));
    write.container("main").image = Some("nginx:1.26".to_owned());
    write.container("main").resources.limits = [("cpu", "1")].into_iter().collect();
    write.conditions.push(condition("Gate", "False", "Why", "", at("2026-01-02T03:04:05Z")));
    write
}

fn pod(uid: &str, version: &str) -> ObservedPod {
    let metadata = json!({"uid": uid, "resourceVersion": version});
    ObservedPod::read(&json!({"metadata": metadata}).to_string()).unwrap()
}

#[test]
fn the_patch_names_the_pod_and_the_state_that_it_is_meant_for() {
    assert_eq!(
        write().to_json(&pod("u", "7")),
        concat!(
            r#"{"metadata":{"uid":"u","resourceVersion":"7","labels":{"a":"1","b":null},"annotations":{"c":"2"},"#,
            r#""finalizers":["x/y"],"$deleteFromPrimitiveList/finalizers":["x/z"],"#,
            r#""ownerReferences":[{"$patch":"delete","uid":"o"}]},"#,
            r#""spec":{"containers":[{"name":"main","image":"nginx:1.26","resources":{"limits":{"cpu":"1"}}}]},"#,
            r#""status":{"conditions":[{"type":"Gate","status":"False","reason":"Why","message":null,"#,
            r#""lastTransitionTime":"2026-01-02T03:04:05Z"}]}}"#
        )
    );
    assert_eq!(
        PodWrite::to(Target::Status).to_json(&pod("u", "7")),
        r#"{"metadata":{"uid":"u","resourceVersion":"7"}}"#
    );
}

#[test]
fn a_simulated_pod_changes_as_the_real_one_would() {
    let mut pod = ObservedPod::read(
        r#"{"metadata":{"labels":{"b":"x","d":"y"},"finalizers":["x/z","x/w"],"ownerReferences":[{"uid":"o"},{"uid":"p"}]},
          "spec":{"containers":[{"name":"main","image":"nginx:1.25","resources":{"limits":{"memory":"1Gi"}}},{"name":"other"}]},
          "status":{"conditions":[{"type":"Gate","status":"True"},{"type":"Ready","status":"True"}]}}"#,
    )
    .unwrap();
    write().apply(&mut pod);
    let expected = ObservedPod::read(
        r#"{"metadata":{"labels":{"a":"1","d":"y"},"annotations":{"c":"2"},"finalizers":["x/w","x/y"],"ownerReferences":[{"uid":"p"}]},
          "spec":{"containers":[{"name":"main","image":"nginx:1.26","resources":{"limits":{"memory":"1Gi","cpu":"1"}}},{"name":"other"}]},
          "status":{"conditions":[{"type":"Gate","status":"False","reason":"Why","lastTransitionTime":"2026-01-02T03:04:05Z"},
                                  {"type":"Ready","status":"True"}]}}"#,
    )
    .unwrap();
    assert_eq!(pod, expected);
}

#[test]
fn a_write_without_changes_is_empty() {
    assert!(PodWrite::to(Target::Resize).is_empty());
    assert!(!write().is_empty());
}

/// A Pod with these containers and conditions, among fields that no rule knows.
fn raw_pod(containers: &[&str], conditions: &[&str]) -> Value {
    let containers: Vec<Value> = containers
        .iter()
        .map(|name| {
            json!({"name": name, "image": "old", "future": {"list": [name]}, "env": [{"name": "Z"}, {"name": "A"}],
                "resources": {"limits": {"memory": "1Gi"}, "claims": [{"name": "gpu"}]}})
        })
        .collect();
    let sidecar = |name: &str| json!({"name": name, "restartPolicy": "Always", "future": 1, "resources": {"limits": {"memory": "1Gi"}}});
    let conditions: Vec<Value> =
        conditions.iter().map(|kind| json!({"type": kind, "status": "True", "future": 1})).collect();
    json!({"metadata": {"name": "p", "uid": "u", "resourceVersion": "7", "finalizers": ["z/z", "a/a"],
            "ownerReferences": [{"uid": "z"}, {"uid": "a"}]},
        "spec": {"initContainers": [sidecar("y"), {"name": "b"}, sidecar("c")], "containers": containers,
            "future": [2, 1]},
        "status": {"conditions": conditions, "future": true}})
}

/// Where a container of [`raw_pod`] is.
fn list(name: &str) -> &'static str {
    if matches!(name, "y" | "c") { "initContainers" } else { "containers" }
}

/// The element of `list` whose member `key` is `value`.
fn element<'a>(list: &'a mut Value, key: &str, value: &str) -> &'a mut Value {
    list.as_array_mut().unwrap().iter_mut().find(|element| element[key] == value).unwrap()
}

fn some_of(names: &[&'static str]) -> impl Strategy<Value = Vec<&'static str>> + use<> {
    proptest::sample::subsequence(names.to_vec(), 0..=names.len()).prop_shuffle()
}

proptest! {
    /// Applied by Kubernetes' rules, a write changes what it is about and nothing else, whatever order the Pod's
    /// lists have and whatever order they were written in.
    #[test]
    fn a_write_changes_nothing_but_what_it_is_about(
        containers in Just(vec!["zz", "main", "aa", "sidecar"]).prop_shuffle(),
        conditions in Just(vec!["Ready", "Gate", "Another"]).prop_shuffle(),
        images in some_of(&["zz", "main", "aa", "sidecar", "y", "c"]),
        resized in some_of(&["zz", "main", "aa", "sidecar", "y", "c"]),
        set in some_of(&["Ready", "Gate", "Another"]),
    ) {
        let mut expected = raw_pod(&containers, &conditions);
        let before = expected.to_string();
        let observed = ObservedPod::read(&before).unwrap();
        let mut write = PodWrite::default();
        for name in images {
            write.container(name).image = Some("new".to_owned());
            element(&mut expected["spec"][list(name)], "name", name)["image"] = json!("new");
        }
        for name in resized {
            write.container(name).resources.limits = [("cpu", "2")].into_iter().collect();
            element(&mut expected["spec"][list(name)], "name", name)["resources"]["limits"]["cpu"] = json!("2");
        }
        for kind in set {
            write.conditions.push(condition(kind, "False", "Why", "", at("2026-01-02T03:04:05Z")));
            let condition = element(&mut expected["status"]["conditions"], "type", kind);
            condition["status"] = json!("False");
            condition["reason"] = json!("Why");
            condition["lastTransitionTime"] = json!("2026-01-02T03:04:05Z");
        }
        prop_assert!(write.keeps_places(&observed));
        let merged = strategic_merge::merge(&before, &write.to_json(&observed), &table::POD).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&merged).unwrap(), expected);
        let mut simulated = observed;
        write.apply(&mut simulated);
        prop_assert_eq!(simulated, ObservedPod::read(&merged).unwrap());
    }
}

#[test]
fn a_tested_patch_holds_whatever_the_status_is() {
    let object = json!({
        "metadata": {"uid": "u", "resourceVersion": "7", "labels": {"a": "0", "b~/": "x"}, "annotations": {"d": "3"}},
        "spec": {"initContainers": [{"name": "load", "image": "l"}, {"name": "proxy", "image": "p:1", "restartPolicy": "Always"}],
            "containers": [{"name": "side", "image": "s"}, {"name": "main", "image": "nginx:1.25"}]},
    });
    let pod = ObservedPod::read(&object.to_string()).unwrap();
    let mut write = PodWrite::default();
    write.set_label("a", "1");
    write.labels.extend([("b~/".to_owned(), None), ("absent".to_owned(), None)]);
    write.set_annotation("c", "2");
    write.container("main").image = Some("nginx:1.26".to_owned());
    write.container("proxy").image = Some("p:2".to_owned());
    let patch: json_patch::Patch = serde_json::from_str(&write.to_tested_json(&pod).unwrap()).unwrap();
    let after = |change: &dyn Fn(&mut Value)| {
        let mut now = object.clone();
        change(&mut now);
        json_patch::patch(&mut now, &patch).is_ok().then_some(now)
    };
    let expected = json!({
        "metadata": {"uid": "u", "resourceVersion": "8", "labels": {"a": "1"}, "annotations": {"d": "3", "c": "2"}},
        "spec": {"initContainers": [{"name": "load", "image": "l"}, {"name": "proxy", "image": "p:2", "restartPolicy": "Always"}],
            "containers": [{"name": "side", "image": "s"}, {"name": "main", "image": "nginx:1.26"}]},
    });
    assert_eq!(after(&|now| now["metadata"]["resourceVersion"] = json!("8")), Some(expected));
    for (pointer, other) in [
        ("/metadata/uid", "v"),
        ("/metadata/labels/a", "1"),
        ("/metadata/labels/b~0~1", "y"),
        ("/spec/containers/1/image", "nginx:1.24"),
        ("/spec/containers/1/name", "other"),
        ("/spec/initContainers/1/image", "p:3"),
    ] {
        assert_eq!(after(&|now| *now.pointer_mut(pointer).unwrap() = json!(other)), None, "{pointer}");
    }
}

#[test]
fn what_can_t_be_tested_has_no_such_patch() {
    let object =
        json!({"metadata": {"uid": "u", "labels": {"a": "0"}}, "spec": {"containers": [{"name": "main"}]}});
    let pod = ObservedPod::read(&object.to_string()).unwrap();
    let refused = |change: &dyn Fn(&mut PodWrite)| {
        let mut write = PodWrite::default();
        change(&mut write);
        assert_eq!(write.to_tested_json(&pod), None, "{write:?}");
    };
    refused(&|write| write.set_label("new", "1"));
    refused(&|write| write.set_annotation("a", "1"));
    refused(&|write| write.container("other").image = Some("nginx".to_owned()));
    refused(&|write| write.container("main").resources.limits = [("cpu", "1")].into_iter().collect());
    refused(&|write| {
        write.set_label("a", "1");
        write.finalizers.push("x/y".to_owned());
    });
}
