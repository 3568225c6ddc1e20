//! Anything at all as a review, on every path: there is always an answer, it is a review, and it carries
//! the uid wherever one could be read.

use std::sync::LazyLock;
use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use webhooks::{Admission, Deadline, Endpoint};

use crate::support::{
    PROTECTED, create_pod, create_sidecar_set, delete, labelled, review, sidecar_set, with_sidecar_sets,
};

static ADMISSION: LazyLock<Admission> =
    LazyLock::new(|| with_sidecar_sets(&format!("{PROTECTED},Rollouts=true"), &[sidecar_set(), nonsense()]));
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap());

/// A SidecarSet as only an old or damaged store holds it.
fn nonsense() -> Value {
    let mut sidecar_set = sidecar_set();
    sidecar_set["metadata"]["name"] = json!("nonsense");
    sidecar_set["spec"]["selector"] =
        json!({"matchExpressions": [{"key": "?", "operator": "Near", "values": []}]});
    sidecar_set["spec"]["patchPodMetadata"] =
        json!([{"patchPolicy": "MergePatchJson", "annotations": {"a": "{"}}]);
    sidecar_set
}

/// Sends `body` everywhere and checks what holds for every answer.
fn check(body: &[u8], uid: Option<&str>) {
    check_with(&ADMISSION, body, uid);
}

fn check_with(admission: &Admission, body: &[u8], uid: Option<&str>) {
    for endpoint in Endpoint::all() {
        let deadline = async { Deadline::after(Duration::from_secs(60)) };
        let reply = RUNTIME.block_on(async { admission.admit(endpoint, body, deadline.await).await });
        let answer: Value = serde_json::from_slice(&reply.body).unwrap();
        let response = &answer["response"];
        assert_eq!(response["status"]["code"], reply.code);
        assert_eq!(response["allowed"], reply.code == 200);
        let message = response["status"]["message"].as_str().unwrap_or_default();
        assert!(!message.starts_with("panic: "), "{endpoint:?}: {message}");
        assert_eq!(message.is_empty(), reply.code == 200);
        if let Some(uid) = uid {
            assert_eq!(response["uid"], uid, "{endpoint:?}");
        }
    }
}

/// Any JSON, rich in the keys that rules read.
fn value() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        3 => select(vec![
            "metadata", "spec", "status", "kind", "apiVersion", "name", "namespace", "labels", "annotations",
            "containers", "initContainers", "volumes", "volumeMounts", "env", "valueFrom", "replicas", "versions",
            "names", "conditions", "ownerReferences", "controller", "selector", "matchLabels", "matchExpressions",
            "operator", "values", "updateStrategy", "injectionStrategy", "policy.kruise.io/delete-protection",
            "apps.kruise.io/container-launch-priority", "image", "lifecycle", "resources", "namespaceSelector",
        ]).prop_map(str::to_owned),
        1 => ".{0,6}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(vec![
            "",
            "Always",
            "Cascading",
            "CREATE",
            "v1",
            "Pod",
            "SidecarSet",
            "Ordered",
            "In",
            "50%",
            "10Gi"
        ])
        .prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(key.clone(), inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn template() -> impl Strategy<Value = Value> {
    let mut namespace = labelled("Namespace", "", "a", "Cascading");
    namespace["spec"] = json!({"replicas": 3, "group": "g", "names": {"kind": "K"}, "versions": [{"name": "v1", "served": true}]});
    select(vec![create_pod(2), create_sidecar_set(&sidecar_set()), delete("namespaces", "v1", &namespace)])
}

/// Every place in a value, as pointers.
fn places(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, format!("{at}/{index}"), found);
            }
        }
        Value::Object(entries) => {
            for (key, item) in entries {
                places(item, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        _ => {}
    }
    found.push(at);
}

proptest! {
    #[test]
    fn any_bytes_are_answered(body in vec(any::<u8>(), 0..512)) {
        check(&body, None);
    }

    #[test]
    fn any_json_is_answered(body in value()) {
        check(body.to_string().as_bytes(), body.pointer("/request/uid").and_then(Value::as_str));
    }

    #[test]
    fn any_objects_are_answered(object in value(), old in value(), operation in select(vec!["CREATE", "UPDATE", "DELETE", "X"])) {
        let mut request = create_pod(1);
        request["operation"] = json!(operation);
        request["object"] = object;
        request["oldObject"] = old;
        check(&review(&request), Some("7f2c9e4a-0002"));
    }

    /// A good review with one to three values replaced.
    #[test]
    fn mutated_reviews_are_answered(
        request in template(),
        changes in vec((any::<prop::sample::Index>(), value()), 1..4),
    ) {
        let mut whole: Value = serde_json::from_slice(&review(&request)).unwrap();
        for (place, replacement) in changes {
            let mut found = Vec::new();
            places(&whole, String::new(), &mut found);
            let place = place.get(found.as_slice()).as_str();
            *whole.pointer_mut(place).unwrap() = replacement;
        }
        check(whole.to_string().as_bytes(), whole.pointer("/request/uid").and_then(Value::as_str));
    }

    /// A good review with bytes overwritten or cut off.
    #[test]
    fn damaged_reviews_are_answered(
        request in template(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in any::<prop::sample::Index>(),
    ) {
        let mut body = review(&request);
        for (place, byte) in damage {
            let place = place.index(body.len());
            body[place] = byte;
        }
        check(&body, None);
        check(&body[..end.index(body.len())], None);
    }

    /// Whatever SidecarSets are stored, Pods get an answer.
    #[test]
    fn any_sidecarsets_leave_pods_an_answer(
        changes in vec((any::<prop::sample::Index>(), value()), 1..4),
        other in value(),
    ) {
        let mut broken = sidecar_set();
        for (place, replacement) in changes {
            let mut found = Vec::new();
            places(&broken, String::new(), &mut found);
            let place = place.get(found.as_slice()).as_str();
            *broken.pointer_mut(place).unwrap() = replacement;
        }
        let admission = with_sidecar_sets(PROTECTED, &[sidecar_set(), broken, other]);
        check_with(&admission, &review(&create_pod(2)), Some("7f2c9e4a-0002"));
    }
}
