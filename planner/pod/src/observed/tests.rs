use super::*;

mod size;

#[test]
fn a_pod_is_read_as_the_api_server_writes_it() {
    let pod = ObservedPod::read(
        r#"{"metadata":{"name":"web-0","namespace":"shop","uid":"u","resourceVersion":"7",
            "creationTimestamp":"2026-01-02T03:04:05Z","labels":{"b":"2","a":"1"},"annotations":null,
            "ownerReferences":[{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","name":"web","uid":"c","controller":true}]},
          "spec":{"nodeName":"n","containers":[{"name":"main","image":"nginx:1.25","resources":{"limits":{"cpu":1}},
            "env":[{"name":"HOME","value":"/"},{"name":"KRUISE_CONTAINER_PRIORITY","value":"1"},
                   {"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['a']"}}}]}]},
          "status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-02T03:04:06Z"}],
            "containerStatuses":[{"name":"main","imageID":"i","ready":true,"restartCount":2,"state":{"running":{}}}]}}"#,
    )
    .unwrap();
    assert_eq!((pod.label("a"), pod.label("b"), pod.label("c")), (Some("1"), Some("2"), None));
    assert_eq!(pod.controller().unwrap().group(), "apps.kruise.io");
    let main = pod.container("main").unwrap();
    assert_eq!(main.resources.limits.get("cpu"), Some("1"));
    let names: Vec<&str> = main.env.iter().map(|variable| &*variable.name).collect();
    assert_eq!(names, ["KRUISE_CONTAINER_PRIORITY", "A"]);
    assert_eq!(pod.container_status("main").unwrap().restart_count, 2);
    assert!(pod.is_active() && pod.is_ready());
}

#[test]
fn a_pod_is_available_when_it_was_ready_long_enough() {
    let pod = ObservedPod::read(
        r#"{"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-02T03:04:00Z"}]}}"#,
    )
    .unwrap();
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    assert!(pod.is_ready_for(0, at("2026-01-02T03:04:00Z")));
    assert!(!pod.is_ready_for(10, at("2026-01-02T03:04:10Z")));
    assert!(pod.is_ready_for(10, at("2026-01-02T03:04:11Z")));
}

#[test]
fn of_equal_keys_the_last_one_counts() {
    let pairs: Pairs = [("a", "1"), ("b", "2"), ("a", "3")].into_iter().collect();
    assert_eq!(pairs.iter().collect::<Vec<_>>(), [("a", "3"), ("b", "2")]);
}

#[test]
fn finished_and_leaving_pods_are_not_active() {
    for text in [
        r#"{"status":{"phase":"Succeeded"}}"#,
        r#"{"status":{"phase":"Failed"}}"#,
        r#"{"metadata":{"deletionTimestamp":"2026-01-02T03:04:00Z"},"status":{"phase":"Running"}}"#,
    ] {
        assert!(!ObservedPod::read(text).unwrap().is_active(), "{text}");
    }
}
