use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A ResourceDistribution of this resource.
fn distribution(resource: &str) -> Distribution {
    let json = format!(
        r#"{{"metadata":{{"name":"rd","uid":"rd-1","resourceVersion":"9"}},"spec":{{"resource":{resource},"targets":{{}}}}}}"#
    );
    Distribution::read(&json).unwrap()
}

fn resource(distribution: &Distribution) -> &Resource {
    distribution.resource.as_ref().unwrap()
}

/// The copy in namespace `n`, as the API server stores it: with an identity and all else as sent.
fn stored(distribution: &Distribution) -> Value {
    let mut copy: Value =
        serde_json::from_str(&resource(distribution).copy(distribution, "n").unwrap()).unwrap();
    copy["metadata"]["uid"] = json!("c-1");
    copy["metadata"]["resourceVersion"] = json!("5");
    copy
}

fn patch(distribution: &Distribution, copy: &Value) -> Option<Value> {
    let patch = resource(distribution).patch(distribution, &copy.to_string()).unwrap();
    patch.map(|patch| serde_json::from_str(&patch).unwrap())
}

const CONFIG_MAP: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm"},"data":{"a":"1"}}"#;

#[test]
fn only_named_secrets_and_config_maps_can_be_distributed() {
    let read = |text: &str| Resource::read(Some(&Raw::parse(text).unwrap())).map(|resource| resource.kind);
    assert_eq!(read(CONFIG_MAP), Ok(ResourceKind::ConfigMap));
    assert_eq!(
        read(r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}"#),
        Ok(ResourceKind::Secret)
    );
    for kind in [r#""apiVersion":"v1","kind":"Pod""#, r#""apiVersion":"example.com/v1","kind":"Secret""#] {
        let read = read(&format!(r#"{{{kind},"metadata":{{"name":"a"}}}}"#));
        assert!(matches!(read, Err(ResourceError::Unsupported(_))), "{kind}");
    }
    let unnamed = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"generateName":"a-"}}"#;
    assert_eq!(read(unnamed), Err(ResourceError::NoName));
    assert_eq!(read("null"), Err(ResourceError::Empty));
    assert_eq!(Resource::read(None).map(|resource| resource.kind), Err(ResourceError::Empty));
    for text in ["[]", "3", r#"{"kind":7}"#] {
        assert!(matches!(read(text), Err(ResourceError::Unreadable(_))), "{text}");
    }
}

#[test]
fn a_copy_carries_the_resource_as_it_came_beside_owner_and_annotations() {
    let text = r#"{"apiVersion":"v1","future":1.50,"kind":"Secret","metadata":{"name":"s","namespace":"other","labels":{"x":"y"},"uid":"n"},"stringData":{"a":"\u003c"}}"#;
    let distribution = distribution(text);
    let copy = resource(&distribution).copy(&distribution, "ns-1").unwrap();
    assert!(
        copy.starts_with(
            r#"{"apiVersion":"v1","future":1.50,"kind":"Secret","metadata":{"name":"s","namespace":"ns-1","#
        ),
        "{copy}"
    );
    assert!(copy.ends_with(r#""stringData":{"a":"\u003c"}}"#), "{copy}");
    let copy: Value = serde_json::from_str(&copy).unwrap();
    assert_eq!(copy["metadata"]["labels"], json!({"x": "y"}));
    assert_eq!(
        copy["metadata"]["ownerReferences"],
        json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "ResourceDistribution", "name": "rd", "uid": "rd-1",
            "controller": true, "blockOwnerDeletion": true}])
    );
    let annotations = &copy["metadata"]["annotations"];
    assert_eq!(annotations[DISTRIBUTED_FROM], "rd");
    assert_eq!(annotations[DISTRIBUTED_METADATA], r#"{"labels":["x"]}"#);
    // sha256sum of the text above.
    assert_eq!(annotations[DISTRIBUTED_HASH], resource(&distribution).hash());
    assert_eq!(resource(&distribution).hash(), hex_sha256(text));
}

#[test]
fn the_hash_is_that_of_the_bytes() {
    // printf '{}' | sha256sum
    assert_eq!(hex_sha256("{}"), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
}

#[test]
fn foreign_owners_of_the_resource_are_kept_and_our_own_is_written_once() {
    let text = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm","ownerReferences":[
        {"apiVersion":"v1","kind":"Node","name":"n","uid":"n-1"},{"apiVersion":"x/v1","kind":"Y","name":"old","uid":"rd-1"}]}}"#;
    let distribution = distribution(text);
    let copy = stored(&distribution);
    let uids: Vec<_> = copy["metadata"]["ownerReferences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|owner| owner["uid"].clone())
        .collect();
    assert_eq!(uids, ["n-1", "rd-1"]);
}

#[test]
fn a_copy_that_is_equal_is_not_patched() {
    for text in [
        CONFIG_MAP,
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm","labels":{"a":"b"},"annotations":{"c":"d"}},"immutable":true}"#,
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm"},"data":{},"binaryData":null,"items":[]}"#,
    ] {
        let distribution = distribution(text);
        assert_eq!(patch(&distribution, &stored(&distribution)), None, "{text}");
    }
}

#[test]
fn what_kubernetes_folds_and_fills_in_makes_no_difference() {
    let text = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},
        "data":{"a":"MQ==\n","b":"MQ=="},"stringData":{"b":"two","c":null}}"#;
    let distribution = distribution(text);
    let mut copy = stored(&distribution);
    copy.as_object_mut().unwrap().remove("stringData");
    copy["data"] = json!({"a": "MQ==", "b": "dHdv", "c": ""});
    copy["type"] = json!("Opaque");
    assert_eq!(patch(&distribution, &copy), None);
    copy["data"] = json!({"a": "MQ==", "b": "MQ==", "d": "MQ=="});
    assert_eq!(patch(&distribution, &copy).unwrap()["data"], json!({"b": "dHdv", "c": "", "d": null}));
    copy["type"] = json!("kubernetes.io/tls");
    assert_eq!(patch(&distribution, &copy).unwrap()["type"], "Opaque");
}

#[test]
fn a_direct_edit_of_the_content_is_put_back_in_the_state_that_was_read() {
    let distribution = distribution(CONFIG_MAP);
    let mut copy = stored(&distribution);
    copy["data"] = json!({"a": "2", "b": "3"});
    copy["immutable"] = json!(false);
    assert_eq!(
        patch(&distribution, &copy).unwrap(),
        json!({"metadata": {"uid": "c-1", "resourceVersion": "5"}, "data": {"a": "1", "b": null}, "immutable": null})
    );
}

#[test]
fn labels_and_annotations_of_others_stay_and_those_that_were_ours_go() {
    let old = distribution(
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm","labels":{"a":"1","b":"1"},"annotations":{"c":"1"}}}"#,
    );
    let mut copy = stored(&old);
    copy["metadata"]["labels"]["x"] = json!("y");
    assert_eq!(patch(&old, &copy), None, "what others add is no reason for a write");
    let new = distribution(
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm","labels":{"b":"2","d":"1"}}}"#,
    );
    let metadata = patch(&new, &copy).unwrap()["metadata"].clone();
    assert_eq!(metadata["labels"], json!({"a": null, "b": "2", "d": "1"}));
    assert_eq!(metadata["annotations"]["c"], Value::Null);
    assert_eq!(metadata["annotations"][DISTRIBUTED_METADATA], r#"{"labels":["b","d"]}"#);
    let none = distribution(CONFIG_MAP);
    let metadata = patch(&none, &copy).unwrap()["metadata"].clone();
    assert_eq!(metadata["labels"], json!({"a": null, "b": null}));
    let annotations = metadata["annotations"].as_object().unwrap();
    assert!(annotations.contains_key(DISTRIBUTED_METADATA) && annotations[DISTRIBUTED_METADATA].is_null());
}

#[test]
fn a_change_of_labels_alone_reaches_the_copies() {
    let old = distribution(CONFIG_MAP);
    let new = distribution(&CONFIG_MAP.replace(r#""name":"cm""#, r#""labels":{"a":"b"},"name":"cm""#));
    let patch = patch(&new, &stored(&old)).unwrap();
    assert_eq!(patch["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(patch["metadata"]["annotations"][DISTRIBUTED_HASH], resource(&new).hash());
    assert!(patch.get("data").is_none());
}

#[test]
fn a_reference_of_an_older_release_is_rewritten_with_the_next_write_only() {
    let old = distribution(CONFIG_MAP);
    let mut copy = stored(&old);
    let foreign = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n-1"});
    copy["metadata"]["ownerReferences"][0]["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    copy["metadata"]["ownerReferences"].as_array_mut().unwrap().push(foreign);
    assert_eq!(patch(&old, &copy), None);
    copy["data"] = json!({});
    let owners = patch(&old, &copy).unwrap()["metadata"]["ownerReferences"].clone();
    assert_eq!(owners.as_array().unwrap().len(), 1, "that of others is merged by its UID: {owners}");
    assert_eq!(
        (&owners[0]["uid"], &owners[0]["apiVersion"]),
        (&json!("rd-1"), &json!("apps.kruise.io/v1beta1"))
    );
}

#[test]
fn finalizers_of_the_resource_come_along_but_not_onto_a_copy_that_goes() {
    let distribution = distribution(
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm","finalizers":["a/b","c/d"]},"data":{"a":"1"}}"#,
    );
    let mut copy = stored(&distribution);
    copy["metadata"]["finalizers"] = json!(["c/d", "e/f"]);
    assert_eq!(patch(&distribution, &copy), None);
    copy["data"] = json!({});
    assert_eq!(patch(&distribution, &copy).unwrap()["metadata"]["finalizers"], json!(["a/b"]));
    copy["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(patch(&distribution, &copy).unwrap()["metadata"].get("finalizers").is_none());
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let distribution =
        distribution(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm"},"data":{"a":1}}"#);
    let copy = stored(&distribution).to_string();
    resource(&distribution).patch(&distribution, &copy).unwrap_err();
}

fn content() -> impl Strategy<Value = Value> {
    let texts = prop::collection::btree_map("[ab]", "[a-c]{0,2}", 0..3);
    (texts.clone(), texts.clone(), texts).prop_map(|(data, labels, annotations)| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": "cm", "labels": labels, "annotations": annotations}})
    })
}

proptest! {
    /// Merged into the copy of one resource, the patch makes it a copy of another one.
    #[test]
    fn a_patched_copy_is_equal(old in content(), new in content(), edit in content()) {
        let (old, new) = (distribution(&old.to_string()), distribution(&new.to_string()));
        let mut copy = stored(&old);
        copy["data"] = edit["data"].clone();
        let Some(patch) = patch(&new, &copy) else { return Ok(()) };
        json_patch::merge(&mut copy, &patch);
        prop_assert_eq!(self::patch(&new, &copy), None);
        let wanted = stored(&new);
        let keys = |value: &Value| value.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect::<BTreeSet<_>>();
        prop_assert_eq!(&copy["data"], &wanted["data"]);
        for member in ["labels", "annotations"] {
            prop_assert_eq!(keys(&copy["metadata"][member]), keys(&wanted["metadata"][member]));
        }
    }
}
