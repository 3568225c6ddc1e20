use super::*;
use jiff::Timestamp;
use serde_json::{Value, json};
use values::hash::deep_hash;

/// A Pod of a CloneSet whose only container shows the label `l`.
fn pod(label: &str, reported: Option<&str>, condition: &str) -> Value {
    let field = json!({"fieldRef": {"fieldPath": "metadata.labels['l']"}});
    let mut pod = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "labels": {"l": label}, "ownerReferences": [
            {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "c", "uid": "c", "controller": true}]},
        "spec": {"containers": [{"name": "main", "image": "i:1", "env": [{"name": "L", "valueFrom": field}]}]},
        "status": {"conditions": [{"type": "InPlaceUpdateReady", "status": condition}],
            "containerStatuses": [{"name": "main", "containerID": "containerd://1"}]},
    });
    if let Some(reported) = reported {
        pod["metadata"]["annotations"] = json!({RUNTIME_CONTAINERS_META: reported});
    }
    pod
}

fn observed(pod: &Value) -> ObservedPod {
    ObservedPod::read(&pod.to_string()).unwrap()
}

fn running(id: &str, restarts: &str) -> RuntimeContainer {
    let pair = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
    RuntimeContainer {
        id: id.to_owned(),
        condition: Condition::Running,
        created: Timestamp::UNIX_EPOCH,
        started: None,
        labels: pair("io.kubernetes.container.name", "main"),
        annotations: [
            ("io.kubernetes.container.hash".to_owned(), "8e45cbd0".to_owned()),
            ("io.kubernetes.container.restartCount".to_owned(), restarts.to_owned()),
        ]
        .into(),
    }
}

/// What is reported once the container has printed its variables.
fn reported(
    pod: &ObservedPod,
    containers: &[RuntimeContainer],
    printed: &str,
) -> (Option<String>, Vec<String>) {
    let mut report = Report::new(pod, "containerd", containers, true);
    for unknown in std::mem::take(&mut report.unknown) {
        report.learn(&unknown, printed);
    }
    let write = report.write().map(|mut write| {
        assert_eq!(write.target, Target::Status);
        write.annotations.remove(RUNTIME_CONTAINERS_META).flatten().unwrap()
    });
    (write, report.outdated().into_iter().map(str::to_owned).collect())
}

fn entry(id: &str, restarts: u32, environment: u32) -> String {
    let hashes = format!(r#"{{"plainHash":2386938832,"extractedEnvFromMetadataHash":{environment}}}"#);
    let head = format!(r#""name":"main","containerID":"containerd://{id}","restartCount":{restarts}"#);
    format!(r#"{{"containers":[{{{head},"hashes":{hashes}}}]}}"#)
}

fn shows(value: &str) -> u32 {
    deep_hash(&format!(r#"[{{"name":"L","value":"{value}"}}]"#))
}

#[test]
fn a_container_is_reported_once_in_the_form_of_the_reference() {
    let first = observed(&pod("a", None, "True"));
    let printed = "PATH=/bin\nL=a\nX=L=b\n";
    let (text, restarts) = reported(&first, &[running("1", "2")], printed);
    assert_eq!((text.clone(), restarts), (Some(entry("1", 2, shows("a"))), vec![]));
    let again = observed(&pod("a", text.as_deref(), "True"));
    assert_eq!(reported(&again, &[running("1", "2")], "L=other"), (None, vec![]), "it is not asked again");
    let (next, _) = reported(&again, &[running("2", "3")], "L=a");
    assert_eq!(next, Some(entry("2", 3, shows("a"))));
    let (empty, _) = reported(&again, &[], "");
    assert_eq!(empty.as_deref(), Some(r#"{"containers":[]}"#));
}

#[test]
fn variables_that_show_nothing_have_a_hash_of_their_own() {
    for (json, expected) in [
        ("null", 86_995_377),
        (r#"[{"name":"e2","value":"foo"}]"#, 2_053_173_458),
        (r#"[{"name":"e2"}]"#, 1_885_397_378),
        (r#"[{"name":"A","value":"1"},{"name":"B","value":"2"}]"#, 3_678_609_251),
        (r#"[{"name":"E","value":"a\u0026b"}]"#, 1_838_270_534),
    ] {
        assert_eq!(deep_hash(json), expected, "{json}");
    }
    assert_eq!(hash(vec![("B", Some("2")), ("A", Some("1"))]), 3_678_609_251);
    assert_eq!((hash(vec![("E", Some("a&b"))]), hash(vec![("e2", None)])), (1_838_270_534, 1_885_397_378));
    let mut plain = pod("a", None, "True");
    plain["spec"]["containers"][0]["env"] = json!([]);
    let plain = observed(&plain);
    assert!(Report::new(&plain, "containerd", &[running("1", "0")], true).unknown.is_empty());
    assert_eq!(reported(&plain, &[running("1", "0")], "").0, Some(entry("1", 0, 86_995_377)));
    let without = Report::new(&plain, "containerd", &[running("1", "0")], false).write().unwrap();
    assert!(!format!("{without:?}").contains("extracted"), "it is left out where it is not known");
}

#[test]
fn only_an_update_restarts_what_shows_old_labels() {
    let old = entry("1", 0, shows("a"));
    let containers = [running("1", "0")];
    assert_eq!(reported(&observed(&pod("b", Some(&old), "False")), &containers, "").1, ["1"]);
    for (label, condition) in [("b", "True"), ("a", "False")] {
        assert!(reported(&observed(&pod(label, Some(&old), condition)), &containers, "").1.is_empty());
    }
}

#[test]
fn pods_are_examined_where_there_may_be_something_to_report() {
    let reported = entry("1", 0, shows("a"));
    let bare = observed(&pod("a", None, "True"));
    let known = observed(&pod("a", Some(&reported), "True"));
    let changed = observed(&pod("b", Some(&reported), "True"));
    assert!(is_due(None, &bare, true), "an agent that starts tells what it finds");
    assert!(is_due(Some(&bare), &bare, true));
    assert!(!is_due(None, &known, true) && !is_due(Some(&known), &known, true));
    assert!(is_due(None, &changed, true) && is_due(Some(&known), &changed, true));
    assert!(!is_due(Some(&known), &changed, false));
    let mut restarted = pod("a", Some(&reported), "True");
    restarted["status"]["containerStatuses"][0]["containerID"] = json!("containerd://2");
    let next = observed(&restarted);
    assert!(is_due(Some(&known), &next, false));
    restarted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(!is_due(Some(&known), &observed(&restarted), true));
    let mut foreign = pod("a", None, "True");
    foreign["metadata"]["ownerReferences"][0]["apiVersion"] = json!("apps/v1");
    assert!(!is_due(Some(&bare), &observed(&foreign), true));
    foreign["metadata"]["annotations"] = json!({SIDECARSET_HASH: "{}"});
    assert!(is_due(Some(&bare), &observed(&foreign), true));
    assert_eq!((runtime(&bare), runtime(&ObservedPod::default())), (Some("containerd"), None));
}
