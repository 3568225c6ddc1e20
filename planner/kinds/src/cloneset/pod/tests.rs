use serde_json::{Value, json};

use super::*;

fn set(spec: &str) -> CloneSet {
    let text = format!(
        r#"{{"metadata":{{"name":"web","namespace":"shop","uid":"u"}},"spec":{{"selector":{{"matchLabels":{{"app":"web"}}}},{spec}}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

const TEMPLATE: &str = r#"{"metadata":{"labels":{"app":"web"},"annotations":{"a":"b"},"finalizers":["example.com/f"],
    "creationTimestamp":null},"spec":{"volumes":[{"name":"data","emptyDir":{}},{"name":"tmp","emptyDir":{"sizeLimit":1.50}}],
    "containers":[{"name":"main","image":"nginx","futureField":{"x":12345678901234567890123}}],"readinessGates":[{"conditionType":"Mine"}]}}"#;

fn blueprint(short: bool) -> Blueprint<'static> {
    Blueprint {
        revision: "web-5d8f",
        template: TEMPLATE,
        claims: None,
        labels: RevisionLabels::CloneSet { short },
    }
}

fn given(set: &CloneSet) -> Option<&Raw> {
    set.spec.volume_claim_templates.as_ref()
}

#[test]
fn a_pod_is_the_template_with_what_makes_it_ours() {
    let set = set(r#""volumeClaimTemplates":[{"metadata":{"name":"data"}}]"#);
    let text =
        pod(&set, Blueprint { claims: given(&set), ..blueprint(false) }, "abcde", "2026-05-01T08:00:00Z")
            .unwrap();
    let pod: Value = serde_json::from_str(&text).unwrap();
    let owner = json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": "u",
        "controller": true, "blockOwnerDeletion": true}]);
    assert_eq!(
        pod["metadata"],
        json!({
            "name": "web-abcde", "generateName": "web-", "namespace": "shop", "ownerReferences": owner,
            "labels": {"app": "web", "controller-revision-hash": "web-5d8f", "pod-template-hash": "5d8f",
                "apps.kruise.io/cloneset-instance-id": "abcde", "lifecycle.apps.kruise.io/state": "PreparingNormal"},
            "annotations": {"a": "b", "lifecycle.apps.kruise.io/timestamp": "2026-05-01T08:00:00Z"},
            "finalizers": ["example.com/f"],
        })
    );
    assert_eq!(
        pod["spec"]["readinessGates"],
        json!([{"conditionType": "Mine"}, {"conditionType": "InPlaceUpdateReady"}])
    );
    let volumes = &pod["spec"]["volumes"];
    assert_eq!(volumes[0], json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-web-abcde"}}));
    assert_eq!(volumes.as_array().unwrap().len(), 2);
    assert!(
        text.contains(r#"{"sizeLimit":1.50}"#) && text.contains(r#"{"x":12345678901234567890123}"#),
        "{text}"
    );
}

#[test]
fn the_gate_shortens_the_revision_label() {
    let text = pod(&set(r#""replicas":1"#), blueprint(true), "abcde", "").unwrap();
    let pod: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], "5d8f");
    assert_eq!(pod["spec"]["volumes"][0]["emptyDir"], json!({}), "without claims the volumes stay");
}

#[test]
fn claims_are_the_templates_with_selector_and_id() {
    let set = set(
        r#""volumeClaimTemplates":[{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data","labels":{"tier":"db","app":"other"},
        "annotations":{"a":"b"},"creationTimestamp":null},"spec":{"x":1.50},"status":{"phase":"Pending"}}]"#,
    );
    let [claim] = claims(&set, given(&set), "abcde").unwrap().try_into().unwrap();
    assert_eq!(claim.name, "data-web-abcde");
    assert!(claim.json.contains(r#""spec":{"x":1.50}"#), "{}", claim.json);
    let object: Value = serde_json::from_str(&claim.json).unwrap();
    assert_eq!(
        object["metadata"]["labels"],
        json!({"tier": "db", "app": "web", "apps.kruise.io/cloneset-instance-id": "abcde"})
    );
    assert_eq!(object["metadata"]["annotations"], json!({"a": "b"}));
    assert_eq!(object["metadata"]["namespace"], "shop");
    assert_eq!((&object["apiVersion"], &object["kind"]), (&json!("v1"), &json!("PersistentVolumeClaim")));
    assert!(object.get("status").is_none() && object["metadata"].get("creationTimestamp").is_none());
}

#[test]
fn what_is_no_template_makes_no_pod() {
    let odd = Blueprint { template: r#"{"spec":[]}"#, ..blueprint(false) };
    assert_eq!(
        pod(&set(r#""replicas":1"#), odd, "a", "").unwrap_err().to_string(),
        "spec.template.spec is not a JSON object"
    );
    let set = set(r#""volumeClaimTemplates":["x"]"#);
    assert_eq!(
        claims(&set, given(&set), "a").unwrap_err().to_string(),
        "spec.volumeClaimTemplates[0] is not a JSON object"
    );
}
