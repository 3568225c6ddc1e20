//! Every row of the mapping tables both ways, and what holds for all kinds.

mod generate;
mod rollouts;
mod round_trip;
mod rows;

use serde_json::{Value, json};

use super::{CONVERTED_FIELDS, ConversionError, convert};

const ALPHA: &str = "apps.kruise.io/v1alpha1";
const BETA: &str = "apps.kruise.io/v1beta1";

fn other_version(api_version: &str) -> &'static str {
    match api_version {
        "apps.kruise.io/v1alpha1" => BETA,
        "apps.kruise.io/v1beta1" => ALPHA,
        "policy.kruise.io/v1alpha1" => "policy.kruise.io/v1beta1",
        "policy.kruise.io/v1beta1" => "policy.kruise.io/v1alpha1",
        "rollouts.kruise.io/v1alpha1" => "rollouts.kruise.io/v1beta1",
        _ => "rollouts.kruise.io/v1alpha1",
    }
}

/// The object in the other version, with the annotation that keeps what was lost.
fn flip(object: &Value) -> Value {
    let api_version = object["apiVersion"].as_str().unwrap();
    let converted = convert(&object.to_string(), other_version(api_version)).unwrap();
    serde_json::from_str(converted.get()).unwrap()
}

/// The object without the annotation of ours.
fn visible(mut object: Value) -> Value {
    let annotations = object["metadata"].get_mut("annotations").and_then(Value::as_object_mut);
    let emptied = annotations.is_some_and(|map| map.remove(CONVERTED_FIELDS).is_some() && map.is_empty());
    if emptied {
        object["metadata"].as_object_mut().unwrap().remove("annotations");
    }
    object
}

fn object(api_version: &str, kind: &str, mut metadata: Value, spec: Value, status: Value) -> Value {
    metadata["name"] = "a".into();
    metadata["uid"] = "u".into();
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    for (key, value) in [("spec", spec), ("status", status)] {
        if !value.is_null() {
            object[key] = value;
        }
    }
    object
}

/// Converts and compares what is visible; then the way back has to give the source.
#[track_caller]
fn assert_flips(from: &Value, to: &Value) {
    let flipped = flip(from);
    assert_eq!(&visible(flipped.clone()), to, "conversion");
    assert_eq!(&flip(&flipped), from, "way back");
}

#[test]
fn untouched_parts_survive_byte_for_byte() {
    let text = r#"{"apiVersion":"apps.kruise.io/v1alpha1","kind":"StatefulSet","zeta":{"b":1.50,"a":12345678901234567890123},"metadata":{"name":"x"},"spec":{"template":{"spec":{"unknown":[1.0, 1e2],"x":"\u00e9<"}},"replicas":3}}"#;
    let converted = convert(text, BETA).unwrap();
    assert_eq!(converted.get(), text.replace("v1alpha1", "v1beta1"));
}

#[test]
fn noted_values_keep_their_text() {
    let text = r#"{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","metadata":{"name":"x"},"spec":{"lifecycle":{"n":1.50,"m":12345678901234567890123}}}"#;
    let alpha = convert(text, ALPHA).unwrap();
    assert!(!alpha.get().contains("lifecycle\":{\"n"), "{}", alpha.get());
    assert_eq!(convert(alpha.get(), BETA).unwrap().get(), text);
}

#[test]
fn kinds_of_one_shape_change_only_their_version() {
    for kind in ["AdvancedCronJob", "BroadcastJob", "ImageListPullJob", "ImagePullJob", "NodeImage"] {
        let spec = json!({"template": {"imageListPullJobTemplate": {}}, "images": {"a": {"pullSecrets": [{"mode": "x"}]}}});
        let alpha = object(ALPHA, kind, json!({"labels": {"a": "b"}}), spec, json!({"active": 1}));
        let mut beta = alpha.clone();
        beta["apiVersion"] = BETA.into();
        assert_flips(&alpha, &beta);
        assert_flips(&beta, &alpha);
    }
}

#[test]
fn an_object_without_spec_or_status_gets_none() {
    for kind in ["CloneSet", "SidecarSet", "StatefulSet", "UnitedDeployment", "DaemonSet", "WorkloadSpread"] {
        let alpha = object(ALPHA, kind, json!({}), Value::Null, Value::Null);
        let beta = object(BETA, kind, json!({}), Value::Null, Value::Null);
        assert_flips(&alpha, &beta);
        assert_flips(&beta, &alpha);
    }
}

#[test]
fn what_cannot_be_converted_is_named() {
    let message =
        |object: Value, version: &str| convert(&object.to_string(), version).unwrap_err().to_string();
    let beta = object(BETA, "CloneSet", json!({}), json!({}), Value::Null);
    assert_eq!(message(beta.clone(), BETA), "conversion is not allowed between same type *v1beta1.CloneSet");
    assert_eq!(
        message(beta.clone(), "apps.kruise.io/v2"),
        "no kind \"CloneSet\" is registered for version \"apps.kruise.io/v2\""
    );
    assert_eq!(
        message(beta, "policy.kruise.io/v1alpha1"),
        "no kind \"CloneSet\" is registered for version \"policy.kruise.io/v1alpha1\""
    );
    let unknown = object(BETA, "Frob", json!({}), json!({}), Value::Null);
    assert_eq!(
        message(unknown, ALPHA),
        "no kind \"Frob\" is registered for version \"apps.kruise.io/v1beta1\""
    );
    assert!(matches!(convert("[]", ALPHA), Err(ConversionError::Malformed(_))));
    assert!(convert("{}", ALPHA).is_err());
}

#[test]
fn a_note_for_the_version_at_hand_is_dropped() {
    let beta = object(BETA, "StatefulSet", json!({}), json!({"reserveOrdinals": [1]}), Value::Null);
    let mut copied = flip(&beta);
    copied["apiVersion"] = BETA.into();
    assert_eq!(flip(&copied), object(ALPHA, "StatefulSet", json!({}), json!({}), Value::Null));
}

#[test]
fn a_forged_note_changes_nothing_that_is_visible() {
    let forged = json!({"version": "v1beta1", "set": [
        {"path": ["spec", "replicas"], "value": 9},
        {"path": ["metadata", "name"], "value": "b"},
        {"path": ["metadata", "uid"], "value": "b"},
        {"path": ["kind"], "value": "DaemonSet"},
        {"path": ["spec", "reserveOrdinals"], "value": [7]},
        {"path": [], "value": {}},
        {"path": ["spec", "list", "name=x", "y"], "value": 1},
    ], "unset": [["spec", "replicas"], ["spec"], ["metadata", "labels", "a"]]});
    let metadata = json!({"annotations": {CONVERTED_FIELDS: forged.to_string()}, "labels": {"a": "b"}});
    let alpha = object(ALPHA, "StatefulSet", metadata, json!({"replicas": 3}), Value::Null);
    let expected = object(
        BETA,
        "StatefulSet",
        json!({"labels": {"a": "b"}}),
        json!({"replicas": 3, "reserveOrdinals": [7]}),
        Value::Null,
    );
    assert_eq!(flip(&alpha), expected);
    for text in ["", "{", "[]", "{\"version\":\"v1beta1\",\"set\":3}"] {
        let metadata = json!({"annotations": {CONVERTED_FIELDS: text}});
        let alpha = object(ALPHA, "StatefulSet", metadata, json!({"replicas": 3}), Value::Null);
        assert_eq!(flip(&alpha)["spec"], json!({"replicas": 3}));
    }
}
