use std::collections::BTreeMap;

use super::*;
use api::annotations::CLONESET_CLAIMS_HASH;
use api::kinds::ObjectMeta;
use api::labels::CONTROLLER_HASH;

use crate::workload::owner::Owner;
use pod::observed::ObservedPod;
use pod::revision_labels::RevisionLabels;
use proptest::prelude::*;
use serde_json::{Value, json};
use values::selector::Selector;

/// What the user wrote, before and after the admission server filled in the defaults.
const TEMPLATE: &str =
    r#"{"metadata":{"labels":{"app":"demo"}},"spec":{"containers":[{"name":"main","image":"nginx:1.25"}]}}"#;
const DEFAULTED: &str = r#"{"spec":{"terminationGracePeriodSeconds":30,"containers":[{"name":"main","image":"nginx:1.25","imagePullPolicy":"Always","terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{}},"metadata":{"labels":{"app":"demo"}}}"#;

/// What OpenKruise stored (docs/behaviour/revisions.md#hash-and-name), and what it stores since its libraries
/// leave out an empty creation time and empty resources.
const DATA: &str = r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"demo"}},"spec":{"containers":[{"image":"nginx:1.25","imagePullPolicy":"Always","name":"main","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}"#;
const NEWER_DATA: &str = r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"demo"}},"spec":{"containers":[{"image":"nginx:1.25","imagePullPolicy":"Always","name":"main","terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}"#;

fn revision(template: &str) -> RevisionData {
    RevisionData::of_template(template).unwrap()
}

fn stored(name: &str, number: i64, data: &str, metadata: &Value) -> StoredRevision {
    let mut object =
        json!({"metadata": {"name": name, "labels": {"app": "demo"}}, "data": null, "revision": number});
    for (key, value) in metadata.as_object().unwrap() {
        object["metadata"][key] = value.clone();
    }
    let object = object.to_string().replace(r#""data":null"#, &format!(r#""data":{data}"#));
    StoredRevision::read(&object).unwrap()
}

fn selector() -> Selector {
    Selector::compile(&serde_json::from_str(r#"{"matchLabels":{"app":"demo"}}"#).unwrap()).unwrap()
}

fn owner(uid: &str) -> ObjectMeta {
    serde_json::from_value(
        json!({"name": "demo", "namespace": "shop", "uid": uid, "annotations": {"cause": "why"}}),
    )
    .unwrap()
}

/// What is chosen for the defaulted template.
fn chosen<'a>(claims_hash: Option<&str>, collision_count: i32, history: &[&'a StoredRevision]) -> Choice<'a> {
    let metadata = owner("u");
    let annotation = claims_hash.map(|hash| (CLONESET_CLAIMS_HASH, hash));
    let mut annotations = metadata.annotations.clone();
    annotations.extend(annotation.map(|(key, hash)| (key.to_owned(), hash.to_owned())));
    let wanted = Wanted {
        data: revision(DEFAULTED),
        owner: Owner::of("apps.kruise.io/v1beta1", "CloneSet", &metadata),
        namespace: &metadata.namespace,
        labels: BTreeMap::from([("app".to_owned(), "demo".to_owned())]),
        annotations,
        hash_label: CONTROLLER_HASH,
        collision_count,
        label_of_current: None,
        annotation_of_newest: annotation,
        claims: None,
        must_be_owned: true,
    };
    choose(wanted, history)
}

/// The revision that is created where there is none.
fn created(claims_hash: Option<&str>, collision_count: i32) -> NewRevision {
    match chosen(claims_hash, collision_count, &[]).step {
        Some(RevisionStep::Create(new)) => *new,
        other => panic!("nothing to create: {other:?}"),
    }
}

/// The name of the revision that is patched, and the patch.
fn patched(choice: Choice<'_>) -> (String, String) {
    match choice.step {
        Some(RevisionStep::Patch { revision, patch }) => (revision.name, patch),
        other => panic!("no rollback: {other:?}"),
    }
}

#[test]
fn hashes_and_names_are_those_of_the_reference() {
    assert_eq!(
        revision(TEMPLATE).data(),
        r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"demo"}},"spec":{"containers":[{"image":"nginx:1.25","name":"main","resources":{}}]}}}}"#
    );
    assert_eq!(revision(TEMPLATE).hash(0), "788944f45");
    assert_eq!(revision(TEMPLATE).hash(1), "788944f44");
    assert_eq!(revision(DEFAULTED).data(), DATA);
    assert_eq!(revision(DEFAULTED).name("demo", 0), "demo-86f599f8d5");
    let long = revision(TEMPLATE).name(&"a".repeat(250), 0);
    assert_eq!(long, format!("{}-788944f45", "a".repeat(223)));
}

#[test]
fn both_forms_that_the_reference_stored_are_found_equal() {
    for data in [DATA, NEWER_DATA] {
        let existing = stored("demo-86f599f8d5", 1, data, &json!({}));
        assert!(revision(DEFAULTED).means_the_same_as(&existing), "{data}");
        assert!(!revision(&DEFAULTED.replace("1.25", "1.26")).means_the_same_as(&existing));
        let emptied =
            DEFAULTED.replace(r#""securityContext":{}"#, r#""volumes":[{"name":"a","emptyDir":{}}]"#);
        assert!(!revision(&emptied).means_the_same_as(&existing));
        let extended = DEFAULTED.replace(r#""dnsPolicy""#, r#""future":{"a":1.50},"dnsPolicy""#);
        assert!(revision(&extended).means_the_same_as(&existing), "the reference can't store the field");
        let marked = stored("x", 1, data, &json!({"annotations": {"kutter.io/whole-template": "true"}}));
        assert!(!revision(&extended).means_the_same_as(&marked), "we would have stored the field");
        assert!(revision(DEFAULTED).means_the_same_as(&marked));
    }
}

#[test]
fn fields_unknown_to_us_survive_and_do_not_change_the_name() {
    let extended = DEFAULTED.replace(r#""name":"main""#, r#""name":"main","future":{"b":1.50,"a":[1]}"#);
    let extended = revision(&extended);
    assert_eq!(extended.hash(0), revision(DEFAULTED).hash(0));
    let restored = restored_template(extended.data()).unwrap();
    assert!(restored.get().contains(r#""future":{"a":[1],"b":1.50}"#), "{}", restored.get());
    assert!(!restored.get().contains("$patch"));
    assert_eq!(RevisionData::of_data(extended.data()).unwrap(), extended);
}

#[test]
fn a_directive_that_another_tool_left_in_the_template_is_not_recorded() {
    let odd = TEMPLATE.replacen('{', r#"{"$patch":"replace","#, 1);
    assert_eq!(revision(&odd), revision(TEMPLATE));
    assert!(restored_template(r#"{"spec":{}}"#).is_err());
    assert!(RevisionData::of_template(r#"{"spec":{"containers":3}}"#).is_err());
}

#[test]
fn history_is_what_belongs_to_the_workload_in_order() {
    let owned_by = |uid: &str| json!({"ownerReferences": [{"uid": uid, "controller": true}]});
    let revisions = [
        stored("c", 3, DATA, &owned_by("u")),
        stored("b", 2, DATA, &json!({"creationTimestamp": "2026-01-01T00:00:01Z"})),
        stored("d", 2, DATA, &json!({"creationTimestamp": "2026-01-01T00:00:00Z"})),
        stored("a", 2, DATA, &json!({"creationTimestamp": "2026-01-01T00:00:01Z"})),
        stored("foreign", 9, DATA, &owned_by("other")),
        stored("unlabelled", 9, DATA, &json!({"labels": {}})),
    ];
    let names: Vec<&str> = history(&revisions, &selector(), "u").iter().map(|one| one.name()).collect();
    assert_eq!(names, ["d", "a", "b", "c"]);
}

#[test]
fn scenario_14_a_rollback_makes_the_old_revision_the_newest() {
    let other = DATA.replace("1.25", "1.26");
    let first = stored("demo-1", 1, NEWER_DATA, &json!({"uid": "r", "resourceVersion": "5"}));
    let second = stored("demo-2", 2, &other, &json!({}));
    let back = chosen(Some("7"), 0, &[&first, &second]);
    assert_eq!(back.name(), "demo-1");
    let (name, patch) = patched(back);
    assert_eq!(name, "demo-1");
    assert_eq!(
        patch,
        r#"{"metadata":{"uid":"r","resourceVersion":"5","annotations":{"kruise.io/cloneset-volumeclaimtemplate-hash":"7"}},"revision":3}"#
    );
    let newest = chosen(Some("7"), 0, &[&second, &first]);
    assert_eq!((newest.name(), &newest.step), ("demo-1", &None));
    let recorded = stored(
        "demo-1",
        1,
        DATA,
        &json!({"annotations": {"kruise.io/cloneset-volumeclaimtemplate-hash": "7"}}),
    );
    let (_, patch) = patched(chosen(Some("7"), 0, &[&recorded, &second]));
    assert!(!patch.contains("annotations"), "{patch}");
    assert_eq!(current(&[&first, &second], "demo-2").map(StoredRevision::name), Some("demo-2"));
    assert!(current(&[&first, &second], "demo-3").is_none());
}

#[test]
fn scenario_13_a_new_revision_carries_what_tools_look_for() {
    let new = created(Some(""), 0);
    assert_eq!(new.name, "demo-86f599f8d5");
    let object: Value = serde_json::from_str(&new.to_json()).unwrap();
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {
            "name": "demo-86f599f8d5", "namespace": "shop",
            "labels": {"app": "demo", "controller.kubernetes.io/hash": "86f599f8d5"},
            "annotations": {"cause": "why", "kutter.io/whole-template": "true",
                "kruise.io/cloneset-volumeclaimtemplate-hash": ""},
            "ownerReferences": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "demo",
                "uid": "u", "controller": true, "blockOwnerDeletion": true}]},
        "data": serde_json::from_str::<Value>(DATA).unwrap(),
        "revision": 1});
    assert_eq!(object, expected);
    assert!(revision(DEFAULTED).means_the_same_as(&StoredRevision::read(&new.to_json()).unwrap()));
}

#[test]
fn a_taken_name_is_used_if_it_means_the_same_and_counted_up_otherwise() {
    let new = created(None, 4);
    assert_eq!(new.after_collision(&stored(&new.name, 1, DATA, &json!({}))), None);
    let foreign = json!({"ownerReferences": [{"uid": "other", "controller": true}]});
    for existing in [
        stored(&new.name, 1, &DATA.replace("1.25", "1.26"), &json!({})),
        stored(&new.name, 1, DATA, &foreign),
    ] {
        let next = new.after_collision(&existing).unwrap();
        assert_eq!(next.collision_count, 5);
        assert_eq!(next.name, revision(DEFAULTED).name("demo", 5));
        let object: Value = serde_json::from_str(&next.to_json()).unwrap();
        assert_eq!(object["metadata"]["name"], next.name);
        assert_eq!(
            object["metadata"]["labels"]["controller.kubernetes.io/hash"],
            revision(DEFAULTED).hash(4)
        );
    }
}

#[test]
fn a_stored_revision_takes_no_room_for_owners_that_it_does_not_have() {
    let owner = json!({"ownerReferences": [{"uid": "u", "controller": true}]});
    assert_eq!(stored("a", 1, DATA, &owner).metadata.owner_references.capacity(), 1);
}

#[test]
fn claims_are_hashed_as_the_reference_does() {
    let claims = r#"[{"metadata":{"name":"pvc-1","labels":{"a":"b"}},"spec":{"resources":{"requests":{"storage":"1Gi"},"limits":{"storage":"2Gi"}},"accessModes":["ReadWriteOnce"]},"status":{"phase":"Pending"}}]"#;
    assert_eq!(claims_hash(claims).unwrap(), "1129974074");
    assert_eq!(claims_hash(&claims.replace("1Gi", "1024Mi")).unwrap(), "1129974074");
    assert_ne!(claims_hash(&claims.replace("1Gi", "3Gi")).unwrap(), "1129974074");
    for none in ["[]", "null"] {
        assert_eq!(claims_hash(none).unwrap(), "");
    }
    let claim = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{}}}}"#);
    let one_way = claims_hash(&format!("[{},{}]", claim("a"), claim("b"))).unwrap();
    assert_eq!(claims_hash(&format!("[{},{}]", claim("b"), claim("a"))).unwrap(), one_way);
    let hashed = |hash: &str| {
        stored("a", 1, DATA, &json!({"annotations": {"kruise.io/cloneset-volumeclaimtemplate-hash": hash}}))
    };
    assert!(hashed("1").claims_agree_with(&stored("b", 1, DATA, &json!({}))));
    assert!(!hashed("1").claims_agree_with(&hashed("2")));
    assert!(!hashed("1").claims_agree_with(&hashed("")));
}

#[test]
fn scenario_16_both_forms_of_the_label_are_recognised_whatever_the_gate() {
    let pod = |label: &str| {
        ObservedPod::read(&json!({"metadata": {"labels": {"controller-revision-hash": label}}}).to_string())
            .unwrap()
    };
    for short in [true, false] {
        let labels = RevisionLabels::CloneSet { short };
        assert!(labels.is_at(&pod("demo-a-1"), "demo-a-1"));
        assert!(labels.is_at(&pod("1"), "demo-a-1"));
        assert!(!labels.is_at(&pod("demo-a-2"), "demo-a-1"));
        assert!(!labels.is_at(&ObservedPod::default(), "demo-a-1"));
        let value = if short { "1" } else { "demo-a-1" };
        let expected = vec![("controller-revision-hash", value), ("pod-template-hash", "1")];
        assert_eq!(labels.labels("demo-a-1"), expected);
    }
    assert!(!RevisionLabels::Exact.is_at(&pod("1"), "demo-1"));
    assert_eq!(RevisionLabels::Exact.labels("demo-1"), [("controller-revision-hash", "demo-1")]);
}

#[test]
fn scenario_15_dead_revisions_beyond_the_limit_go_oldest_first() {
    let revisions: Vec<StoredRevision> =
        (1..=6).map(|number| stored(&format!("demo-{number}"), number, DATA, &json!({}))).collect();
    let history: Vec<&StoredRevision> = revisions.iter().collect();
    let in_use = |revision: &StoredRevision| ["demo-6", "demo-5", "demo-1"].contains(&revision.name());
    let names = |limit| -> Vec<String> {
        let obsolete = obsolete(&history, in_use, Limit::Unused(limit));
        obsolete.into_iter().map(|one| one.name).collect()
    };
    assert_eq!(names(2), ["demo-2"], "the oldest one is still in use");
    assert_eq!(names(0), ["demo-2", "demo-3", "demo-4"]);
    assert!(names(10).is_empty());
}

proptest! {
    /// Whatever fields a template has, what we store restores it and is found equal again.
    #[test]
    fn unknown_fields_survive_the_round_trip(name in "[a-z]{1,8}", value in "[ -~]{0,12}", number in any::<i64>()) {
        let template = json!({"metadata": {}, "spec": {
            "containers": [{"name": "main", "image": "a", format!("x-{name}"): {"v": value, "n": number}}],
            format!("y-{name}"): [number, value]}});
        let recorded = revision(&template.to_string());
        let restored: Value = serde_json::from_str(restored_template(recorded.data()).unwrap().get()).unwrap();
        prop_assert_eq!(&restored["spec"]["containers"][0][format!("x-{name}")],
                        &template["spec"]["containers"][0][format!("x-{name}")]);
        prop_assert_eq!(&restored["spec"][format!("y-{name}")], &template["spec"][format!("y-{name}")]);
        let mark = json!({"annotations": {"kutter.io/whole-template": "true"}});
        let stored = stored("a", 1, recorded.data(), &mark);
        prop_assert!(recorded.means_the_same_as(&stored));
        prop_assert!(revision(&template.to_string()).means_the_same_as(&stored));
    }
}
