use proptest::prelude::*;
use serde_json::json;

use super::*;
use testing::templates::arbitrary_template;

fn completed(object: &str) -> String {
    let patch = default(object, "v1beta1").unwrap();
    json_patch::apply(object, &patch).unwrap()
}

fn minimal(version: &str) -> String {
    json!({
        "apiVersion": format!("apps.kruise.io/{version}"), "kind": "SidecarSet",
        "metadata": {"name": "dns", "annotations": {"kruise.io/sidecarset-hash": "mine", "other": "kept"}},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "dns-f", "image": "dns:1.0"}]},
    })
    .to_string()
}

#[test]
fn a_minimal_sidecarset_gets_all_defaults_and_both_hashes() {
    let stored: Value = serde_json::from_str(&completed(&minimal("v1beta1"))).unwrap();
    assert_eq!(
        stored["spec"],
        json!({
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{
                "name": "dns-f", "image": "dns:1.0", "podInjectPolicy": "BeforeAppContainer",
                "upgradeStrategy": {"upgradeType": "ColdUpgrade"}, "shareVolumePolicy": {"type": "disabled"},
                "imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }],
            "updateStrategy": {"type": "RollingUpdate", "partition": 0, "maxUnavailable": 1},
            "revisionHistoryLimit": 10,
        })
    );
    let annotations = &stored["metadata"]["annotations"];
    // The vector of docs/behaviour/pod-mutation.md#sidecarset-hash.
    assert_eq!(
        annotations["kruise.io/sidecarset-hash"],
        "6wbd76bd7984x24fb4f44fv9222cw9v9bcf85x766744wddd4zwx927zzz2zb684"
    );
    assert_eq!(annotations["kruise.io/sidecarset-hash-without-image"].as_str().unwrap().len(), 64);
    assert_ne!(
        annotations["kruise.io/sidecarset-hash-without-image"],
        annotations["kruise.io/sidecarset-hash"]
    );
    assert_eq!(annotations["other"], "kept");
}

#[test]
fn both_versions_get_the_same_patch() {
    let alpha = default(&minimal("v1alpha1"), "v1alpha1").unwrap();
    assert_eq!(alpha, default(&minimal("v1beta1"), "v1beta1").unwrap());
    let denial = default(&minimal("v1"), "v1").unwrap_err();
    assert_eq!((denial.code, denial.message.as_str()), (400, "unsupported version: apps.kruise.io/v1"));
}

#[test]
fn an_object_without_annotations_gets_them() {
    let text = completed(r#"{"spec":{"containers":[]}}"#);
    let stored: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(stored["metadata"]["annotations"].as_object().unwrap().len(), 2);
}

#[test]
fn native_sidecars_get_the_vector_of_the_spec() {
    let object = json!({"spec": {"initContainers": [{
        "name": "agent", "image": "registry.example.com/agent:1.0", "restartPolicy": "Always",
        "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}},
    }]}});
    let stored: Value = serde_json::from_str(&completed(&object.to_string())).unwrap();
    assert_eq!(
        stored["spec"]["initContainers"][0]["resources"]["limits"],
        json!({"cpu": "500m", "memory": "1Gi"})
    );
    assert_eq!(
        stored["metadata"]["annotations"]["kruise.io/sidecarset-hash"],
        "5w94dcfd947z76bcc75448bwf2dwdzwwxz54d78c9zzvzbwb4vf4fcxb52424w2f"
    );
}

#[test]
fn unknown_fields_stay_and_do_not_change_the_hash() {
    let with = minimal("v1beta1").replace(r#""name":"dns-f""#, r#""name":"dns-f","future":{"x":1.50}"#);
    let stored = completed(&with);
    assert!(stored.contains(r#""future":{"x":1.50}"#), "{stored}");
    assert!(stored.contains("6wbd76bd7984x24fb4f44fv9222cw9v9bcf85x766744wddd4zwx927zzz2zb684"));
}

#[test]
fn startup_probes_get_no_defaults_and_other_parts_do() {
    let object = json!({"spec": {
        "containers": [{
            "name": "c", "image": "a",
            "startupProbe": {"httpGet": {"port": 1}}, "readinessProbe": {"httpGet": {"port": 1}},
            "lifecycle": {"postStart": {"httpGet": {"port": 1}}},
            "transferEnv": [{"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}],
            "resourcesPolicy": {"targetContainersMode": "sum", "targetContainersNameRegex": "", "resourcesExpr": {}},
        }],
        "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "s"}}],
        "patchPodMetadata": [{"annotations": {"a": "b"}}],
        "injectionStrategy": {"revision": {"customVersion": "v1"}},
    }});
    let stored: Value = serde_json::from_str(&completed(&object.to_string())).unwrap();
    let container = &stored["spec"]["containers"][0];
    assert_eq!(container["startupProbe"], json!({"httpGet": {"port": 1}}));
    assert_eq!(container["readinessProbe"]["httpGet"]["scheme"], "HTTP");
    assert_eq!(container["lifecycle"]["postStart"]["httpGet"]["path"], "/");
    assert_eq!(container["transferEnv"][0]["sourceContainerNameFrom"]["fieldRef"]["apiVersion"], "v1");
    assert_eq!(container["resourcesPolicy"]["targetContainersNameRegex"], ".*");
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(stored["spec"]["volumes"][0]["emptyDir"], json!({}));
    assert_eq!(stored["spec"]["volumes"][1]["secret"]["defaultMode"], 420);
    assert_eq!(stored["spec"]["patchPodMetadata"][0]["patchPolicy"], "Retain");
    assert_eq!(stored["spec"]["injectionStrategy"]["revision"]["policy"], "Always");
}

#[test]
fn a_source_name_without_a_field_does_no_harm() {
    let object =
        json!({"spec": {"containers": [{"name": "c", "transferEnv": [{"sourceContainerNameFrom": {}}]}]}});
    assert!(default(&object.to_string(), "v1beta1").is_ok());
}

#[test]
fn what_is_no_sidecarset_is_refused() {
    for object in
        ["", "[]", "{", r#"{"spec":5}"#, r#"{"metadata":[]}"#, r#"{"spec":{"containers":[{"name":5}]}}"#]
    {
        assert_eq!(default(object, "v1beta1").unwrap_err().code, 400, "{object}");
    }
    let message = default(r#"{"spec":{"containers":[{"name":5}]}}"#, "v1beta1").unwrap_err().message;
    assert!(message.starts_with("spec.containers[0].name: "), "{message}");
    let message = default(r#"{"spec":[]}"#, "v1beta1").unwrap_err().message;
    assert!(message.starts_with("spec: invalid"), "{message}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test measures")]
fn ten_times_the_containers_take_not_much_more_than_ten_times_the_work() {
    let object = |count: usize| {
        let containers: Vec<Value> = (0..count)
            .map(|number| json!({"name": format!("c{number}"), "image": "a:1", "env": [{"name": "A"}]}))
            .collect();
        json!({"spec": {"containers": containers}}).to_string()
    };
    // CPU time of this thread: what else continues at the machine does not count.
    let spent = || -> u64 {
        let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        statistics.split(' ').next().unwrap().parse().unwrap()
    };
    let shortest = |object: &str| {
        let times = (0..3).map(|_| {
            let start = spent();
            assert!(!default(object, "v1beta1").unwrap().is_empty());
            spent() - start
        });
        times.min().unwrap()
    };
    let (few, many) = (object(1_000), object(10_000));
    assert!(default(&many, "v1beta1").unwrap().operations().len() > 60_000);
    let (few, many) = (shortest(&few), shortest(&many));
    assert!(many < few * 40, "{few} ns, {many} ns");
}

proptest! {
    #[test]
    fn defaulting_twice_changes_nothing_more(spec in arbitrary_template(), metadata in arbitrary_template()) {
        let object = json!({"metadata": metadata, "spec": spec}).to_string();
        if let Ok(patch) = default(&object, "v1beta1") {
            let stored = json_patch::apply(&object, &patch).unwrap();
            let again = default(&stored, "v1beta1").unwrap();
            prop_assert!(again.is_empty(), "{}", again.to_json());
        }
    }
}
