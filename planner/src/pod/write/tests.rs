use super::*;

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

#[test]
fn the_patch_names_the_pod_and_the_state_that_it_is_meant_for() {
    assert_eq!(
        write().to_json("u", "7"),
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
        PodWrite::to(Target::Status).to_json("u", "7"),
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
