//! The tables of docs/behaviour/in-place-update.md#what-can-change-in-place.

use super::*;

const GATED: Options<'_> = Options {
    revision: "demo-2",
    grace_seconds: 0,
    claims_differ: false,
    env_from_metadata: true,
    vertical_scaling: true,
    server: ServerVersion::NEWEST,
};

fn base() -> Value {
    json!({
        "metadata": {"labels": {"app": "demo"}, "annotations": {"k": "v1", "plain": "1"}, "finalizers": ["x/a", "x/b"]},
        "spec": {
            "initContainers": [{"name": "init", "image": "init:1"},
                {"name": "proxy", "image": "proxy:v1", "restartPolicy": "Always", "resources": {"limits": {"cpu": "1"}}}],
            "containers": [
                {"name": "main", "image": "app:v1", "command": ["run"],
                 "env": [{"name": "K", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['k']"}}},
                         {"name": "L", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                         {"name": "SIDECARSET_VERSION", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['plain']"}}}],
                 "resources": {"limits": {"cpu": "2", "example.com/gpu": "1"}, "requests": {"cpu": "1"}}},
                {"name": "side", "image": "side:v1"}],
            "volumes": [{"name": "v", "emptyDir": {}}]}})
}

fn decided(change: impl FnOnce(&mut Value), options: &Options<'_>) -> Result<UpdateSpec, Reason> {
    let mut new = base();
    change(&mut new);
    decide(&template(&base()), &template(&new), options)
}

fn set(path: &str, value: Value) -> impl FnOnce(&mut Value) {
    let path = path.to_owned();
    move |template| *template.pointer_mut(&path).unwrap() = value
}

fn refused(change: impl FnOnce(&mut Value)) -> String {
    decided(change, &GATED).unwrap_err().to_string()
}

fn summary(change: impl FnOnce(&mut Value)) -> String {
    decided(change, &GATED).unwrap().summary()
}

#[test]
fn images_metadata_and_resources_can_be_changed() {
    let spec = decided(set("/spec/containers/1/image", json!("side:v2")), &GATED).unwrap();
    let images = [("side".to_owned(), "side:v2".to_owned())].into();
    let expected =
        UpdateSpec { revision: "demo-2".to_owned(), container_images: images, ..UpdateSpec::default() };
    assert_eq!(spec, expected);
    assert_eq!(summary(|_| ()), "");
    assert_eq!(summary(set("/metadata/annotations/plain", json!("2"))), "metadata");
    assert_eq!(summary(set("/metadata/annotations/k", json!("v2"))), "environment of main");
    assert_eq!(summary(set("/spec/containers/0/resources/limits/cpu", json!("3"))), "resources of main");
    let graced = Options { grace_seconds: 7, ..GATED };
    assert_eq!(decided(|_| (), &graced).unwrap().grace_seconds, 7);
    assert_eq!(decided(|_| (), &Options { grace_seconds: -7, ..GATED }).unwrap().grace_seconds, 0);
}

#[test]
fn everything_else_needs_a_new_pod_and_is_named() {
    let swap = |template: &mut Value| template["spec"]["containers"].as_array_mut().unwrap().swap(0, 1);
    assert!(refused(swap).starts_with("replace /spec/containers/0/"), "scenario 8: {}", refused(swap));
    let add = |template: &mut Value| {
        template["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "new", "image": "a"}));
    };
    assert_eq!(refused(add), "add /spec/containers/2 needs a new Pod");
    let remove = |template: &mut Value| drop(template["spec"]["containers"].as_array_mut().unwrap().pop());
    assert_eq!(refused(remove), "remove /spec/containers/1 needs a new Pod");
    let value = |template: &mut Value| {
        template["spec"]["containers"][1]["env"] = json!([{"name": "A", "value": "b"}]);
    };
    assert_eq!(refused(value), "add /spec/containers/1/env needs a new Pod", "scenario 7");
    for (path, value, expected) in [
        (
            "/spec/initContainers/0/image",
            json!("init:2"),
            "replace /spec/initContainers/0/image needs a new Pod",
        ),
        ("/spec/containers/0/command/0", json!("go"), "replace /spec/containers/0/command/0 needs a new Pod"),
        ("/spec/volumes/0/name", json!("w"), "replace /spec/volumes/0/name needs a new Pod"),
        (
            "/spec/containers/0/resources/limits/example.com~1gpu",
            json!("2"),
            "replace /spec/containers/0/resources/limits/example.com~1gpu needs a new Pod",
        ),
        ("/spec/containers/0/image", json!(""), "remove /spec/containers/0/image needs a new Pod"),
    ] {
        assert_eq!(refused(set(path, value)), expected);
    }
    let limit = |template: &mut Value| {
        template["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!("1Gi");
    };
    assert_eq!(refused(limit), "add /spec/containers/0/resources/limits/memory needs a new Pod");
    let gone = |template: &mut Value| {
        drop(template["spec"]["containers"][0]["resources"].as_object_mut().unwrap().remove("requests"));
    };
    assert_eq!(refused(gone), "remove /spec/containers/0/resources/requests needs a new Pod");
}

#[test]
fn native_sidecars_are_changed_where_the_server_can() {
    let image = "/spec/initContainers/1/image";
    let limit = "/spec/initContainers/1/resources/limits/cpu";
    let on = |version: &str, path: &str, value: &str| {
        let options = Options { server: ServerVersion::parse(version), ..GATED };
        decided(set(path, json!(value)), &options)
    };
    let spec = on("v1.32.0", image, "proxy:v2").unwrap();
    assert_eq!(spec.container_images, [("proxy".to_owned(), "proxy:v2".to_owned())].into());
    let spec = on("v1.33.0", limit, "2").unwrap();
    let resources = &spec.container_resources["proxy"];
    assert_eq!((resources.limits.get("cpu"), resources.requests.get("cpu")), (Some("2"), Some("2")));
    for (version, path, value) in [("v1.31.9", image, "proxy:v2"), ("v1.32.9", limit, "2")] {
        let reason = on(version, path, value).unwrap_err().to_string();
        assert_eq!(reason, format!("replace {path} needs a new Pod"), "{version}");
    }
    let plain = |template: &mut Value| {
        let proxy = &mut template["spec"]["initContainers"][1];
        (proxy["image"], proxy["restartPolicy"]) = (json!("proxy:v2"), Value::Null);
    };
    assert_eq!(refused(plain), "remove /spec/initContainers/1/restartPolicy needs a new Pod");
    let order = |template: &mut Value| template["spec"]["initContainers"].as_array_mut().unwrap().swap(0, 1);
    assert!(refused(order).contains("/spec/initContainers/"), "{}", refused(order));
    let variable = set("/spec/initContainers/1/name", json!("other"));
    assert_eq!(refused(variable), "replace /spec/initContainers/1/name needs a new Pod");
}

#[test]
fn gates_and_claims_are_obeyed() {
    let resources = || set("/spec/containers/0/resources/limits/cpu", json!("3"));
    let off = Options { vertical_scaling: false, ..GATED };
    let reason = decided(resources(), &off).unwrap_err();
    assert_eq!(
        reason.to_string(),
        "replace /spec/containers/0/resources/limits/cpu needs a new Pod while the feature gate InPlaceWorkloadVerticalScaling is off"
    );
    assert_eq!(decided(|_| (), &Options { claims_differ: true, ..GATED }), Err(Reason::Claims));
    let off = Options { env_from_metadata: false, ..GATED };
    let spec = decided(set("/metadata/annotations/k", json!("v2")), &off).unwrap();
    assert!(!spec.update_env_from_metadata && spec.container_ref_metadata.is_empty(), "scenario 6");
    assert_eq!(spec.metadata_patch.unwrap().annotations, [("k".to_owned(), Some("v2".to_owned()))].into());
}

#[test]
fn referenced_keys_leave_the_general_patch() {
    let change = |template: &mut Value| {
        template["metadata"]["annotations"] = json!({"k": "v2", "new/key": "1"});
        template["metadata"]["labels"]["app"] = json!("other");
    };
    let spec = decided(change, &GATED).unwrap();
    assert!(spec.update_env_from_metadata);
    let main = &spec.container_ref_metadata["main"];
    assert_eq!(main.annotations, [("k".to_owned(), "v2".to_owned())].into());
    assert_eq!(main.labels, [("app".to_owned(), "other".to_owned())].into());
    assert_eq!(spec.container_ref_metadata.len(), 1);
    let patch = spec.metadata_patch.unwrap();
    let annotations = [("plain".to_owned(), None), ("new/key".to_owned(), Some("1".to_owned()))];
    assert_eq!(patch, MetadataPatch { annotations: annotations.into(), ..MetadataPatch::default() });
    let removed = decided(
        |template| drop(template["metadata"]["annotations"].as_object_mut().unwrap().remove("k")),
        &GATED,
    )
    .unwrap();
    assert!(
        !removed.update_env_from_metadata,
        "docs/behaviour/in-place-update.md#what-can-change-in-place: the environment keeps the old value"
    );
    assert_eq!(removed.metadata_patch.unwrap().annotations, [("k".to_owned(), None)].into());
}

#[test]
fn the_first_label_of_a_template_is_a_label_like_any_other() {
    let mut old = base();
    old["metadata"] = json!({});
    let mut new = base();
    new["metadata"] = json!({"annotations": {"k": "v1"}});
    let spec = decide(&template(&old), &template(&new), &GATED).unwrap();
    assert!(spec.update_env_from_metadata);
    assert_eq!(spec.container_ref_metadata["main"].annotations, [("k".to_owned(), "v1".to_owned())].into());
    assert_eq!(spec.metadata_patch, Some(MetadataPatch::default()));
}

#[test]
fn finalizers_merge_by_value() {
    let spec = decided(set("/metadata/finalizers", json!(["x/b", "x/c"])), &GATED).unwrap();
    let patch = spec.metadata_patch.unwrap();
    assert_eq!(
        (patch.finalizers, patch.removed_finalizers),
        (vec!["x/c".to_owned()], vec!["x/a".to_owned()])
    );
}

#[test]
fn scenario_29_the_quality_of_service_may_not_change() {
    let with = |resources: Value| {
        template(&json!({"spec": {"containers": [{"name": "a", "image": "a", "resources": resources}]}}))
    };
    let same = |amount: &str| json!({"cpu": amount, "memory": "1Gi"});
    let guaranteed = with(json!({"limits": same("1"), "requests": same("1")}));
    let burstable = with(json!({"limits": same("2"), "requests": same("1")}));
    let larger = with(json!({"limits": same("2"), "requests": same("2")}));
    assert_eq!(
        decide(&guaranteed, &burstable, &GATED).unwrap_err().to_string(),
        "the quality of service would change from Guaranteed to Burstable, which needs a new Pod"
    );
    assert_eq!(decide(&guaranteed, &larger, &GATED).unwrap().summary(), "resources of a");
    // The API server fills in the requests, so these Pods are Guaranteed and stay so.
    let limits = |amount: &str| with(json!({"limits": same(amount)}));
    let spec = decide(&limits("1"), &limits("2"), &GATED).unwrap();
    let expected = Resources {
        limits: [("cpu", "2")].into_iter().collect(),
        requests: [("cpu", "2")].into_iter().collect(),
    };
    assert_eq!(spec.container_resources["a"], expected);
}

#[test]
fn classes_of_service_are_those_of_kubernetes() {
    let class = |containers: Value| qos::qos_class(containers.as_array().into_iter().flatten());
    let full =
        json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}});
    for (containers, expected) in [
        (json!([{"name": "a"}]), QosClass::BestEffort),
        (json!([{"name": "a", "resources": {"requests": {"cpu": "0"}}}]), QosClass::BestEffort),
        (json!([{"name": "a", "resources": {"limits": {"example.com/gpu": "1"}}}]), QosClass::BestEffort),
        (json!([{"name": "a", "resources": {"requests": {"cpu": "1"}}}]), QosClass::Burstable),
        (json!([{"name": "a", "resources": {"limits": {"cpu": "1"}}}]), QosClass::Burstable),
        (json!([{"name": "a", "resources": full}]), QosClass::Guaranteed),
        (json!([{"name": "a", "resources": full}, {"name": "b"}]), QosClass::Burstable),
    ] {
        assert_eq!(class(containers.clone()), expected, "{containers}");
    }
}

#[test]
fn fields_unknown_to_openkruise_count_where_both_recorded_them() {
    let mut new = base();
    new["spec"]["future"] = json!(1);
    let theirs = decide(&recorded(&base(), false), &recorded(&new, true), &GATED).unwrap();
    assert_eq!(theirs.summary(), "", "they could not have recorded the field");
    let ours = decide(&recorded(&base(), true), &recorded(&new, true), &GATED);
    assert_eq!(ours.unwrap_err().to_string(), "add /spec/future needs a new Pod");
}
